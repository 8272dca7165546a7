//! Reads `doran.toml`. Errors contain the file, the line and the key, but never the value, which may be a password.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::config_tables::{ConfigTables, TABLE_NAMES};
use super::setting_definitions::{SETTING_ALIASES, SETTINGS, Setting};
use crate::output::{BilingualMessage, bilingual};

/// The content of a file: checked values by key, as text, and the tables.
pub(super) type ParsedSettingsFile = (BTreeMap<&'static str, String>, ConfigTables);

/// Reads a settings file.
pub(super) fn read_settings_file(path: &Path) -> Result<ParsedSettingsFile, BilingualMessage> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        bilingual!("설정 파일 `{shown}`을(를) 읽을 수 없습니다", "cannot read the settings file `{shown}`")
            .with_cause(error)
    })?;
    parse_settings(&shown, &text)
}

fn parse_settings(path: &str, text: &str) -> Result<ParsedSettingsFile, BilingualMessage> {
    // The parser's report quotes the line, which may contain a password. Only its reason is used.
    let table = DeTable::parse(text).map_err(|error| {
        let line = line_number(text, error.span().map_or(0, |span| span.start));
        let reason = error.message();
        bilingual!(
            "{path} {line}번째 줄: TOML이 아닙니다: {reason}",
            "{path} line {line}: not TOML: {reason}"
        )
    })?;
    let mut values = BTreeMap::new();
    for (key, value) in table.get_ref() {
        if TABLE_NAMES.contains(&key.get_ref().as_ref()) {
            continue;
        }
        let setting = find_setting(path, text, key)?;
        let line = line_number(text, value.span().start);
        let value = plain_value_text(setting, path, line, value.get_ref())?;
        setting.validate(&value).map_err(|wrong| wrong.message_with_line(setting, path, line))?;
        if values.insert(setting.key, value).is_some() {
            let key = setting.key;
            return Err(bilingual!(
                "{path} {line}번째 줄: `{key}`을(를) 두 번 적었습니다",
                "{path} line {line}: `{key}` is set twice"
            ));
        }
    }
    let tables = ConfigTables::parse(text).map_err(|(at, BilingualMessage { ko, en, .. })| {
        let line = line_number(text, at);
        bilingual!("{path} {line}번째 줄: {ko}", "{path} line {line}: {en}")
    })?;
    Ok((values, tables))
}

fn find_setting(
    path: &str,
    text: &str,
    key: &toml::Spanned<toml::de::DeString<'_>>,
) -> Result<&'static Setting, BilingualMessage> {
    let name = key.get_ref().as_ref();
    let name = SETTING_ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, key)| key);
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.key == name) {
        return Ok(setting);
    }
    let line = line_number(text, key.span().start);
    let near = nearest_name(
        name,
        &SETTINGS.iter().map(|setting| setting.key).chain(TABLE_NAMES).collect::<Vec<_>>(),
    );
    Err(bilingual!(
        "{path} {line}번째 줄: `{name}`(이)라는 설정은 없습니다. 가장 비슷한 이름: `{near}`",
        "{path} line {line}: there is no setting `{name}`; the nearest is `{near}`"
    ))
}

fn plain_value_text(
    setting: &Setting,
    path: &str,
    line: usize,
    value: &DeValue<'_>,
) -> Result<String, BilingualMessage> {
    let key = setting.key;
    match (value, setting.kind.is_number()) {
        (DeValue::String(text), false) => Ok(text.to_string()),
        (DeValue::Integer(number), true) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        (_, true) => Err(bilingual!(
            "{path} {line}번째 줄: `{key}`에는 따옴표 없는 정수를 적으세요",
            "{path} line {line}: `{key}` must be a whole number without quotes"
        )),
        (_, false) => Err(bilingual!(
            "{path} {line}번째 줄: `{key}`에는 따옴표로 묶은 문자열을 적으세요",
            "{path} line {line}: `{key}` must be text in quotes"
        )),
    }
}

fn line_number(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The known name with the smallest edit distance.
pub(super) fn nearest_name<'a>(name: &str, known: &[&'a str]) -> &'a str {
    known.iter().copied().min_by_key(|candidate| strsim::levenshtein(name, candidate)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match parse_settings("doran.toml", text) {
            Ok((values, _)) => format!("{values:?}"),
            Err(error) => {
                assert!(!error.ko.is_empty() && !error.ko.contains("hunter2"), "{}", error.ko);
                error.en
            }
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_file_is_read_by_key() {
        check("", "{}");
        check("# note\nmax_steps = 5_0\nlog = 'info'", r#"{"log": "info", "max_steps": "50"}"#);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest() {
        check(
            "log = \"info\"\n\nlisten_ = 1",
            "doran.toml line 3: there is no setting `listen_`; the nearest is `listen`",
        );
        check(
            "[server]\nport = 1",
            "doran.toml line 1: there is no setting `server`; the nearest is `worker`",
        );
    }

    #[test]
    fn a_setting_may_have_another_name_but_only_one_value() {
        check("opensearch_url = 'http://h:9200'", r#"{"opensearch": "http://h:9200"}"#);
        check(
            "opensearch = 'http://h:9200'\nopensearch_url = 'http://h:9200'",
            "doran.toml line 2: `opensearch` is set twice",
        );
    }

    #[test]
    fn a_wrong_type_is_named_with_its_line() {
        check("\nmax_steps = \"5\"", "doran.toml line 2: `max_steps` must be a whole number without quotes");
        check("log = true", "doran.toml line 1: `log` must be text in quotes");
        check("model = [\"x\"]", "doran.toml line 1: `model` must be text in quotes");
        check(
            "max_steps = 0",
            "doran.toml line 1: the value of `max_steps` does not fit; it must be a whole number from 1 to 1000000",
        );
    }

    #[test]
    fn no_error_repeats_a_value() {
        check(
            "database = \"mysql://u:hunter2@h\"",
            "doran.toml line 1: the value of `database` does not fit; it must be one of `sqlite`, `sqlite:PATH`, `postgres://…`",
        );
        for text in [
            "log = \"a\"\ndatabase = \"postgres://u:hunter2@h",
            "database = hunter2",
            "database = \"hunter2\" x",
        ] {
            let error = parse_settings("doran.toml", text).expect_err("not TOML");
            assert!(!error.en.contains("hunter2") && error.en.contains("line"), "{error}");
        }
    }
}
