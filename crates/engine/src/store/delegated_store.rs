//! Stores that pass calls on to another one: all of them, as stores of tests do, or those that concern no thread.

/// Implements [`Store`](crate::store::Store) for a type with a field `inner`, which is another store.
///
/// `call` names a method `async fn(&self, name: &'static str, made: impl Future<Output = Result<T, StoreError>>) ->
/// Result<T, StoreError>`: every call goes through it, with its name. `commit` names the method that commits, and `exclusive`
/// is what [`RunStore::is_exclusive`](crate::store::RunStore::is_exclusive) answers.
///
/// With `shared: FIELD`, only what concerns no thread is implemented: cached results of nodes, items and timers. The store in that field
/// has it.
#[macro_export]
macro_rules! delegated_store {
    ($store:ty, call: $call:ident, commit: $commit:ident, exclusive: $exclusive:expr) => {
        const _: () = {
            use $crate::store::{HistoryStore as _, RunStore as _, ThreadMaintenance as _};

            #[::async_trait::async_trait]
            impl $crate::store::RunStore for $store {
                async fn submit(
                    &self,
                    run: $crate::store::NewRun,
                ) -> Result<$crate::store::SubmitOutcome, $crate::store::StoreError> {
                    self.$call("submit", self.inner.submit(run)).await
                }

                async fn claim(
                    &self,
                    claim: &$crate::store::WorkerLease,
                    only: Option<&$crate::id::ThreadKey>,
                    limit: usize,
                ) -> Result<Vec<$crate::store::ClaimedRun>, $crate::store::StoreError> {
                    self.$call("claim", self.inner.claim(claim, only, limit)).await
                }

                async fn renew(
                    &self,
                    claim: &$crate::store::WorkerLease,
                    fences: &[$crate::store::Fence],
                ) -> Result<Vec<$crate::store::LeaseRenewal>, $crate::store::StoreError> {
                    self.$call("renew", self.inner.renew(claim, fences)).await
                }

                async fn commit(
                    &self,
                    fence: &$crate::store::Fence,
                    commit: $crate::store::Commit,
                ) -> Result<$crate::store::CommitOutcome, $crate::store::StoreError> {
                    self.$commit(fence, commit).await
                }

                async fn check_writable(&self) -> Result<(), $crate::store::StoreError> {
                    self.$call("check_writable", self.inner.check_writable()).await
                }

                fn is_exclusive(&self) -> bool {
                    $exclusive
                }

                async fn wait_until_durable(
                    &self,
                    position: $crate::store::CommitPosition,
                ) -> Result<(), $crate::store::StoreError> {
                    self.$call("wait_until_durable", self.inner.wait_until_durable(position)).await
                }

                async fn signal_and_claim(
                    &self,
                    run: &$crate::id::RunKey,
                    signal: $crate::store::RunSignal,
                    claim: Option<&$crate::store::WorkerLease>,
                ) -> Result<$crate::store::SignalOutcome, $crate::store::StoreError> {
                    self.$call("signal", self.inner.signal_and_claim(run, signal, claim)).await
                }
            }

            #[::async_trait::async_trait]
            impl $crate::store::HistoryStore for $store {
                async fn load(
                    &self,
                    thread: &$crate::id::ThreadKey,
                    at: Option<$crate::store::Seq>,
                ) -> Result<$crate::store::LoadedLog, $crate::store::StoreError> {
                    self.$call("load", self.inner.load(thread, at)).await
                }

                async fn entries(
                    &self,
                    thread: &$crate::id::ThreadKey,
                    after: $crate::store::Seq,
                    limit: usize,
                ) -> Result<Vec<$crate::store::LogEntry>, $crate::store::StoreError> {
                    self.$call("entries", self.inner.entries(thread, after, limit)).await
                }

                async fn run(
                    &self,
                    run: &$crate::id::RunKey,
                ) -> Result<$crate::store::RunRow, $crate::store::StoreError> {
                    self.$call("run", self.inner.run(run)).await
                }

                async fn run_positions(
                    &self,
                    runs: &[$crate::id::RunKey],
                ) -> Result<Vec<Option<$crate::store::RunPosition>>, $crate::store::StoreError> {
                    self.$call("run_positions", self.inner.run_positions(runs)).await
                }

                async fn runs(
                    &self,
                    tenant: &$crate::id::TenantId,
                    filter: &$crate::store::RunFilter,
                ) -> Result<Vec<$crate::store::RunRow>, $crate::store::StoreError> {
                    self.$call("runs", self.inner.runs(tenant, filter)).await
                }

                async fn deleted_usage(
                    &self,
                    tenant: &$crate::id::TenantId,
                    since: $crate::store::Millis,
                ) -> Result<Vec<$crate::store::DeletedUsage>, $crate::store::StoreError> {
                    self.$call("deleted_usage", self.inner.deleted_usage(tenant, since)).await
                }

                async fn thread(
                    &self,
                    thread: &$crate::id::ThreadKey,
                ) -> Result<$crate::store::ThreadRow, $crate::store::StoreError> {
                    self.$call("thread", self.inner.thread(thread)).await
                }

                async fn thread_before_write(
                    &self,
                    thread: &$crate::id::ThreadKey,
                ) -> Result<$crate::store::ThreadRow, $crate::store::StoreError> {
                    self.$call("thread_before_write", self.inner.thread_before_write(thread)).await
                }

                async fn threads(
                    &self,
                    tenant: &$crate::id::TenantId,
                    filter: &$crate::store::ThreadFilter,
                ) -> Result<Vec<$crate::store::ThreadRow>, $crate::store::StoreError> {
                    self.$call("threads", self.inner.threads(tenant, filter)).await
                }
            }

            #[::async_trait::async_trait]
            impl $crate::store::ThreadMaintenance for $store {
                async fn put_thread(
                    &self,
                    thread: &$crate::id::ThreadKey,
                    metadata: &::serde_json::Map<String, ::serde_json::Value>,
                ) -> Result<$crate::store::ThreadRow, $crate::store::StoreError> {
                    self.$call("put_thread", self.inner.put_thread(thread, metadata)).await
                }

                async fn append_entry(
                    &self,
                    thread: &$crate::id::ThreadKey,
                    expect: $crate::store::Seq,
                    entry: $crate::store::NewEntry,
                ) -> Result<$crate::store::Seq, $crate::store::StoreError> {
                    self.$call("append", self.inner.append_entry(thread, expect, entry)).await
                }

                async fn copy_thread(
                    &self,
                    from: &$crate::id::ThreadKey,
                    to: &$crate::id::ThreadId,
                    stands: Option<$crate::store::NewEntry>,
                ) -> Result<$crate::store::ThreadRow, $crate::store::StoreError> {
                    self.$call("copy_thread", self.inner.copy_thread(from, to, stands)).await
                }

                async fn delete_thread(
                    &self,
                    thread: &$crate::id::ThreadKey,
                ) -> Result<bool, $crate::store::StoreError> {
                    self.$call("delete_thread", self.inner.delete_thread(thread)).await
                }

                async fn gc(
                    &self,
                    retention: &$crate::store::Retention,
                ) -> Result<$crate::store::GcReport, $crate::store::StoreError> {
                    self.$call("gc", self.inner.gc(retention)).await
                }
            }
        };
        $crate::delegated_store!(@shared $store, [$call], [inner]);
    };

    ($store:ty, shared: $($inner:tt)+) => {
        $crate::delegated_store!(@shared $store, [], [$($inner)+]);
    };

    (@call $this:ident, [], $name:literal, $made:expr) => {
        $made.await
    };

    (@call $this:ident, [$call:ident], $name:literal, $made:expr) => {
        $this.$call($name, $made).await
    };

    (@shared $store:ty, [$($call:ident)?], [$($inner:tt)+]) => {
        const _: () = {
            use $crate::store::{ItemStore as _, NodeCacheStore as _, TimerStore as _};

            #[::async_trait::async_trait]
            impl $crate::store::NodeCacheStore for $store {
                async fn cached_value(
                    &self,
                    tenant: &$crate::id::TenantId,
                    key: &str,
                ) -> Result<Option<Vec<u8>>, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "cached", self.$($inner)+.cached_value(tenant, key))
                }

                async fn cache_value(
                    &self,
                    tenant: &$crate::id::TenantId,
                    key: &str,
                    value: &[u8],
                    lifetime: Option<::std::time::Duration>,
                ) -> Result<(), $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "keep", self.$($inner)+.cache_value(tenant, key, value, lifetime))
                }
            }

            #[::async_trait::async_trait]
            impl $crate::store::ItemStore for $store {
                async fn put_item(
                    &self,
                    tenant: &$crate::id::TenantId,
                    namespace: &$crate::store::ItemNamespace,
                    key: &$crate::store::ItemKey,
                    value: &::serde_json::Map<String, ::serde_json::Value>,
                    lifetime: Option<::std::time::Duration>,
                ) -> Result<$crate::store::SharedItem, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "put_item", self.$($inner)+.put_item(tenant, namespace, key, value, lifetime))
                }

                async fn item(
                    &self,
                    tenant: &$crate::id::TenantId,
                    namespace: &$crate::store::ItemNamespace,
                    key: &$crate::store::ItemKey,
                ) -> Result<Option<$crate::store::SharedItem>, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "item", self.$($inner)+.item(tenant, namespace, key))
                }

                async fn delete_item(
                    &self,
                    tenant: &$crate::id::TenantId,
                    namespace: &$crate::store::ItemNamespace,
                    key: &$crate::store::ItemKey,
                ) -> Result<bool, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "delete_item", self.$($inner)+.delete_item(tenant, namespace, key))
                }

                async fn search_items(
                    &self,
                    tenant: &$crate::id::TenantId,
                    search: &$crate::store::ItemSearch,
                ) -> Result<Vec<$crate::store::SharedItem>, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "search_items", self.$($inner)+.search_items(tenant, search))
                }

                async fn item_namespaces(
                    &self,
                    tenant: &$crate::id::TenantId,
                    search: &$crate::store::NamespaceSearch,
                ) -> Result<Vec<$crate::store::ItemNamespace>, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "item_namespaces", self.$($inner)+.item_namespaces(tenant, search))
                }
            }

            #[::async_trait::async_trait]
            impl $crate::store::TimerStore for $store {
                async fn store_time(&self) -> Result<$crate::store::Millis, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "store_time", self.$($inner)+.store_time())
                }

                async fn put_timer(
                    &self,
                    tenant: &$crate::id::TenantId,
                    timer: &$crate::store::NewTimer,
                ) -> Result<$crate::store::TimerRow, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "put_timer", self.$($inner)+.put_timer(tenant, timer))
                }

                async fn timer(
                    &self,
                    tenant: &$crate::id::TenantId,
                    id: &str,
                ) -> Result<Option<$crate::store::TimerRow>, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "timer", self.$($inner)+.timer(tenant, id))
                }

                async fn timers(
                    &self,
                    tenant: &$crate::id::TenantId,
                    kind: $crate::store::TimerKind,
                    after: Option<&str>,
                    limit: usize,
                ) -> Result<Vec<$crate::store::TimerRow>, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "timers", self.$($inner)+.timers(tenant, kind, after, limit))
                }

                async fn delete_timer(
                    &self,
                    tenant: &$crate::id::TenantId,
                    id: &str,
                ) -> Result<bool, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "delete_timer", self.$($inner)+.delete_timer(tenant, id))
                }

                async fn due_timers(
                    &self,
                    limit: usize,
                ) -> Result<Vec<$crate::store::TimerRow>, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "due_timers", self.$($inner)+.due_timers(limit))
                }

                async fn move_timer(
                    &self,
                    tenant: &$crate::id::TenantId,
                    id: &str,
                    from: $crate::store::Millis,
                    to: $crate::store::TimerTime,
                    body: Option<&[u8]>,
                ) -> Result<bool, $crate::store::StoreError> {
                    $crate::delegated_store!(@call self, [$($call)?], "move_timer", self.$($inner)+.move_timer(tenant, id, from, to, body))
                }
            }
        };
    };
}
