//! `doran restore`: puts a backup into an empty data directory.

use std::path::PathBuf;

use super::backup::postgres_note;
use crate::backup::restore::{RestoreReport, restore_archive};
use crate::config::Config;
use crate::output::{TerminalOutput, bilingual, pluralize};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran restore doran-backup.zip
  doran restore doran-backup.zip --data-dir restored     look into a backup · 백업 내용 확인")]
pub(crate) struct RestoreArgs {
    /// Backup that `doran backup` wrote · `doran backup`으로 만든 백업
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Verifies the archive and restores it.
pub(crate) async fn run(args: &RestoreArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let (from, settings) = (args.file.clone(), config.clone());
    let restored = tokio::task::spawn_blocking(move || restore_archive(&settings, &from)).await?;
    let RestoreReport { files, database_is_elsewhere } = restored?;
    let (shown, counted) = (config.data_dir.display(), pluralize(files, "file"));
    output.print_message(&bilingual!(
        "`{shown}`에 복원했습니다(파일 {files}개). 검색 색인은 다음에 시작할 때 문서에서 다시 만듭니다",
        "restored to `{shown}` ({counted}); the next start makes the search index from the documents"
    ));
    if database_is_elsewhere {
        let call =
            "pg_restore --exit-on-error --single-transaction --no-owner --dbname=DATABASE_URL doran.dump";
        output.print_message(&postgres_note(call));
    }
    Ok(())
}
