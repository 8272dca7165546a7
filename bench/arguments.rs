//! Command-line arguments of a benchmark, and its start and exit.

use std::process::ExitCode;

pub(crate) type BenchError = Box<dyn std::error::Error + Send + Sync>;

/// The arguments after `./x bench NAME`.
#[derive(Debug, Default)]
pub(crate) struct BenchArguments {
    /// Measure for about a minute only.
    pub(crate) quick: bool,
    /// Print one JSON object per line instead of a table.
    pub(crate) json: bool,
    /// `--flags` that only this benchmark has.
    pub(crate) flags: Vec<String>,
    /// Run only cases whose name starts with one of these. Empty means all.
    pub(crate) cases: Vec<String>,
}

/// Runs a benchmark. `flags` are the `--flags` that only this benchmark has.
pub(crate) fn start<F>(bench: &str, flags: &[&str], run: impl FnOnce(BenchArguments) -> F) -> ExitCode
where
    F: Future<Output = Result<(), BenchError>>,
{
    let asked = match BenchArguments::read(bench, flags) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("bench: {why}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(BenchError::from).and_then(|runtime| runtime.block_on(run(asked))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

impl BenchArguments {
    /// Parses the arguments. The error is a message for the user.
    fn read(bench: &str, flags: &[&str]) -> Result<Self, String> {
        let mut asked = Self::default();
        for word in std::env::args().skip(1) {
            match word.as_str() {
                "--quick" => asked.quick = true,
                "--json" => asked.json = true,
                // Cargo passes this to every benchmark.
                "--bench" => {}
                flag if flags.contains(&flag) => asked.flags.push(word),
                option if option.starts_with('-') => {
                    return Err(format!(
                        "`{word}` is no option. Use: ./x bench {bench} [--quick] [--json] [CASE…] / \
                         `{word}` 옵션은 없습니다."
                    ));
                }
                _ => asked.cases.push(word),
            }
        }
        Ok(asked)
    }

    pub(crate) fn wants(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| case.starts_with(wanted.as_str()))
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|given| given == flag)
    }
}
