//! `doran gc`: deletes data that is older than the settings keep it.

use doran_engine::Runtime;
use doran_engine::store::GcReport;

use crate::assemble;
use crate::attachment_cleanup::delete_orphaned_attachments;
use crate::config::Config;
use crate::output::{TerminalOutput, bilingual};

/// Deletes what is older than `retention_days` and `conversation_days`, and data that is no longer used. Servers that share a
/// database server delete the files that were attached to deleted conversations themselves, each in its own directory.
pub(crate) async fn run(config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let records = assemble::open_locked_store(config).await?;
    let GcReport { threads, entries, keys, cached, items } = records.store.gc(&config.retention).await?;
    let mut notes = Vec::new();
    let files = match records.open_library(config, &mut notes).await? {
        Some(library) => delete_orphaned_attachments(&Runtime::new(records.store.clone()), &library).await?,
        None => 0,
    };
    notes.iter().for_each(|note| output.print_message(note));
    output.print_message(&bilingual!(
        "지웠습니다: 대화 {threads}, 단계 {entries}, 멱등성 키 {keys}, 캐시 {cached}, 공유 항목 {items}, 첨부 파일 {files}",
        "removed: {threads} threads, {entries} steps, {keys} idempotency keys, {cached} cached results, \
         {items} shared items, {files} attached files"
    ));
    if config.retention.old_entries.is_none() {
        output.print_message(&bilingual!(
            "`retention_days`가 0이므로 단계는 지우지 않습니다",
            "steps are kept, because `retention_days` is 0"
        ));
    }
    if config.retention.idle_threads.is_none() {
        output.print_message(&bilingual!(
            "`conversation_days`가 0이므로 대화는 지우지 않습니다",
            "conversations are kept, because `conversation_days` is 0"
        ));
    }
    Ok(())
}
