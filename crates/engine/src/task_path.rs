//! Names of tasks, of what they record, and of what they ask. The text forms are stored: they never change.
//!
//! | text | is |
//! |---|---|
//! | `3.0` | the first task of step 3 |
//! | `3.0/1.2` | the third task of step 1 of the graph inside that task |
//! | `=`, `spent`, `booked`, `break` | records of the engine itself |
//! | `mail#0` | the first call of a task under the name `mail` |
//! | `mail#0+` | the same call, made or asked for once more |
//! | `mail#0?` | the question whether that call happened |
//! | `3.0:mail#0?` | that question, as people name it in an answer |

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Which task of a run: a step and the place in it, and so on inward through subgraphs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TaskPath(String);

/// A text that is no [`TaskPath`] or no name of a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a task or a question")]
pub struct InvalidTaskPath(String);

impl TaskPath {
    /// The task at this place of a step of the outermost graph.
    pub(crate) fn outermost(step: u32, place: usize) -> Self {
        Self(format!("{step}.{place}"))
    }

    /// The task at this place of a step of the graph inside this task.
    pub(crate) fn inside(&self, step: u32, place: usize) -> Self {
        Self(format!("{}/{step}.{place}", self.0))
    }

    /// The stored form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a task of a graph inside the task `outer`.
    pub(crate) fn is_inside(&self, outer: &Self) -> bool {
        self.0.strip_prefix(outer.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Whether it is a task of a graph inside another task.
    pub(crate) fn is_inner(&self) -> bool {
        self.0.contains('/')
    }

    /// The tasks around it, the outermost first.
    pub(crate) fn outer_paths(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.match_indices('/').map(|(end, _)| Self(self.0[..end].to_owned()))
    }
}

impl fmt::Display for TaskPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TaskPath {
    type Err = InvalidTaskPath;

    fn from_str(text: &str) -> Result<Self, InvalidTaskPath> {
        let is_task = |part: &str| {
            part.split_once('.')
                .is_some_and(|(step, place)| is_number::<u32>(step) && is_number::<usize>(place))
        };
        if text.split('/').all(is_task) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidTaskPath(text.to_owned()))
        }
    }
}

/// Whether this is a number as `Display` writes it.
fn is_number<T: FromStr + fmt::Display>(text: &str) -> bool {
    text.parse::<T>().is_ok_and(|number| number.to_string() == text)
}

/// What a record of a task is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RecordKey {
    /// The result of a task that finished before its step did.
    TaskResult,
    /// The amounts that a task which did not finish counted, and the row of the run counts too.
    SpentUsage,
    /// The row of the run counts what the recorded result spent.
    BookedUsage,
    /// The answer to a breakpoint.
    Breakpoint,
    /// A call, or a question about one.
    Call(CallKey),
}

/// One call of a task. Reserved keys hold no `#`, so no call has one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    /// As the node calls it.
    pub name: String,
    /// Which use of that name.
    pub nth: u32,
    /// How often it was asked for again.
    pub repeats: u32,
    /// Whether this is the question if the call happened.
    pub asks_outcome: bool,
}

impl CallKey {
    /// The name of questions to people.
    pub(crate) const ASK: &str = "ask";
    /// The name of sleeps.
    pub(crate) const SLEEP: &str = "sleep";
    /// The name of looks at the clock.
    pub(crate) const NOW: &str = "now";

    pub(crate) fn new(name: &str, nth: u32) -> Self {
        Self { name: name.to_owned(), nth, repeats: 0, asks_outcome: false }
    }

    /// The question whether this call happened.
    pub(crate) fn outcome_question(&self) -> Self {
        Self { asks_outcome: true, ..self.clone() }
    }
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.nth)?;
        (0..self.repeats).try_for_each(|_| f.write_str("+"))?;
        f.write_str(if self.asks_outcome { "?" } else { "" })
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TaskResult => f.write_str("="),
            Self::SpentUsage => f.write_str("spent"),
            Self::BookedUsage => f.write_str("booked"),
            Self::Breakpoint => f.write_str("break"),
            Self::Call(call) => call.fmt(f),
        }
    }
}

impl FromStr for RecordKey {
    type Err = InvalidTaskPath;

    fn from_str(text: &str) -> Result<Self, InvalidTaskPath> {
        let invalid = || InvalidTaskPath(text.to_owned());
        Ok(match text {
            "=" => Self::TaskResult,
            "spent" => Self::SpentUsage,
            "booked" => Self::BookedUsage,
            "break" => Self::Breakpoint,
            _ => {
                let (name, rest) = text.rsplit_once('#').ok_or_else(invalid)?;
                let (rest, asks_outcome) = match rest.strip_suffix('?') {
                    Some(rest) => (rest, true),
                    None => (rest, false),
                };
                let nth = rest.trim_end_matches('+');
                let repeats = u32::try_from(rest.len() - nth.len()).map_err(|_| invalid())?;
                if !is_number::<u32>(nth) {
                    return Err(invalid());
                }
                let nth = nth.parse().map_err(|_| invalid())?;
                Self::Call(CallKey { name: name.to_owned(), nth, repeats, asks_outcome })
            }
        })
    }
}

/// Names a question of a run: the task that asks, and its record that takes the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuestionId {
    pub path: TaskPath,
    pub key: RecordKey,
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.key)
    }
}

impl FromStr for QuestionId {
    type Err = InvalidTaskPath;

    fn from_str(text: &str) -> Result<Self, InvalidTaskPath> {
        let (path, key) = text.split_once(':').ok_or_else(|| InvalidTaskPath(text.to_owned()))?;
        Ok(Self { path: path.parse()?, key: key.parse()? })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_path_reads_back_as_it_is_written() {
        let outer = TaskPath::outermost(3, 0);
        let inner = outer.inside(1, 2);
        assert_eq!((outer.as_str(), inner.as_str()), ("3.0", "3.0/1.2"));
        for path in [&outer, &inner] {
            assert_eq!(path.as_str().parse::<TaskPath>().as_ref(), Ok(path));
        }
        for text in ["", "3", "3.", ".0", "3.0/", "/3.0", "3.0/x.1", "3.00", "+3.0", "3.0:", "-1.0"] {
            assert!(text.parse::<TaskPath>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_task_is_inside_those_around_it_and_no_other() {
        let outer = TaskPath::outermost(3, 0);
        let deep = outer.inside(1, 2).inside(0, 0);
        let around: Vec<String> = deep.outer_paths().map(|path| path.to_string()).collect();
        assert_eq!(around, ["3.0", "3.0/1.2"]);
        assert!(deep.is_inside(&outer) && deep.is_inner() && !outer.is_inner());
        assert!(!outer.is_inside(&outer));
        assert!(!TaskPath::outermost(3, 10).inside(0, 0).is_inside(&TaskPath::outermost(3, 1)));
    }

    #[test]
    fn a_key_reads_back_as_it_is_written() {
        let call = |name: &str, nth, repeats, asks_outcome| {
            RecordKey::Call(CallKey { name: name.to_owned(), nth, repeats, asks_outcome })
        };
        let keys = [
            (RecordKey::TaskResult, "="),
            (RecordKey::SpentUsage, "spent"),
            (RecordKey::BookedUsage, "booked"),
            (RecordKey::Breakpoint, "break"),
            (call("mail", 0, 0, false), "mail#0"),
            (call("mail", 12, 2, false), "mail#12++"),
            (call("mail", 0, 1, true), "mail#0+?"),
            (call("a#1+?:b", 3, 0, true), "a#1+?:b#3?"),
            (call("", 0, 0, false), "#0"),
        ];
        for (key, text) in keys {
            assert_eq!(key.to_string(), text);
            assert_eq!(text.parse::<RecordKey>().as_ref(), Ok(&key));
            let id = QuestionId { path: TaskPath::outermost(3, 0).inside(1, 2), key };
            assert_eq!(id.to_string(), format!("3.0/1.2:{text}"));
            assert_eq!(id.to_string().parse::<QuestionId>().as_ref(), Ok(&id));
        }
        for text in ["", "done", "mail", "mail#", "mail#x", "mail#0?+", "mail#0??", "mail#01"] {
            assert!(text.parse::<RecordKey>().is_err(), "{text}");
        }
        for text in ["3.0", "mail#0", ":mail#0", "x:mail#0", "3.0:mail"] {
            assert!(text.parse::<QuestionId>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_question_about_a_call_has_a_key_of_its_own() {
        let key = CallKey::new("mail", 0);
        assert_eq!(key.outcome_question().to_string(), "mail#0?");
        let again = CallKey { repeats: 1, ..key };
        assert_eq!(again.outcome_question().to_string(), "mail#0+?");
    }
}
