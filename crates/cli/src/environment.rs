//! The surroundings of the process, read once, so that everything else is a function of them.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use crate::output::{Both, Language, both};

/// Environment variables and the working directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    /// Where relative paths start.
    pub(crate) directory: PathBuf,
}

impl Environment {
    /// Those of this process. A variable of ours that is not UTF-8 is an error; others are none of our business.
    pub(crate) fn of_process() -> Result<Self, Both> {
        let mut variables = BTreeMap::new();
        for (name, value) in env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            match value.into_string() {
                Ok(value) => drop(variables.insert(name, value)),
                Err(_) if name.starts_with("DORAN_") => {
                    return Err(both!(
                        "환경 변수 `{name}`의 값이 UTF-8이 아닙니다",
                        "the value of `{name}` is not UTF-8"
                    ));
                }
                Err(_) => {}
            }
        }
        let directory = env::current_dir().map_err(|error| {
            both!("현재 디렉터리를 알 수 없습니다", "the working directory is unknown").because(error)
        })?;
        Ok(Self { variables, directory })
    }

    /// Surroundings made up for a test.
    #[cfg(test)]
    pub(crate) fn of(directory: impl Into<PathBuf>, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Self { variables, directory: directory.into() }
    }

    /// The value of a variable; an empty one counts as unset, as shells make it easy to write `X= doran`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The names of the variables that are set.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// The home directory.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.get("HOME").or_else(|| self.get("USERPROFILE")).map(PathBuf::from)
    }

    /// The language of the locale.
    pub(crate) fn language(&self) -> Language {
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().find_map(|name| self.get(name));
        match locale {
            Some(locale) if locale.starts_with("ko") => Language::Korean,
            Some(_) | None => Language::English,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Language) {
        assert_eq!(Environment::of("/", variables).language(), expected, "{variables:?}");
    }

    #[test]
    fn the_language_follows_the_locale() {
        check(&[], Language::English);
        check(&[("LANG", "ko_KR.UTF-8")], Language::Korean);
        check(&[("LANG", "ko_KR.UTF-8"), ("LC_ALL", "C")], Language::English);
        check(&[("LANG", "en_US.UTF-8"), ("LC_ALL", ""), ("LC_MESSAGES", "ko_KR")], Language::Korean);
    }
}
