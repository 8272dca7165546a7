//! Tests of the decisions of the catalog.

use super::*;

fn queued_record(tenant: &str, name: &str) -> DocumentRecord {
    let key = DocumentKey::for_file(&DocumentTenant::new(tenant), "", name);
    DocumentRecord::new(
        &key,
        name.into(),
        Some(DocumentKind::General),
        IncomingVersion { hash: name.into(), bytes: 10 },
    )
}

#[test]
fn a_tenant_with_many_documents_does_not_keep_others_waiting() {
    let mut catalog = Catalog::default();
    for name in ["a1", "a2", "a3"] {
        catalog.insert_version(queued_record("a", name));
    }
    catalog.insert_version(queued_record("b", "b1"));
    let order: Vec<String> = std::iter::from_fn(|| catalog.next_job()).map(|job| job.record.name).collect();
    assert_eq!(order, ["a1", "b1", "a2", "a3"]);
}

#[test]
fn a_worker_that_was_overtaken_changes_nothing() {
    let mut catalog = Catalog::default();
    catalog.insert_version(queued_record("a", "x"));
    let job = catalog.next_job().expect("a job");
    let key = job.record.key();
    assert_eq!(
        catalog.pause_or_cancel(&key, IngestState::Cancelled).map(|status| status.state),
        Some(IngestState::Cancelled)
    );
    assert!(!catalog.mark_indexing(&key, job.generation));
    catalog.mark_failed(
        &key,
        job.generation,
        IngestFailure::new(crate::ingest::IngestFailureKind::Corrupt, ""),
    );
    assert_eq!(catalog.status(&key).map(|status| status.state), Some(IngestState::Cancelled));
    assert_eq!(
        catalog.requeue(&key, &[IngestState::Cancelled]).map(|status| status.state),
        Some(IngestState::Queued)
    );
    assert!(catalog.next_job().is_some() && catalog.next_job().is_none());
}

#[test]
fn a_version_that_was_overtaken_is_given_back() {
    let mut catalog = Catalog::default();
    let version = |hash: &str| DocumentRecord {
        incoming: Some(IncomingVersion { hash: hash.into(), bytes: 10 }),
        ..queued_record("a", "x")
    };
    let overtaken: Vec<Option<String>> =
        ["1", "2", "2", "3"].map(|hash| catalog.insert_version(version(hash)).1).into_iter().collect();
    assert_eq!(overtaken, [None, Some("1".into()), None, Some("2".into())]);
}

#[test]
fn what_is_not_ready_any_more_can_be_tried_again() {
    let mut catalog = Catalog::default();
    catalog.insert_version(queued_record("a", "x"));
    let job = catalog.next_job().expect("a job");
    let (key, incoming) = (job.record.key(), job.incoming.clone());
    let ready = ReadyVersion {
        hash: incoming.hash.clone(),
        bytes: incoming.bytes,
        version: "v".into(),
        title: "x".into(),
        format: crate::ingest::FileFormat::Text,
        passages: 1,
        pages: 0,
        hidden: 0,
        kind: DocumentKind::General,
        cut: SPLIT_RULES_VERSION,
        is_lost: false,
    };
    catalog.mark_ready(&key, job.generation, ready);
    catalog.mark_not_ready(&key, IngestFailure::new(crate::ingest::IngestFailureKind::TooLarge, ""));
    let record = catalog.record(&key).expect("there");
    assert_eq!((record.state, record.incoming, record.ready), (IngestState::Failed, Some(incoming), None));
    assert_eq!(
        catalog.requeue(&key, &[IngestState::Failed]).map(|status| status.state),
        Some(IngestState::Queued)
    );
}

#[test]
fn documents_of_a_tenant_are_limited() {
    let options =
        LibraryOptions { max_pending_documents: 1, max_stored_bytes: 25, ..LibraryOptions::default() };
    let mut catalog = Catalog::default();
    catalog.insert_version(queued_record("a", "x"));
    let incoming = IncomingVersion { hash: "y".into(), bytes: 10 };
    let key = |tenant: &str| DocumentKey::for_file(&DocumentTenant::new(tenant), "", "y");
    assert!(matches!(catalog.check_quota(&key("a"), &incoming, &options), Err(LibraryError::QueueFull(1))));
    assert!(
        catalog.check_quota(&key("b"), &incoming, &options).is_ok(),
        "one tenant's queue is not another's"
    );
    let large = IncomingVersion { hash: "y".into(), bytes: 26 };
    assert!(matches!(catalog.check_quota(&key("b"), &large, &options), Err(LibraryError::StorageFull(25))));
}
