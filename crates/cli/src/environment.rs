//! The surroundings of the process, read once, so that everything else is a function of them.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use crate::output::{BilingualMessage, OutputLanguage, bilingual};

/// Environment variables and the working directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    /// Where relative paths start.
    pub(crate) directory: PathBuf,
}

impl Environment {
    /// Those of this process. A variable of ours that is not UTF-8 is an error; others are none of our business.
    pub(crate) fn from_process() -> Result<Self, BilingualMessage> {
        let mut variables = BTreeMap::new();
        for (name, value) in env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            match value.into_string() {
                Ok(value) => drop(variables.insert(name, value)),
                Err(_) if name.starts_with("DORAN_") => {
                    return Err(bilingual!(
                        "환경 변수 `{name}`의 값이 UTF-8이 아닙니다",
                        "the value of `{name}` is not UTF-8"
                    ));
                }
                Err(_) => {}
            }
        }
        let directory = env::current_dir().map_err(|error| {
            bilingual!("현재 디렉터리를 알 수 없습니다", "the working directory is unknown").with_cause(error)
        })?;
        Ok(Self { variables, directory })
    }

    /// Surroundings made up for a test.
    #[cfg(test)]
    pub(crate) fn for_test(directory: impl Into<PathBuf>, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Self { variables, directory: directory.into() }
    }

    /// The value of a variable; an empty one counts as unset, as shells make it easy to write `X= doran`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The names of the variables that are set.
    pub(crate) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// The home directory.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.get("HOME").or_else(|| self.get("USERPROFILE")).map(PathBuf::from)
    }

    /// The language of the locale.
    pub(crate) fn locale_language(&self) -> OutputLanguage {
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().find_map(|name| self.get(name));
        match locale {
            Some(locale) if locale.starts_with("ko") => OutputLanguage::Korean,
            Some(_) | None => OutputLanguage::English,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: OutputLanguage) {
        assert_eq!(Environment::for_test("/", variables).locale_language(), expected, "{variables:?}");
    }

    #[test]
    fn the_language_follows_the_locale() {
        check(&[], OutputLanguage::English);
        check(&[("LANG", "ko_KR.UTF-8")], OutputLanguage::Korean);
        check(&[("LANG", "ko_KR.UTF-8"), ("LC_ALL", "C")], OutputLanguage::English);
        check(&[("LANG", "en_US.UTF-8"), ("LC_ALL", ""), ("LC_MESSAGES", "ko_KR")], OutputLanguage::Korean);
    }
}
