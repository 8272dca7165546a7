//! Not a byte of an answer changes in `doran ask --json`, alone and through a server. Many random texts are
//! put into one answer, because a process takes longer than a text.

use std::sync::{Arc, Mutex};

use doran_llm::{RandomTexts, ScriptedDialect, ScriptedServer, ScriptedVendorAnswer};
use serde_json::Value;

use crate::program::{ServerProcess, fresh_directory, run_doran, utf8};

const TEXTS_PER_ANSWER: usize = 100;

/// Asks once for every hundred texts. Every second answer is from a server.
fn check_texts(name: &str, count: usize) {
    let here = fresh_directory(name);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let current: Arc<Mutex<Vec<String>>> = Arc::default();
    let shared = current.clone();
    let vendor = runtime.block_on(ScriptedServer::start_with_responder(move |_| {
        let text = shared.lock().expect("no panic").clone();
        ScriptedDialect::Chat
            .streamed_response(&ScriptedVendorAnswer { text, ..ScriptedVendorAnswer::text("x") })
    }));
    let vendor = vendor.expect("a server");
    let model = format!("model = \"openai-compatible:{}/v1#m\"\n", vendor.url());
    std::fs::write(here.join("doran.toml"), model).expect("written");
    let mut random = RandomTexts::new(0x0123_4567_89ab_cdef);
    let mut server = None;
    for nth in 0..count.div_ceil(TEXTS_PER_ANSWER) {
        let half = count.div_ceil(TEXTS_PER_ANSWER) / 2;
        if nth == half {
            server = Some(ServerProcess::start(&here, None));
        }
        let texts: Vec<String> = (0..TEXTS_PER_ANSWER).map(|_| random.text()).collect();
        let answer = texts.join("\n\n=====\n\n");
        *current.lock().expect("no panic") = random.split(&answer);
        let thread = format!("t{nth}");
        let asked =
            run_doran(&here, &["ask", "--json", "--agent", "react", "--thread", &thread, "안녕하세요"], "");
        let json: Value = serde_json::from_slice(&asked.stdout).unwrap_or_else(|error| {
            panic!("{error}: {}{}", utf8(&asked.stdout), utf8(&asked.stderr));
        });
        assert_eq!(
            json["response"].as_str(),
            Some(answer.replace('\0', "\u{fffd}").as_str()),
            "answer {nth}"
        );
    }
    assert!(server.is_some(), "a server was asked too");
}

#[test]
fn random_texts_pass_the_command_byte_for_byte() {
    check_texts("answer-bytes", 300);
}

#[test]
#[ignore = "takes minutes: run it with `--ignored` after a change of models, agents or the command"]
fn ten_thousand_random_texts_pass_the_command_byte_for_byte() {
    check_texts("answer-bytes-long", 10_000);
}
