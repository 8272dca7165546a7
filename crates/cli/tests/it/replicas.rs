//! Several servers on one PostgreSQL: what they share, through a kill and a rolling restart, and when they refuse to start.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::opensearch_node::{OpenSearchNode, report_skipped};
use crate::program::{ServerProcess, doran_command, fresh_directory, utf8};

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The address of an empty schema. `None`, with a printed line, where there is no PostgreSQL.
pub(crate) fn fresh_database(name: &str) -> Option<String> {
    let Ok(url) = std::env::var("DORAN_TEST_POSTGRES") else {
        report_skipped("set DORAN_TEST_POSTGRES to the address of a PostgreSQL server");
        return None;
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    let mark = if url.contains('?') { '&' } else { '?' };
    Some(format!("{url}{mark}schema=t_{name}_{}_{}", std::process::id(), now.as_nanos()))
}

/// A machine with a data directory of its own.
pub(crate) struct Machine {
    pub(crate) here: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Machine {
    pub(crate) fn new(name: &str, variables: &[(&'static str, &str)]) -> Self {
        let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { here: fresh_directory(name), variables }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = doran_command(&self.here, args);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> (bool, String, String) {
        let output = self.command(args).output().expect("the program ends");
        (output.status.success(), utf8(&output.stdout), utf8(&output.stderr))
    }

    pub(crate) fn serve(&self) -> ServerProcess {
        ServerProcess::spawn(self.command(&["serve", "--port", "0"]))
    }
}

/// An answer to a request.
#[derive(Debug)]
pub(crate) struct ReplicaAnswer {
    pub(crate) status: u16,
    body: String,
}

impl ReplicaAnswer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request. `None` if the server did not answer.
pub(crate) fn send(
    server: &ServerProcess,
    head: &str,
    key: &str,
    once: &str,
    body: &str,
) -> Option<ReplicaAnswer> {
    let mut socket = TcpStream::connect(&server.address).ok()?;
    let once = if once.is_empty() { String::new() } else { format!("Idempotency-Key: {once}\r\n") };
    let kind = if head.contains("/api/documents") { "application/octet-stream" } else { "application/json" };
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n{once}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    socket.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Some(ReplicaAnswer { status, body: if is_chunked { join_chunks(body)? } else { body.to_owned() } })
}

/// A body that came in chunks; none if its end is missing.
fn join_chunks(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (length, after) = rest.split_once("\r\n")?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.push_str(after.get(..length)?);
        rest = after.get(length + 2..)?;
    }
}

pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Two servers, and what clients got from them.
struct ServerPair {
    machines: [Machine; 2],
    servers: [Option<ServerProcess>; 2],
    key: String,
    /// Documents that were acknowledged: the id and what stands in them.
    documents: BTreeMap<String, String>,
    removed: BTreeSet<String>,
    /// Facts that were kept, as a number in them.
    facts: BTreeSet<usize>,
    /// Threads that were answered.
    threads: BTreeMap<String, String>,
    requests: usize,
}

impl ServerPair {
    fn start(name: &str, database: &str, opensearch: &str) -> Self {
        let variables: [(&'static str, &str); 5] = [
            ("DORAN_DATABASE", database),
            ("DORAN_STORE", "opensearch"),
            ("DORAN_OPENSEARCH", opensearch),
            ("DORAN_SHARED_KEY", "the key that all replicas of this test are given"),
            ("DORAN_ENCODER", "none"),
        ];
        let machines = ["one", "two"].map(|which| Machine::new(&format!("{name}-{which}"), &variables));
        let (made, key, error) = machines[0].run(&["keys", "new", "client"]);
        assert!(made, "{error}");
        let servers = [Some(machines[0].serve()), Some(machines[1].serve())];
        Self {
            machines,
            servers,
            key: key.trim().to_owned(),
            documents: BTreeMap::new(),
            removed: BTreeSet::new(),
            facts: BTreeSet::new(),
            threads: BTreeMap::new(),
            requests: 0,
        }
    }

    /// Sends a request as a proxy does: to the next server, or to the other one if that does not answer.
    fn request(&mut self, head: &str, once: &str, body: &str) -> ReplicaAnswer {
        self.requests += 1;
        let started = Instant::now();
        let mut which = self.requests;
        loop {
            if let Some(server) = &self.servers[which % 2]
                && let Some(answer) = send(server, head, &self.key, once, body)
                && ![409, 429, 503].contains(&answer.status)
            {
                return answer;
            }
            assert!(started.elapsed() < PATIENCE, "no answer to {head}");
            std::thread::sleep(Duration::from_millis(50));
            which += 1;
        }
    }

    /// The same request to both servers.
    fn request_both(&mut self, head: &str) -> [Value; 2] {
        self.requests += 2;
        [0, 1].map(|which| {
            let server = self.servers[which].as_ref().expect("it runs");
            let started = Instant::now();
            loop {
                match send(server, head, &self.key, "", "") {
                    Some(answer) if answer.status == 200 => return answer.json(),
                    other => assert!(started.elapsed() < PATIENCE, "{head}: {other:?}"),
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        })
    }

    fn upload(&mut self, number: usize) {
        let text =
            format!("# 품목 {number}번 보고서\n\n품목 {number}번의 가격은 {}원이다.", number * 100 + 7);
        let head = format!("POST /api/documents?name=item-{number}.md");
        let answer = self.request(&head, &format!("upload-{number}"), &text);
        assert_eq!(answer.status, 202, "{answer:?}");
        let id = answer.json()["id"].as_str().expect("an id").to_owned();
        self.documents.insert(id, text);
    }

    fn delete_oldest(&mut self) {
        let Some((id, _)) = self.documents.pop_first() else { return };
        let answer = self.request(&format!("DELETE /api/documents/{id}"), "", "");
        // A server that was killed may have removed it before.
        assert!([204, 404].contains(&answer.status), "{answer:?}");
        self.removed.insert(id);
    }

    fn ask(&mut self, number: usize, question: &str) -> String {
        let thread = format!("thread-{number}");
        let body = serde_json::json!({ "message": question, "sessionId": thread }).to_string();
        let answer = self.request("POST /api/chat", &format!("ask-{number}"), &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = answer.json()["response"].as_str().unwrap_or_default().to_owned();
        assert!(!text.is_empty(), "{answer:?}");
        self.threads.insert(thread, text.clone());
        text
    }

    fn remember(&mut self, number: usize) {
        let text = self.ask(number, &format!("내 사물함 번호는 {number}번이라고 기억해줘"));
        assert!(text.contains("기억했습니다"), "{text}");
        self.facts.insert(number);
    }

    /// The facts of a server, as id and text.
    fn listed_facts(&mut self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let [here, there] = self.request_both("GET /api/memory");
        assert_eq!(here, there, "both have the same memories");
        let facts = here["facts"].as_array().expect("facts").clone();
        facts.iter().map(|fact| (text(&fact["id"]), text(&fact["text"]))).collect()
    }

    fn forget_one(&mut self) {
        let Some(number) = self.facts.pop_first() else { return };
        let facts = self.listed_facts();
        let fact = facts.iter().find(|(_, text)| text.contains(&format!(" {number}번")));
        let (id, _) = fact.unwrap_or_else(|| panic!("{number} is not in {facts:?}"));
        let answer = self.request(&format!("DELETE /api/memory/{id}"), "", "");
        assert!([204, 404].contains(&answer.status), "{answer:?}");
    }

    /// A key that is made on one machine opens both servers, and opens neither after it was revoked on the other.
    fn rotate_key(&mut self, number: usize) {
        let name = format!("key-{number}");
        let (made, key, error) = self.machines[number % 2].run(&["keys", "new", &name]);
        assert!(made, "{error}");
        self.wait_for_key(key.trim(), 200);
        let (revoked, _, error) = self.machines[(number + 1) % 2].run(&["keys", "revoke", &name]);
        assert!(revoked, "{error}");
        self.wait_for_key(key.trim(), 401);
    }

    fn wait_for_key(&mut self, key: &str, status: u16) {
        for server in self.servers.iter().flatten() {
            self.requests += 1;
            wait_for("the key", || {
                send(server, "GET /api/agents", key, "", "").is_some_and(|answer| answer.status == status)
            });
        }
    }

    fn compare_lists(&mut self) {
        let [here, there] = self.request_both("GET /api/documents");
        let ids = |listed: &Value| -> BTreeSet<String> {
            let documents = listed["documents"].as_array().expect("documents");
            documents.iter().filter_map(|document| Some(document["id"].as_str()?.to_owned())).collect()
        };
        assert_eq!(ids(&here), ids(&there));
        assert_eq!(ids(&here), self.documents.keys().cloned().collect());
    }

    fn kill(&mut self, which: usize) {
        drop(self.servers[which].take());
    }

    fn restart(&mut self, which: usize) {
        if let Some(server) = self.servers[which].take() {
            let (status, stderr) = server.stop();
            assert!(status.success(), "{stderr}");
        }
        self.servers[which] = Some(self.machines[which].serve());
    }

    /// Nothing is lost and nothing is there twice.
    fn check_everything(&mut self) {
        wait_for("that every document is read", || {
            let [here, there] = self.request_both("GET /api/documents");
            let ready = |listed: &Value| {
                let documents = listed["documents"].as_array().expect("documents");
                documents.iter().all(|document| document["state"] == "ready")
            };
            ready(&here) && ready(&there)
        });
        self.compare_lists();
        for (id, text) in self.documents.clone() {
            let [here, there] = self.request_both(&format!("GET /api/documents/{id}/text"));
            assert_eq!(here, there);
            assert_eq!(here["text"].as_str(), Some(text.as_str()));
            let question = percent_encode(text.lines().last().expect("a line"));
            let [here, there] = self.request_both(&format!("GET /api/search?q={question}&document={id}"));
            assert_eq!(here, there);
            assert_eq!(here["hits"].as_array().map(Vec::len), Some(1), "{here}");
        }
        let question = percent_encode("품목 가격");
        let [here, there] = self.request_both(&format!("GET /api/search?limit=50&q={question}"));
        assert_eq!(here, there);
        for id in self.removed.clone() {
            assert!(!here.to_string().contains(&id), "{here}");
            for server in self.servers.iter().flatten() {
                let head = format!("GET /api/documents/{id}/text");
                let answer = send(server, &head, &self.key, "", "").expect("an answer");
                assert_eq!(answer.status, 404, "{answer:?}");
            }
        }
        let facts = self.listed_facts();
        assert_eq!(facts.len(), self.facts.len(), "{facts:?} {:?}", self.facts);
        for (thread, answer) in self.threads.clone() {
            let [here, there] = self.request_both(&format!("GET /api/threads/{thread}/messages"));
            assert_eq!(here, there);
            let messages = here["messages"].to_string();
            let asked = here["messages"].as_array().expect("messages").iter();
            assert_eq!(asked.filter(|message| message["role"] == "user").count(), 1, "{messages}");
            let shown = serde_json::to_string(&answer).expect("JSON");
            assert!(messages.contains(shown.trim_matches('"')), "{shown} in {messages}");
        }
    }
}

fn percent_encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Sends so many requests of all kinds to two servers. One is killed on the way, and both are restarted one after the other.
fn send_mixed_requests(name: &str, rounds: usize) {
    let Some(database) = fresh_database(name) else { return };
    let directory = fresh_directory(&format!("{name}-opensearch"));
    let Some(opensearch) = OpenSearchNode::start(&directory) else { return };
    let mut replicas = ServerPair::start(name, &database, &opensearch.address());
    for round in 1..=rounds {
        replicas.upload(round);
        if round == rounds / 3 {
            // What it has accepted, and maybe begun, is finished by the other one.
            replicas.upload(rounds + 1);
            replicas.upload(rounds + 2);
            replicas.kill(0);
        }
        replicas.ask(2 * round, &format!("품목 {round}번의 가격은 얼마야?"));
        replicas.request(&format!("GET /api/search?q={}", percent_encode("품목 가격")), "", "");
        replicas.remember(2 * round + 1);
        if replicas.servers.iter().all(Option::is_some) {
            replicas.compare_lists();
            replicas.listed_facts();
        }
        if round % 3 == 0 {
            replicas.delete_oldest();
        }
        if round % 4 == 0 {
            replicas.rotate_key(round);
        }
        if round == rounds / 2 {
            replicas.restart(0);
        }
        if round % 3 == 1 && replicas.servers.iter().all(Option::is_some) {
            replicas.forget_one();
        }
        if round == rounds * 2 / 3 {
            replicas.restart(0);
            replicas.restart(1);
        }
    }
    replicas.check_everything();
    println!("{} requests", replicas.requests);
}

#[test]
fn replicas_share_keys_documents_and_memory_through_a_kill_and_a_rolling_restart() {
    send_mixed_requests("replicas", 9);
}

/// As above, with a thousand requests and more.
#[test]
#[ignore = "takes minutes"]
fn replicas_share_everything_for_a_thousand_requests() {
    send_mixed_requests("many", 90);
}

#[test]
fn a_second_server_with_an_index_of_its_own_is_refused_with_the_reason() {
    let Some(database) = fresh_database("local") else { return };
    let variables: [(&'static str, &str); 2] = [("DORAN_DATABASE", &database), ("DORAN_ENCODER", "none")];
    let [one, two] = ["one", "two"].map(|which| Machine::new(&format!("local-{which}"), &variables));
    let first = one.serve();
    for (language, words) in [("en", "uses this database"), ("ko", "이 데이터베이스를 쓰고 있고")]
    {
        let refused = two.command(&["serve", "--port", "0", "--lang", language]).output().expect("it ends");
        let error = utf8(&refused.stderr);
        assert_eq!(refused.status.code(), Some(78), "{error}");
        assert!(error.contains(words) && error.contains("store = \"opensearch\""), "{error}");
    }
    let (_, checks, _) = one.run(&["doctor", "--json", "--lang", "en"]);
    let replicas = checks.lines().find(|line| line.contains("\"replicas\"")).expect("a check of replicas");
    assert!(replicas.contains("1 server running"), "{replicas}");
    // The first one goes on, and its lease ends with it.
    assert!(first.request("GET /healthz", "").contains(" 200 "));
    assert!(first.stop().0.success());
    let second = two.serve();
    drop(second);
    // The lease of one that was killed is waited for.
    assert!(one.serve().stop().0.success());
}

#[test]
fn keys_and_memories_of_files_move_into_the_database_once() {
    let Some(database) = fresh_database("moved") else { return };
    let machine = Machine::new("moved", &[("DORAN_ENCODER", "none")]);
    let (made, key, error) = machine.run(&["keys", "new", "laptop"]);
    assert!(made, "{error}");
    assert!(machine.run(&["ask", "내 생일은 5월 3일이라고 기억해줘"]).0);
    let data = machine.here.join(".local/share/doran");
    let variables = [("DORAN_DATABASE", database.as_str()), ("DORAN_ENCODER", "none")];
    let moved =
        Machine { here: machine.here.clone(), variables: Machine::new("moved-other", &variables).variables };
    let server = moved.serve();
    let answer = send(&server, "GET /api/memory", key.trim(), "", "").expect("an answer");
    assert!(answer.status == 200 && answer.body.contains("5월 3일"), "{answer:?}");
    assert!(!data.join("keys.toml").exists() && data.join("keys.toml.imported").exists());
    assert!(!data.join("memory.log").exists() && data.join("memory.log.imported").exists());
    // Another machine works with them while the server runs.
    let other = Machine::new("moved-third", &variables);
    assert_eq!(other.run(&["keys", "list"]).1, "laptop  local\n");
    assert!(other.run(&["memory", "list"]).1.contains("5월 3일"));
    assert!(other.run(&["keys", "revoke", "laptop"]).0);
    wait_for("the revocation", || {
        send(&server, "GET /api/agents", key.trim(), "", "").is_some_and(|answer| answer.status == 401)
    });
    drop(server);
    let restarted = moved.serve();
    let refused = send(&restarted, "GET /api/agents", key.trim(), "", "").expect("an answer");
    assert_ne!(refused.status, 500, "{refused:?}");
    assert_eq!(moved.run(&["keys", "list"]).1, "", "a revoked key does not come back");
    remove_directories(&[&machine.here, &other.here]);
}

fn remove_directories(paths: &[&Path]) {
    for path in paths {
        std::fs::remove_dir_all(path).ok();
    }
}
