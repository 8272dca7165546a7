//! Text that must not be seen.

use std::fmt;

/// A text that prints as `***` whichever way it is printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretText(String);

impl SecretText {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl<'de> serde::Deserialize<'de> for SecretText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A URL with its password, in whichever place it may stand, as `***`. What does not look like a URL is hidden whole.
pub(crate) fn mask_url_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".into() };
    // A `?` before an `@` may belong to a password or to a query; it is unknown where the secret ends.
    if rest.rfind('@').is_some_and(|at| rest[..at].contains('?')) {
        return format!("{scheme}://***");
    }
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (rest, None),
    };
    // The last `@` parts the login from the host: a password may itself hold one.
    let place = match place.rsplit_once('@') {
        Some((login, host)) => match login.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => format!("{login}@{host}"),
        },
        None => place.to_owned(),
    };
    let query = query.map(|query| {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) if name.to_lowercase().contains("password") => format!("{name}=***"),
            Some(_) | None => pair.to_owned(),
        });
        format!("?{}", pairs.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{place}{}", query.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        assert_eq!(mask_url_password(url), expected);
    }

    #[test]
    fn a_secret_prints_nothing() {
        let secret = SecretText::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:#?}", Some(&secret)).matches("hunter2").count(), 0);
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn a_password_is_hidden_wherever_it_stands() {
        check("postgres://u:p@h:5432/d", "postgres://u:***@h:5432/d");
        check("postgres://u:p@:x@h/d?sslmode=off", "postgres://u:***@h/d?sslmode=off");
        check("postgres://u:p@:/?@h/d?sslmode=off", "postgres://***");
        check("postgres://h:1/d?password=a@b", "postgres://***");
        check("postgres://h/d?user=u&password=p&x=1", "postgres://h/d?user=u&password=***&x=1");
        check("postgres://u@h/d", "postgres://u@h/d");
        check("hunter2", "***");
    }
}
