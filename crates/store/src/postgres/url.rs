//! Parses database URLs and sets the session settings of every connection. Error messages contain no part of the URL
//! except the schema name, because the rest may contain the password.

use std::path::PathBuf;
use std::time::Duration;

use doran_engine::store::StoreError;
use tokio_postgres::Config;

use super::PostgresOptions;
use super::error::configuration_error;
use super::tls::{PostgresTls, TlsRequirement};

/// The schema to use if the URL names none.
const DEFAULT_SCHEMA: &str = "doran";

/// A database and a schema in it.
#[derive(Clone)]
pub(super) struct PostgresTarget {
    /// Includes the session settings, in `options`.
    pub config: Config,
    pub tls: PostgresTls,
    /// Letters, digits and underscores only.
    pub schema: String,
}

impl PostgresTarget {
    pub(super) fn parse(options: &PostgresOptions) -> Result<Self, StoreError> {
        // A password may contain a question mark, so the query is searched after the `@`.
        let behind = options.url.find('@').unwrap_or(0);
        let mark = options.url[behind..].find('?').map_or(options.url.len(), |at| behind + at);
        let (address, query) = options.url.split_at(mark);
        let query = query.trim_start_matches('?');
        if !address.starts_with("postgres://") && !address.starts_with("postgresql://") {
            return Err(configuration_error(URL_FORMAT_MESSAGE));
        }
        let mut schema = DEFAULT_SCHEMA.to_owned();
        let (mut checks, mut roots) = (false, None);
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("schema", name)) => schema = check_schema_name(name)?,
                Some(("sslmode", "disable" | "allow" | "prefer")) => checks = false,
                Some(("sslmode", "require" | "verify-ca" | "verify-full")) => checks = true,
                Some(("sslmode", _)) => {
                    return Err(configuration_error(
                        "`sslmode` is `disable`, or `verify-full` (also spelt `require` or `verify-ca`)",
                    ));
                }
                Some(("sslrootcert", name)) => roots = Some(decode_path(name)?),
                Some(_) => rest.push(pair),
                None => return Err(configuration_error(URL_FORMAT_MESSAGE)),
            }
        }
        let plain =
            if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) };
        let mut config: Config = plain.parse().map_err(|_| configuration_error(URL_FORMAT_MESSAGE))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(configuration_error(URL_FORMAT_MESSAGE));
        }
        if config.get_application_name().is_none() {
            config.application_name("doran");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.connect_timeout);
        }
        let tls = PostgresTls::new(&if checks {
            TlsRequirement::VerifyCertificate(roots)
        } else {
            TlsRequirement::Disabled
        })?;
        config
            .ssl_mode(tls.ssl_mode())
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(3))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(10));

        let mut target = Self { config, tls, schema };
        target.set_session_option("search_path", &target.schema.clone());
        target.set_session_option("statement_timeout", &options.statement_timeout.as_millis().to_string());
        target.set_session_option("lock_timeout", &(options.statement_timeout / 2).as_millis().to_string());
        target.set_session_option("idle_in_transaction_session_timeout", "10000");
        // All queries look up rows by key. A plan made while a table was empty must still use the indexes later.
        target.set_session_option("plan_cache_mode", "force_generic_plan");
        for other in ["seqscan", "hashjoin", "mergejoin", "material"] {
            target.set_session_option(&format!("enable_{other}"), "off");
        }
        target.set_session_option("jit", "off");
        Ok(target)
    }

    /// Adds a session setting. `value` must be a plain word or number.
    pub(super) fn set_session_option(&mut self, name: &str, value: &str) {
        let before = self.config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        self.config.options(format!("{before}-c {name}={value}"));
    }
}

const URL_FORMAT_MESSAGE: &str =
    "the database URL is not of the form `postgres://user:password@host:port/database?schema=name`";

fn decode_path(value: &str) -> Result<PathBuf, StoreError> {
    let decoded = percent_encoding::percent_decode_str(value).decode_utf8();
    decoded.map(|path| PathBuf::from(&*path)).map_err(|_| configuration_error(URL_FORMAT_MESSAGE))
}

/// Schema names are put into SQL without quoting, so only plain names are accepted.
fn check_schema_name(name: &str) -> Result<String, StoreError> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if !begins || name.len() > 63 || !name.chars().all(plain) || name.starts_with("pg_") {
        return Err(configuration_error("a schema is named with 1 to 63 of `a-z 0-9 _`, and not `pg_…`"));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::SslMode;

    use super::*;

    fn parse(url: &str) -> Result<PostgresTarget, String> {
        PostgresTarget::parse(&PostgresOptions::new(url)).map_err(|error| format!("{error:?} {error}"))
    }

    #[test]
    fn a_url_names_user_host_database_and_schema() {
        let target =
            parse("postgres://u:p%40ss@db.example:6432/chat?schema=team_1&sslmode=prefer").expect("url");
        assert_eq!(target.schema, "team_1");
        assert_eq!(target.config.get_user(), Some("u"));
        assert_eq!(target.config.get_password(), Some(&b"p@ss"[..]));
        assert_eq!(target.config.get_dbname(), Some("chat"));
        assert_eq!(target.config.get_ports(), [6432]);
        assert_eq!(target.config.get_application_name(), Some("doran"));
        assert_eq!(parse("postgres://u@h/d").expect("url").schema, "doran");
        let target = parse("postgres://u:x?schema=y@h/d?schema=z").expect("url");
        assert_eq!((target.schema.as_str(), target.config.get_password()), ("z", Some(&b"x?schema=y"[..])));
    }

    #[test]
    fn a_socket_is_a_folder() {
        for url in ["postgres://u@%2Ftmp%2Fpg/d", "postgres:///d?host=/tmp/pg&user=u"] {
            let target = parse(url).expect(url);
            let expected = [tokio_postgres::config::Host::Unix("/tmp/pg".into())];
            assert_eq!(target.config.get_hosts(), expected);
        }
    }

    #[test]
    fn a_url_that_asks_for_tls_gets_it_or_is_refused_in_words() {
        let folder = tempfile::tempdir().expect("folder");
        let (empty, missing) = (folder.path().join("empty.pem"), folder.path().join("no file.pem"));
        std::fs::write(&empty, "").expect("write");
        for (file, says) in [(&empty, "holds none"), (&missing, "PEM certificates")] {
            let file = file.display().to_string().replace(' ', "%20");
            let url = format!("postgres://u:hunter2@h/d?sslmode=verify-full&sslrootcert={file}");
            let error = parse(&url).err().expect("refused");
            assert!(error.contains(says), "{error}");
        }
        for mode in ["disable", "prefer"] {
            let target = parse(&format!("postgres://u@h/d?sslmode={mode}")).expect("url");
            assert_eq!(target.config.get_ssl_mode(), SslMode::Disable);
        }
        assert!(parse("postgres://u@h/d?sslmode=perhaps").err().expect("refused").contains("verify-full"));
    }

    #[test]
    fn a_schema_is_a_plain_name() {
        for name in ["", "A", "a-b", "a;drop", "1a", "pg_catalog", &"a".repeat(64)] {
            assert!(parse(&format!("postgres://u@h/d?schema={name}")).is_err(), "{name}");
        }
    }

    #[test]
    fn no_message_repeats_the_password() {
        for url in [
            "postgres://u:hunter2@h:notaport/d",
            "postgres://u:x?hunter2=1",
            "postgres://u:x?hunter2",
            "postgres://u:hunter2",
            "mysql://u:hunter2@h/d",
            "postgres://u:hunter2@h/d?schema=-",
            "postgres://u:%hunter2@h/d?nonsense=1",
        ] {
            let error = parse(url).err().expect(url);
            assert!(!error.contains("hunter2"), "{error}");
        }
        let options = PostgresOptions::new("postgres://u:hunter2@h/d");
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
