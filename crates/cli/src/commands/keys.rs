//! `doran keys`: manages the API keys of the HTTP server. A key is shown once; only its hash is stored.

use doran_engine::TenantId;
use serde_json::json;

use crate::api_key_file::{self, ApiKeyRecord};
use crate::api_key_store::ApiKeyStore;
use crate::config::{API_KEYS_VARIABLE, Config};
use crate::output::{BilingualMessage, TerminalOutput, bilingual, pad_to_width, widest};

/// Options of the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples · 예시:
  doran keys new laptop
  doran keys new team --tenant sales
  doran keys new boss --admin
  doran keys list
  doran keys revoke laptop
  curl -H 'Authorization: Bearer KEY' http://HOST:7979/api/agents")]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    what: KeysCommand,
}

/// What to do with keys.
#[derive(Debug, clap::Subcommand)]
enum KeysCommand {
    /// Create a key and print it once · 키를 만들어 한 번만 출력합니다
    New {
        /// Name of the key · 키의 이름
        #[arg(value_name = "NAME")]
        name: String,
        /// Tenant the key gives access to · 키로 접근할 테넌트
        #[arg(long, value_name = "TENANT", default_value = "local")]
        tenant: String,
        /// Let the key choose models, store their keys, run evaluations and read metrics · 모델 선택과 모델의 키 저장, 평가, 지표 조회를 허용합니다
        #[arg(long)]
        admin: bool,
    },
    /// List the names of all keys · 키 목록을 보여 줍니다
    List {
        /// Print one JSON object per line · 한 줄에 JSON 하나씩 출력합니다
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key; a running server applies it within a second · 키를 폐기합니다. 실행 중인 서버에는 1초 안에 적용됩니다
    Revoke {
        /// Name of the key to revoke · 폐기할 키의 이름
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Creates, lists or revokes keys.
pub(crate) async fn run(args: &KeysArgs, config: &Config, output: TerminalOutput) -> anyhow::Result<()> {
    match &args.what {
        KeysCommand::New { name, tenant, admin } => {
            if name.trim().is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
                return Err(bilingual!(
                    "키의 이름은 1바이트에서 64바이트까지입니다",
                    "the name of a key has 1 to 64 bytes"
                )
                .into());
            }
            let tenant = TenantId::new(tenant).map_err(|error| {
                bilingual!("`--tenant`의 값이 맞지 않습니다", "the value of `--tenant` does not fit")
                    .with_cause(error)
            })?;
            let (secret, record) = api_key_file::generate_key(name, &tenant, *admin);
            if !ApiKeyStore::open(config).await?.add(record).await? {
                return Err(bilingual!(
                    "`{name}`(이)라는 키가 이미 있습니다. 다른 이름을 고르거나 `doran keys revoke {name}`으로 없애세요",
                    "there is a key `{name}` already; choose another name, or take it away with `doran keys revoke {name}`"
                )
                .into());
            }
            output.print_message(&bilingual!(
                "이 키는 다시 볼 수 없습니다. 지금 옮겨 두세요. 이제 서버는 키가 있는 요청만 받습니다",
                "this key cannot be shown again; keep it now. From now on the server answers only requests with a key"
            ));
            output.print_data(&format!("{secret}\n"))
        }
        KeysCommand::List { json } => {
            let (stored, given) =
                (ApiKeyStore::open(config).await?.list().await?, api_key_file::given_keys(config)?);
            if stored.is_empty() && given.is_empty() {
                output.print_message(&bilingual!(
                    "키가 없습니다. `doran keys new 이름`으로 만듭니다",
                    "there are no keys; make one with `doran keys new NAME`"
                ));
            }
            let wide = widest(stored.iter().chain(&given).map(|row| row.name.as_str()));
            let line = |row: &ApiKeyRecord, variable: Option<&str>| match json {
                true => {
                    let made = variable.is_none().then_some(row.made);
                    let (name, tenant, admin) = (&row.name, &row.tenant, row.admin);
                    let key = json!({ "name": name, "tenant": tenant, "made": made, "admin": admin, "variable": variable });
                    format!("{key}\n")
                }
                false => {
                    let admin = if row.admin { "  admin" } else { "" };
                    let variable = variable.map(|name| format!("  {name}")).unwrap_or_default();
                    format!("{}  {}{admin}{variable}\n", pad_to_width(&row.name, wide), row.tenant)
                }
            };
            let stored = stored.iter().map(|row| line(row, None));
            let given = given.iter().map(|row| line(row, Some(API_KEYS_VARIABLE)));
            output.print_data(&stored.chain(given).collect::<String>())
        }
        KeysCommand::Revoke { name } => {
            let (store, given) = (ApiKeyStore::open(config).await?, api_key_file::given_keys(config)?);
            if !store.remove(name).await? {
                let is_given = given.iter().any(|row| row.name == *name);
                return Err(if is_given { given_key_error(name) } else { unknown_key_error(name) }.into());
            }
            output.print_message(&bilingual!("키 `{name}`을(를) 폐기했습니다", "revoked the key `{name}`"));
            if given.is_empty() && store.list().await?.is_empty() {
                output.print_message(&bilingual!(
                    "주의: 마지막 키였습니다. 실행 중인 서버는 이제 아무에게도 답하지 않습니다. `doran keys new 이름`으로 새 키를 만드세요. 서버를 다시 시작하면 이 컴퓨터에서는 키 없이 쓸 수 있습니다",
                    "note: it was the last key. A running server answers nobody now; make a new key with `doran keys new NAME`. Once it is restarted, this machine can use it without a key"
                ));
            }
            Ok(())
        }
    }
}

fn unknown_key_error(name: &str) -> BilingualMessage {
    bilingual!(
        "`{name}`(이)라는 키는 없습니다. `doran keys list`로 확인하세요",
        "there is no key `{name}`; see `doran keys list`"
    )
}

fn given_key_error(name: &str) -> BilingualMessage {
    bilingual!(
        "키 `{name}`은(는) `{API_KEYS_VARIABLE}`에 있습니다. 그 변수에서 빼고 서버를 다시 시작하세요",
        "the key `{name}` is in `{API_KEYS_VARIABLE}`; take it out of that variable and restart the server"
    )
}
