//! `doran restore`: puts a backup into an empty data directory.

use std::path::PathBuf;

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
    let RestoreReport { files, database_is_elsewhere, notes } = restored?;
    let (shown, counted) = (config.data_dir.display(), pluralize(files, "file"));
    output.print_message(&bilingual!(
        "`{shown}`에 복원했습니다(파일 {files}개). 검색 색인은 다음에 시작할 때 문서에서 다시 만듭니다",
        "restored to `{shown}` ({counted}); the next start makes the search index from the documents"
    ));
    notes.iter().for_each(|note| output.print_message(note));
    if database_is_elsewhere {
        output.print_message(&bilingual!(
            "주의: 스레드와 실행이 들어 있는 PostgreSQL 데이터베이스는 이 백업에 없으므로 복원하지 않았습니다. 아직 복원하지 않았으면 그 덤프를 복원하세요: pg_restore --exit-on-error --single-transaction --no-owner --dbname=DATABASE_URL doran.dump",
            "note: the PostgreSQL database with the threads and runs is not in this backup and was not restored; unless you have done so, restore its dump: pg_restore --exit-on-error --single-transaction --no-owner --dbname=DATABASE_URL doran.dump"
        ));
    }
    Ok(())
}
