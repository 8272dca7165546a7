//! `doran models`: lists available models and chooses one. API keys found in the environment are listed, but not used
//! until the user chooses a model of that provider.

pub(crate) mod install_encoder;

use std::path::{Path, PathBuf};

use doran_llm::embed;
use doran_llm::{DiscoveredServer, KeyRequirement, ModelLocation, VENDORS, Vendor};
use doran_offline::OFFLINE_MODEL;
use serde_json::json;

use crate::assemble::model;
use crate::config::{BUILT_IN_ENCODER, Config, LoadedConfig, SettingOrigin};
use crate::data_dir;
use crate::environment::Environment;
use crate::output::{BilingualMessage, TerminalOutput, bilingual};

/// The most models listed for one server.
const MAX_LISTED_MODELS: usize = 20;

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran models
  doran models --at http://127.0.0.1:9000
  doran models use ollama:qwen3:8b
  doran models use offline-extractive-2
  doran models install use-multilingual")]
pub(crate) struct ModelsArgs {
    /// Print one JSON object · JSON 하나를 출력합니다
    #[arg(long)]
    json: bool,
    /// Also look for a model server at this address; can be repeated · 이 주소의 모델 서버도 찾습니다. 여러 번 지정할 수 있습니다
    #[arg(long, value_name = "URL")]
    at: Vec<String>,
    #[command(subcommand)]
    what: Option<ModelsCommand>,
}

/// What to do about models.
#[derive(Debug, clap::Subcommand)]
enum ModelsCommand {
    /// Choose the model that answers · 답할 모델을 선택합니다
    Use {
        /// `provider:model`, a name from `[models]`, or offline-extractive-2 · `제공자:모델`, `[models]`의 이름, 또는 offline-extractive-2
        #[arg(value_name = "ID")]
        id: String,
        /// Choose the small model instead · 대신 작은 모델을 선택합니다
        #[arg(long)]
        small: bool,
    },
    /// Install an encoder for semantic search · 의미 검색용 인코더를 설치합니다
    Install(install_encoder::InstallEncoderArgs),
}

/// Lists, chooses or installs models.
pub(crate) async fn run(
    args: &ModelsArgs,
    loaded: &LoadedConfig,
    environment: &Environment,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    match &args.what {
        Some(ModelsCommand::Use { id, small }) => {
            choose_model(loaded, id, if *small { "small_model" } else { "model" }, output)
        }
        Some(ModelsCommand::Install(args)) => {
            install_encoder::run(args, &loaded.config, environment, output).await
        }
        None => list(args, loaded, output).await,
    }
}

/// Finds model servers at the default addresses and at the given ones.
async fn discover_servers(at: &[String]) -> Result<Vec<DiscoveredServer>, BilingualMessage> {
    let mut found = doran_llm::discover_local_servers().await;
    for address in at {
        let shown = embed::strip_url_credentials(address);
        let server = doran_llm::discover_server_at(address).await.map_err(|error| {
            let failed = bilingual!(
                "`{shown}`에서 모델 서버를 찾지 못했습니다",
                "no model server was found at `{shown}`"
            );
            model::with_cause_and_advice(failed, error)
        })?;
        found.retain(|known| known.base_url != server.base_url);
        found.push(server);
    }
    Ok(found)
}

async fn list(args: &ModelsArgs, loaded: &LoadedConfig, output: TerminalOutput) -> anyhow::Result<()> {
    let config = &loaded.config;
    let found = discover_servers(&args.at).await?;
    let encoder = embed::is_encoder_installed(&install_encoder::encoder_folder(config));
    let offered: Vec<&Vendor> = VENDORS.iter().filter(|vendor| has_key(config, vendor)).collect();
    if args.json {
        let vendors: Vec<_> = offered
            .iter()
            .map(|vendor| json!({ "provider": vendor.id, "variable": vendor.key_variable }))
            .collect();
        let shown = json!({
            "model": config.model, "small_model": config.small_model, "built_in": [OFFLINE_MODEL],
            "named": config.tables.models.keys().collect::<Vec<_>>(), "keys": vendors, "servers": found,
            "encoders": [
                { "name": BUILT_IN_ENCODER, "installed": true },
                { "name": install_encoder::ENCODER_NAME, "installed": encoder },
            ],
        });
        return output.print_data(&format!("{shown:#}\n"));
    }
    let language = output.language;
    let mut text = String::new();
    let mut line = |sentence: &BilingualMessage| {
        text.push_str(sentence.text(language));
        text.push('\n');
    };
    let (now, from) = (&config.model, loaded.values.iter().find(|value| value.setting.key == "model"));
    let from = from.map(|value| loaded.describe_origin(&value.origin)).unwrap_or_default();
    line(&bilingual!("지금 답하는 모델: {now} ({from})", "answering now: {now} ({from})"));
    if let Some(small) = &config.small_model {
        let (ko, en) = if config.small_model_is_default {
            (
                " (제공자의 소형 모델. `doran models use --small ID`로 바꿉니다)",
                " (the vendor's small model; change it with `doran models use --small ID`)",
            )
        } else {
            ("", "")
        };
        line(&bilingual!("빠른 판단: {small}{ko}", "quick decisions: {small}{en}"));
    }
    line(&bilingual!(
        "\n내장\n  {OFFLINE_MODEL}  LLM 아님. 글을 찾아 인용합니다. 키도 네트워크도 필요 없습니다",
        "\nbuilt in\n  {OFFLINE_MODEL}  not an LLM. It finds text and cites it; no key, no network"
    ));
    for (name, table) in &config.tables.models {
        let id = &table.id;
        line(&bilingual!(
            "  {name}  설정의 `[models.{name}]`: {id}",
            "  {name}  `[models.{name}]` of the settings: {id}"
        ));
    }
    line(&bilingual!("\n이 컴퓨터의 모델 서버", "\nmodel servers on this machine"));
    for server in &found {
        let DiscoveredServer { provider, base_url, loading, .. } = server;
        line(&match loading {
            true => bilingual!(
                "  {provider}  {base_url}  모델을 읽는 중입니다. 잠시 뒤 다시 보세요",
                "  {provider}  {base_url}  still loading its model; look again in a while"
            ),
            false => BilingualMessage::new(
                format!("  {provider}  {base_url}"),
                format!("  {provider}  {base_url}"),
            ),
        });
        for name in server.models.iter().take(MAX_LISTED_MODELS) {
            let id = server.model_id(name);
            line(&bilingual!(
                "    {id}   쓰려면: doran models use {id}",
                "    {id}   to use it: doran models use {id}"
            ));
        }
    }
    if found.is_empty() {
        line(&bilingual!(
            "  없음. Ollama, LM Studio, llama.cpp, vLLM을 켜면 여기에 나옵니다. 다른 포트라면 `--at`으로 알려 주세요",
            "  none. Start Ollama, LM Studio, llama.cpp or vLLM, and it is listed here; name another port with `--at`"
        ));
    }
    line(&bilingual!(
        "\n환경 변수에 있는 키 (고르기 전에는 쓰지 않습니다)",
        "\nkeys in the environment (offered, not used before you choose)"
    ));
    for vendor in &offered {
        let (variable, id, name) = (vendor.key_variable, vendor.id, vendor.name);
        line(&bilingual!(
            "  {variable}  {name}   쓰려면: doran models use {id}:모델",
            "  {variable}  {name}   to use it: doran models use {id}:MODEL"
        ));
    }
    if offered.is_empty() {
        line(&bilingual!(
            "  없음. 예: OPENAI_API_KEY를 넣고 doran models use openai:gpt-4.1-mini",
            "  none. For example: set OPENAI_API_KEY, then doran models use openai:gpt-4.1-mini"
        ));
    }
    let name = install_encoder::ENCODER_NAME;
    line(&match encoder {
        true => bilingual!(
            "\n문장 인코더 (의미 검색)\n  {BUILT_IN_ENCODER}  프로그램에 들어 있음\n  {name}  설치됨",
            "\nsentence encoders (semantic search)\n  {BUILT_IN_ENCODER}  part of the program\n  {name}  installed"
        ),
        false => bilingual!(
            "\n문장 인코더 (의미 검색)\n  {BUILT_IN_ENCODER}  프로그램에 들어 있음\n  {name}  설치 안 됨. 설치하려면: doran models install {name}",
            "\nsentence encoders (semantic search)\n  {BUILT_IN_ENCODER}  part of the program\n  {name}  not installed; to install it: doran models install {name}"
        ),
    });
    output.print_data(&text)
}

fn has_key(config: &Config, vendor: &Vendor) -> bool {
    vendor.key_requirement == KeyRequirement::Required && config.secrets.get(vendor.key_variable).is_some()
}

/// Writes the choice into the settings file in use, or into the one in the data directory.
fn choose_model(
    loaded: &LoadedConfig,
    id: &str,
    key: &'static str,
    output: TerminalOutput,
) -> anyhow::Result<()> {
    let config = &loaded.config;
    if !(key == "small_model" && matches!(id, "same" | "auto")) {
        let chosen = model::open_model(config, id)?;
        let (ko, en) = (chosen.info().ko, chosen.info().en);
        output.print_message(&BilingualMessage::new(ko, en));
    }
    let path = write_chosen_model(config, key, id)?;
    let shown = path.display();
    output.print_message(&bilingual!(
        "`{shown}`에 적었습니다: {key} = \"{id}\"",
        "written to `{shown}`: {key} = \"{id}\""
    ));
    let origin = loaded.values.iter().find(|value| value.setting.key == key).map(|value| &value.origin);
    if let Some(SettingOrigin::Environment(name)) = origin {
        output.print_message(&bilingual!(
            "환경 변수 `{name}`이(가) 파일보다 앞섭니다. 이 선택을 쓰려면 그 변수를 지우세요",
            "the variable `{name}` beats the file; unset it to use this choice"
        ));
    }
    let is_cloud = id
        .split(':')
        .next()
        .and_then(doran_llm::find_vendor)
        .is_some_and(|vendor| vendor.location == ModelLocation::Cloud);
    if is_cloud {
        output.print_message(&bilingual!(
            "이제부터 질문과 찾은 문단이 그 회사의 서버로 갑니다. 되돌리려면: doran models use {OFFLINE_MODEL}",
            "from now on questions and passages go to that vendor; to undo: doran models use {OFFLINE_MODEL}"
        ));
    }
    Ok(())
}

/// Writes the default model into the settings file in use, or into the one in the data directory.
pub(crate) fn write_model_setting(config: &Config, id: &str) -> Result<(), BilingualMessage> {
    write_chosen_model(config, "model", id).map(drop)
}

fn write_chosen_model(config: &Config, key: &str, id: &str) -> Result<PathBuf, BilingualMessage> {
    let path = config.file.clone().unwrap_or_else(|| config.data_dir.join("doran.toml"));
    if config.file.is_none() {
        data_dir::ensure_private_dir(&config.data_dir)?;
    }
    write_setting(&path, key, id)?;
    Ok(path)
}

/// Sets one top-level setting in a file. The rest of the file is unchanged.
fn write_setting(path: &Path, key: &str, value: &str) -> Result<(), BilingualMessage> {
    let shown = path.display();
    let cannot =
        || bilingual!("설정 파일 `{shown}`에 쓸 수 없습니다", "cannot write the settings file `{shown}`");
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(cannot().with_cause(error)),
    };
    let real = path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    data_dir::write_private_file(&real, replace_setting_line(&text, key, value).as_bytes())
        .map_err(|error| cannot().with_cause(error))
}

/// Replaces the line of the key, or adds it before the first table.
fn replace_setting_line(text: &str, key: &str, value: &str) -> String {
    let new = format!("{key} = {}", toml::Value::from(value));
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let flat = lines.iter().position(|line| line.trim_start().starts_with('[')).unwrap_or(lines.len());
    let is_it =
        |line: &String| line.split('=').next().is_some_and(|name| name.trim() == key) && line.contains('=');
    match lines[..flat].iter().position(is_it) {
        Some(at) => lines[at] = new,
        None => lines.insert(0, new),
    }
    format!("{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_changes_one_line_and_nothing_else() {
        let check = |text: &str, expected: &str| {
            assert_eq!(replace_setting_line(text, "model", "ollama:x"), expected);
        };
        check("", "model = \"ollama:x\"\n");
        check("# note\nlog = \"info\"\n", "model = \"ollama:x\"\n# note\nlog = \"info\"\n");
        check("log = \"info\"\nmodel = 'y' # old\n", "log = \"info\"\nmodel = \"ollama:x\"\n");
        check("[agents.react]\nmodel = \"y\"\n", "model = \"ollama:x\"\n[agents.react]\nmodel = \"y\"\n");
        check("small_model = \"y\"", "model = \"ollama:x\"\nsmall_model = \"y\"\n");
    }
}
