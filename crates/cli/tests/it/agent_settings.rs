//! Settings of agents in `doran.toml`, by what they change: where threads are stored, how often models are called.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::mock_vendor::{MockVendorReply, MockVendorServer, VendorReplyFn};
use crate::program::{ServerProcess, fresh_directory, run_doran, utf8};

/// All settings of agents that name a store, a limit or a cache, in one file.
const EVERY_SETTING: &str = r#"
store = "faiss"
index_path = "faiss_index"
small_model = "same"

[agents.assistant]
max_messages = 4
keep_recent = 2
max_summaries = 1
max_tool_rounds = 1

[agents.react]
max_iterations = 1
persistence_mode = "memory"

[agents.contract]
max_iterations = 1
enable_cache = false
persistence_mode = "sqlite"
checkpoint_db_path = "contract-checkpoints.db"

[chatbot.llm]
contextLength = 2000

[chatbot.context]
compressionThreshold = 0.5
compressionTarget = 0.2
"#;

/// The parts of it, one by one, with other values.
const OTHER_VALUES: &str = r#"
store = "memory"
small_model = "same"

[agents.assistant]
max_messages = 6
keep_recent = 3
max_summaries = 2
max_tool_rounds = 2

[agents.react]
max_iterations = 2

[agents.contract]
max_iterations = 2

[chatbot.llm]
contextLength = 4000
"#;

fn wants_json_field(request: &Value, field: &str) -> bool {
    request["response_format"].to_string().contains(&format!("\"{field}\""))
}

/// Always wants another tool, is never content, and writes a long summary.
fn never_content(request: &Value) -> MockVendorReply {
    if wants_json_field(request, "is_sufficient") {
        let reply = json!({ "is_sufficient": false, "reasoning": "부족", "missing_info": "다른 조항" });
        return MockVendorReply::json(&reply);
    }
    if wants_json_field(request, "route") {
        return MockVendorReply::json(&json!({ "route": "agent", "reason": "x" }));
    }
    if request["response_format"].is_object() {
        return MockVendorReply::json(&json!({ "reason": "x", "type": "chitchat" }));
    }
    let offered = request["tools"].as_array().filter(|_| request["tool_choice"] != "none");
    let tools: Vec<&str> =
        offered.into_iter().flatten().filter_map(|tool| tool["function"]["name"].as_str()).collect();
    // Another article each time: the same call twice is not made.
    let article = request.to_string().len();
    match tools.iter().find(|name| ["calculator", "get_article_by_index"].contains(name)) {
        Some(&"calculator") => MockVendorReply::ToolCall("calculator", json!({ "expression": "1+1" })),
        Some(_) => MockVendorReply::ToolCall("get_article_by_index", json!({ "index": article })),
        None => MockVendorReply::Text("긴 문장을 적습니다. ".repeat(200)),
    }
}

struct ConfiguredServer {
    here: PathBuf,
    vendor: MockVendorServer,
    server: Option<ServerProcess>,
}

impl ConfiguredServer {
    fn start(name: &str, settings: &str, decide: VendorReplyFn) -> Self {
        let here = fresh_directory(name);
        let vendor = MockVendorServer::start(decide);
        let model = format!("model = \"openai-compatible:http://{}/v1#m\"\n", vendor.address);
        fs::write(here.join("doran.toml"), model + settings).expect("settings");
        let server = Some(ServerProcess::start(&here, None));
        Self { here, vendor, server }
    }

    fn request(&self, head: &str, body: &str) -> String {
        self.server.as_ref().expect("it runs").request(head, body)
    }

    /// Asks an agent in a thread. Returns its events and how many requests the vendor got.
    fn ask(&self, agent: &str, thread: &str, message: &str) -> (String, usize) {
        self.vendor.hold_call(None);
        let body = json!({ "agent": agent, "message": message }).to_string();
        let events = self.request(&format!("POST /api/threads/{thread}/runs"), &body);
        assert!(events.contains("event: finished"), "{agent}: {events}");
        (events, self.vendor.answered_calls().models.len())
    }

    /// The state of a thread.
    fn state(&self, thread: &str) -> Value {
        let answer = self.request(&format!("GET /api/threads/{thread}/state"), "");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        let state: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        state["state"].clone()
    }

    fn restart(&mut self) {
        let (status, rest) = self.server.take().expect("it runs").stop();
        assert!(status.success(), "{rest}");
        self.server = Some(ServerProcess::start(&self.here, None));
    }

    fn data_dir(&self) -> PathBuf {
        self.here.join(".local/share/doran")
    }
}

/// The files below a directory that contain these words.
fn files_with(directory: &Path, words: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, words));
        } else if fs::read(&path).expect("a file").windows(words.len()).any(|part| part == words.as_bytes()) {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_setting_of_one_file_has_its_effect() {
    let one = ConfiguredServer::start("every-setting", EVERY_SETTING, never_content);
    let two = ConfiguredServer::start("other-values", OTHER_VALUES, never_content);

    // `index_path`: the index is there, and nowhere else. The store `memory` has no files.
    assert!(fs::read_dir(one.here.join("faiss_index")).expect("an index").count() > 0);
    assert!(!one.data_dir().join("search").exists() && !two.data_dir().join("search").exists());

    // `max_iterations` of react: tools run while the number of model calls is at most this, then it gives up.
    for (server, calls) in [(&one, 2), (&two, 3)] {
        let (events, count) = server.ask("react", "r", "계속 계산해줘");
        assert_eq!(count, calls, "{events}");
        assert!(events.contains("요청이 너무 복잡합니다"), "{events}");
    }

    // `max_iterations` of contract: the last round is not evaluated. One round is a plan and the answer; two are a plan,
    // an evaluation, a plan and the answer.
    let question = "계약서에서 손해배상 조항을 찾아줘";
    let (_, first) = one.ask("contract", "c1", question);
    let (_, second) = two.ask("contract", "c1", question);
    assert_eq!(second - first, 2, "{first} {second}");

    // `enable_cache`: the same question in another thread. Replies at temperature 0 are used again, or not.
    assert_eq!(one.ask("contract", "c2", question).1, first);
    assert!(two.ask("contract", "c2", question).1 < second);

    // `max_tool_rounds`: the router, a call for each round, and the answer without tools. `max_messages`: the second question
    // is the fifth message here and the seventh there, one too many, and one more call makes a summary. `keep_recent`: two
    // messages stay, and the turn adds three. `max_summaries`: the third turn makes a second summary, the fourth a third one.
    for (server, rounds, stored, summaries) in [(&one, 1, Some(5), 1), (&two, 2, None, 2)] {
        let calls = |message: &str| server.ask("assistant", "a", message).1;
        assert_eq!(calls("1+1을 계산해줘"), 2 + rounds);
        assert_eq!(calls("다시 계산해줘"), 3 + rounds);
        let state = server.state("a");
        assert_eq!(state["summary"].as_array().map(Vec::len), Some(1), "{state}");
        if stored.is_some() {
            assert_eq!(state["messages"].as_array().map(Vec::len), stored, "{state}");
        }
        for _ in 0..2 {
            assert_eq!(calls("한 번 더 계산해줘"), 3 + rounds);
        }
        let state = server.state("a");
        assert_eq!(state["summary"].as_array().map(Vec::len), Some(summaries), "{state}");
    }

    // `contextLength`, `compressionThreshold`, `compressionTarget`: the answer of 200 sentences is about 1,900 tokens.
    // That is above 0.5 of 2,000 and 0.7 of 4,000 needs a second one. What is left is 0.2 of 2,000 or 0.1 of 4,000.
    let (events, _) = one.ask("docqa", "d", "안녕하세요");
    assert!(events.contains("summarizeHistory") && events.contains("400토큰 아래로"), "{events}");
    let (events, _) = two.ask("docqa", "d", "안녕하세요");
    assert!(!events.contains("summarizeHistory"), "{events}");
    let (events, _) = two.ask("docqa", "d", "안녕하세요");
    assert!(events.contains("summarizeHistory") && events.contains("400토큰 아래로"), "{events}");
}

#[test]
fn threads_of_an_agent_in_memory_end_with_the_process() {
    let settings = "[agents.react]\npersistence_mode = \"memory\"\n\
                    [agents.contract]\ncheckpoint_db_path = \"contract-checkpoints.db\"\n";
    let decide: VendorReplyFn = |request| match request["response_format"].is_object() {
        true => MockVendorReply::json(&json!({ "type": "chitchat", "route": "agent", "reason": "x" })),
        false => MockVendorReply::Text("알겠습니다.".into()),
    };
    let mut server = ConfiguredServer::start("memory-threads", settings, decide);
    let (secret, plain, filed) = ("zebra-secret-7788", "quokka-plain-7788", "numbat-filed-7788");
    // A client may create the thread first, with a title.
    let made = server.request(
        "POST /api/threads",
        &json!({ "agent": "react", "title": format!("about {secret}") }).to_string(),
    );
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let private =
        made.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id").to_owned();
    server.ask("react", &private, secret);
    server.ask("assistant", "kept", plain);
    server.ask("contract", "filed", filed);
    let listed = server.request("GET /api/threads", "");
    assert!(
        [private.as_str(), "kept", "filed"].iter().all(|id| listed.contains(&format!("\"{id}\""))),
        "{listed}"
    );
    let forked = server.request(
        &format!("POST /api/threads/{private}/fork HTTP/1.1\r\nIdempotency-Key: once\r\nX: y"),
        "{}",
    );
    assert!(forked.starts_with("HTTP/1.1 2"), "{forked}");
    let refused = server.request(
        &format!("POST /api/threads/{private}/runs"),
        &json!({ "agent": "assistant", "message": "?" }).to_string(),
    );
    assert!(refused.starts_with("HTTP/1.1 409") && refused.contains("new thread"), "{refused}");

    server.restart();
    assert!(server.request(&format!("GET /api/threads/{private}"), "").starts_with("HTTP/1.1 404"));
    for (thread, words) in [("kept", plain), ("filed", filed)] {
        let messages = server.request(&format!("GET /api/threads/{thread}/messages"), "");
        assert!(messages.contains(words), "{messages}");
    }
    let (status, rest) = server.server.take().expect("it runs").stop();
    assert!(status.success(), "{rest}");
    assert_eq!(files_with(&server.here, secret), Vec::<PathBuf>::new());
    assert!(!files_with(&server.data_dir(), plain).is_empty());
    let with_filed = files_with(&server.here, filed);
    assert!(
        !with_filed.is_empty()
            && with_filed.iter().all(|path| path.to_string_lossy().contains("contract-checkpoints.db")),
        "{with_filed:?}"
    );
    // Commands that read the database see the file as well.
    assert!(utf8(&run_doran(&server.here, &["threads"], "").stdout).contains("filed"));
}

#[test]
fn settings_of_stores_that_contradict_each_other_are_refused() {
    let here = fresh_directory("contradictions");
    for (settings, words) in [
        ("store = \"memory\"\nindex_path = \"x\"\n", "`index_path` needs `store = \"local\"`"),
        ("store = \"opensearch\"\nopensearch_url = \"http://127.0.0.1:9\"\n", "OpenSearch"),
        (
            "[agents.contract]\npersistence_mode = \"memory\"\ncheckpoint_db_path = \"c.db\"\n",
            "it needs `persistence_mode = \"file\"`",
        ),
        ("[agents.contract]\npersistence_mode = \"sqlite\"\n", "`file` needs `checkpoint_db_path`"),
    ] {
        fs::write(here.join("doran.toml"), settings).expect("settings");
        let output = run_doran(&here, &["ask", "안녕", "--lang", "en"], "");
        assert!(!output.status.success(), "{settings}");
        assert!(utf8(&output.stderr).contains(words), "{}", utf8(&output.stderr));
    }
}

#[test]
fn without_a_choice_the_small_model_is_the_vendors_and_is_printed() {
    let here = fresh_directory("small-model");
    let run = |args: &[&str]| {
        let mut command = crate::program::doran_command(&here, args);
        let output = command.env("OPENAI_API_KEY", "k").output().expect("it runs");
        utf8(&output.stdout) + &utf8(&output.stderr)
    };
    fs::write(here.join("doran.toml"), "model = \"openai:gpt-5.5\"\n").expect("settings");
    assert!(run(&["models"]).contains("quick decisions: openai:gpt-4.1-nano (the vendor's small model"));
    assert!(run(&["agents"]).contains("`openai:gpt-4.1-nano` makes short decisions"));
    fs::write(here.join("doran.toml"), "model = \"openai:gpt-5.5\"\nsmall_model = \"same\"\n")
        .expect("settings");
    assert!(!run(&["models"]).contains("gpt-4.1-nano"));
    fs::write(here.join("doran.toml"), "model = \"ollama:qwen3:8b\"\n").expect("settings");
    assert!(!run(&["agents"]).contains("makes short decisions"));
}
