//! What the shelf decides.

use super::*;

fn queued(tenant: &str, name: &str) -> Record {
    let key = Key::of(&Tenant::new(tenant), "", name);
    Record::new(&key, name.into(), DocumentKind::General, Incoming { hash: name.into(), bytes: 10 })
}

#[test]
fn a_tenant_with_many_documents_does_not_keep_others_waiting() {
    let mut shelf = Shelf::default();
    for name in ["a1", "a2", "a3"] {
        shelf.put(queued("a", name));
    }
    shelf.put(queued("b", "b1"));
    let order: Vec<String> = std::iter::from_fn(|| shelf.next()).map(|job| job.record.name).collect();
    assert_eq!(order, ["a1", "b1", "a2", "a3"]);
}

#[test]
fn a_worker_that_was_overtaken_changes_nothing() {
    let mut shelf = Shelf::default();
    shelf.put(queued("a", "x"));
    let job = shelf.next().expect("a job");
    let key = job.record.key();
    assert_eq!(shelf.hold(&key, State::Cancelled).map(|status| status.state), Some(State::Cancelled));
    assert!(!shelf.indexing(&key, job.wanted));
    shelf.failed(&key, job.wanted, Failure::new(crate::ingest::FailureKind::Corrupt, ""));
    assert_eq!(shelf.status(&key).map(|status| status.state), Some(State::Cancelled));
    assert_eq!(shelf.again(&key, &[State::Cancelled]).map(|status| status.state), Some(State::Queued));
    assert!(shelf.next().is_some() && shelf.next().is_none());
}

#[test]
fn a_version_that_was_overtaken_is_given_back() {
    let mut shelf = Shelf::default();
    let version =
        |hash: &str| Record { incoming: Some(Incoming { hash: hash.into(), bytes: 10 }), ..queued("a", "x") };
    let overtaken: Vec<Option<String>> =
        ["1", "2", "2", "3"].map(|hash| shelf.put(version(hash)).1).into_iter().collect();
    assert_eq!(overtaken, [None, Some("1".into()), None, Some("2".into())]);
}

#[test]
fn what_is_not_ready_any_more_can_be_tried_again() {
    let mut shelf = Shelf::default();
    shelf.put(queued("a", "x"));
    let job = shelf.next().expect("a job");
    let (key, incoming) = (job.record.key(), job.incoming.clone());
    let ready = Ready {
        hash: incoming.hash.clone(),
        bytes: incoming.bytes,
        version: "v".into(),
        title: "x".into(),
        format: crate::ingest::Format::Text,
        passages: 1,
        pages: 0,
        hidden: 0,
        kind: DocumentKind::General,
        cut: CUT,
    };
    shelf.found(&key, job.wanted, ready);
    shelf.unready(&key, Failure::new(crate::ingest::FailureKind::TooLarge, ""));
    let record = shelf.record(&key).expect("there");
    assert_eq!((record.state, record.incoming, record.ready), (State::Failed, Some(incoming), None));
    assert_eq!(shelf.again(&key, &[State::Failed]).map(|status| status.state), Some(State::Queued));
}

#[test]
fn there_is_an_end_to_what_a_tenant_may_hand_in() {
    let options = LibraryOptions { waiting: 1, bytes: 25, ..LibraryOptions::default() };
    let mut shelf = Shelf::default();
    shelf.put(queued("a", "x"));
    let incoming = Incoming { hash: "y".into(), bytes: 10 };
    let key = |tenant: &str| Key::of(&Tenant::new(tenant), "", "y");
    assert!(matches!(shelf.admits(&key("a"), &incoming, &options), Err(LibraryError::Busy(1))));
    assert!(shelf.admits(&key("b"), &incoming, &options).is_ok(), "one tenant's queue is not another's");
    let large = Incoming { hash: "y".into(), bytes: 26 };
    assert!(matches!(shelf.admits(&key("b"), &large, &options), Err(LibraryError::Full(25))));
}
