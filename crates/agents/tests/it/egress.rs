//! The way out: what it reaches, and what it does not, whatever a URL, a name or an answer says.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use doran_agents::tools::{Egress, EgressError, EgressOptions, EgressRequest, HostLookup, ToolSecret};
use reqwest::Url;
use serde_json::json;

use crate::http_test_server::{
    HttpTestReply, HttpTestServer, http_json_reply as json_reply, http_reply, redirect_reply,
};

/// Names that lead where a test says, in turn.
#[derive(Default)]
struct ScriptedDns {
    names: BTreeMap<&'static str, Vec<Vec<&'static str>>>,
    turns: Mutex<BTreeMap<String, usize>>,
    lookups: AtomicUsize,
}

#[async_trait]
impl HostLookup for ScriptedDns {
    async fn lookup(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let turns = self.names.get(host).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))?;
        let mut next = self.turns.lock().expect("lock");
        let turn = next.entry(host.to_owned()).or_default();
        *turn += 1;
        Ok(turns[(*turn - 1) % turns.len()].iter().map(|text| text.parse().expect("address")).collect())
    }
}

fn scripted_dns(list: &[(&'static str, &[&[&'static str]])]) -> Arc<ScriptedDns> {
    let names =
        list.iter().map(|(name, turns)| (*name, turns.iter().map(|turn| turn.to_vec()).collect())).collect();
    Arc::new(ScriptedDns { names, ..ScriptedDns::default() })
}

fn test_options() -> EgressOptions {
    EgressOptions { time: Duration::from_secs(60), lookup: scripted_dns(&[]), ..EgressOptions::default() }
}

fn options_for(test_server: &HttpTestServer) -> EgressOptions {
    EgressOptions { test_server_address: Some(test_server.address), ..test_options() }
}

async fn fetch_url(egress: &Egress, url: &str) -> Result<Vec<u8>, EgressError> {
    let Ok(url) = Url::parse(url) else { return Err(EgressError::Blocked("not a URL")) };
    egress.fetch(&EgressRequest::get(url)).await.map(|fetched| fetched.body)
}

fn hello_server() -> HttpTestServer {
    HttpTestServer::start(|_| http_reply("200 OK", "", b"hello"))
}

#[tokio::test]
async fn the_far_end_of_a_test_is_reached_by_address_and_by_name() {
    let test_server = hello_server();
    let lookup = scripted_dns(&[("far.example", &[&["127.0.0.1"]])]);
    let egress = Egress::new(EgressOptions { lookup, ..options_for(&test_server) }).expect("egress");
    assert_eq!(fetch_url(&egress, &test_server.url("/a?b=c")).await, Ok(b"hello".to_vec()));
    let port = test_server.address.port();
    assert_eq!(fetch_url(&egress, &format!("http://far.example:{port}/")).await, Ok(b"hello".to_vec()));
    let asked = test_server.requests();
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("GET", "/a?b=c"));
    assert_eq!(asked[0].header("accept-encoding"), Some("identity"));
    assert_eq!(asked[0].header("referer"), None);
    assert_eq!(asked[1].header("host"), Some(format!("far.example:{port}").as_str()));
}

#[tokio::test]
async fn nothing_but_public_addresses_is_reached_however_it_is_spelt() {
    let canary = hello_server();
    let p = canary.address.port();
    let lookup = scripted_dns(&[
        ("evil.example", &[&["127.0.0.1"]]),
        ("mixed.example", &[&["93.184.216.34", "10.0.0.1"]]),
        ("mapped.example", &[&["::ffff:127.0.0.1"]]),
        ("nat64.example", &[&["64:ff9b::7f00:1"]]),
        ("metadata.google.internal", &[&["169.254.169.254"]]),
    ]);
    // The canary's port is open to everybody, so that only its address keeps it from being reached.
    let options = EgressOptions { ports: vec![80, 443, p], lookup, ..test_options() };
    let egress = Egress::new(options).expect("egress");
    let hosts = [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "a.localhost",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "0",
        "0x7f000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
        "[64:ff9b::127.0.0.1]",
        "[::127.0.0.1]",
        "169.254.169.254",
        "metadata.google.internal",
        "100.100.100.200",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "①②⑦.⓪.⓪.①",
        "ⓛocalhost",
        "１２７.0.0.1",
        "127。0。0。1",
        "127.0.0.1.",
        "localhost.",
        "127.0.0.1\t",
        "127.0\n.0.1",
        // Names that lead inside
        "evil.example",
        "EVIL.example",
        "mixed.example",
        "mapped.example",
        "nat64.example",
    ];
    for host in hosts {
        for scheme in ["http", "https"] {
            let result = fetch_url(&egress, &format!("{scheme}://{host}:{p}/")).await;
            assert!(matches!(result, Err(EgressError::Blocked(_))), "{scheme}://{host}: {result:?}");
        }
    }
    // Schemes and user names.
    let urls = [
        format!("http://evil@127.0.0.1:{p}/"),
        format!("http://user:password@far.example:{p}/"),
        format!("http://127.0.0.1:{p}#@example.com/"),
        format!("http://example.com\\@127.0.0.1:{p}/"),
        format!("http:\\\\127.0.0.1:{p}\\"),
        format!("http:127.0.0.1:{p}"),
        format!("http:///127.0.0.1:{p}/"),
        format!("HTTP://127.0.0.1:{p}/"),
        "file:///etc/passwd".into(),
        format!("gopher://127.0.0.1:{p}/"),
        format!("ftp://127.0.0.1:{p}/"),
        "data:text/plain,x".into(),
        "http://1.1.1.1:22/".into(),
        "http://1.1.1.1:6379/".into(),
    ];
    for url in urls {
        let result = fetch_url(&egress, &url).await;
        let refused = matches!(result, Err(EgressError::Blocked(_)));
        // A backslash is a slash, so this one asks for a page of example.com, a name that leads nowhere here.
        let nowhere =
            url.starts_with("http://example.com") && matches!(result, Err(EgressError::Unreachable(_)));
        assert!(refused || nowhere, "{url}: {result:?}");
    }
    assert_eq!(canary.requests().len(), 0);
}

#[tokio::test]
async fn redirects_are_checked_counted_and_lose_their_credentials() {
    let test_server = HttpTestServer::start(|asked| match asked.target.as_str() {
        "/metadata" => redirect_reply("http://169.254.169.254/latest/meta-data/"),
        "/file" => redirect_reply("file:///etc/passwd"),
        "/gopher" => redirect_reply("gopher://127.0.0.1:6379/_FLUSHALL"),
        "/round" => redirect_reply("/round"),
        "/twice" => redirect_reply("/once"),
        "/once" => redirect_reply("/there"),
        "/other" => redirect_reply(&format!(
            "http://other.example:{}/there",
            asked.header("host").and_then(|host| host.rsplit(':').next()).expect("port")
        )),
        "/nowhere" => http_reply("302 Found", "", b""),
        _ => http_reply("200 OK", "", b"there"),
    });
    let lookup = scripted_dns(&[("other.example", &[&["127.0.0.1"]])]);
    let egress = Egress::new(EgressOptions { lookup, ..options_for(&test_server) }).expect("egress");
    let blocked = |result: Result<Vec<u8>, EgressError>| matches!(result, Err(EgressError::Blocked(_)));
    assert!(blocked(fetch_url(&egress, &test_server.url("/metadata")).await));
    assert!(blocked(fetch_url(&egress, &test_server.url("/file")).await));
    assert!(blocked(fetch_url(&egress, &test_server.url("/gopher")).await));
    assert_eq!(fetch_url(&egress, &test_server.url("/twice")).await, Ok(b"there".to_vec()));
    assert!(matches!(
        fetch_url(&egress, &test_server.url("/nowhere")).await,
        Err(EgressError::Unreadable(_))
    ));
    let before = test_server.requests().len();
    assert_eq!(fetch_url(&egress, &test_server.url("/round")).await, Err(EgressError::Redirects));
    assert_eq!(test_server.requests().len() - before, 4);

    let bearer = Some(ToolSecret::new("canary-key"));
    let keyed = |path: &str, body| EgressRequest {
        url: Url::parse(&test_server.url(path)).expect("url"),
        body,
        bearer: bearer.clone(),
    };
    egress.fetch(&keyed("/twice", None)).await.expect("fetched");
    egress.fetch(&keyed("/other", None)).await.expect("fetched");
    let asked = test_server.requests();
    let keys: Vec<Option<&str>> =
        asked[asked.len() - 5..].iter().map(|one| one.header("authorization")).collect();
    let key = Some("Bearer canary-key");
    assert_eq!(keys, [key, key, key, key, None]);
    // What is posted to one place is not posted to another.
    assert_eq!(
        egress.fetch(&keyed("/other", Some(json!({ "secret": 1 })))).await,
        Err(EgressError::Redirects)
    );
}

#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    const TRIES: usize = 1000;
    let test_server = hello_server();
    let canary = HttpTestServer::start_on(
        SocketAddr::new("127.0.0.2".parse().expect("address"), test_server.address.port()),
        |_| http_reply("200 OK", "", b"inside"),
    );
    let lookup = scripted_dns(&[("rebind.example", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    let egress =
        Egress::new(EgressOptions { lookup: lookup.clone(), ..options_for(&test_server) }).expect("egress");
    let url = format!("http://rebind.example:{}/", test_server.address.port());
    let mut reached = 0;
    for _ in 0..TRIES {
        match fetch_url(&egress, &url).await {
            Ok(body) => {
                assert_eq!(body, b"hello");
                reached += 1;
            }
            Err(error) => assert!(matches!(error, EgressError::Blocked(_)), "{error}"),
        }
    }
    assert_eq!((reached, canary.requests().len()), (TRIES / 2, 0));
    assert_eq!(
        lookup.lookups.load(Ordering::SeqCst),
        TRIES,
        "looked up once for each connection, by the check itself"
    );
}

#[tokio::test]
async fn answers_are_bounded_in_size_time_and_shape() {
    let test_server = HttpTestServer::start(|asked| match asked.target.as_str() {
        "/gzip" => http_reply("200 OK", "content-encoding: gzip\r\n", b"\x1f\x8b\x08\0\0\0\0\0"),
        "/endless" => HttpTestReply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 65536]),
        "/long" => http_reply("200 OK", "", &vec![b'x'; 3 << 20]),
        "/lying" => HttpTestReply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhal".to_vec()),
        "/headers" => http_reply("200 OK", &format!("x-long: {}\r\n", "x".repeat(1 << 20)), b""),
        "/cookies" => http_reply("200 OK", &"set-cookie: a=b\r\n".repeat(10_000), b""),
        "/html" => {
            http_reply("200 OK", "content-type: application/json\r\n", "<div>".repeat(100_000).as_bytes())
        }
        "/deep" => http_reply("200 OK", "", "[".repeat(1_000_000).as_bytes()),
        "/slow" => HttpTestReply::Stall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx".to_vec()),
        "/silent" => HttpTestReply::Stall(Vec::new()),
        "/garbage" => HttpTestReply::Bytes(b"\x16\x03\x01 what?\r\n\r\n".to_vec()),
        _ => http_reply("204 No Content", "", b""),
    });
    let egress = Egress::new(options_for(&test_server)).expect("egress");
    let limit = 2 * 1024 * 1024;
    assert!(matches!(fetch_url(&egress, &test_server.url("/gzip")).await, Err(EgressError::Unreadable(_))));
    assert_eq!(fetch_url(&egress, &test_server.url("/endless")).await, Err(EgressError::TooLarge(limit)));
    assert_eq!(fetch_url(&egress, &test_server.url("/long")).await, Err(EgressError::TooLarge(limit)));
    assert!(matches!(fetch_url(&egress, &test_server.url("/lying")).await, Err(EgressError::Unreachable(_))));
    assert!(matches!(
        fetch_url(&egress, &test_server.url("/garbage")).await,
        Err(EgressError::Unreachable(_))
    ));
    assert!(matches!(
        fetch_url(&egress, &test_server.url("/headers")).await,
        Err(EgressError::Unreachable(_))
    ));
    assert!(matches!(
        fetch_url(&egress, &test_server.url("/cookies")).await,
        Err(EgressError::Unreachable(_))
    ));
    for path in ["/html", "/deep"] {
        let request = EgressRequest::get(Url::parse(&test_server.url(path)).expect("url"));
        assert_eq!(egress.fetch_json(&request).await, Err(EgressError::Unreadable("not JSON")), "{path}");
    }
    // a drip, and silence
    let hasty = Egress::new(EgressOptions { time: Duration::from_millis(200), ..options_for(&test_server) })
        .expect("egress");
    for path in ["/slow", "/silent"] {
        let result = fetch_url(&hasty, &test_server.url(path)).await;
        assert!(
            matches!(result, Err(EgressError::TooSlow(_) | EgressError::Unreachable(_))),
            "{path}: {result:?}"
        );
    }
}

#[tokio::test]
async fn a_busy_server_gets_three_requests_and_no_more() {
    let test_server = HttpTestServer::start(|asked| match asked.target.as_str() {
        "/busy" => http_reply("503 Service Unavailable", "", b""),
        "/later" => http_reply("429 Too Many Requests", "retry-after: 3600\r\n", b""),
        "/no" => http_reply("401 Unauthorized", "", b"{}"),
        _ => http_reply("200 OK", "", b"fine"),
    });
    let egress = Egress::new(options_for(&test_server)).expect("egress");
    let mut count = 0;
    let mut asked = async |path: &str| {
        let result = fetch_url(&egress, &test_server.url(path)).await;
        let now = test_server.requests().len();
        let times = now - count;
        count = now;
        (result, times)
    };
    let status = |status, retry_after| Err(EgressError::Status { status, retry_after });
    assert_eq!(asked("/busy").await, (status(503, None), 3));
    assert_eq!(asked("/later").await, (status(429, Some(3600)), 1));
    assert_eq!(asked("/no").await, (status(401, None), 1));
    assert_eq!(asked("/fine").await, (Ok(b"fine".to_vec()), 1));
}

/// Runs itself again with a proxy in the environment.
#[tokio::test]
async fn a_proxy_in_the_environment_is_ignored() {
    let test_server = hello_server();
    if std::env::var_os("DORAN_TEST_PROXIED").is_some() {
        let egress = Egress::new(options_for(&test_server)).expect("egress");
        assert_eq!(fetch_url(&egress, &test_server.url("/")).await, Ok(b"hello".to_vec()));
        return;
    }
    let canary = HttpTestServer::start(|_| http_reply("200 OK", "", b"proxied"));
    let proxy = format!("http://{}", canary.address);
    let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "egress::a_proxy_in_the_environment_is_ignored"]).env("DORAN_TEST_PROXIED", "1");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, &proxy);
    }
    let output = child.env_remove("NO_PROXY").env_remove("no_proxy").output().expect("run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert_eq!(canary.requests().len(), 0);
}

#[tokio::test]
async fn errors_name_no_url_and_no_key() {
    let test_server = HttpTestServer::start(|_| HttpTestReply::Bytes(Vec::new()));
    let egress = Egress::new(options_for(&test_server)).expect("egress");
    let error = fetch_url(&egress, &test_server.url("/?appid=canary-key")).await.expect_err("broken off");
    assert!(!format!("{error} {error:?}").contains("canary-key"), "{error:?}");
    assert_eq!(format!("{:?}", ToolSecret::new("canary-key")), "***");
    let reply = HttpTestServer::start(|_| json_reply(&json!({ "a": 1 })));
    let egress = Egress::new(options_for(&reply)).expect("egress");
    let fetched = egress
        .fetch(&EgressRequest::get(Url::parse(&reply.url("/x?appid=canary-key")).expect("url")))
        .await
        .expect("fetched");
    assert!(!fetched.url.contains("canary-key"), "{}", fetched.url);
}
