//! `doran reindex`: rebuilds the document index next to the old one, which stays in use until then, and computes all
//! vectors. If it is interrupted, `doran documents read` or `doran serve` computes the rest.

use crate::assemble;
use crate::config::Config;
use crate::output::{TerminalOutput, bilingual, pluralize};

/// Rebuilds the index and reports what it contains.
pub(crate) async fn run(config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let (documents, passages) = assemble::rebuild_index_from_library(config, output).await?;
    let (some, pieces) = (pluralize(documents, "document"), pluralize(passages, "passage"));
    output.print_message(&bilingual!(
        "색인을 다시 만들었습니다. 문서 {documents}개, 문단 {passages}개",
        "the index was made anew: {some}, {pieces}"
    ));
    Ok(())
}
