//! How the program ends: what a script may rely on, and the signals it listens to.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use doran_engine::store::StoreError;

use crate::output::{BilingualMessage, bilingual};
use crate::replica::registration::ReplicaConflict;

/// What each code means, for the help.
pub(crate) const EXIT_CODES_HELP: &str = "Exit codes · 종료 코드:
  0   success · 성공
  1   error; the message is on stderr · 오류. 설명은 표준 오류에 출력
  2   invalid command line · 잘못된 명령줄
  75  unknown whether a write succeeded; start Doran again · 쓰기 성공 여부를 알 수 없음. 다시 시작 필요
  78  cannot start or go on like this: a newer version wrote the database, or replicas lack a shared index · 이대로는 시작하거나 계속할 수 없음: 더 새로운 버전이 만든 데이터베이스이거나, 여러 서버가 함께 쓰는 색인이 없음";

/// A write with an unknown outcome. What is on disk is settled by starting again.
#[derive(Debug)]
pub(crate) struct UnknownWriteOutcome(pub(crate) String);

impl fmt::Display for UnknownWriteOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UnknownWriteOutcome {}

impl UnknownWriteOutcome {
    /// As the error a command ends with.
    pub(crate) fn into_message(self) -> BilingualMessage {
        bilingual!(
            "마지막 기록이 디스크에 남았는지 알 수 없어 멈춥니다. 다시 시작하면 저장소를 읽고 이어 갑니다",
            "stopping, because it is not known whether the last write is on disk; start again, and it reads the store and goes on"
        )
        .with_cause(self)
    }
}

/// The code of an error.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    for cause in error.chain() {
        if cause.is::<UnknownWriteOutcome>() || matches!(cause.downcast_ref(), Some(StoreError::Unknown(_))) {
            return ExitCode::from(75);
        }
        if cause.is::<ReplicaConflict>() || matches!(cause.downcast_ref(), Some(StoreError::Newer { .. })) {
            return ExitCode::from(78);
        }
    }
    ExitCode::FAILURE
}

/// Who wants the program to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// A person who pressed Ctrl-C.
    CtrlC,
    /// The system, with SIGTERM.
    SigTerm,
}

/// The signals that ask the program to stop, from the moment this is made. One that comes before anybody waits is kept.
pub(crate) struct StopSignals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl StopSignals {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        #[cfg(unix)]
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            #[cfg(unix)]
            interrupt: signal(SignalKind::interrupt())?,
            #[cfg(unix)]
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Ends when such a signal has come.
    pub(crate) async fn recv(&mut self) -> anyhow::Result<()> {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await?;
        Ok(())
    }
}

/// Ends when somebody asks the program to stop: Ctrl-C or SIGTERM.
pub(crate) async fn wait_for_stop_signal() -> anyhow::Result<StopSignal> {
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed?,
        waited = wait_for_sigterm() => return waited.map(|()| StopSignal::SigTerm),
    }
    Ok(StopSignal::CtrlC)
}

/// Ends when the system asks the program to stop.
pub(crate) async fn wait_for_sigterm() -> anyhow::Result<()> {
    #[cfg(unix)]
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?.recv().await;
    #[cfg(not(unix))]
    std::future::pending::<()>().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cause: impl Into<Box<dyn Error + Send + Sync>>, expected: ExitCode) {
        let error = anyhow::Error::from(bilingual!("바깥", "outer").with_cause(cause));
        assert_eq!(exit_code(&error), expected, "{error:?}");
    }

    #[test]
    fn exit_codes_say_what_a_script_should_do() {
        check(UnknownWriteOutcome("fsync".into()), ExitCode::from(75));
        check(StoreError::Unknown("eof".into()), ExitCode::from(75));
        check(StoreError::Newer { found: 9, known: 1 }, ExitCode::from(78));
        check(ReplicaConflict, ExitCode::from(78));
        check(StoreError::Damaged("x".into()), ExitCode::from(1));
    }
}
