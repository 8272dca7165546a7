//! An update is as visible as its state, and no warning comes of derived code.
#![deny(warnings, missing_docs)]

use doran_engine::State;
use serde::{Deserialize, Serialize};

/// A state for everyone.
#[derive(State, Clone, Default, Serialize, Deserialize)]
pub struct Open {
    /// How often.
    #[reduce(add)]
    pub count: u32,
    inner: Inner,
    #[reduce(with = keep)]
    change: Option<Inner>,
}

fn keep(field: &mut Option<Inner>, change: Option<Inner>) {
    *field = field.take().or(change);
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Inner(u8);

/// A state without fields.
#[derive(State, Clone, Default, Serialize, Deserialize)]
pub struct Nothing;

mod inside {
    use super::*;

    #[derive(State, Clone, Default, Serialize, Deserialize)]
    pub(super) struct Half {
        pub(super) update: String,
        pub(super) field: String,
    }
}

#[test]
fn an_update_is_as_visible_as_its_state() {
    let open = Open::update().count(1).inner(Inner(2)).change(Inner(3));
    assert_eq!(open.count, Some(1));
    assert_eq!(open.inner.map(|inner| inner.0), Some(2));
    assert!(Nothing::update().is_empty());
    let half: inside::HalfUpdate = inside::Half::update().update("u").field("f");
    assert_eq!(half.update.as_deref(), Some("u"));
    assert_eq!(half.field.as_deref(), Some("f"));
}
