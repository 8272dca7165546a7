//! The one way out: every tool that asks something of the internet asks through [`Egress`].
//!
//! A URL is parsed once. Its host is checked if it is an address; if it is a name, every address the name resolves to
//! is checked, and the connection is made to those addresses and no others, so a name that changes its mind in between
//! gains nothing. Redirects are not followed by the client underneath but here, each like a new request, without
//! credentials once the origin changes. Answers are read up to a size and within a time. They are requested uncompressed,
//! so nothing can unpack to more than it was. Proxies in the environment are ignored.

mod address;
mod error;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Certificate, Client, ClientBuilder, Method, Response, StatusCode, Url};
use serde_json::Value;

use super::ToolSecret;
pub(crate) use address::is_public;
pub use error::EgressError;

/// How often a request is made again when the server is busy.
const MAX_ATTEMPTS: u32 = 3;
/// The most redirects that are followed.
const MAX_REDIRECTS: usize = 3;
/// The longest wait between two tries.
const MAX_RETRY_WAIT: Duration = Duration::from_secs(2);

/// Where names lead.
#[async_trait]
pub trait HostLookup: Send + Sync + 'static {
    /// Every address of a host.
    async fn lookup(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Debug)]
pub struct SystemHostLookup;

#[async_trait]
impl HostLookup for SystemHostLookup {
    async fn lookup(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// What may be reached, and how much of it is read.
#[derive(Clone)]
pub struct EgressOptions {
    /// The ports that may be reached.
    pub ports: Vec<u16>,
    /// The most bytes of an answer.
    pub max_response_bytes: usize,
    /// The longest a request may take, redirects and repeated tries included.
    pub time: Duration,
    /// A proxy to go through. It then decides which addresses are reached.
    pub proxy: Option<String>,
    /// Certificates (PEM) that are trusted besides those of the system.
    pub extra_roots: Vec<Vec<u8>>,
    /// One address that may be reached although it is not public, for a server in a test. Nothing else
    /// sets it.
    pub test_server_address: Option<SocketAddr>,
    /// Where names lead.
    pub lookup: Arc<dyn HostLookup>,
}

impl Default for EgressOptions {
    fn default() -> Self {
        Self {
            ports: vec![80, 443],
            max_response_bytes: 2 * 1024 * 1024,
            time: Duration::from_secs(15),
            proxy: None,
            extra_roots: Vec::new(),
            test_server_address: None,
            lookup: Arc::new(SystemHostLookup),
        }
    }
}

/// The way out.
pub struct Egress {
    options: EgressOptions,
    /// For public addresses. Made when it is first needed: it reads all the certificates of the system.
    client: OnceLock<Client>,
    /// For the port of a server in a test.
    test_client: Option<Client>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressResponse {
    /// Where it came from in the end.
    pub url: String,
    /// What came.
    pub body: Vec<u8>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct EgressRequest {
    /// Where to.
    pub url: Url,
    /// JSON to send; without it the request is a GET.
    pub body: Option<Value>,
    /// Sent as `Authorization: Bearer …`, to the origin of `url` only.
    pub bearer: Option<ToolSecret>,
}

impl EgressRequest {
    /// Asks for `url`.
    pub fn get(url: Url) -> Self {
        Self { url, body: None, bearer: None }
    }
}

impl Egress {
    /// A way out with these options.
    pub fn new(options: EgressOptions) -> Result<Self, EgressError> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Somebody else may be faster; either provider will do.
            drop(rustls::crypto::ring::default_provider().install_default());
        }
        // Wrong options are an error now, not at the first request.
        drop(client_builder(&options, None)?);
        let test_client =
            options.test_server_address.map(|address| build_test_client(&options, address)).transpose()?;
        Ok(Self { options, client: OnceLock::new(), test_client })
    }

    /// Makes a request and reads its answer, again if the server is busy.
    pub async fn fetch(&self, request: &EgressRequest) -> Result<EgressResponse, EgressError> {
        let late = EgressError::TooSlow(self.options.time.as_secs());
        tokio::time::timeout(self.options.time, self.fetch_with_retries(request)).await.unwrap_or(Err(late))
    }

    /// Fetches JSON.
    pub async fn fetch_json(&self, request: &EgressRequest) -> Result<Value, EgressError> {
        let fetched = self.fetch(request).await?;
        serde_json::from_slice(&fetched.body).map_err(|_| EgressError::Unreadable("not JSON"))
    }

    async fn fetch_with_retries(&self, request: &EgressRequest) -> Result<EgressResponse, EgressError> {
        let mut tries = 1;
        loop {
            let error = match self.fetch_once(request).await {
                Ok(fetched) => return Ok(fetched),
                Err(error) => error,
            };
            let requested_wait = match &error {
                EgressError::Status { retry_after: Some(seconds), .. } => Duration::from_secs(*seconds),
                _ => Duration::from_millis(200) * tries,
            };
            if tries == MAX_ATTEMPTS || !error.is_retryable() || requested_wait > MAX_RETRY_WAIT {
                return Err(error);
            }
            tokio::time::sleep(requested_wait).await;
            tries += 1;
        }
    }

    async fn fetch_once(&self, request: &EgressRequest) -> Result<EgressResponse, EgressError> {
        let mut url = request.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&url, request).await?;
            let status = response.status();
            if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
                return self.read_response(response, &url).await;
            }
            // What was meant for one place is not sent to another.
            if request.body.is_some() {
                return Err(EgressError::Redirects);
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let next = location.ok_or(EgressError::Unreadable("a redirect to nowhere"))?;
            let next = url.join(next).map_err(|_| EgressError::Blocked("not a URL"))?;
            // A request for an encrypted answer does not get one that anybody in between could write.
            if url.scheme() == "https" && next.scheme() != "https" {
                return Err(EgressError::Blocked("a redirect from https to http"));
            }
            url = next;
        }
        Err(EgressError::Redirects)
    }

    async fn send(&self, url: &Url, request: &EgressRequest) -> Result<Response, EgressError> {
        let client = self.client_for_url(url)?;
        let method = if request.body.is_some() { Method::POST } else { Method::GET };
        let mut builder =
            client.request(method, url.clone()).header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(body) = &request.body {
            builder = builder.json(body);
        }
        if let (Some(bearer), true) = (&request.bearer, url.origin() == request.url.origin()) {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", bearer.reveal()))
                .map_err(|_| EgressError::Unreadable("the key has characters that cannot be sent"))?;
            value.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, value);
        }
        builder.send().await.map_err(|error| unreachable_error(&error))
    }

    /// Checks `url` and gives the client that may ask for it.
    fn client_for_url(&self, url: &Url) -> Result<&Client, EgressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EgressError::Blocked("not http or https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::Blocked("a name or password in the URL"));
        }
        let host = url.host_str().ok_or(EgressError::Blocked("no host"))?;
        let port = url.port_or_known_default().ok_or(EgressError::Blocked("no port"))?;
        let far_end = self.options.test_server_address.filter(|address| address.port() == port);
        if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
            if let (Some(far_end), Some(client)) = (far_end, &self.test_client)
                && far_end.ip() == address
            {
                return Ok(client);
            }
            if !is_public(address) {
                return Err(EgressError::Blocked("not a public address"));
            }
        } else if is_local_name(host) && far_end.is_none() {
            return Err(EgressError::Blocked("a local name"));
        }
        if let (Some(_), Some(client)) = (far_end, &self.test_client) {
            return Ok(client);
        }
        if !self.options.ports.contains(&port) {
            return Err(EgressError::Blocked("this port"));
        }
        match self.client.get() {
            Some(client) => Ok(client),
            None => {
                let made = build_client(&self.options, None)?;
                Ok(self.client.get_or_init(|| made))
            }
        }
    }

    async fn read_response(&self, mut response: Response, url: &Url) -> Result<EgressResponse, EgressError> {
        let status = response.status();
        if !status.is_success() {
            let retry_after = response
                .headers()
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.trim().parse().ok());
            return Err(EgressError::Status { status: status.as_u16(), retry_after });
        }
        if response.headers().get(CONTENT_ENCODING).is_some_and(|value| value.as_bytes() != b"identity") {
            return Err(EgressError::Unreadable("packed although asked for unpacked"));
        }
        let max_bytes = self.options.max_response_bytes;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| unreachable_error(&error))? {
            if body.len() + piece.len() > max_bytes {
                return Err(EgressError::TooLarge(max_bytes));
            }
            body.extend_from_slice(&piece);
        }
        let mut shown = url.clone();
        shown.set_query(None);
        Ok(EgressResponse { url: shown.to_string(), body })
    }
}

impl std::fmt::Debug for Egress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Egress").field("ports", &self.options.ports).finish_non_exhaustive()
    }
}

/// Checks every address before the connection is made to it.
struct PublicAddressResolver {
    lookup: Arc<dyn HostLookup>,
    allowed_address: Option<IpAddr>,
}

/// A name that leads where nobody may go.
#[derive(Debug, thiserror::Error)]
#[error("the name leads to an address that is not public")]
struct NotPublicAddress;

impl Resolve for PublicAddressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, also, host) = (self.lookup.clone(), self.allowed_address, name.as_str().to_owned());
        Box::pin(async move {
            let addresses = lookup.lookup(&host).await?;
            if addresses.is_empty() {
                return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
            }
            if !addresses.iter().all(|address| is_public(*address) || Some(*address) == also) {
                return Err(NotPublicAddress.into());
            }
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// A client for one origin that the operator named. With `private` it may be one of this machine or its network.
pub(crate) fn fixed_origin_client(options: &EgressOptions, private: bool) -> Result<Client, EgressError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else may be faster; either provider will do.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let builder = client_builder(options, None)?;
    let builder = match private {
        true => builder.dns_resolver(AnyAddressResolver(options.lookup.clone())),
        false => builder,
    };
    builder.build().map_err(client_build_error)
}

/// Gives every address of a name.
struct AnyAddressResolver(Arc<dyn HostLookup>);

impl Resolve for AnyAddressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, host) = (self.0.clone(), name.as_str().to_owned());
        Box::pin(async move {
            let addresses = lookup.lookup(&host).await?;
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

fn build_test_client(options: &EgressOptions, far_end: SocketAddr) -> Result<Client, EgressError> {
    build_client(options, Some(far_end.ip()))
}

fn build_client(options: &EgressOptions, also: Option<IpAddr>) -> Result<Client, EgressError> {
    client_builder(options, also)?.build().map_err(client_build_error)
}

fn client_build_error(error: reqwest::Error) -> EgressError {
    EgressError::Unreachable(format!("the client cannot be built: {}", error.without_url()))
}

fn client_builder(options: &EgressOptions, also: Option<IpAddr>) -> Result<ClientBuilder, EgressError> {
    let mut builder = Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .http1_only()
        .http1_max_headers(100)
        .connect_timeout(Duration::from_secs(5))
        .timeout(options.time)
        .pool_max_idle_per_host(2)
        .user_agent(concat!("doran/", env!("CARGO_PKG_VERSION")))
        .dns_resolver(PublicAddressResolver { lookup: options.lookup.clone(), allowed_address: also });
    if let Some(proxy) = &options.proxy {
        builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(client_build_error)?);
    }
    for root in &options.extra_roots {
        builder = builder.tls_certs_merge([Certificate::from_pem(root).map_err(client_build_error)?]);
    }
    Ok(builder)
}

fn is_local_name(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let local = ["localhost", "local", "internal", "localdomain", "home.arpa", "lan"];
    local.iter().any(|end| host == *end || host.ends_with(&format!(".{end}")))
}

/// Why the server was not reached: the innermost reason, without the URL, which may hold a key.
fn unreachable_error(error: &reqwest::Error) -> EgressError {
    if error.is_timeout() {
        return EgressError::Unreachable("timed out".into());
    }
    let mut source: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    let mut innermost = None;
    while let Some(inner) = source {
        if inner.is::<NotPublicAddress>() {
            return EgressError::Blocked("the name leads to an address that is not public");
        }
        innermost = Some(inner);
        source = inner.source();
    }
    let why = innermost.map_or_else(|| "broken off".to_owned(), ToString::to_string);
    EgressError::Unreachable(why.chars().take(200).collect())
}
