//! `doran config`: every setting, its value and where that came from.

use serde_json::{Value as Json, json};

use crate::config::{Loaded, Origin};
use crate::output::{Language, Output, both, padded, width};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 보기:
  doran config
  doran config --json
  DORAN_LISTEN=127.0.0.1:8080 doran config     where a value comes from · 값이 어디서 왔는지")]
pub(crate) struct Args {
    /// Print JSON · JSON으로 출력
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints the settings.
pub(crate) fn run(args: &Args, loaded: &Loaded, output: Output) -> anyhow::Result<()> {
    for note in &loaded.notes {
        output.note(note);
    }
    if args.json {
        return output.data(&format!("{:#}\n", as_json(loaded)));
    }
    let file = match &loaded.file {
        Some(path) => {
            let path = path.display();
            both!("설정 파일: {path}", "settings file: {path}")
        }
        None => both!("설정 파일: 없음 (기본값을 씀)", "settings file: none (defaults are used)"),
    };
    output.tell(&file);
    output.data(&as_table(loaded, output.language))
}

fn as_table(loaded: &Loaded, language: Language) -> String {
    let rows: Vec<[String; 4]> = loaded
        .values
        .iter()
        .map(|value| {
            let about = match language {
                Language::Korean => value.setting.ko,
                Language::English => value.setting.en,
            };
            [value.setting.key.to_owned(), value.shown(), loaded.origin(&value.origin), about.to_owned()]
        })
        .collect();
    let column = |at: usize| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0);
    let (key, value) = (column(0), column(1));
    let mut table = String::new();
    for row in &rows {
        table.push_str(&format!("{}  {}  {}\n", padded(&row[0], key), padded(&row[1], value), row[2]));
        table.push_str(&format!("    {}\n", row[3]));
    }
    let config = &loaded.config;
    for name in config.secrets.names() {
        let line = both!("{name}  ***  환경 변수 {name}", "{name}  ***  env {name}");
        table.push_str(&format!("{}\n", line.text(language)));
    }
    for name in config.tables.names() {
        table.push_str(&format!("[{name}]\n"));
    }
    table
}

fn as_json(loaded: &Loaded) -> Json {
    let settings: Vec<Json> = loaded
        .values
        .iter()
        .map(|value| {
            let (kind, from) = match &value.origin {
                Origin::Default => ("default", Json::Null),
                Origin::File(path) => ("file", json!(path.display().to_string())),
                Origin::Environment(name) => ("env", json!(name)),
                Origin::Flag(flag) => ("flag", json!(flag)),
            };
            let setting = value.setting;
            json!({
                "key": setting.key,
                "value": value.shown(),
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
        "keys": loaded.config.secrets.names().collect::<Vec<_>>(),
        "tables": loaded.config.tables.names(),
    })
}
