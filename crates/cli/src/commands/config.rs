//! `doran config`: prints every setting with its value and its origin.

use doran_retrieval::Language;
use serde_json::{Value as Json, json};

use crate::config::{LoadedConfig, SettingOrigin};
use crate::output::{TerminalOutput, bilingual, display_width, pad_to_width};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran config
  doran config --json
  DORAN_LISTEN=127.0.0.1:8080 doran config     show where a value comes from · 값의 출처 확인")]
pub(crate) struct ConfigArgs {
    /// Print JSON · JSON으로 출력합니다
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints the settings.
pub(crate) fn run(args: &ConfigArgs, loaded: &LoadedConfig, output: TerminalOutput) -> anyhow::Result<()> {
    for note in &loaded.notes {
        output.print_note(note);
    }
    if args.json {
        return output.print_data(&format!("{:#}\n", settings_json(loaded)));
    }
    let file = match &loaded.file {
        Some(path) => {
            let path = path.display();
            bilingual!("설정 파일: {path}", "settings file: {path}")
        }
        None => bilingual!("설정 파일: 없음 (기본값을 씀)", "settings file: none (defaults are used)"),
    };
    output.print_message(&file);
    output.print_data(&settings_table(loaded, output.language))
}

fn settings_table(loaded: &LoadedConfig, language: Language) -> String {
    let rows: Vec<[String; 4]> = loaded
        .values
        .iter()
        .map(|value| {
            let about = language.pick(value.setting.ko, value.setting.en);
            [
                value.setting.key.to_owned(),
                value.display_text(),
                loaded.describe_origin(&value.origin),
                about.to_owned(),
            ]
        })
        .collect();
    let column = |at: usize| rows.iter().map(|row| display_width(&row[at])).max().unwrap_or(0);
    let (key, value) = (column(0), column(1));
    let mut table = String::new();
    for row in &rows {
        table.push_str(&format!(
            "{}  {}  {}\n",
            pad_to_width(&row[0], key),
            pad_to_width(&row[1], value),
            row[2]
        ));
        table.push_str(&format!("    {}\n", row[3]));
    }
    let config = &loaded.config;
    for name in config.secrets.variable_names() {
        let line = bilingual!("{name}  ***  환경 변수 {name}", "{name}  ***  env {name}");
        table.push_str(&format!("{}\n", line.text(language)));
    }
    for name in config.tables.table_names() {
        table.push_str(&format!("[{name}]\n"));
    }
    table
}

fn settings_json(loaded: &LoadedConfig) -> Json {
    let settings: Vec<Json> = loaded
        .values
        .iter()
        .map(|value| {
            let (kind, from) = match &value.origin {
                SettingOrigin::Default => ("default", Json::Null),
                SettingOrigin::File(path) => ("file", json!(path.display().to_string())),
                SettingOrigin::Environment(name) => ("env", json!(name)),
                SettingOrigin::Flag(flag) => ("flag", json!(flag)),
            };
            let setting = value.setting;
            json!({
                "key": setting.key,
                "value": value.display_text(),
                "default": setting.default,
                "origin": { "kind": kind, "from": from },
                "env": setting.env,
                "flag": setting.flag,
                "about": { "ko": setting.ko, "en": setting.en },
            })
        })
        .collect();
    json!({
        "file": loaded.file.as_ref().map(|path| path.display().to_string()),
        "settings": settings,
        "keys": loaded.config.secrets.variable_names().collect::<Vec<_>>(),
        "tables": loaded.config.tables.table_names(),
    })
}
