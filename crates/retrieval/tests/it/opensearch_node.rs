//! An OpenSearch node for tests, on the loopback interface. The tests of other crates use it too.
//!
//! `DORAN_TEST_OPENSEARCH` names the directory of jars that `crates/retrieval/tests/parts/opensearch.sh` prints.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// How long a node may take to start on a busy machine.
pub const NODE_START_TIMEOUT: Duration = Duration::from_secs(300);

/// A node. It ends with this process in any case: a shell waits for its input to close.
pub struct OpenSearchNode {
    directory: PathBuf,
    jars: String,
    port: u16,
    guard: Child,
}

/// Says that a part is missing; where all parts are required the test fails.
pub fn report_skipped(why: &str) {
    assert!(env::var_os("DORAN_REQUIRE_PARTS").is_none(), "a part is missing: {why}");
    eprintln!("SKIPPED: {why}");
}

impl OpenSearchNode {
    /// Starts a node and waits until it answers. `None`, with a line on standard error, where it cannot be had.
    pub fn start(directory: &Path) -> Option<Self> {
        let Ok(jars) = env::var("DORAN_TEST_OPENSEARCH") else {
            report_skipped("set DORAN_TEST_OPENSEARCH to what `tests/parts/opensearch.sh` prints");
            return None;
        };
        if Command::new("java").arg("-version").stderr(Stdio::null()).status().is_err() {
            report_skipped("java is missing");
            return None;
        }
        let port = free_port();
        let guard = spawn(&jars, directory, port);
        let node = Self { directory: directory.to_owned(), jars, port, guard };
        node.wait_until_ready();
        Some(node)
    }

    /// Kills the node and starts it again with its data.
    pub fn restart(&mut self) {
        self.kill();
        self.guard = spawn(&self.jars, &self.directory, self.port);
        self.wait_until_ready();
    }

    /// Kills the node.
    pub fn kill(&mut self) {
        drop(self.guard.stdin.take());
        self.guard.wait().ok();
    }

    /// Where it is.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn wait_until_ready(&self) {
        let started = Instant::now();
        while !self.is_ready() {
            let log = || fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(started.elapsed() < NODE_START_TIMEOUT, "OpenSearch does not start: {}", log());
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn is_ready(&self) -> bool {
        let Ok(mut socket) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let request = "GET /_cluster/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut answer = String::new();
        let asked = socket.write_all(request.as_bytes()).and_then(|()| socket.read_to_string(&mut answer));
        asked.is_ok() && (answer.contains("\"green\"") || answer.contains("\"yellow\""))
    }
}

impl Drop for OpenSearchNode {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(jars: &str, directory: &Path, port: u16) -> Child {
    let config = directory.join("node_1").join("config");
    fs::create_dir_all(&config).expect("a directory");
    let settings = "http.host: 127.0.0.1\ntransport.host: 127.0.0.1\ndiscovery.type: single-node\n\
                    cluster.routing.allocation.disk.threshold_enabled: false\n";
    fs::write(config.join("opensearch.yml"), settings).expect("settings");
    let log = fs::File::create(directory.join("log")).expect("a log");
    let script = "java -Xms384m -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto -cp \"$1/*\" org.codelibs.opensearch.runner.OpenSearchRunner \
                  -basePath \"$2\" -clusterName doran -numOfNode 1 -baseHttpPort \"$3\" \
                  -pluginTypes org.opensearch.knn.plugin.KNNPlugin </dev/null & node=$!; cat >/dev/null; \
                  kill -9 $node; wait $node";
    Command::new("sh")
        .args(["-c", script, "sh", jars])
        .arg(directory)
        .arg((port - 1).to_string())
        .stdin(Stdio::piped())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .expect("a shell")
}

/// Returns a free port. The node's runner accepts none above 9299.
fn free_port() -> u16 {
    /// Nodes of one process start at the same time, and a port is taken only when its node listens.
    static NODES: AtomicU16 = AtomicU16::new(0);
    let node = NODES.fetch_add(1, Ordering::SeqCst);
    let first = 9202 + (u16::try_from(std::process::id() % 90).expect("small") + 7 * node) % 90;
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (first..9299).chain(9202..first).find(free).expect("a free port")
}
