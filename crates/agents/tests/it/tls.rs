//! A certificate that is expired, signed by itself or made out to another name ends the connection.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

use async_trait::async_trait;
use doran_agents::tools::{Egress, EgressError, EgressOptions, EgressRequest, HostLookup};
use reqwest::Url;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const CA_CERTIFICATE: &[u8] = include_bytes!("../fixtures/tls/ca.pem");
const SERVER_PRIVATE_KEY: &[u8] = include_bytes!("../fixtures/tls/leaf.key");

/// Every name leads to the far end.
struct LoopbackLookup;

#[async_trait]
impl HostLookup for LoopbackLookup {
    async fn lookup(&self, _host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![[127, 0, 0, 1].into()])
    }
}

/// A far end with this certificate. Its first path sends on to the second one: by an address without encryption, or with it.
fn start_tls_server(certificate: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address");
    let certificate = CertificateDer::from_pem_slice(certificate).expect("certificate");
    let key = PrivateKeyDer::from_pem_slice(SERVER_PRIVATE_KEY).expect("key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("config");
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(config.clone()).expect("connection");
            let mut stream = StreamOwned::new(connection, stream);
            let mut asked = [0; 1024];
            // A client that does not trust the certificate hangs up, which is what is tested.
            if let Ok(length) = stream.read(&mut asked) {
                let line = String::from_utf8_lossy(&asked[..length]).into_owned();
                let to = match line.split(' ').nth(1) {
                    Some("/plain") => Some(format!("http://far.example:{}/", address.port())),
                    Some("/encrypted") => Some(format!("https://far.example:{}/", address.port())),
                    _ => None,
                };
                let head = match to {
                    Some(to) => format!("302 Found\r\nlocation: {to}"),
                    None => "200 OK".to_owned(),
                };
                let answer =
                    format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: 6\r\n\r\nhello!");
                drop(stream.write_all(answer.as_bytes()));
                drop(stream.flush());
            }
        }
    });
    address
}

async fn fetch_with_certificate(certificate: &'static [u8]) -> Result<Vec<u8>, EgressError> {
    fetch_path(certificate, "/").await
}

async fn fetch_path(certificate: &'static [u8], path: &str) -> Result<Vec<u8>, EgressError> {
    let address = start_tls_server(certificate);
    let egress = Egress::new(EgressOptions {
        test_server_address: Some(address),
        extra_roots: vec![CA_CERTIFICATE.to_vec()],
        lookup: Arc::new(LoopbackLookup),
        ..EgressOptions::default()
    })
    .expect("egress");
    let url = Url::parse(&format!("https://far.example:{}{path}", address.port())).expect("url");
    egress.fetch(&EgressRequest::get(url)).await.map(|fetched| fetched.body)
}

#[tokio::test]
async fn only_a_certificate_that_is_right_in_every_way_is_believed() {
    assert_eq!(
        fetch_with_certificate(include_bytes!("../fixtures/tls/good.pem")).await,
        Ok(b"hello!".to_vec())
    );
    for (name, certificate) in [
        ("expired", include_bytes!("../fixtures/tls/expired.pem").as_slice()),
        ("another name", include_bytes!("../fixtures/tls/wrong.pem")),
        ("signed by itself", include_bytes!("../fixtures/tls/self.pem")),
    ] {
        let result = fetch_with_certificate(certificate).await;
        assert!(
            matches!(&result, Err(EgressError::Unreachable(why)) if why.contains("certificate")),
            "{name}: {result:?}"
        );
    }
}

#[tokio::test]
async fn a_redirect_does_not_give_up_encryption() {
    let good = include_bytes!("../fixtures/tls/good.pem");
    assert_eq!(fetch_path(good, "/encrypted").await, Ok(b"hello!".to_vec()));
    assert_eq!(fetch_path(good, "/plain").await, Err(EgressError::Blocked("a redirect from https to http")));
}
