//! Downloads files from a package index over HTTP, with limits and progress reports.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;

use super::install::PackageFetcher;
use crate::http::install_tls_provider;

/// The timeout for a connection and for each further chunk.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum number of redirects.
const MAX_REDIRECTS: usize = 5;

/// Called with the number of bytes received and the total, if that is known.
pub type DownloadProgressFn = Box<dyn Fn(u64, Option<u64>) + Send + Sync>;

/// A client for one package index. It uses the proxies of the environment.
pub struct PackageIndexClient {
    client: reqwest::Client,
    index: Url,
    progress: DownloadProgressFn,
}

impl PackageIndexClient {
    /// Creates a client for the index with this base URL. `certificates` are root certificates in PEM beside those of
    /// the system. A user name and password in the URL are sent only to its host.
    pub fn new(index: &str, certificates: &[Vec<u8>], progress: DownloadProgressFn) -> Result<Self, String> {
        install_tls_provider();
        let address = Url::parse(index)
            .map_err(|error| format!("the address of the package index is not a URL: {error}"))?;
        let mut extra = Vec::new();
        for pem in certificates {
            extra.extend(reqwest::Certificate::from_pem_bundle(pem).map_err(|error| error.to_string())?);
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(DOWNLOAD_TIMEOUT)
            .read_timeout(DOWNLOAD_TIMEOUT)
            .redirect(reqwest::redirect::Policy::limited(MAX_REDIRECTS))
            .user_agent(concat!("doran/", env!("CARGO_PKG_VERSION")));
        builder = if index.starts_with("http://") && extra.is_empty() {
            // An index over plain HTTP needs no certificates. A link from it to HTTPS then fails with an error that
            // says so.
            builder
        } else {
            builder.tls_certs_merge(extra)
        };
        let client = builder.build().map_err(|error| innermost_error_message(&error))?;
        Ok(Self { client, index: address, progress })
    }

    /// Adds the credentials of the index to a URL on the same host.
    fn with_credentials(&self, mut url: Url) -> Url {
        let index = &self.index;
        let same = url.scheme() == index.scheme()
            && url.host_str() == index.host_str()
            && url.port_or_known_default() == index.port_or_known_default();
        if same && url.username().is_empty() && !index.username().is_empty() {
            let name = url.set_username(index.username());
            let password = url.set_password(index.password());
            if name.and(password).is_err() {
                tracing::debug!("cannot put user name and password into this URL");
            }
        }
        url
    }
}

#[async_trait]
impl PackageFetcher for PackageIndexClient {
    async fn fetch(&self, url: &str, max_bytes: usize) -> Result<Vec<u8>, String> {
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        let request = self.client.get(self.with_credentials(url));
        let lost = |error: reqwest::Error| innermost_error_message(&error.without_url());
        let mut response = request.send().await.map_err(lost)?;
        if !response.status().is_success() {
            return Err(format!("it answered {}", response.status()));
        }
        let total = response.content_length();
        let too_long = || format!("it has more than the {max_bytes} bytes that are expected");
        if total.is_some_and(|total| total > max_bytes as u64) {
            return Err(too_long());
        }
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(lost)? {
            if body.len() + piece.len() > max_bytes {
                return Err(too_long());
            }
            body.extend_from_slice(&piece);
            (self.progress)(body.len() as u64, total);
        }
        Ok(body)
    }
}

/// Returns the message of the innermost error, which is the most specific.
fn innermost_error_message(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(deeper) = deepest.source() {
        deepest = deeper;
    }
    deepest.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_whose_address_is_no_url_is_refused() {
        let open = |index: &str| PackageIndexClient::new(index, &[], Box::new(|_, _| {})).err();
        assert_eq!(open("http://user:word@localhost/simple/"), None);
        let error = open("localhost simple").expect("refused");
        assert!(error.starts_with("the address of the package index is not a URL"), "{error}");
    }
}
