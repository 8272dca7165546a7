//! Settings: one file `doran.toml`, the environment and flags, each value with its origin.
//!
//! A flag overrides the environment, the environment overrides the file, and the file overrides the default. All
//! settings are defined in `setting_definitions`, and `settings_file` reads the file. The rest of the program uses
//! the typed [`Config`].

mod config_tables;
mod setting_definitions;
mod settings_file;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use doran_agents::QueryRewriting;
use doran_engine::store::Retention;
use doran_retrieval::Language;
use doran_server::{AllowedOrigin, TelemetrySettings};

use crate::environment::Environment;
use crate::output::{BilingualMessage, bilingual};
use crate::secret::{SecretText, mask_url_password};

pub(crate) use config_tables::{
    API_KEYS_VARIABLE, ConfigTables, EnvironmentSecrets, OPENWEATHER_KEY_VARIABLE, SHARED_KEY_VARIABLE,
    TAVILY_KEY_VARIABLE,
};
pub(crate) use setting_definitions::{SETTINGS, Setting};

/// The encoder that is compiled in.
pub(crate) const BUILT_IN_ENCODER: &str = "built-in";

/// The encoder that `doran models install` puts into the data directory.
pub(crate) const INSTALLED_ENCODER: &str = "use-multilingual";

/// Settings given as flags: the key of the setting and its text.
pub(crate) type SettingFlags = BTreeMap<&'static str, String>;

/// All settings, typed and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    pub(crate) data_dir: PathBuf,
    pub(crate) database: Database,
    pub(crate) listen: SocketAddr,
    pub(crate) language: Language,
    pub(crate) log: String,
    /// Whether log lines are written as JSON.
    pub(crate) log_is_json: bool,
    pub(crate) model: String,
    /// The model for quick decisions, if it differs from `model`.
    pub(crate) small_model: Option<String>,
    /// Whether `small_model` was not chosen but is the vendor's.
    pub(crate) small_model_is_default: bool,
    /// Where and how documents are searched.
    pub(crate) search: SearchConfig,
    /// Host names of this server, in addition to those of this machine.
    pub(crate) allowed_hosts: Vec<String>,
    /// Origins of pages that may call the server.
    pub(crate) allowed_origins: Vec<AllowedOrigin>,
    /// The most memory for bodies of HTTP requests and responses.
    pub(crate) max_body_memory_bytes: usize,
    pub(crate) worker: String,
    pub(crate) lease: Duration,
    pub(crate) max_steps: u32,
    pub(crate) run_timeout: Duration,
    /// The token limit of a run. `None` means no limit.
    pub(crate) max_run_tokens: Option<u64>,
    /// The cost limit of a run. `None` means no limit.
    pub(crate) max_run_cost_micros: Option<u64>,
    /// What the runs of a tenant may cost in a month. `None` means no limit.
    pub(crate) monthly_budget_micros: Option<u64>,
    /// Won for a US dollar, to show costs in both.
    pub(crate) krw_per_usd: Option<u64>,
    /// How long finished runs and threads are kept. `None` keeps them for ever.
    pub(crate) retention: Retention,
    /// The tables of the settings file.
    pub(crate) tables: ConfigTables,
    /// API keys found in the environment.
    pub(crate) secrets: EnvironmentSecrets,
    /// The variables that programs are given which Doran starts: `PATH` and `HOME`.
    pub(crate) program_environment: BTreeMap<String, String>,
    /// What the variables of OpenTelemetry say.
    pub(crate) telemetry: TelemetrySettings,
    /// The settings file that was read, if any.
    pub(crate) file: Option<PathBuf>,
    /// The variable or the flag that sets `model`, and so beats the settings file.
    pub(crate) model_override: Option<&'static str>,
    /// The home directory, for paths that start with `~/`.
    home: Option<PathBuf>,
}

/// Where threads are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    /// A local SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL server, by its URL.
    Postgres(SecretText),
}

/// Where documents are searched, and with which encoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchConfig {
    pub(crate) store: SearchStore,
    /// The encoder for semantic search.
    pub(crate) encoder: EncoderChoice,
    /// Whether agents rewrite questions before they search.
    pub(crate) rewriting: QueryRewriting,
    /// Whether agents put the best passages in a new order.
    pub(crate) reranking: RerankChoice,
}

/// Who puts the best passages of a search in a new order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RerankChoice {
    /// Nobody.
    Off,
    /// The model for short decisions.
    SmallModel,
    /// A reranker, as `PROVIDER:MODEL` or by the name of a `[models]` table.
    Reranker(String),
}

/// The encoder for semantic search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EncoderChoice {
    /// Keyword search only.
    Off,
    /// The encoder that is compiled in.
    BuiltIn,
    /// An encoder in a directory.
    Directory(PathBuf),
    /// A model behind an embeddings endpoint, as `PROVIDER:MODEL` or by the name of a `[models]` table.
    Endpoint(String),
}

/// Where documents are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SearchStore {
    /// A keyword index in memory.
    Memory,
    /// An index in this directory.
    Local(PathBuf),
    /// An OpenSearch cluster, by its URL. `None` if no URL was given.
    OpenSearch(Option<SecretText>),
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    Default,
    File(PathBuf),
    Environment(&'static str),
    Flag(&'static str),
}

/// A setting with its value and origin.
#[derive(Clone, Debug)]
pub(crate) struct SettingValue {
    pub(crate) setting: &'static Setting,
    pub(crate) text: String,
    pub(crate) origin: SettingOrigin,
}

/// The settings as loaded.
#[derive(Clone, Debug)]
pub(crate) struct LoadedConfig {
    pub(crate) config: Config,
    /// Every setting, in the order of the definitions.
    pub(crate) values: Vec<SettingValue>,
    /// The settings file that was read, if any.
    pub(crate) file: Option<PathBuf>,
    /// Notices for the user that do not prevent a start.
    pub(crate) notes: Vec<String>,
    language: Language,
}

/// Whether this value of `encoder` is the path of a directory.
pub(crate) fn is_encoder_path(name: &str) -> bool {
    // A drive letter is no provider, so `C:\\models` stays a path.
    let provider = name.split_once(':').and_then(|(provider, _)| doran_llm::find_vendor(provider));
    !["none", BUILT_IN_ENCODER, INSTALLED_ENCODER].contains(&name) && provider.is_none()
}

/// Loads and checks every setting. `file` is the settings file given by a flag.
pub(crate) fn load(
    flags: &SettingFlags,
    file: Option<&Path>,
    environment: &Environment,
) -> Result<LoadedConfig, BilingualMessage> {
    let file = match find_settings_file(file, environment)? {
        Some(path) => Some(path),
        None => settings_file_in_data_dir(flags, environment)?,
    };
    let (from_file, tables) = match &file {
        Some(path) => settings_file::read_settings_file(path)?,
        None => (BTreeMap::new(), ConfigTables::default()),
    };
    let mut values = Vec::new();
    for setting in SETTINGS {
        let (text, origin) = if let Some(text) = flags.get(setting.key) {
            (text.clone(), SettingOrigin::Flag(setting.flag.unwrap_or(setting.key)))
        } else if let Some(text) = environment.get(setting.env) {
            (text.to_owned(), SettingOrigin::Environment(setting.env))
        } else if let (Some(text), Some(path)) = (from_file.get(setting.key), &file) {
            (text.clone(), SettingOrigin::File(path.clone()))
        } else {
            (setting.default.to_owned(), SettingOrigin::Default)
        };
        setting.validate(&text).map_err(|wrong| wrong.message_with_origin(setting, &origin))?;
        values.push(SettingValue { setting, text, origin });
    }
    let secrets = EnvironmentSecrets::from_environment(environment, &tables)?;
    environment.check_readable_prefix("OTEL_")?;
    ["HOME", "XDG_DATA_HOME"].into_iter().try_for_each(|name| environment.check_readable(name))?;
    let home = environment.home();
    let model_override = match value_origin(&values, "model") {
        SettingOrigin::Environment(name) | SettingOrigin::Flag(name) => Some(*name),
        SettingOrigin::Default | SettingOrigin::File(_) => None,
    };
    let inherited = ["PATH", "HOME"].into_iter();
    let inherited = inherited.filter_map(|name| Some((name.to_owned(), environment.get(name)?.to_owned())));
    let mut config = Config {
        tables,
        secrets,
        program_environment: inherited.collect(),
        telemetry: TelemetrySettings::from_variables(&|name| environment.get(name).map(str::to_owned)),
        file: file.clone(),
        home,
        model_override,
        ..build_config(&mut values, environment)?
    };
    for key in ["model", "small_model"] {
        let (name, from) = (value_text(&values, key), value_origin(&values, key));
        let is_word = key == "small_model" && matches!(name, "same" | "auto");
        if !is_word && !config.is_known_model(name) {
            return Err(setting_definitions::unknown_model_error(key, name, from));
        }
    }
    if let RerankChoice::Reranker(name) = &config.search.reranking {
        let id = config.tables.models.get(name).map_or(name.as_str(), |table| &table.id);
        doran_llm::ModelId::parse_reranker(id).map_err(|error| {
            let (why, from) = (error.to_string(), value_origin(&values, "rerank"));
            setting_definitions::unknown_reranker_error(name, &why, from)
        })?;
    }
    if value_text(&values, "small_model") == "auto" {
        config.small_model = config.small_model_of_vendor();
        config.small_model_is_default = config.small_model.is_some();
    }
    let language = config.language;
    Ok(LoadedConfig {
        config,
        values,
        file,
        notes: unknown_variable_warnings(environment, language),
        language,
    })
}

/// The language of messages printed before the settings are loaded: from the flag, the environment or the locale.
pub(crate) fn early_language(flag: Option<&str>, environment: &Environment) -> Language {
    parse_language(flag.or_else(|| environment.get("DORAN_LANGUAGE")).unwrap_or("auto"), environment)
}

impl Config {
    /// The model that a flag or a variable chose for this call.
    pub(crate) fn chosen_model(&self) -> Option<&str> {
        self.model_override.map(|_| self.model.as_str())
    }

    /// Whether a model has this name: the built-in one, one in `[models]`, or `provider:model`.
    pub(crate) fn is_known_model(&self, name: &str) -> bool {
        doran_offline::is_offline_model(name)
            || self.tables.models.contains_key(name)
            || name.parse::<doran_llm::ModelId>().is_ok()
    }

    /// The small model of the vendor of `model`. A model with a table of its own may have another server and key.
    fn small_model_of_vendor(&self) -> Option<String> {
        if self.tables.models.contains_key(&self.model) {
            return None;
        }
        let prices = doran_llm::PriceList::built_in().ok()?;
        let own = &self.tables.prices;
        let prices = own.iter().fold(prices, |prices, (name, price)| prices.with_price(name, *price));
        Some(doran_llm::small_model_for(&self.model.parse().ok()?, &prices)?.to_string())
    }

    /// The home directory, for paths that start with `~/`.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Resolves a path in the settings file, relative to that file.
    pub(crate) fn resolve_settings_path(&self, path: &str) -> PathBuf {
        if let (Some(rest), Some(home)) = (path.strip_prefix("~/"), &self.home) {
            return home.join(rest);
        }
        match self.file.as_deref().and_then(Path::parent) {
            Some(folder) => folder.join(path),
            None => PathBuf::from(path),
        }
    }
}

impl SettingValue {
    /// The value for display. Passwords are hidden.
    pub(crate) fn display_text(&self) -> String {
        if self.setting.secret && self.text.contains("://") {
            return mask_url_password(&self.text);
        }
        self.text.clone()
    }
}

impl LoadedConfig {
    /// The origin of a value, in the user's language.
    pub(crate) fn describe_origin(&self, origin: &SettingOrigin) -> String {
        origin.description().text(self.language).to_owned()
    }

    /// Whether nobody set this setting.
    pub(crate) fn is_default(&self, key: &str) -> bool {
        let value = self.values.iter().find(|value| value.setting.key == key);
        value.is_some_and(|value| value.origin == SettingOrigin::Default)
    }
}

impl SettingOrigin {
    fn description(&self) -> BilingualMessage {
        match self {
            Self::Default => bilingual!("기본값", "default"),
            Self::File(path) => {
                let path = path.display();
                bilingual!("파일 {path}", "file {path}")
            }
            Self::Environment(name) => bilingual!("환경 변수 {name}", "env {name}"),
            Self::Flag(flag) => bilingual!("플래그 {flag}", "flag {flag}"),
        }
    }
}

impl Database {
    /// The URL to open, including the password. Do not print it.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) => url.reveal().to_owned(),
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => f.write_str(&mask_url_password(url.reveal())),
        }
    }
}

/// Finds the settings file. A file named by a flag or the environment must exist; otherwise the first existing one is
/// used.
fn find_settings_file(
    flag: Option<&Path>,
    environment: &Environment,
) -> Result<Option<PathBuf>, BilingualMessage> {
    let named = flag.map(Path::to_owned).or_else(|| environment.get("DORAN_CONFIG").map(PathBuf::from));
    if let Some(path) = named {
        let path = environment.directory.join(path);
        if !path.is_file() {
            let shown = path.display();
            return Err(bilingual!(
                "설정 파일 `{shown}`이(가) 없습니다",
                "there is no settings file `{shown}`"
            ));
        }
        return Ok(Some(path));
    }
    let usual = environment
        .get("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| environment.home().map(|home| home.join(".config")))
        .map(|folder| folder.join("doran").join("doran.toml"));
    let here = environment.directory.join("doran.toml");
    for path in [Some(here), usual].into_iter().flatten() {
        if is_settings_file(&path)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Whether there is a file. What has its name and is no file, such as a directory that a container made for a mount, is an error:
/// settings would be left out without a word.
fn is_settings_file(path: &Path) -> Result<bool, BilingualMessage> {
    if path.is_file() {
        return Ok(true);
    }
    if !path.exists() {
        return Ok(false);
    }
    let shown = path.display();
    Err(bilingual!(
        "설정 파일 `{shown}`이(가) 파일이 아닙니다. 그 이름의 파일로 바꾸거나 지우세요",
        "the settings file `{shown}` is not a file; replace it by one, or remove it"
    ))
}

/// The settings file in the data directory. The program writes to it if no other file is in use.
fn settings_file_in_data_dir(
    flags: &SettingFlags,
    environment: &Environment,
) -> Result<Option<PathBuf>, BilingualMessage> {
    let given = flags.get("data_dir").map(String::as_str).or_else(|| environment.get("DORAN_DATA_DIR"));
    let folder = match given {
        None | Some("auto") => default_data_dir(environment),
        Some(path) => resolve_path(path, &SettingOrigin::Default, environment),
    };
    // What is wrong with the directory is reported when it is used.
    let Ok(folder) = folder else { return Ok(None) };
    let path = folder.join("doran.toml");
    Ok(is_settings_file(&path)?.then_some(path))
}

/// Builds the typed settings, and replaces defaults in `values` by what they mean here.
fn build_config(values: &mut [SettingValue], environment: &Environment) -> Result<Config, BilingualMessage> {
    let data_dir = match value_text(values, "data_dir") {
        "auto" => default_data_dir(environment)?,
        path => resolve_path(path, value_origin(values, "data_dir"), environment)?,
    };
    let database = match value_text(values, "database") {
        "sqlite" => Database::Sqlite(data_dir.join("doran.db")),
        url if url.starts_with("postgres") => Database::Postgres(SecretText::new(url)),
        url => {
            let path = url.strip_prefix("sqlite:").unwrap_or(url);
            Database::Sqlite(resolve_path(path, value_origin(values, "database"), environment)?)
        }
    };
    let store = match value_text(values, "store") {
        "memory" => SearchStore::Memory,
        "opensearch" => {
            let address = Some(value_text(values, "opensearch")).filter(|address| *address != "none");
            SearchStore::OpenSearch(address.map(SecretText::new))
        }
        _ => SearchStore::Local(match value_text(values, "index_path") {
            "auto" => data_dir.join("search"),
            path => resolve_path(path, value_origin(values, "index_path"), environment)?,
        }),
    };
    if !matches!(store, SearchStore::Local(_)) && value_text(values, "index_path") != "auto" {
        return Err(bilingual!(
            "`index_path`는 `store`가 `local`이나 `faiss`일 때만 쓸 수 있습니다",
            "`index_path` needs `store = \"local\"` or `store = \"faiss\"`"
        ));
    }
    let encoder = match value_text(values, "encoder") {
        "none" => EncoderChoice::Off,
        BUILT_IN_ENCODER => EncoderChoice::BuiltIn,
        INSTALLED_ENCODER => EncoderChoice::Directory(data_dir.join(doran_llm::embed::UNIVERSAL_FOLDER)),
        name if !is_encoder_path(name) => EncoderChoice::Endpoint(name.to_owned()),
        path => EncoderChoice::Directory(resolve_path(path, value_origin(values, "encoder"), environment)?),
    };
    let rewriting = match value_text(values, "rewrite") {
        "on" => QueryRewriting::ByModel,
        _ => QueryRewriting::Off,
    };
    let reranking = match value_text(values, "rerank") {
        "off" => RerankChoice::Off,
        "on" => RerankChoice::SmallModel,
        name => RerankChoice::Reranker(name.trim().to_owned()),
    };
    let worker = match value_text(values, "worker") {
        "auto" => format!("{}-{}", host_name(environment), std::process::id()),
        name => name.to_owned(),
    };
    let retention = Retention {
        old_entries: limit_unless_zero(parse_u32_value(values, "retention_days")?).map(days_to_duration),
        idle_threads: limit_unless_zero(parse_u32_value(values, "conversation_days")?).map(days_to_duration),
        ..Retention::default()
    };
    let allowed_origins = split_comma_list(value_text(values, "allowed_origins"));
    let allowed_origins = allowed_origins.iter().map(|origin| AllowedOrigin::parse(origin));
    let allowed_origins = allowed_origins.collect::<Result<_, _>>().map_err(|error| {
        bilingual!("`allowed_origins`을(를) 읽을 수 없습니다", "cannot read `allowed_origins`")
            .with_cause(error)
    })?;
    let config = Config {
        data_dir,
        database,
        listen: parse_value(values, "listen")?,
        language: parse_language(value_text(values, "language"), environment),
        log: value_text(values, "log").to_owned(),
        log_is_json: value_text(values, "log_format") == "json",
        model: value_text(values, "model").to_owned(),
        small_model: Some(value_text(values, "small_model"))
            .filter(|name| !matches!(*name, "same" | "auto"))
            .map(str::to_owned),
        small_model_is_default: false,
        search: SearchConfig { store, encoder, rewriting, reranking },
        allowed_hosts: split_comma_list(value_text(values, "allowed_hosts")),
        allowed_origins,
        max_body_memory_bytes: parse_u32_value(values, "max_body_memory_mib")? as usize * 1024 * 1024,
        worker,
        lease: Duration::from_secs(parse_u32_value(values, "lease_seconds")?.into()),
        max_steps: parse_u32_value(values, "max_steps")?,
        run_timeout: Duration::from_secs(parse_u32_value(values, "run_timeout_seconds")?.into()),
        max_run_tokens: limit_unless_zero(parse_u32_value(values, "max_run_tokens")?),
        max_run_cost_micros: limit_unless_zero(parse_u32_value(values, "max_run_cost_cents")?)
            .map(|cents| cents * 10_000),
        monthly_budget_micros: limit_unless_zero(parse_u32_value(values, "monthly_budget_cents")?)
            .map(|cents| cents * 10_000),
        krw_per_usd: limit_unless_zero(parse_u32_value(values, "krw_per_usd")?),
        retention,
        tables: ConfigTables::default(),
        secrets: EnvironmentSecrets::default(),
        model_override: None,
        program_environment: BTreeMap::new(),
        telemetry: TelemetrySettings::default(),
        file: None,
        home: None,
    };
    let meant = [
        ("data_dir", config.data_dir.display().to_string()),
        ("database", config.database.url()),
        ("worker", config.worker.clone()),
    ];
    for (key, text) in meant {
        if let Some(value) = values.iter_mut().find(|value| value.setting.key == key) {
            value.text = text;
        }
    }
    Ok(config)
}

fn days_to_duration(number: u64) -> Duration {
    Duration::from_secs(number * 24 * 60 * 60)
}

/// A limit, where 0 means no limit.
fn limit_unless_zero(number: u32) -> Option<u64> {
    (number > 0).then_some(number.into())
}

/// Splits a comma-separated list. `none` is the empty list.
fn split_comma_list(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "none");
    words.map(str::to_owned).collect()
}

fn value_text<'a>(values: &'a [SettingValue], key: &str) -> &'a str {
    values.iter().find(|value| value.setting.key == key).map_or("", |value| &value.text)
}

fn value_origin<'a>(values: &'a [SettingValue], key: &str) -> &'a SettingOrigin {
    values
        .iter()
        .find(|value| value.setting.key == key)
        .map_or(&SettingOrigin::Default, |value| &value.origin)
}

fn parse_u32_value(values: &[SettingValue], key: &str) -> Result<u32, BilingualMessage> {
    parse_value(values, key)
}

fn parse_value<T: std::str::FromStr>(values: &[SettingValue], key: &str) -> Result<T, BilingualMessage>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    value_text(values, key).parse().map_err(|error: T::Err| {
        bilingual!("`{key}`을(를) 읽을 수 없습니다", "cannot read `{key}`").with_cause(error)
    })
}

fn parse_language(text: &str, environment: &Environment) -> Language {
    match text {
        "ko" => Language::Korean,
        "en" => Language::English,
        _ => environment.locale_language(),
    }
}

/// Resolves a path. A path from the settings file is relative to that file, any other to the current directory. `~`
/// is the home directory.
fn resolve_path(
    path: &str,
    origin: &SettingOrigin,
    environment: &Environment,
) -> Result<PathBuf, BilingualMessage> {
    if let Some(rest) = path.strip_prefix("~/") {
        return Ok(environment.home().ok_or_else(missing_home_error)?.join(rest));
    }
    let start = match origin {
        SettingOrigin::File(file) => file.parent().unwrap_or(&environment.directory),
        SettingOrigin::Default | SettingOrigin::Environment(_) | SettingOrigin::Flag(_) => {
            &environment.directory
        }
    };
    // Without the `.` of a file that names its own directory.
    Ok(start.join(path).components().collect())
}

fn default_data_dir(environment: &Environment) -> Result<PathBuf, BilingualMessage> {
    let base = match environment.get("XDG_DATA_HOME") {
        Some(base) => PathBuf::from(base),
        None => environment.home().ok_or_else(missing_home_error)?.join(".local").join("share"),
    };
    Ok(base.join("doran"))
}

fn missing_home_error() -> BilingualMessage {
    bilingual!(
        "홈 디렉터리를 알 수 없습니다(HOME이 비어 있음). `--data-dir`로 데이터 디렉터리를 고르세요",
        "the home directory is unknown (HOME is not set); choose a data directory with `--data-dir`"
    )
}

fn host_name(environment: &Environment) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = environment.get("HOSTNAME").or(environment.get("COMPUTERNAME")).map(str::to_owned).or(kernel);
    name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(|| "host".into())
}

/// Warns about unknown `DORAN_` variables, because a misspelt one would be ignored silently.
fn unknown_variable_warnings(environment: &Environment, language: Language) -> Vec<String> {
    let known: Vec<&str> = SETTINGS
        .iter()
        .map(|setting| setting.env)
        .chain(["DORAN_CONFIG", SHARED_KEY_VARIABLE, API_KEYS_VARIABLE])
        .collect();
    let is_known = |name: &str| known.contains(&name) || environment.is_read_from_file(name);
    let unknown = environment
        .variable_names()
        .filter(|name| name.starts_with("DORAN_") && !is_known(name) && !is_test_variable(name));
    unknown
        .map(|name| {
            let near = settings_file::nearest_name(name, &known);
            bilingual!(
                "환경 변수 `{name}`은(는) 설정이 아니므로 쓰지 않습니다. 가장 비슷한 이름: `{near}`",
                "the variable `{name}` is no setting and is not used; the nearest is `{near}`"
            )
            .text(language)
            .to_owned()
        })
        .collect()
}

/// Whether a variable is used by tests, benchmarks or torture tests. These are not settings and cause no warning.
fn is_test_variable(name: &str) -> bool {
    name.starts_with("DORAN_TEST_")
        || name.starts_with("DORAN_BENCH_")
        || matches!(name, "DORAN_REQUIRE_PARTS" | "DORAN_FAILPOINT" | "DORAN_MUTANT")
}

#[cfg(test)]
mod tests;
