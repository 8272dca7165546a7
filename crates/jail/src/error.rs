//! Errors of a call to a worker.

use std::time::Duration;

/// Why a worker returned no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JailError {
    /// The worker exceeded its wall-clock or CPU time.
    #[error("it was stopped after {} seconds", format_seconds(.0))]
    TimedOut(Duration),
    /// The worker exceeded its memory limit.
    #[error("it wanted more than {} MiB of memory", .0 >> 20)]
    OutOfMemory(u64),
    /// The result was too long.
    #[error("its answer is longer than {0} bytes")]
    TooMuchOutput(usize),
    /// The input is too long. No worker was started.
    #[error("the input is longer than {0} bytes")]
    TooMuchInput(usize),
    /// The worker died.
    #[error("it died ({how})")]
    Crashed {
        /// The signal or exit code.
        how: String,
    },
    /// Too many calls are waiting already.
    #[error("{0} calls are waiting already, try again later")]
    Busy(usize),
    /// This machine has no sufficient isolation, or the worker could not be started. Nothing was run.
    #[error(
        "hostile input is only worked on in a jail, and there is none here: {why}. Linux 5.13 or newer with seccomp \
         is needed; inside a container, allow the system calls `seccomp` and `landlock_*`"
    )]
    Unavailable {
        /// What was tried and how it failed.
        why: String,
    },
}

impl JailError {
    /// The message in Korean.
    pub fn ko(&self) -> String {
        match self {
            Self::TimedOut(limit) => format!("{}초가 지나 중단했습니다", format_seconds(limit)),
            Self::OutOfMemory(limit) => format!("메모리를 {} MiB보다 많이 쓰려 했습니다", limit >> 20),
            Self::TooMuchOutput(limit) => format!("결과가 {limit}바이트보다 깁니다"),
            Self::TooMuchInput(limit) => format!("입력이 {limit}바이트보다 깁니다"),
            Self::Crashed { how } => format!("작업이 죽었습니다 ({how})"),
            Self::Busy(waiting) => {
                format!("이미 {waiting}개의 작업이 기다리고 있습니다. 잠시 뒤에 다시 시도하세요")
            }
            Self::Unavailable { why } => format!(
                "믿을 수 없는 입력은 격리된 곳에서만 다루는데 여기서는 격리할 수 없습니다: {why}. seccomp을 쓸 수 있는 \
                 Linux 5.13 이상이 필요합니다. 컨테이너라면 시스템 호출 `seccomp`과 `landlock_*`을 허용하세요"
            ),
        }
    }

    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into() }
    }
}

fn format_seconds(limit: &Duration) -> String {
    let tenths = limit.as_millis() / 100;
    if tenths.is_multiple_of(10) {
        format!("{}", tenths / 10)
    } else {
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_its_limit_in_both_languages() {
        let check = |error: &JailError, en: &str, ko: &str| {
            assert_eq!(error.to_string(), en);
            assert_eq!(error.ko(), ko);
        };
        check(
            &JailError::TimedOut(Duration::from_millis(2500)),
            "it was stopped after 2.5 seconds",
            "2.5초가 지나 중단했습니다",
        );
        check(
            &JailError::OutOfMemory(128 << 20),
            "it wanted more than 128 MiB of memory",
            "메모리를 128 MiB보다 많이 쓰려 했습니다",
        );
    }

    #[test]
    fn a_refusal_names_the_way_out() {
        let error = JailError::unavailable("no Landlock");
        for words in [error.to_string(), error.ko()] {
            assert!(
                words.contains("no Landlock") && words.contains("5.13") && words.contains("seccomp"),
                "{words}"
            );
        }
    }
}
