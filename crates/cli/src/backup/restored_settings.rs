//! The settings file of a backup, changed so that it does not lead out of the restored data directory.
//!
//! Paths in the data directory follow it. A path to anything else is replaced by the default, and what has no default
//! becomes a comment. Everything else in the file stays as it was. Addresses of PostgreSQL and OpenSearch stay too.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::{SettingsSurroundings, ThreadDatabase, free_thread_path, normalize};
use crate::config::is_encoder_path;
use crate::output::{BilingualMessage, bilingual};
use crate::secret::mask_url_password;

/// The settings for the restored directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RestoredSettings {
    pub(super) text: String,
    pub(super) changes: Vec<SettingChange>,
    /// The paths of databases of agents, in the data directory.
    pub(super) thread_databases: Vec<String>,
    /// The PostgreSQL and OpenSearch servers that the settings name, without passwords.
    pub(super) addresses: Vec<String>,
}

/// A setting that led out of the data directory, or named a place in it from outside.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SettingChange {
    key: String,
    was: String,
    /// The new value. Without one the lines are a comment.
    becomes: Option<String>,
}

impl SettingChange {
    pub(super) fn message(&self) -> BilingualMessage {
        let Self { key, was, becomes } = self;
        match becomes {
            Some(becomes) => bilingual!(
                "복원한 설정: `{key}`은(는) `{was}`였고, 이제 `{becomes}`입니다",
                "restored settings: `{key}` was `{was}` and is `{becomes}` now"
            ),
            None => bilingual!(
                "복원한 설정: `{key}`(`{was}`)은(는) 데이터 디렉터리 밖으로 이어지므로 주석으로 바꿨습니다",
                "restored settings: `{key}` (`{was}`) leads out of the data directory and is a comment now"
            ),
        }
    }
}

/// The same settings for another data directory. `None` if the text cannot be changed safely.
pub(super) fn for_restored_directory(
    text: &str,
    surroundings: Option<&SettingsSurroundings>,
    thread_databases: &[ThreadDatabase],
) -> Option<RestoredSettings> {
    // Without knowing where the file was, a relative path is taken to start in the data directory.
    let unknown = SettingsSurroundings { folder: "/data".into(), data_dir: "/data".into(), home: None };
    let mut change = SettingsEdit {
        text,
        from: surroundings.unwrap_or(&unknown),
        known: thread_databases,
        expected: text.parse().ok()?,
        edits: Vec::new(),
        changes: Vec::new(),
        thread_databases: Vec::new(),
    };
    let spans = DeTable::parse(text).ok()?;
    change.walk(spans.get_ref(), &mut Vec::new())?;
    let (mut expected, mut edits) = (change.expected, change.edits);
    edits.sort_by_key(|(range, _)| range.start);
    let mut changed = text.to_owned();
    for (range, new) in edits.into_iter().rev() {
        changed.get(range.clone())?;
        changed.replace_range(range, &new);
    }
    if !expected.contains_key("data_dir") {
        expected.insert("data_dir".to_owned(), Value::from("."));
        changed.insert_str(0, "data_dir = \".\"\n");
    }
    // Whatever the text looked like: nothing but these values is another one.
    let mut found: Table = changed.parse().ok()?;
    for table in [&mut found, &mut expected] {
        drop_empty_tables(table);
    }
    if found != expected {
        return None;
    }
    Some(RestoredSettings {
        text: changed,
        changes: change.changes,
        thread_databases: change.thread_databases,
        addresses: addresses(&found),
    })
}

/// The servers that the settings name.
fn addresses(settings: &Table) -> Vec<String> {
    let keys = ["database", "opensearch", "opensearch_url"].into_iter();
    let named = keys.filter_map(|key| settings.get(key)?.as_str());
    named.filter(|text| text.contains("://")).map(mask_url_password).collect()
}

fn drop_empty_tables(table: &mut Table) {
    table.retain(|_, value| match value {
        Value::Table(inner) => {
            drop_empty_tables(inner);
            !inner.is_empty()
        }
        _ => true,
    });
}

struct SettingsEdit<'a> {
    text: &'a str,
    from: &'a SettingsSurroundings,
    known: &'a [ThreadDatabase],
    /// What the changed text must say.
    expected: Table,
    edits: Vec<(Range<usize>, String)>,
    changes: Vec<SettingChange>,
    thread_databases: Vec<String>,
}

/// A step of the way to a value: a key, or the number of a table in a list of them.
#[derive(Clone, Debug)]
enum ValueStep {
    Key(String),
    Index(usize),
}

impl fmt::Display for ValueStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => f.write_str(key),
            Self::Index(at) => write!(f, "{}", at + 1),
        }
    }
}

impl SettingsEdit<'_> {
    fn walk(&mut self, table: &DeTable<'_>, way: &mut Vec<ValueStep>) -> Option<()> {
        for (key, value) in table {
            way.push(ValueStep::Key(key.get_ref().to_string()));
            self.look_at(key.span(), value.span(), value.get_ref(), way)?;
            way.pop();
        }
        Some(())
    }

    fn look_at(
        &mut self,
        key: Range<usize>,
        span: Range<usize>,
        value: &DeValue<'_>,
        way: &mut Vec<ValueStep>,
    ) -> Option<()> {
        let shown: Vec<String> = way.iter().map(ToString::to_string).collect();
        let steps: Vec<&str> = shown.iter().map(String::as_str).collect();
        match value {
            DeValue::String(text) => {
                let becomes = match steps[..] {
                    ["data_dir"] => Some(".".to_owned()),
                    ["database"] if !is_server(text) => Some("sqlite".to_owned()),
                    ["index_path"] if text != "auto" => Some(self.path_or(text, "auto")),
                    ["encoder"] if is_encoder_path(text) => Some(self.path_or(text, "built-in")),
                    ["agents" | "assistants" | "graphs", .., "checkpoint_db_path"] => {
                        Some(self.thread_database(text))
                    }
                    _ => None,
                };
                if let Some(becomes) = becomes.filter(|becomes| becomes != text) {
                    self.replace(way, span.clone(), text, becomes)?;
                }
                if matches!(steps[..], ["tools", "read_roots", ..]) && self.inside(text).is_none() {
                    let was = text.to_string();
                    self.comment_out(way, key.start..span.end, was)?;
                }
                Some(())
            }
            // The program reads and writes where it likes.
            DeValue::Table(table) if matches!(steps[..], ["mcp", _]) && table.contains_key("command") => {
                let command = table.get("command").and_then(|command| command.get_ref().as_str());
                let was = command.unwrap_or_default().to_owned();
                let mut whole = key.start.min(span.start)..span.end;
                widen(&mut whole, table);
                self.comment_out(way, whole, was)
            }
            DeValue::Table(table) => self.walk(table, way),
            DeValue::Array(values) => {
                for (at, value) in values.iter().enumerate() {
                    way.push(ValueStep::Index(at));
                    self.look_at(key.clone(), value.span(), value.get_ref(), way)?;
                    way.pop();
                }
                Some(())
            }
            _ => Some(()),
        }
    }

    fn replace(&mut self, way: &[ValueStep], span: Range<usize>, was: &str, becomes: String) -> Option<()> {
        *value_at(&mut self.expected, way)? = Value::from(becomes.as_str());
        self.edits.push((span, Value::from(becomes.as_str()).to_string()));
        self.changes.push(SettingChange { key: shown_way(way), was: was.to_owned(), becomes: Some(becomes) });
        Some(())
    }

    /// Makes a comment of whole lines.
    fn comment_out(&mut self, way: &[ValueStep], range: Range<usize>, was: String) -> Option<()> {
        let start = self.text.get(..range.start)?.rfind('\n').map_or(0, |at| at + 1);
        let end = self.text.get(range.end..)?.find('\n').map_or(self.text.len(), |at| range.end + at);
        let commented: Vec<String> =
            self.text.get(start..end)?.split('\n').map(|line| format!("# {line}")).collect();
        self.edits.push((start..end, commented.join("\n")));
        let (last, parents) = way.split_last()?;
        let ValueStep::Key(key) = last else { return None };
        value_at(&mut self.expected, parents)?.as_table_mut()?.remove(key)?;
        self.changes.push(SettingChange { key: shown_way(way), was, becomes: None });
        Some(())
    }

    /// Where a path in the file led.
    fn resolve(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("~/") {
            Some(rest) => Some(normalize(&self.from.home.as_ref()?.join(rest))),
            None => Some(normalize(&self.from.folder.join(path))),
        }
    }

    /// The path from the data directory, if it led to something in it.
    fn inside(&self, path: &str) -> Option<String> {
        let resolved = self.resolve(path)?;
        let steps: Option<Vec<&str>> =
            resolved.strip_prefix(&self.from.data_dir).ok()?.iter().map(|step| step.to_str()).collect();
        steps.map(|steps| steps.join("/")).filter(|path| !path.is_empty())
    }

    fn path_or(&self, path: &str, default: &str) -> String {
        self.inside(path).unwrap_or_else(|| default.to_owned())
    }

    /// The place of the database of an agent.
    fn thread_database(&mut self, path: &str) -> String {
        let resolved = self.resolve(path);
        let known = self.known.iter().find(|one| resolved.as_ref() == Some(&one.was));
        let place = known.map(|one| one.path.clone()).or_else(|| self.inside(path));
        let place = place.unwrap_or_else(|| {
            // It did not exist, or the backup is of an older format.
            free_thread_path(Path::new(path), |path| {
                self.known.iter().any(|one| one.path == path)
                    || self.thread_databases.iter().any(|one| one == path)
            })
        });
        self.thread_databases.push(place.clone());
        place
    }
}

/// Whether `database` is the address of a server, or the usual file.
fn is_server(text: &str) -> bool {
    text == "sqlite" || text.starts_with("postgres")
}

/// Widens the range to everything in the table.
fn widen(range: &mut Range<usize>, table: &DeTable<'_>) {
    for (key, value) in table {
        range.end = range.end.max(value.span().end).max(key.span().end);
        if let DeValue::Table(inner) = value.get_ref() {
            widen(range, inner);
        }
    }
}

fn shown_way(way: &[ValueStep]) -> String {
    way.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

fn value_at<'a>(table: &'a mut Table, way: &[ValueStep]) -> Option<&'a mut Value> {
    let (first, rest) = way.split_first()?;
    let ValueStep::Key(key) = first else { return None };
    rest.iter().try_fold(table.get_mut(key)?, |value, step| match step {
        ValueStep::Key(key) => value.get_mut(key.as_str()),
        ValueStep::Index(at) => value.get_mut(*at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings() -> SettingsSurroundings {
        SettingsSurroundings {
            folder: "/etc/doran".into(),
            data_dir: "/var/lib/doran".into(),
            home: Some("/home/me".into()),
        }
    }

    fn check(text: &str, expected: &str) {
        let known = [
            ThreadDatabase {
                path: "threads/docqa.db".into(),
                was: "/etc/doran/docqa.db".into(),
                agents: vec!["docqa".into()],
            },
            ThreadDatabase {
                path: "react.db".into(),
                was: "/var/lib/doran/react.db".into(),
                agents: vec!["react".into()],
            },
        ];
        let restored = for_restored_directory(text, Some(&surroundings()), &known);
        assert_eq!(restored.expect("it can be changed").text, expected);
    }

    #[test]
    fn only_values_that_lead_elsewhere_change() {
        check("", "data_dir = \".\"\n");
        check(
            "# ours\nmodel = 'ollama:x' # good\ndata_dir = \"/var/lib/doran\" # here\n",
            "# ours\nmodel = 'ollama:x' # good\ndata_dir = \".\" # here\n",
        );
        check(
            "data_dir = '.'\ndatabase = \"sqlite:/srv/doran.db\"\nindex_path = \"\"\"\n/srv/index\"\"\"\nencoder = '/opt/encoder'\n",
            "data_dir = '.'\ndatabase = \"sqlite\"\nindex_path = \"auto\"\nencoder = \"built-in\"\n",
        );
        check(
            "data_dir = \"../../var/lib/doran\"\nindex_path = \"../../var/lib/doran/fast\"\n",
            "data_dir = \".\"\nindex_path = \"fast\"\n",
        );
        let same = "data_dir = \".\"\ndatabase = \"postgres://u:p@h/d\"\nopensearch = \"http://h:9200\"\nencoder = \"ollama:bge-m3\"\nindex_path = \"auto\"\n";
        check(same, same);
        check("data_dir = \".\"\nindex_path = \"~/index\"\n", "data_dir = \".\"\nindex_path = \"auto\"\n");
    }

    #[test]
    fn databases_of_agents_are_found_at_their_new_places() {
        check(
            "data_dir = \".\"\n[agents.docqa]\ncheckpoint_db_path = \"docqa.db\"\n[agents.react]\ncheckpoint_db_path = \"/var/lib/doran/react.db\"\n[assistants]\nhr = { ko = '인사', checkpoint_db_path = \"/gone/docqa.db\" }\n",
            "data_dir = \".\"\n[agents.docqa]\ncheckpoint_db_path = \"threads/docqa.db\"\n[agents.react]\ncheckpoint_db_path = \"react.db\"\n[assistants]\nhr = { ko = '인사', checkpoint_db_path = \"threads/2-docqa.db\" }\n",
        );
        check(
            "data_dir = \".\"\nagents.docqa.checkpoint_db_path = \"docqa.db\"\n",
            "data_dir = \".\"\nagents.docqa.checkpoint_db_path = \"threads/docqa.db\"\n",
        );
        check(
            "data_dir = \".\"\n[[graphs]]\nname = \"a\"\n[[graphs]]\nname = \"b\"\n[graphs.settings]\ncheckpoint_db_path = \"docqa.db\"\n",
            "data_dir = \".\"\n[[graphs]]\nname = \"a\"\n[[graphs]]\nname = \"b\"\n[graphs.settings]\ncheckpoint_db_path = \"threads/docqa.db\"\n",
        );
    }

    #[test]
    fn directories_and_programs_of_tools_become_comments() {
        check(
            "data_dir = \".\"\n[tools.read_roots]\npapers = \"/srv/papers\" # many\n# end\n",
            "data_dir = \".\"\n[tools.read_roots]\n# papers = \"/srv/papers\" # many\n# end\n",
        );
        check(
            "data_dir = \".\"\n[mcp.files]\ncommand = \"npx\"\nargs = [\n  \"/srv\",\n]\nenv = { A = \"$A\" }\n\n[mcp.web]\nurl = \"http://h\"\n",
            "data_dir = \".\"\n# [mcp.files]\n# command = \"npx\"\n# args = [\n#   \"/srv\",\n# ]\n# env = { A = \"$A\" }\n\n[mcp.web]\nurl = \"http://h\"\n",
        );
    }

    #[test]
    fn a_text_that_cannot_be_changed_safely_is_not_used() {
        let refused = |text: &str| for_restored_directory(text, Some(&surroundings()), &[]).is_none();
        assert!(refused("tools = { read_roots = { a = '/srv' }, time_zone = 'Asia/Seoul' }"));
        assert!(refused("not toml"));
    }

    #[test]
    fn without_surroundings_only_relative_paths_are_trusted() {
        let text = "data_dir = \"data\"\nindex_path = \"/var/lib/doran/x\"\n[agents.a]\ncheckpoint_db_path = \"a.db\"\n[agents.b]\ncheckpoint_db_path = \"../b.db\"\n";
        let restored = for_restored_directory(text, None, &[]).expect("it can be changed");
        assert_eq!(
            restored.text,
            "data_dir = \".\"\nindex_path = \"auto\"\n[agents.a]\ncheckpoint_db_path = \"a.db\"\n[agents.b]\ncheckpoint_db_path = \"threads/b.db\"\n"
        );
        assert_eq!(restored.thread_databases, ["a.db", "threads/b.db"]);
    }

    #[test]
    fn addresses_are_named_without_passwords() {
        let text = "database = \"postgres://u:hunter2@h/d\"\nopensearch_url = \"https://h:9200\"\n";
        let restored = for_restored_directory(text, None, &[]).expect("it can be changed");
        assert_eq!(restored.addresses, ["postgres://u:***@h/d", "https://h:9200"]);
    }
}
