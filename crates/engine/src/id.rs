//! Names of things: tenants, threads, runs. Each is a type of its own, checked where it enters the engine.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A name that breaks the rules of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a {what}: {rule}")]
pub struct InvalidId {
    what: &'static str,
    given: String,
    rule: &'static str,
}

/// Who owns a thread. Part of every key, so that nothing can be reached across tenants.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(Arc<str>);

/// A conversation, named by the caller or at random.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(Arc<str>);

/// One execution of a graph on a thread. Random, ordered by time of creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(Uuid);

impl TenantId {
    /// The tenant of a program that has only one.
    pub fn local() -> Self {
        Self(Arc::from("local"))
    }

    /// Accepts 1–64 characters of `A–Z a–z 0–9 . _ -`.
    pub fn new(name: &str) -> Result<Self, InvalidId> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        check_name("tenant", name, 64, plain, "use 1 to 64 letters, digits, dots, dashes or underscores")?;
        Ok(Self(Arc::from(name)))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ThreadId {
    /// Accepts 1–128 bytes without control characters.
    pub fn new(name: &str) -> Result<Self, InvalidId> {
        check_name(
            "thread id",
            name,
            128,
            |c| !c.is_control(),
            "use 1 to 128 bytes without control characters",
        )?;
        Ok(Self(Arc::from(name)))
    }

    /// A name nobody else has.
    pub fn random() -> Self {
        Self(Arc::from(Uuid::new_v4().to_string().as_str()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RunId {
    /// An id nobody else has.
    pub fn random() -> Self {
        Self(Uuid::now_v7())
    }

    /// The sixteen bytes of the id.
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }

    /// The id with these bytes.
    pub fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }
}

impl FromStr for RunId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        Uuid::parse_str(text).map(Self).map_err(|_| InvalidId {
            what: "run id",
            given: shorten(text),
            rule: "it is a UUID",
        })
    }
}

/// A thread of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadKey {
    /// The owner.
    pub tenant: TenantId,
    /// The conversation.
    pub thread: ThreadId,
}

/// A run of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The owner.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
}

impl ThreadKey {
    /// A thread of the only tenant of a small program.
    pub fn local(name: &str) -> Result<Self, InvalidId> {
        Ok(Self { tenant: TenantId::local(), thread: ThreadId::new(name)? })
    }

    /// The key of a run by the same owner.
    pub fn run(&self, run: RunId) -> RunKey {
        RunKey { tenant: self.tenant.clone(), run }
    }
}

fn check_name(
    what: &'static str,
    name: &str,
    most: usize,
    allowed: impl Fn(char) -> bool,
    rule: &'static str,
) -> Result<(), InvalidId> {
    if name.is_empty() || name.len() > most || !name.chars().all(allowed) {
        return Err(InvalidId { what, given: shorten(name), rule });
    }
    Ok(())
}

/// An error message repeats the start of what was given, never a megabyte of it.
fn shorten(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(40).collect()
}

macro_rules! text_id {
    ($id:ident) => {
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $id {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

text_id!(TenantId);
text_id!(ThreadId);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for ThreadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.thread)
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_where_they_enter() {
        assert!(TenantId::new("회사").is_err());
        assert!(TenantId::new("").is_err());
        assert!(TenantId::new("acme.kr-1").is_ok());
        assert!(ThreadId::new("대화 1").is_ok());
        assert!(ThreadId::new("a\nb").is_err());
        assert!(ThreadId::new(&"x".repeat(129)).is_err());
        assert!("not-a-uuid".parse::<RunId>().is_err());
    }

    #[test]
    fn run_ids_grow_with_time() {
        let (first, second) = (RunId::random(), RunId::random());
        assert!(first <= second);
        assert_eq!(first.to_string().parse::<RunId>(), Ok(first));
    }

    #[test]
    fn a_bad_name_is_shortened_in_its_error() {
        let error = ThreadId::new(&"x".repeat(5000)).expect_err("too long").to_string();
        assert!(error.len() < 200, "{error}");
    }
}
