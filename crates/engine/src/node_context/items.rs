//! Items that all threads of the run's tenant share, read and written by a node. Each call is recorded: a node that
//! runs again after a crash sees what it saw before.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::Cx;
use super::effects::{RecordTiming, RecordsBefore};
use crate::drive::RunJournal;
use crate::error::{NodeError, NodeErrorKind};
use crate::failure;
use crate::id::TenantId;
use crate::store::{ItemKey, ItemNamespace, ItemSearch, SharedItem, Store, StoreError};

impl Cx {
    /// Puts an item, replacing an older one of this name, for `lifetime` (for ever when `None`). It is there when this
    /// returns, whatever becomes of the step. After a crash in the middle it may be put again.
    ///
    /// ```no_run
    /// # use doran_engine::{Cx, NodeError, store::{ItemKey, ItemNamespace}};
    /// # async fn node(cx: Cx) -> Result<(), NodeError> {
    /// let kim = ItemNamespace::new(["users", "kim"])?;
    /// let likes = serde_json::json!({ "likes": "kimchi" });
    /// cx.put_item(&kim, &ItemKey::new("food")?, likes.as_object().cloned().unwrap_or_default(), None).await?;
    /// # Ok(()) }
    /// ```
    pub fn put_item(
        &self,
        namespace: &ItemNamespace,
        key: &ItemKey,
        value: Map<String, Value>,
        lifetime: Option<Duration>,
    ) -> impl Future<Output = Result<SharedItem, NodeError>> + use<> {
        let (cx, call, place) =
            (self.clone(), self.next_call_key("put_item"), (namespace.clone(), key.clone()));
        async move {
            let put = cx.clone();
            cx.make_recorded_call(call, RecordsBefore::All, RecordTiming::Immediately, move |_| async move {
                let (journal, tenant, store) = put.item_store()?;
                let put =
                    journal.retry(|| store.put_item(tenant, &place.0, &place.1, &value, lifetime)).await;
                put.map_err(item_error)
            })
            .await
        }
    }

    /// An item, unless its lifetime is over.
    pub fn item(
        &self,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> impl Future<Output = Result<Option<SharedItem>, NodeError>> + use<> {
        let (cx, call, place) = (self.clone(), self.next_call_key("item"), (namespace.clone(), key.clone()));
        async move {
            let read = cx.clone();
            cx.make_recorded_call(
                call,
                RecordsBefore::Calls,
                RecordTiming::Immediately,
                move |_| async move {
                    let (journal, tenant, store) = read.item_store()?;
                    journal.retry(|| store.item(tenant, &place.0, &place.1)).await.map_err(item_error)
                },
            )
            .await
        }
    }

    /// Removes an item. `false` when there was none.
    pub fn delete_item(
        &self,
        namespace: &ItemNamespace,
        key: &ItemKey,
    ) -> impl Future<Output = Result<bool, NodeError>> + use<> {
        let (cx, call) = (self.clone(), self.next_call_key("delete_item"));
        let place = (namespace.clone(), key.clone());
        async move {
            let delete = cx.clone();
            cx.make_recorded_call(call, RecordsBefore::All, RecordTiming::Immediately, move |_| async move {
                let (journal, tenant, store) = delete.item_store()?;
                journal.retry(|| store.delete_item(tenant, &place.0, &place.1)).await.map_err(item_error)
            })
            .await
        }
    }

    /// Items by their namespaces and keys, in this order.
    pub fn search_items(
        &self,
        search: ItemSearch,
    ) -> impl Future<Output = Result<Vec<SharedItem>, NodeError>> + use<> {
        let (cx, call) = (self.clone(), self.next_call_key("search_items"));
        async move {
            let read = cx.clone();
            cx.make_recorded_call(
                call,
                RecordsBefore::Calls,
                RecordTiming::Immediately,
                move |_| async move {
                    let (journal, tenant, store) = read.item_store()?;
                    journal.retry(|| store.search_items(tenant, &search)).await.map_err(item_error)
                },
            )
            .await
        }
    }

    fn item_store(&self) -> Result<(&RunJournal, &TenantId, &Arc<dyn Store>), NodeError> {
        let journal = self.0.run.journal.as_ref();
        let journal = journal.ok_or_else(|| NodeError::permanent("a run without a store has no items"))?;
        Ok((journal, &journal.fence.thread.tenant, &journal.store))
    }
}

/// An item that the store refuses is the node's mistake. Any other error is the store's.
fn item_error(error: StoreError) -> NodeError {
    match error {
        StoreError::Rejected(source) => NodeError::permanent(source).with_code(failure::NOT_STORABLE),
        error => NodeError::with_kind(NodeErrorKind::Store, error),
    }
}
