//! The surroundings of the process, read once, so that everything else is a function of them.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::Read;
use std::path::PathBuf;

use doran_retrieval::Language;

use crate::output::{BilingualMessage, bilingual};

/// What the name of a variable ends with if its value is a path, and the file has the value.
const FILE_SUFFIX: &str = "_FILE";

/// The most bytes of such a file.
const MAX_VALUE_FILE_BYTES: u64 = 64 << 10;

/// Environment variables and the working directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    /// The names of variables whose values are not UTF-8.
    unreadable: BTreeSet<String>,
    /// Where relative paths start.
    pub(crate) directory: PathBuf,
}

impl Environment {
    /// Those of this process. A variable of ours that is not UTF-8 is an error; others are one when they are read
    /// ([`Environment::check_readable`]).
    pub(crate) fn from_process() -> Result<Self, BilingualMessage> {
        let (mut variables, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
        for (name, value) in env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            match value.into_string() {
                Ok(value) => drop(variables.insert(name, value)),
                Err(_) if name.starts_with("DORAN_") => return Err(not_utf8_error(&name)),
                Err(_) => drop(unreadable.insert(name)),
            }
        }
        let directory = env::current_dir().map_err(|error| {
            bilingual!("현재 디렉터리를 알 수 없습니다", "the working directory is unknown").with_cause(error)
        })?;
        let mut environment = Self { variables, unreadable, directory };
        environment.read_value_files()?;
        Ok(environment)
    }

    /// Sets secret variables from files: `DORAN_DATABASE_FILE=/run/secrets/database` sets `DORAN_DATABASE`. Containers
    /// are given secrets in this way.
    fn read_value_files(&mut self) -> Result<(), BilingualMessage> {
        let names: Vec<String> =
            self.variables.keys().filter(|name| self.is_read_from_file(name)).cloned().collect();
        for name in names {
            let path = self.directory.join(self.variables.get(&name).map_or("", String::as_str));
            let value = read_value_file(&path).map_err(|error| {
                let shown = path.display();
                bilingual!(
                    "환경 변수 `{name}`의 파일 `{shown}`을(를) 읽을 수 없습니다",
                    "cannot read the file `{shown}` that the variable `{name}` names"
                )
                .with_cause(error)
            })?;
            let target = name.strip_suffix(FILE_SUFFIX).unwrap_or(&name).to_owned();
            if self.get(&target).is_some() {
                return Err(bilingual!(
                    "환경 변수 `{target}`과 `{name}` 가운데 하나만 정하세요",
                    "set only one of the variables `{target}` and `{name}`"
                ));
            }
            self.variables.insert(target, value);
        }
        Ok(())
    }

    /// Whether this variable names the file of a secret.
    pub(crate) fn is_read_from_file(&self, name: &str) -> bool {
        const OWN: [&str; 4] = ["DORAN_API_KEYS", "DORAN_DATABASE", "DORAN_OPENSEARCH", "DORAN_SHARED_KEY"];
        let target = name.strip_suffix(FILE_SUFFIX).filter(|_| self.get(name).is_some());
        target.is_some_and(|target| OWN.contains(&target) || target.ends_with("_API_KEY"))
    }

    /// Surroundings made up for a test.
    #[cfg(test)]
    pub(crate) fn for_test(directory: impl Into<PathBuf>, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Self { variables, unreadable: BTreeSet::new(), directory: directory.into() }
    }

    /// The same with a variable whose value is not UTF-8.
    #[cfg(test)]
    pub(crate) fn with_unreadable(mut self, name: &str) -> Self {
        self.unreadable.insert(name.to_owned());
        self
    }

    /// An error if the value of a variable that is about to be read is not UTF-8, also of the one that names its file.
    pub(crate) fn check_readable(&self, name: &str) -> Result<(), BilingualMessage> {
        let file = format!("{name}{FILE_SUFFIX}");
        let found = [name, file.as_str()].into_iter().find(|name| self.unreadable.contains(*name));
        found.map_or(Ok(()), |name| Err(not_utf8_error(name)))
    }

    /// The same for all variables whose names start with this.
    pub(crate) fn check_readable_prefix(&self, prefix: &str) -> Result<(), BilingualMessage> {
        let found = self.unreadable.iter().find(|name| name.starts_with(prefix));
        found.map_or(Ok(()), |name| Err(not_utf8_error(name)))
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
    pub(crate) fn locale_language(&self) -> Language {
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].iter().find_map(|name| self.get(name));
        match locale {
            Some(locale) if locale.starts_with("ko") => Language::Korean,
            Some(_) | None => Language::English,
        }
    }
}

fn not_utf8_error(name: &str) -> BilingualMessage {
    bilingual!("환경 변수 `{name}`의 값이 UTF-8이 아닙니다", "the value of `{name}` is not UTF-8")
}

/// The text of a file, without the line break at its end.
fn read_value_file(path: &std::path::Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_VALUE_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;

    fn check(variables: &[(&str, &str)], expected: Language) {
        assert_eq!(Environment::for_test("/", variables).locale_language(), expected, "{variables:?}");
    }

    #[test]
    fn a_secret_may_be_in_a_file() {
        let scratch = TestDirectory::new();
        std::fs::write(scratch.path().join("url"), "postgres://u:p@h/d\n").expect("write");
        let read = |variables: &[(&str, &str)]| {
            let mut environment = Environment::for_test(scratch.path(), variables);
            environment.read_value_files().map(|()| environment)
        };
        let found = read(&[("DORAN_DATABASE_FILE", "url"), ("DORAN_LOG_FILE", "url")]).expect("read");
        assert_eq!(found.get("DORAN_DATABASE"), Some("postgres://u:p@h/d"));
        assert_eq!(found.get("DORAN_LOG"), None, "a log filter is no secret");
        let both = read(&[("DORAN_DATABASE_FILE", "url"), ("DORAN_DATABASE", "sqlite")]).expect_err("both");
        assert!(both.en.contains("only one of"), "{both}");
        let missing = read(&[("OPENAI_API_KEY_FILE", "none")]).expect_err("no file");
        assert!(missing.en.contains("OPENAI_API_KEY_FILE"), "{missing}");
    }

    #[test]
    fn the_language_follows_the_locale() {
        check(&[], Language::English);
        check(&[("LANG", "ko_KR.UTF-8")], Language::Korean);
        check(&[("LANG", "ko_KR.UTF-8"), ("LC_ALL", "C")], Language::English);
        check(&[("LANG", "en_US.UTF-8"), ("LC_ALL", ""), ("LC_MESSAGES", "ko_KR")], Language::Korean);
    }
}
