//! `doran ask`, `doran agents`.

use std::io::Write;

use serde_json::Value;

use crate::mock_vendor::{MockVendorReply, MockVendorServer};
use crate::program::{ServerProcess, doran_command, fresh_directory, run_doran, utf8};

fn parse_json_object(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", utf8(bytes)))
}

#[test]
fn the_answer_is_on_stdout_and_the_rest_on_stderr() {
    let here = fresh_directory("ask");
    let output = run_doran(&here, &["ask", "연차휴가는", "며칠인가요?"], "");
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    assert!(stdout.lines().next().is_some_and(|line| line.contains("연차휴가 15일을 준다.")), "{stdout}");
    assert!(stdout.lines().all(|line| line.starts_with("문서에 이렇게 적혀 있습니다: ")), "{stdout}");
    assert!(
        stderr.contains("· rag ")
            && stderr.contains(" passages ")
            && stderr.contains("\n  [1] 휴가 규정 › 연차휴가"),
        "{stderr}"
    );
    assert!(stdout.contains("[1]"), "{stdout}");
    let piped = run_doran(&here, &["ask", "-"], "연차휴가는 며칠인가요?\n");
    assert_eq!(utf8(&piped.stdout), stdout);
    let empty = run_doran(&here, &["ask", "--lang", "ko"], "\n");
    assert!(empty.status.code() == Some(1) && utf8(&empty.stderr).contains("질문이 비어 있습니다"));
}

#[test]
fn programs_get_one_object_here_and_from_a_server() {
    let here = fresh_directory("ask-json");
    let check = || {
        let output = run_doran(&here, &["ask", "--agent", "react", "--thread", "t", "--json", "15 * 4"], "");
        assert!(output.status.success(), "{}", utf8(&output.stderr));
        let answer = parse_json_object(&output.stdout);
        assert_eq!(answer["sessionId"], "t");
        assert_eq!(answer["toolsUsed"], serde_json::json!(["calculator"]), "{answer}");
        let path = answer["path"].as_array().expect("a path");
        assert!(
            path.first().is_some_and(|node| node == "input") && path.iter().any(|node| node == "tool"),
            "{answer}"
        );
        assert!(answer["response"].as_str().is_some_and(|text| text.contains("60")), "{answer}");
        assert!(answer["modelCalls"].as_u64() == Some(2) && answer["executionTime"].is_f64(), "{answer}");
        assert!(answer.get("error").is_none() && answer["sources"].is_array(), "{answer}");
    };
    check();
    let server = ServerProcess::start(&here, None);
    check();
    drop(server);
    let unknown = run_doran(&here, &["ask", "--agent", "nobody", "--json", "?"], "");
    let answer = parse_json_object(&unknown.stdout);
    assert!(
        answer["response"]
            .as_str()
            .is_some_and(|error| error.contains("there is no agent `nobody`; there are: ")),
        "{answer}"
    );
    assert_eq!((&answer["error"], &answer["errorCode"]), (&true.into(), &"unknown_agent".into()));
    assert_eq!(unknown.status.code(), Some(1));
    let empty = parse_json_object(&run_doran(&here, &["ask", "--json", " "], "").stdout);
    assert_eq!((&empty["error"], &empty["errorCode"]), (&true.into(), &"empty_input".into()));
}

#[test]
fn a_long_answer_is_shown_whole_when_the_conversation_is_condensed_after_it() {
    let here = fresh_directory("ask-long");
    let far = MockVendorServer::start(|asked| {
        let whole = asked.to_string();
        match whole.contains("json_schema") || whole.contains("response_format") {
            true => {
                MockVendorReply::json(&serde_json::json!({ "query_type": "general", "queryType": "general" }))
            }
            false => MockVendorReply::Text("끝까지 들려야 하는 긴 답입니다. ".repeat(280) + "마지막 말."),
        }
    });
    let settings = format!(
        "model = \"far\"\n[models.far]\nid = \"openai-compatible:http://{}/v1#far\"\n[agents.docqa]\ncontext_length = 2000\n",
        far.address
    );
    std::fs::write(here.join("doran.toml"), settings).expect("written");
    let whole = run_doran(&here, &["ask", "--json", "--agent", "docqa", "안녕하세요?"], "");
    let answer = parse_json_object(&whole.stdout);
    let path = answer["path"].to_string();
    assert!(path.contains("summarizeHistory"), "the conversation was not made small: {answer}");
    let words = answer["response"].as_str().unwrap_or_default();
    assert!(words.ends_with("마지막 말.") && words.chars().count() > 4000, "{words}");
    let plain = utf8(&run_doran(&here, &["ask", "--agent", "docqa", "안녕하세요?"], "").stdout);
    assert_eq!(plain.trim_end(), words);
    let talked =
        utf8(&run_doran(&here, &["chat", "--agent", "docqa", "--thread", "long"], "안녕하세요?\n").stdout);
    assert_eq!(talked.trim_end(), words, "each word once");
}

#[test]
fn a_model_that_is_away_is_an_error_of_every_agent() {
    let here = fresh_directory("ask-away");
    // Nobody listens on port 9.
    let settings = "model = \"gone\"\n[models.gone]\nid = \"openai-compatible:http://127.0.0.1:9/v1#gone\"\n";
    std::fs::write(here.join("doran.toml"), settings).expect("written");
    for agent in ["react", "assistant"] {
        let output = run_doran(&here, &["ask", "--agent", agent, "--json", "15 * 4"], "");
        let answer = parse_json_object(&output.stdout);
        assert_eq!(answer["error"], true, "{answer} {}", utf8(&output.stderr));
        let code = answer["errorCode"].as_str().unwrap_or_default();
        assert!(code.starts_with("model_"), "{answer}");
        assert!(answer["response"].as_str().is_some_and(|words| !words.is_empty()), "{answer}");
        assert_eq!(output.status.code(), Some(1), "{answer}");
    }
}

#[test]
fn what_was_recorded_is_answered_again_without_a_model() {
    let here = fresh_directory("tape");
    let question = ["ask", "--json", "연차휴가는 며칠인가요?"];
    let recorded = run_doran(&here, &[&question[..], &["--record", "tape.jsonl"]].concat(), "");
    let replayed = run_doran(&here, &[&question[..], &["--replay", "tape.jsonl"]].concat(), "");
    let (first, again) = (parse_json_object(&recorded.stdout), parse_json_object(&replayed.stdout));
    assert_eq!(first["response"], again["response"], "{}", utf8(&replayed.stderr));
    let missing = run_doran(&here, &["ask", "다른 질문입니다", "--replay", "gone.jsonl"], "");
    assert!(
        utf8(&missing.stderr).contains("cannot read the recording `gone.jsonl`"),
        "{}",
        utf8(&missing.stderr)
    );
}

#[test]
fn agents_and_tools_are_listed_with_what_the_settings_say() {
    let here = fresh_directory("agents");
    let settings =
        "[assistants.hr]\nko = \"인사\"\nen = \"people\"\n[tools.policies]\nweb_search = \"deny\"\n";
    std::fs::write(here.join("doran.toml"), settings).expect("written");
    let agents = utf8(&run_doran(&here, &["agents"], "").stdout);
    for name in ["assistant", "contract", "react", "docqa", "hr"] {
        assert!(agents.lines().any(|line| line.starts_with(name)), "{agents}");
    }
    let tools = utf8(&run_doran(&here, &["agents", "--tools"], "").stdout);
    assert!(tools.lines().any(|line| line.starts_with("web_search") && line.contains(" deny ")), "{tools}");
    assert!(!here.join(".local").exists(), "a list makes nothing");
    std::fs::write(here.join("doran.toml"), "[tools.policies]\nnothing = \"ask\"\n").expect("written");
    let wrong = utf8(&run_doran(&here, &["agents"], "").stderr);
    assert!(wrong.contains("there is no tool `nothing`; there are: calculator"), "{wrong}");
}

#[test]
fn the_built_in_model_says_that_it_cannot_put_questions_in_other_words() {
    let here = fresh_directory("ask-rewrite");
    std::fs::write(here.join("doran.toml"), "rewrite = \"on\"\n").expect("written");
    let output = run_doran(&here, &["ask", "연차휴가는 며칠인가요?", "--lang", "ko"], "");
    let (stdout, stderr) = (utf8(&output.stdout), utf8(&output.stderr));
    assert!(output.status.success() && stdout.contains("15일"), "{stdout}{stderr}");
    assert!(stderr.contains("내장 모델은 질문을 다른 말로 바꾸지 못하므로 그대로 찾습니다"), "{stderr}");
}

#[test]
fn the_built_in_model_says_that_it_reranks_nothing_and_answers_as_before() {
    let here = fresh_directory("ask-rerank");
    let question = ["ask", "연차휴가는 며칠인가요?", "--lang", "ko"];
    let before = run_doran(&here, &question, "");
    std::fs::write(here.join("doran.toml"), "rerank = \"on\"\n").expect("written");
    let output = run_doran(&here, &question, "");
    let stderr = utf8(&output.stderr);
    assert!(output.status.success() && output.stdout == before.stdout, "{stderr}");
    let sentence = "내장 모델은 문단의 순서를 다시 정하지 못하므로 검색한 순서 그대로 씁니다";
    assert!(stderr.contains(sentence), "{stderr}");
    assert!(!utf8(&before.stderr).contains(sentence), "off is the default");
}

/// The lines about what went wrong: neither steps nor sources.
fn error_lines(stderr: &[u8]) -> Vec<String> {
    utf8(stderr).lines().filter(|line| !line.starts_with(['·', ' '])).map(str::to_owned).collect()
}

#[test]
fn the_model_of_a_call_answers_also_when_a_server_runs() {
    let here = fresh_directory("ask-model");
    let vendor = MockVendorServer::start(|_| MockVendorReply::Text("연차는 한 해에 열닷새입니다.".into()));
    let settings = format!("model = \"openai-compatible:http://{}/v1#m\"\n", vendor.address);
    std::fs::write(here.join("doran.toml"), settings).expect("written");
    let server = ServerProcess::start(&here, None);
    let ask = |more: &[&str]| {
        let question = ["ask", "--agent", "docqa", "연차휴가는 며칠인가요?"];
        let output = run_doran(&here, &[&question[..], more].concat(), "");
        assert!(output.status.success(), "{}", utf8(&output.stderr));
        utf8(&output.stdout)
    };
    assert!(ask(&["--model", "offline-extractive-2"]).contains("문서에 이렇게 적혀 있습니다"));
    assert_eq!(vendor.answered_calls().models.len(), 0);
    assert!(ask(&[]).contains("열닷새"));
    let chat = ["chat", "--thread", "fresh"];
    let typed = "/model offline-extractive-2\n연차휴가는 며칠인가요?\n";
    let before = vendor.answered_calls().models.len();
    let output = run_doran(&here, &chat, typed);
    assert!(utf8(&output.stdout).contains("연차휴가 15일"), "{}", utf8(&output.stderr));
    assert_eq!(vendor.answered_calls().models.len(), before, "the first question goes to the chosen model");
    let output = run_doran(&here, &chat, "병가는 며칠인가요?\n");
    assert!(output.status.success(), "{}", utf8(&output.stderr));
    assert_eq!(vendor.answered_calls().models.len(), before, "the thread keeps the choice");
    let unknown = run_doran(&here, &["ask", "--model", "ollama:nothing", "안녕?"], "");
    assert_eq!(unknown.status.code(), Some(1));
    drop(server);
}

#[test]
fn at_the_limit_of_rounds_one_sentence_says_so() {
    let here = fresh_directory("ask-rounds");
    let vendor = MockVendorServer::start(|_| {
        MockVendorReply::ToolCall("calculator", serde_json::json!({ "expression": "1+1" }))
    });
    let settings = format!(
        "model = \"openai-compatible:http://{}/v1#m\"\n[agents.react]\nmax_iterations = 1\n",
        vendor.address
    );
    std::fs::write(here.join("doran.toml"), settings).expect("written");
    let ask = |lang: &str, more: &[&str]| {
        let question = if lang == "ko" { "1+1은 얼마인가요?" } else { "What is 1+1?" };
        let output =
            run_doran(&here, &[&["ask", "--agent", "react", "--lang", lang, question], more].concat(), "");
        assert_eq!(output.status.code(), Some(1), "{}", utf8(&output.stderr));
        output
    };
    for (lang, sentence) in [
        ("ko", "요청이 너무 복잡합니다. 질문을 더 작게 나누어 다시 물어봐 주세요."),
        ("en", "The request is too complex. Please ask again in smaller parts."),
    ] {
        let plain = ask(lang, &[]);
        let text = error_lines(&plain.stderr);
        assert_eq!(text.len(), 1, "{text:?}");
        let expected = format!("{sentence} (max_iterations_exceeded)");
        assert!(text[0].ends_with(&expected) && text[0].matches('.').count() == 2, "{text:?}");
        assert_eq!(utf8(&plain.stdout), "", "an error is no answer");
        let whole = ask(lang, &["--json"]);
        let answer = parse_json_object(&whole.stdout);
        assert_eq!(answer["response"], sentence);
        assert_eq!(
            (&answer["error"], &answer["errorCode"]),
            (&true.into(), &"max_iterations_exceeded".into())
        );
        assert_eq!(error_lines(&whole.stderr), text, "the same words");
    }
}

#[test]
fn input_that_is_not_text_is_refused_in_the_language_of_the_person() {
    let here = fresh_directory("ask-binary");
    let ask = |input: &[u8]| {
        let mut command = doran_command(&here, &["ask", "--lang", "ko", "요약해줘", "-"]);
        let mut child = command.spawn().expect("the program starts");
        // A program that has read enough does not read the rest.
        child.stdin.take().expect("a pipe").write_all(input).ok();
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1));
        utf8(&output.stderr)
    };
    let error = ask(b"%PDF-1.7\xff\xfe\x00");
    assert!(error.contains("UTF-8로 쓴 글이 아닙니다") && error.contains("doran ingest"), "{error}");
    // The limit may cut a syllable.
    let error = ask("가".repeat(1 << 20).as_bytes());
    assert!(error.contains("KiB보다 깁니다"), "{error}");
}
