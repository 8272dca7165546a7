//! `doran backup`: writes a consistent copy of the database.

use std::path::PathBuf;

use crate::config::{Config, Database};
use crate::output::{TerminalOutput, bilingual};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran backup doran-backup.db")]
pub(crate) struct BackupArgs {
    /// File to write; it must not exist yet · 저장할 파일. 이미 있으면 안 됩니다
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Writes the copy.
pub(crate) async fn run(args: &BackupArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let shown = args.file.display();
    let Database::Sqlite(path) = config.database.clone() else {
        return Err(bilingual!(
            "이 저장소는 데이터베이스 서버에 있습니다. `pg_dump`로 백업하세요",
            "this store is kept by a database server; back it up with `pg_dump`"
        )
        .into());
    };
    let to = args.file.clone();
    // The data directory is not locked: the file may be in use, and the copy is consistent all the same.
    let copied = tokio::task::spawn_blocking(move || doran_store::sqlite::back_up_file(&path, &to)).await?;
    copied.map_err(|error| {
        bilingual!("`{shown}`에 백업할 수 없습니다", "cannot back up to `{shown}`").with_cause(error)
    })?;
    output.print_message(&bilingual!("`{shown}`에 백업했습니다", "backed up to `{shown}`"));
    Ok(())
}
