//! `doran gc`: removes what the settings no longer want kept.

use doran_engine::store::{Cleared, Retention};

use crate::assemble;
use crate::config::Config;
use crate::output::{Output, both};

/// Removes what is older than `retention_days`, and what nobody can use any more.
pub(crate) async fn run(config: &Config, output: Output) -> anyhow::Result<()> {
    let records = assemble::records(config).await?;
    let retention = Retention { old_entries: config.retention, ..Retention::default() };
    let Cleared { threads, entries, keys, cached } = records.store.gc(&retention).await?;
    output.tell(&both!(
        "지웠습니다: 대화 {threads}, 단계 {entries}, 멱등 키 {keys}, 캐시 {cached}",
        "removed: {threads} threads, {entries} steps, {keys} idempotency keys, {cached} cached results"
    ));
    if config.retention.is_none() {
        output.tell(&both!(
            "`retention_days`가 0이므로 단계는 지우지 않습니다",
            "steps are kept, because `retention_days` is 0"
        ));
    }
    Ok(())
}
