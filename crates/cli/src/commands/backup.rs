//! `doran backup`: writes everything that cannot be made again into one archive.

use std::path::PathBuf;

use indicatif::BinaryBytes;

use crate::backup::BackupStop;
use crate::backup::write::{BackupReport, write_archive};
use crate::config::{Config, Database};
use crate::exit::StopSignals;
use crate::output::{BilingualMessage, TerminalOutput, bilingual, pluralize};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran backup doran-backup.zip")]
pub(crate) struct BackupArgs {
    /// File to write; it must not exist yet · 저장할 파일. 이미 있으면 안 됩니다
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Writes the archive.
pub(crate) async fn run(args: &BackupArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    let (shown, to, settings) = (args.file.display(), args.file.clone(), config.clone());
    let mut signals = StopSignals::listen()?;
    let stop = BackupStop::default();
    let (done, mut written) = tokio::sync::oneshot::channel();
    let its_stop = stop.clone();
    // A thread that the end of the program does not wait for: copying a large database takes a while.
    std::thread::spawn(move || done.send(write_archive(&settings, &to, &its_stop)));
    let written = tokio::select! {
        written = &mut written => written?,
        signalled = signals.recv() => {
            signalled?;
            if stop.stop() {
                return Err(bilingual!(
                    "백업을 멈췄습니다. 아무것도 남기지 않았습니다",
                    "the backup was stopped; nothing was left behind"
                )
                .into());
            }
            written.await?
        }
    };
    let BackupReport { files, bytes } = written.map_err(|error| {
        let message = bilingual!("`{shown}`에 백업할 수 없습니다", "cannot back up to `{shown}`");
        // A cause in both languages is kept as such.
        match error.downcast::<BilingualMessage>() {
            Ok(cause) => message.with_cause(cause),
            Err(cause) => message.with_cause(cause),
        }
    })?;
    let (counted, size) = (pluralize(files, "file"), BinaryBytes(bytes));
    output.print_message(&bilingual!(
        "`{shown}`에 백업했습니다(파일 {files}개, {size}). 대화와 문서가 그대로 들어 있으니 안전한 곳에 두세요. `doran restore {shown}`으로 복원합니다",
        "backed up to `{shown}` ({counted}, {size}); it contains conversations and documents, so keep it in a safe place. `doran restore {shown}` restores it"
    ));
    if let Database::Postgres(url) = &config.database {
        let schema = schema_of(url.reveal());
        let call = format!("pg_dump --format=custom --schema={schema} --file=doran.dump DATABASE_URL");
        output.print_message(&postgres_note(&call));
    }
    Ok(())
}

/// The schema that a URL names.
fn schema_of(url: &str) -> &str {
    let pairs = url.rsplit_once('?').map_or("", |(_, query)| query).split('&');
    pairs.filter_map(|pair| pair.strip_prefix("schema=")).next_back().unwrap_or("doran")
}

/// Says that the archive has no database, and which call is needed besides.
fn postgres_note(call: &str) -> BilingualMessage {
    bilingual!(
        "PostgreSQL 데이터베이스는 이 백업에 들어 있지 않습니다. 다음도 실행하세요: {call}",
        "the PostgreSQL database is not in this backup; run this as well: {call}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_names_the_schema_of_the_url() {
        assert_eq!(schema_of("postgres://u:p@h/d"), "doran");
        assert_eq!(schema_of("postgres://u:p?schema=x@h/d?sslmode=disable&schema=sales"), "sales");
    }
}
