//! Connections with and without TLS.
//!
//! With TLS, the server's certificate and host name are always verified, because encryption without verification
//! gives little protection. The trusted roots are those of the operating system, or those in the file named by
//! `sslrootcert`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod};
use doran_engine::store::StoreError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::configuration_error;

/// The TLS mode that a URL asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum TlsRequirement {
    /// `sslmode=disable`. Also `allow` and `prefer`, which guarantee nothing.
    #[default]
    Disabled,
    /// `sslmode=require`, `verify-ca` or `verify-full`, with the file of `sslrootcert` if given.
    VerifyCertificate(Option<PathBuf>),
}

/// How connections are made.
#[derive(Clone)]
pub(super) enum PostgresTls {
    Disabled,
    VerifyCertificate(MakeRustlsConnect),
}

impl PostgresTls {
    pub(super) fn new(asked: &TlsRequirement) -> Result<Self, StoreError> {
        let TlsRequirement::VerifyCertificate(file) = asked else { return Ok(Self::Disabled) };
        let roots = match file {
            Some(file) => load_root_certificates(file)?,
            None => load_system_root_certificates()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| StoreError::Other(error.into()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self::VerifyCertificate(MakeRustlsConnect::new(config)))
    }

    /// The SSL mode of the PostgreSQL protocol.
    pub(super) fn ssl_mode(&self) -> SslMode {
        match self {
            Self::Disabled => SslMode::Disable,
            Self::VerifyCertificate(_) => SslMode::Require,
        }
    }

    pub(super) fn connection_manager(&self, config: &Config) -> Manager {
        let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        match self {
            Self::Disabled => Manager::from_config(config.clone(), NoTls, settings),
            Self::VerifyCertificate(tls) => Manager::from_config(config.clone(), tls.clone(), settings),
        }
    }

    /// Opens one connection outside the pool. Returns it with the task that drives it.
    pub(super) async fn connect(&self, config: &Config) -> Result<(Client, JoinHandle<()>), Error> {
        match self {
            Self::Disabled => {
                let (client, connection) = config.connect(NoTls).await?;
                Ok((client, tokio::spawn(drive_connection(connection))))
            }
            Self::VerifyCertificate(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                Ok((client, tokio::spawn(drive_connection(connection))))
            }
        }
    }
}

async fn drive_connection(connection: impl Future<Output = Result<(), Error>> + Send) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "the connection for migrations ended");
    }
}

/// Error messages do not contain the file name: in a malformed URL it may contain a part of the password.
fn load_root_certificates(file: &Path) -> Result<RootCertStore, StoreError> {
    let because = |error: &dyn std::fmt::Display| {
        StoreError::Other(format!("`sslrootcert` must name a file of PEM certificates: {error}").into())
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| because(&error))? {
        let certificate = certificate.map_err(|error| because(&error))?;
        roots.add(certificate).map_err(|error| because(&error))?;
    }
    if roots.is_empty() {
        return Err(because(&"it holds none"));
    }
    Ok(roots)
}

fn load_system_root_certificates() -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(configuration_error(
            "the system has no root certificates to check the database by: install them (Debian, Ubuntu: \
             `ca-certificates`) or name a file with `sslrootcert=…`",
        ));
    }
    Ok(roots)
}
