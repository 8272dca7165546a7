//! Settings from all sides, and the pages that document them.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use expect_test::expect_file;

use super::*;
use crate::test_directory::TestDirectory;

const HOME_VARIABLE: (&str, &str) = ("HOME", "/home/me");

fn load_config(flags: &[(&'static str, &str)], variables: &[(&str, &str)], directory: &Path) -> LoadedConfig {
    let flags = flags.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
    let variables = [variables, &[HOME_VARIABLE]].concat();
    load(&flags, None, &Environment::for_test(directory, &variables)).expect("settings")
}

fn load_error(flags: &[(&'static str, &str)], variables: &[(&str, &str)]) -> String {
    let flags = flags.iter().map(|(key, text)| (*key, (*text).to_owned())).collect();
    load(&flags, None, &Environment::for_test("/nowhere", variables)).expect_err("an error").en
}

#[test]
fn a_variable_that_is_read_and_not_utf8_is_an_error_and_not_a_missing_one() {
    let load_with = |name: &str| {
        let environment = Environment::for_test("/nowhere", &[HOME_VARIABLE]).with_unreadable(name);
        load(&Default::default(), None, &environment).map(drop).map_err(|error| error.en)
    };
    for name in ["OPENAI_API_KEY", "OPENAI_API_KEY_FILE", "OTEL_EXPORTER_OTLP_ENDPOINT", "XDG_DATA_HOME"] {
        assert_eq!(load_with(name), Err(format!("the value of `{name}` is not UTF-8")));
    }
    assert_eq!(load_with("OF_ANOTHER_PROGRAM"), Ok(()));
}

fn shown_setting(loaded: &LoadedConfig, key: &str) -> String {
    let value = loaded.values.iter().find(|value| value.setting.key == key).expect(key);
    format!("{} ({})", value.display_text(), loaded.describe_origin(&value.origin))
}

#[test]
fn every_setting_has_a_default_that_fits() {
    let loaded = load_config(&[], &[], Path::new("/nowhere"));
    assert!(loaded.values.iter().all(|value| value.origin == SettingOrigin::Default));
    let Config { data_dir, database, max_steps, retention, .. } = loaded.config;
    assert_eq!(data_dir, Path::new("/home/me/.local/share/doran"));
    assert_eq!(database, Database::Sqlite("/home/me/.local/share/doran/doran.db".into()));
    assert_eq!((max_steps, retention.old_entries, retention.idle_threads), (100, None, None));
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    let scratch = TestDirectory::new();
    let here = scratch.path();
    let file = here.join("doran.toml");
    fs::write(&file, "log = \"error\"\n").expect("write");
    assert_eq!(shown_setting(&load_config(&[], &[], Path::new("/nowhere")), "log"), "warn (default)");
    assert_eq!(
        shown_setting(&load_config(&[], &[], here), "log"),
        format!("error (file {})", file.display())
    );
    let env = [("DORAN_LOG", "info")];
    assert_eq!(shown_setting(&load_config(&[], &env, here), "log"), "info (env DORAN_LOG)");
    assert_eq!(shown_setting(&load_config(&[("log", "debug")], &env, here), "log"), "debug (flag --log)");
    assert_eq!(
        shown_setting(&load_config(&[], &[("DORAN_LOG", "")], Path::new("/nowhere")), "log"),
        "warn (default)"
    );
}

#[test]
fn a_reranker_is_off_the_small_model_or_an_endpoint() {
    let chosen = |text: &str| {
        load_config(&[], &[("DORAN_RERANK", text)], Path::new("/nowhere")).config.search.reranking
    };
    assert_eq!(load_config(&[], &[], Path::new("/nowhere")).config.search.reranking, RerankChoice::Off);
    assert_eq!((chosen("off"), chosen("on")), (RerankChoice::Off, RerankChoice::SmallModel));
    for name in ["cohere:rerank-v4.0-pro", "vllm:BAAI/bge-reranker-v2-m3", "openai-compatible:http://h/v1#m"]
    {
        assert_eq!(chosen(name), RerankChoice::Reranker(name.to_owned()));
    }
    for (text, reason) in [
        ("yes", "`yes` is not `provider:model`"),
        ("ON", "`ON` is not `provider:model`"),
        ("ollama:bge-m3", "`ollama` does not rerank; these do: `openrouter`"),
        ("nobody:m", "`nobody` does not rerank"),
        ("cohere:", "`cohere:` is not `provider:model`"),
    ] {
        let error = load_error(&[], &[("DORAN_RERANK", text), HOME_VARIABLE]);
        assert!(error.contains("of `rerank` (env DORAN_RERANK) does not fit"), "{error}");
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_reranker_may_be_a_name_of_the_tables() {
    let scratch = TestDirectory::new();
    let write = |text: &str| fs::write(scratch.path().join("doran.toml"), text).expect("write");
    write(
        "rerank = \"office\"\n[models.office]\nid = \"vllm:bge-reranker\"\nbase_url = \"http://10.0.0.5/v1\"\n",
    );
    let reranking = load_config(&[], &[], scratch.path()).config.search.reranking;
    assert_eq!(reranking, RerankChoice::Reranker("office".into()));
    write("rerank = \"office\"\n[models.office]\nid = \"ollama:bge-m3\"\n");
    let environment = Environment::for_test(scratch.path(), &[HOME_VARIABLE]);
    let error = load(&SettingFlags::new(), None, &environment).expect_err("no reranker").en;
    assert!(
        error.contains("the value `office` of `rerank`") && error.contains("`ollama` does not rerank"),
        "{error}"
    );
}

#[test]
fn retention_is_given_in_days() {
    let env = [("DORAN_RETENTION_DAYS", "2"), ("DORAN_CONVERSATION_DAYS", "3")];
    let retention = load_config(&[], &env, Path::new("/nowhere")).config.retention;
    let days = |number: u64| Some(Duration::from_secs(number * 86_400));
    assert_eq!((retention.old_entries, retention.idle_threads), (days(2), days(3)));
}

#[test]
fn the_first_settings_file_in_the_search_order_is_used() {
    let scratch = TestDirectory::new();
    let root = scratch.path().to_str().expect("utf-8");
    for folder in ["xdg/doran", "here", "empty"] {
        fs::create_dir_all(scratch.path().join(folder)).expect("folder");
    }
    for file in ["xdg/doran/doran.toml", "here/doran.toml", "env.toml", "flag.toml"] {
        fs::write(scratch.path().join(file), "").expect("write");
    }
    let xdg = format!("{root}/xdg");
    let check = |flag: Option<&str>, directory: &str, named: Option<&str>, expected: &str| {
        let mut variables = vec![HOME_VARIABLE, ("XDG_CONFIG_HOME", xdg.as_str())];
        variables.extend(named.map(|name| ("DORAN_CONFIG", name)));
        let environment = Environment::for_test(format!("{root}/{directory}"), &variables);
        let file = load(&SettingFlags::new(), flag.map(Path::new), &environment).expect("settings").file;
        assert_eq!(file.expect("a file").canonicalize().expect("path"), scratch.path().join(expected));
    };
    check(None, "empty", None, "xdg/doran/doran.toml");
    check(None, "here", None, "here/doran.toml");
    check(None, "here", Some("../env.toml"), "env.toml");
    check(Some("../flag.toml"), "here", Some("../env.toml"), "flag.toml");
    assert!(load_config(&[], &[], &scratch.path().join("empty")).file.is_none());
}

#[test]
fn the_settings_file_in_the_data_directory_is_read_if_there_is_no_other() {
    let scratch = TestDirectory::new();
    let here = scratch.path().join("here");
    fs::create_dir_all(&here).expect("folder");
    fs::create_dir_all(scratch.path().join("data")).expect("folder");
    fs::write(scratch.path().join("data/doran.toml"), "log = \"error\"\n").expect("write");
    let variables = [("DORAN_DATA_DIR", "../data")];
    assert!(shown_setting(&load_config(&[], &variables, &here), "log").starts_with("error (file "));
    fs::write(here.join("doran.toml"), "").expect("write");
    assert_eq!(shown_setting(&load_config(&[], &variables, &here), "log"), "warn (default)");
}

#[test]
fn a_named_settings_file_must_exist() {
    assert_eq!(
        load_error(&[], &[("DORAN_CONFIG", "gone.toml")]),
        "there is no settings file `/nowhere/gone.toml`"
    );
}

#[test]
fn a_value_that_does_not_fit_is_named_with_its_origin() {
    assert_eq!(
        load_error(&[], &[("DORAN_LISTEN", "7979")]),
        "the value of `listen` (env DORAN_LISTEN) does not fit; it must be an address and port such as `127.0.0.1:7979`"
    );
    assert!(
        load_error(&[("language", "fr")], &[])
            .contains("(flag --lang) does not fit; it must be one of `auto`")
    );
    assert!(load_error(&[], &[]).contains("HOME is not set"));
}

#[test]
fn paths_start_where_they_were_written() {
    let scratch = TestDirectory::new();
    fs::write(scratch.path().join("doran.toml"), "data_dir = \"d\"").expect("write");
    let from_file = load_config(&[], &[], scratch.path()).config.data_dir;
    assert_eq!(from_file, scratch.path().join("d"));
    let dir = |text: &str| load_config(&[("data_dir", text)], &[], Path::new("/nowhere")).config.data_dir;
    assert_eq!((dir("d"), dir("/d"), dir("~/d")), ("/nowhere/d".into(), "/d".into(), "/home/me/d".into()));
}

#[test]
fn a_password_is_kept_and_never_shown() {
    let variables = [("DORAN_DATABASE", "postgres://u:hunter2@h/d")];
    let loaded = load_config(&[], &variables, Path::new("/nowhere"));
    assert_eq!(loaded.config.database.url(), "postgres://u:hunter2@h/d");
    assert_eq!(shown_setting(&loaded, "database"), "postgres://u:***@h/d (env DORAN_DATABASE)");
    let printed = format!("{:?} {}", loaded.config, loaded.config.database);
    assert!(!printed.contains("hunter2"), "{printed}");
    assert!(!load_error(&[("database", "pg://u:hunter2@h/d")], &[HOME_VARIABLE]).contains("hunter2"));
}

#[test]
fn allowed_hosts_are_names_or_addresses_and_the_wrong_one_is_named() {
    let hosts = |text: &str| {
        load_config(&[], &[("DORAN_ALLOWED_HOSTS", text)], Path::new("/nowhere")).config.allowed_hosts
    };
    assert_eq!(hosts("none"), Vec::<String>::new());
    assert_eq!(hosts("doran.lan, 10.0.0.5:7979,[::2]:80"), ["doran.lan", "10.0.0.5:7979", "[::2]:80"]);
    for wrong in ["https://doran.example.com", "*.foo.com", "doran.lan/chat", "doran.lan:port"] {
        let variables = [("DORAN_ALLOWED_HOSTS", &*format!("doran.lan,{wrong}")), HOME_VARIABLE];
        let environment = Environment::for_test("/nowhere", &variables);
        let error = load(&SettingFlags::new(), None, &environment).expect_err(wrong);
        for (text, expected) in [
            (error.en, "must be `none` or host names and IP addresses such as"),
            (error.ko, "필요한 것: `none`이나"),
        ] {
            assert!(text.contains("`allowed_hosts`") && text.contains("DORAN_ALLOWED_HOSTS"), "{text}");
            assert!(text.contains(&format!("`{wrong}`")) && text.contains(expected), "{text}");
        }
    }
    let scratch = TestDirectory::new();
    fs::write(scratch.path().join("doran.toml"), "allowed_hosts = \"*.foo.com\"\n").expect("write");
    let environment = Environment::for_test(scratch.path(), &[HOME_VARIABLE]);
    let error = load(&SettingFlags::new(), None, &environment).expect_err("no host").en;
    assert!(error.contains("line 1") && error.contains("`*.foo.com`"), "{error}");
}

#[test]
fn a_misspelt_variable_is_noted() {
    let notes = load_config(&[], &[("DORAN_LISTN", "x")], Path::new("/nowhere")).notes;
    assert_eq!(
        notes,
        ["the variable `DORAN_LISTN` is no setting and is not used; the nearest is `DORAN_LISTEN`"]
    );
}

#[test]
fn variables_of_tests_and_measurements_are_not_noted() {
    let names = [
        "DORAN_TEST_POSTGRES",
        "DORAN_BENCH_PYTHON",
        "DORAN_REQUIRE_PARTS",
        "DORAN_FAILPOINT",
        "DORAN_MUTANT",
    ];
    let variables = names.map(|name| (name, "x"));
    assert!(load_config(&[], &variables, Path::new("/nowhere")).notes.is_empty());
}

#[test]
fn settings_are_few_named_alike_and_documented_twice() {
    assert!(SETTINGS.len() <= 27);
    for setting in SETTINGS {
        assert_eq!(setting.env, format!("DORAN_{}", setting.key.to_uppercase()));
        assert!(setting.en.ends_with('.') && setting.en.is_ascii(), "{}", setting.key);
        assert!(setting.ko.ends_with('.') && !setting.ko.is_ascii(), "{}", setting.key);
    }
}

/// How the page begins, in English and in Korean.
const ENGLISH_HEAD: &str = r#"# Settings

```toml
# doran.toml
model = "ollama:qwen3:8b"
listen = "127.0.0.1:8080"
```

The same as environment variables or as flags:

```sh
DORAN_MODEL=ollama:qwen3:8b DORAN_LISTEN=127.0.0.1:8080 doran serve
doran serve --model ollama:qwen3:8b --listen 127.0.0.1:8080
```

For each setting, Doran uses the first of these that is present:

1. the flag
2. the environment variable (an empty one counts as not set)
3. the settings file
4. the default

`doran config` shows each value and where it comes from.

Doran reads one settings file, the first of these:

1. `--config FILE`
2. the file named by `DORAN_CONFIG`
3. `./doran.toml`
4. `$XDG_CONFIG_HOME/doran/doran.toml`, or `~/.config/doran/doran.toml` if that variable is not set
5. `doran.toml` in the data directory

`doran models use ID` writes the model into the settings file in use. If there is none, it creates `doran.toml` in the data
directory. That file is not read once one of the other four exists.

A file named by `--config` or `DORAN_CONFIG` must exist. An unknown key is an error. A relative path in the file starts at the
directory of the file. Tools, MCP servers, models and agents have [tables](tables.md) in the same file.

These environment variables are not settings and cannot be set in a file:

| variable | meaning |
|---|---|
| `DORAN_API_KEYS` | API keys that the server accepts besides those of `doran keys`: `NAME=KEY` or `NAME@TENANT=KEY`, separated by commas or white space; `NAME:admin=KEY` is a key of an administrator. A key has at least 32 characters |
| `DORAN_SHARED_KEY` | a secret that all replicas share, of at least 32 characters |
| `OPENAI_API_KEY` and the like | keys of [model providers](models.md) |

A secret can also be read from a file, as containers provide them. Add `_FILE` to the name of the variable and give the path:
`DORAN_DATABASE_FILE=/run/secrets/database`. This works for `DORAN_API_KEYS`, `DORAN_DATABASE`, `DORAN_OPENSEARCH`, `DORAN_SHARED_KEY` and for
variables that end with `_API_KEY`.
"#;
const KOREAN_HEAD: &str = r#"# 설정

```toml
# doran.toml
model = "ollama:qwen3:8b"
listen = "127.0.0.1:8080"
```

같은 내용을 환경 변수나 플래그로 쓰면 다음과 같습니다.

```sh
DORAN_MODEL=ollama:qwen3:8b DORAN_LISTEN=127.0.0.1:8080 doran serve
doran serve --model ollama:qwen3:8b --listen 127.0.0.1:8080
```

설정마다 다음 순서로 가장 먼저 있는 값을 사용합니다.

1. 플래그
2. 환경 변수(빈 값은 없는 것으로 봅니다)
3. 설정 파일
4. 기본값

`doran config`는 모든 값과 그 출처를 보여 줍니다.

설정 파일은 다음 가운데 먼저 있는 하나만 읽습니다.

1. `--config 파일`
2. `DORAN_CONFIG`가 가리키는 파일
3. `./doran.toml`
4. `$XDG_CONFIG_HOME/doran/doran.toml`. 이 변수가 없으면 `~/.config/doran/doran.toml`
5. 데이터 디렉터리의 `doran.toml`

`doran models use ID`는 사용 중인 설정 파일에 모델을 기록합니다. 설정 파일이 없으면 데이터 디렉터리에 `doran.toml`을 만듭니다.
앞의 네 가지 가운데 하나라도 있으면 이 파일은 읽지 않습니다.

`--config`나 `DORAN_CONFIG`로 지정한 파일은 반드시 있어야 합니다. 알 수 없는 키는 오류입니다. 설정 파일 안의 상대 경로는 그 파일이 있는
디렉터리를 기준으로 합니다. 도구, MCP 서버, 모델, 에이전트는 같은 파일의 [테이블](tables.md)에 적습니다.

다음 환경 변수는 설정이 아니므로 설정 파일에 적지 않습니다.

| 변수 | 의미 |
|---|---|
| `DORAN_API_KEYS` | `doran keys`로 만든 키와 함께 서버가 받는 API 키. `이름=키`나 `이름@테넌트=키`를 쉼표나 공백으로 구분합니다. `이름:admin=키`는 관리자 키입니다. 키는 32자 이상입니다 |
| `DORAN_SHARED_KEY` | 모든 레플리카가 함께 쓰는 비밀 값. 32자 이상입니다 |
| `OPENAI_API_KEY` 등 | [모델 제공자](models.md)의 키 |

비밀 값은 컨테이너에서 하듯이 파일에서 읽을 수도 있습니다. 변수 이름에 `_FILE`을 붙이고 경로를 적습니다:
`DORAN_DATABASE_FILE=/run/secrets/database`. `DORAN_API_KEYS`, `DORAN_DATABASE`, `DORAN_OPENSEARCH`, `DORAN_SHARED_KEY`와 `_API_KEY`로 끝나는 변수에
쓸 수 있습니다.
"#;

#[test]
fn the_book_lists_every_setting() {
    expect_file!["../../../../docs/src/en/settings.md"].assert_eq(&settings_page(
        Language::English,
        ENGLISH_HEAD,
        ["in `doran.toml`", "environment", "flag", "default", "value"],
    ));
    expect_file!["../../../../docs/src/ko/settings.md"].assert_eq(&settings_page(
        Language::Korean,
        KOREAN_HEAD,
        ["`doran.toml`", "환경 변수", "플래그", "기본값", "값"],
    ));
}

fn settings_page(language: Language, head: &str, labels: [&str; 5]) -> String {
    let mut page = head.to_owned();
    for setting in SETTINGS {
        let about = language.pick(setting.ko, setting.en);
        let [key, env, flag, default, takes] = labels;
        let quote = if setting.kind.is_number() { "" } else { "\"" };
        writeln!(page, "\n## {}\n\n{about}\n", setting.key).expect("page");
        writeln!(page, "- {key}: `{} = {quote}{}{quote}`", setting.key, setting.default).expect("page");
        writeln!(page, "- {env}: `{}`", setting.env).expect("page");
        if let Some(name) = setting.flag {
            writeln!(page, "- {flag}: `{name}`").expect("page");
        }
        writeln!(page, "- {default}: `{}`", setting.default).expect("page");
        writeln!(page, "- {takes}: {}", setting.kind.expected_description().text(language)).expect("page");
    }
    page
}
