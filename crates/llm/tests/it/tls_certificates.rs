//! A server whose certificate nobody vouches for, and the same once somebody does.

use std::sync::Arc;

use doran_llm::{ModelApiKey, ModelConfig, ScriptedDialect, ScriptedVendorAnswer, collect_reply, open_model};
use rcgen::CertifiedKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto::ring};

use crate::{AnswerDelivery, TEST_API_KEY, greeting_request, model_name, test_model_config};

/// A TLS server that says one thing to everybody, and the certificate it made for itself.
async fn start_tls_server(wire: ScriptedDialect) -> (u16, String) {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a certificate");
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind(("localhost", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let turn = AnswerDelivery::Unstreamed.response(wire, &ScriptedVendorAnswer::text("안녕하세요"));
    let Some(doran_llm::ScriptedBodyPiece::Bytes(body)) = turn.pieces.first().cloned() else {
        panic!("bytes")
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, body) = (acceptor.clone(), body.clone());
            tokio::spawn(async move {
                // A client that does not trust us hangs up here.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut heard = [0; 16 << 10];
                assert!(stream.read(&mut heard).await.expect("a request") > 0);
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(&[head.as_bytes(), &body].concat()).await.expect("an answer");
                stream.shutdown().await.expect("an end");
            });
        }
    });
    (port, cert.pem())
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused_and_the_key_stays_here() {
    for wire in ScriptedDialect::ALL {
        let (port, pem) = start_tls_server(wire).await;
        for mode in crate::ANSWER_DELIVERIES {
            let config = ModelConfig {
                streaming: mode.streaming_mode(),
                ..test_model_config(wire.provider(), model_name(wire), format!("https://localhost:{port}"))
            };
            let model = open_model(&config, ModelApiKey::new(TEST_API_KEY)).expect("open");
            let error = collect_reply(model.stream(greeting_request())).await.expect_err("refused");
            let message = format!("{error} {error:?}");
            assert_eq!(error.code(), "unreachable", "{wire:?} {mode:?}: {message}");
            assert!(error.to_string().contains("certificate"), "{wire:?} {mode:?}: {message}");
            assert!(!message.contains(TEST_API_KEY), "{wire:?} {mode:?}: {message}");
        }
        let trusting = ModelConfig {
            streaming: AnswerDelivery::Unstreamed.streaming_mode(),
            certificates: vec![pem.into_bytes()],
            ..test_model_config(wire.provider(), model_name(wire), format!("https://localhost:{port}"))
        };
        let model = open_model(&trusting, ModelApiKey::new(TEST_API_KEY)).expect("open");
        assert_eq!(
            collect_reply(model.stream(greeting_request())).await.expect("an answer").text,
            "안녕하세요",
            "{wire:?}"
        );
    }
}

#[test]
fn a_root_certificate_that_cannot_be_read_is_an_error() {
    for damaged in ["no certificate", "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"] {
        let wire = ScriptedDialect::Chat;
        let config = ModelConfig {
            certificates: vec![damaged.into()],
            ..test_model_config(wire.provider(), model_name(wire), "https://localhost:1".to_owned())
        };
        let error = open_model(&config, ModelApiKey::new(TEST_API_KEY)).err().expect("refused");
        assert!(error.to_string().contains("root certificate"), "{damaged}: {error}");
    }
}
