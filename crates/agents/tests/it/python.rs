//! `python_repl` against what a model may write, by mistake or on somebody's behalf.

use std::process::Stdio;
use std::time::Duration;

use doran_agents::tools::python::{PythonLimits, PythonTool, SessionSigningKey};
use doran_agents::tools::{Tool, ToolCallContext, ToolError, ToolOutput};
use doran_retrieval::Language;
use serde_json::json;

fn python_tool(bounds: PythonLimits) -> PythonTool {
    PythonTool::new(bounds, SessionSigningKey::new([7; 32])).with_program(env!("CARGO_BIN_EXE_python-worker"))
}

fn call_context(session: Option<&str>) -> ToolCallContext<'_> {
    ToolCallContext {
        tenant: "t",
        thread: "th",
        key: "k",
        language: Language::English,
        session,
        now_ms: 0,
        taint: doran_agents::tools::Taint::default(),
    }
}

/// What comes of some code. On a machine without a jail there is nothing to test, and that is said.
async fn run_code(
    tool: &PythonTool,
    code: &str,
    session: Option<&str>,
) -> Option<Result<ToolOutput, ToolError>> {
    match tool.call(json!({ "code": code }), call_context(session)).await {
        Err(ToolError::NotConfigured(why)) => {
            assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "no jail here: {why}");
            eprintln!("SKIPPED: Python needs a jail / Python에는 격리가 필요함: {why}");
            None
        }
        result => Some(result),
    }
}

/// The words the model reads, whether it worked or not.
async fn output_text(tool: &PythonTool, code: &str) -> Option<String> {
    Some(match run_code(tool, code, None).await? {
        Ok(output) => output.text,
        Err(error) => error.to_string(),
    })
}

async fn check(code: &str, expected: &str) {
    let Some(words) = output_text(&python_tool(PythonLimits::default()), code).await else { return };
    assert_eq!(words, expected, "{code}");
}

/// Each of these must end with one of these words, and the next call must work.
async fn check_refused(code: &str, any_of: &[&str]) {
    let tool = python_tool(PythonLimits { time: Duration::from_secs(2), ..PythonLimits::default() });
    let Some(words) = output_text(&tool, code).await else { return };
    let shown: String = words.chars().take(500).collect();
    assert!(any_of.iter().any(|expected| words.contains(expected)), "{code:.100}: {shown}");
    assert!(!words.contains("root:"), "{code:.100}: {shown}");
    let Some(next) = run_code(&tool, "1 + 1", None).await else { return };
    assert_eq!(next.expect("the next call").text, "2");
}

#[tokio::test]
async fn what_is_printed_and_the_last_value_are_the_answer() {
    check("1 + 1", "2").await;
    check("print('가나다')", "가나다\n").await;
    check("print('a')\n[x * x for x in range(4)]", "a\n[0, 1, 4, 9]").await;
    check("x = 1", "[no output]").await;
    check("2 ** 100", "1267650600228229401496703205376").await;
    check("import math, json\njson.dumps({'r': math.sqrt(2)})", "'{\"r\": 1.4142135623730951}'").await;
    check("def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nf(15)", "610").await;
}

#[tokio::test]
async fn an_error_is_a_traceback_the_model_can_use() {
    let Some(words) =
        output_text(&python_tool(PythonLimits::default()), "x = 1\nprint('before')\nx / 0").await
    else {
        return;
    };
    assert!(words.starts_with("before\nTraceback"), "{words}");
    assert!(words.contains("line 3") && words.ends_with("ZeroDivisionError: division by zero"), "{words}");
}

#[tokio::test]
async fn an_endless_loop_is_stopped() {
    check_refused("while True: pass", &["TimeoutError"]).await;
}

#[tokio::test]
async fn a_huge_number_or_text_is_refused_at_once() {
    for code in ["9**9**9", "1 << 10**12", "'a' * 10**12", "[0] * 10**10", "b'a' * 10**12"] {
        check_refused(code, &["MemoryError", "OverflowError", "TimeoutError"]).await;
    }
}

#[tokio::test]
async fn memory_that_grows_without_end_is_refused() {
    check_refused("x = [1]\nwhile True: x = x + x", &["MemoryError"]).await;
    check_refused("d = {}\ni = 0\nwhile True:\n    d[i] = str(i) * 100\n    i += 1", &["MemoryError"]).await;
    check_refused("s = 'ab'\nwhile True: s += s", &["MemoryError"]).await;
}

#[tokio::test]
async fn deep_nesting_is_a_syntax_error() {
    let code = format!("{}1{}", "(".repeat(20_000), ")".repeat(20_000));
    check_refused(&code, &["SyntaxError", "RecursionError", "MemoryError", "it died"]).await;
    let code = format!("x = {}{}", "[".repeat(20_000), "]".repeat(20_000));
    check_refused(&code, &["SyntaxError", "RecursionError", "MemoryError", "it died"]).await;
}

#[tokio::test]
async fn endless_recursion_is_a_recursion_error() {
    check_refused("def f(): return f()\nf()", &["RecursionError"]).await;
}

#[tokio::test]
async fn a_catastrophic_pattern_is_bounded() {
    check_refused("import re\nprint('done', re.match(r'(a+)+$', 'a'*40+'b'))", &["done None", "Error"]).await;
}

#[tokio::test]
async fn endless_output_is_cut() {
    let tool = python_tool(PythonLimits { time: Duration::from_secs(2), ..PythonLimits::default() });
    let Some(words) = output_text(&tool, "while True: print('x' * 1000)").await else { return };
    assert!(words.contains("output limit exceeded"), "{words:.200}");
    assert!(words.len() < 70_000, "{}", words.len());
    let swallowing =
        "while True:\n    try:\n        print('x' * 1000)\n    except BaseException:\n        pass";
    check_refused(swallowing, &["TimeoutError", "output limit exceeded"]).await;
}

#[tokio::test]
async fn sleeping_is_bounded() {
    check_refused("import asyncio\nawait asyncio.sleep(1000)", &["Error"]).await;
    check_refused("import time\ntime.sleep(1000)", &["Error"]).await;
}

#[tokio::test]
async fn files_cannot_be_read() {
    check_refused("open('/etc/passwd').read()", &["Error"]).await;
    check_refused("from pathlib import Path\nPath('/etc/passwd').read_text()", &["Error"]).await;
    check_refused("from pathlib import Path\nlist(Path('/').iterdir())", &["Error"]).await;
}

#[tokio::test]
async fn the_environment_and_programs_are_out_of_reach() {
    check_refused("import os\nprint(os.environ)", &["Error"]).await;
    check_refused("import os\nprint(os.getenv('PATH'))", &["Error"]).await;
    check_refused("import os\nos.system('id')", &["Error"]).await;
}

#[tokio::test]
async fn there_is_no_way_around_through_classes() {
    check_refused("().__class__.__bases__[0].__subclasses__()", &["AttributeError"]).await;
    check_refused("(lambda: 0).__globals__", &["AttributeError"]).await;
}

#[tokio::test]
async fn dangerous_modules_do_not_exist() {
    for module in ["socket", "ctypes", "subprocess", "multiprocessing", "threading", "importlib", "pickle"] {
        check_refused(&format!("import {module}"), &["ModuleNotFoundError", "ImportError"]).await;
    }
}

#[tokio::test]
async fn code_from_text_is_an_error() {
    for code in ["__import__('os')", "eval('1')", "exec('x = 1')", "compile('1', 'a', 'eval')"] {
        check_refused(code, &["Error"]).await;
    }
}

#[tokio::test]
async fn swallowing_every_error_does_not_help() {
    let code = "x = []\nwhile True:\n    try:\n        x.append('a' * 1000000)\n    except BaseException:\n        pass";
    check_refused(code, &["MemoryError", "TimeoutError"]).await;
}

#[tokio::test]
async fn code_that_is_too_long_or_not_text_is_not_run() {
    let tool = python_tool(PythonLimits::default());
    for code in ["x".repeat(5_000_000), "1\0".to_string(), String::new(), " \n".to_string()] {
        let result = tool.call(json!({ "code": code }), call_context(None)).await;
        assert!(matches!(result, Err(ToolError::BadArguments(_))), "{result:?}");
    }
    for arguments in [json!({}), json!({ "code": 1 }), json!([]), json!({ "code": ["1"] })] {
        let result = tool.call(arguments, call_context(None)).await;
        assert!(matches!(result, Err(ToolError::BadArguments(_))), "{result:?}");
    }
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_worker_that_dies_is_an_error_and_the_next_one_works() {
    let bounds =
        PythonLimits { time: Duration::from_secs(50), session: 1_234_567, ..PythonLimits::default() };
    let tool = std::sync::Arc::new(python_tool(bounds));
    if run_code(&tool, "1", None).await.is_none() {
        return;
    }
    let running = tokio::spawn({
        let tool = tool.clone();
        async move { tool.call(json!({ "code": "while True: pass" }), call_context(None)).await }
    });
    // The rules of a worker are in its arguments; this one's are like no other's.
    let mark = (50 + 1).to_string();
    let worker = find_worker_pid(&mark).await;
    // Until it is gone: a Rust program takes the first for a stack that ran over, puts the usual handler back and goes on
    // to fault again, which one that was only told to fault does not.
    for _ in 0..500 {
        if running.is_finished() {
            break;
        }
        // The last of them may find it gone.
        drop(std::process::Command::new("kill").args(["-SEGV", &worker]).stderr(Stdio::null()).status());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let result = running.await.expect("joined");
    assert_eq!(
        result.expect_err("it died").to_string(),
        "Python: it died (signal 11); the variables are as before this call"
    );
    assert_eq!(run_code(&tool, "1 + 1", None).await.expect("a jail").expect("an answer").text, "2");
}

/// The process id of the worker whose wall time is `seconds`.
async fn find_worker_pid(seconds: &str) -> String {
    let mark = format!("\"wall\":{{\"secs\":{seconds},");
    for _ in 0..2400 {
        for entry in std::fs::read_dir("/proc").expect("list").filter_map(Result::ok) {
            let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            if String::from_utf8_lossy(&words).contains(&mark) && status.contains("Seccomp:\t2") {
                return entry.file_name().to_string_lossy().into_owned();
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no worker within two minutes");
}

#[tokio::test]
async fn many_calls_wait_and_too_many_are_turned_away() {
    let tool =
        std::sync::Arc::new(python_tool(PythonLimits { at_once: 2, waiting: 20, ..PythonLimits::default() }));
    if run_code(&tool, "1", None).await.is_none() {
        return;
    }
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let tool = tool.clone();
            tokio::spawn(async move { tool.call(json!({ "code": "1 + 1" }), call_context(None)).await })
        })
        .collect();
    let (mut answered, mut busy) = (0, 0);
    for call in calls {
        match call.await.expect("joined") {
            Ok(output) if output.text == "2" => answered += 1,
            Err(ToolError::Unavailable(_)) => busy += 1,
            other => panic!("{other:?}"),
        }
    }
    // Two work, and of one tenant ten wait; who comes while one of them leaves may still get a place.
    assert_eq!(answered + busy, 100);
    assert!(answered >= 12 && busy > 0, "{answered} answered, {busy} turned away");
}

#[tokio::test]
async fn no_processes_and_no_writing() {
    check_refused("import os\nwhile True: os.fork()", &["Error"]).await;
    check_refused("open('x', 'w').write('x' * 1000)", &["Error"]).await;
    check_refused("from pathlib import Path\nPath('x').write_text('x')", &["Error"]).await;
}

#[tokio::test]
async fn what_one_thread_knows_another_does_not() {
    let tool = python_tool(PythonLimits::default());
    let Some(first) = run_code(&tool, "x = 'secret'", None).await else { return };
    let session = first.expect("an answer").session.expect("a session");
    let Some(other) = output_text(&tool, "print(x)").await else { return };
    assert!(other.ends_with("NameError: name 'x' is not defined"), "{other}");
    // Not even with the session of another tenant.
    let thief = ToolCallContext { tenant: "other", ..call_context(Some(&session)) };
    let stolen = tool.call(json!({ "code": "print(x)" }), thief).await.expect("an answer").text;
    assert!(stolen.contains("NameError") && stolen.contains("could not be restored"), "{stolen}");
}

#[tokio::test]
async fn there_is_no_function_of_the_host_to_call() {
    check_refused("host('x' * 50_000_000)", &["NameError"]).await;
}

#[tokio::test]
async fn variables_and_functions_live_through_the_thread() {
    let tool = python_tool(PythonLimits::default());
    let Some(first) = run_code(&tool, "total = 40\ndef add(n):\n    return total + n", None).await else {
        return;
    };
    let session = first.expect("an answer").session;
    // Another tool with the same key stands for the program after a restart.
    let tool = self::python_tool(PythonLimits::default());
    let second =
        run_code(&tool, "total += 1\nadd(1)", session.as_deref()).await.expect("a jail").expect("an answer");
    assert_eq!(second.text, "42");
    let third =
        run_code(&tool, "add(0)", second.session.as_deref()).await.expect("a jail").expect("an answer");
    assert_eq!(third.text, "41");
    let arguments = json!({ "code": "total", "fresh": true });
    let fresh = tool.call(arguments, call_context(third.session.as_deref())).await.expect("an answer");
    assert!(fresh.text.contains("NameError"), "{}", fresh.text);
}

#[tokio::test]
async fn an_error_keeps_what_was_set_before_it() {
    let tool = python_tool(PythonLimits::default());
    let Some(first) = run_code(&tool, "x = 5\n1 / 0", None).await else { return };
    let session = first.expect("an answer").session;
    let second = run_code(&tool, "x", session.as_deref()).await.expect("a jail").expect("an answer");
    assert_eq!(second.text, "5");
}

#[tokio::test]
async fn variables_that_are_too_large_are_dropped_and_reported() {
    let tool = python_tool(PythonLimits { session: 10_000, ..PythonLimits::default() });
    let Some(first) = run_code(&tool, "x = 'a' * 100000", None).await else { return };
    let first = first.expect("an answer");
    assert!(
        first.text.starts_with("[the variables take ") && first.text.contains("starts without any"),
        "{}",
        first.text
    );
    let second = run_code(&tool, "x", first.session.as_deref()).await.expect("a jail").expect("an answer");
    assert!(second.text.contains("NameError"), "{}", second.text);
    assert!(!second.text.contains("restored"), "{}", second.text);
}

#[tokio::test]
async fn a_session_that_was_tampered_with_is_not_loaded() {
    let tool = python_tool(PythonLimits::default());
    let Some(result) = run_code(&tool, "1 + 1", Some("monty-0.0.23:AAAA:AAAA")).await else { return };
    let text = result.expect("an answer").text;
    assert_eq!(text, "2\n[the earlier variables could not be restored; this ran without them]");
}

#[tokio::test]
async fn without_a_jail_nothing_is_run() {
    let tool =
        PythonTool::new(PythonLimits::default(), SessionSigningKey::new([7; 32])).with_program("/nowhere");
    let result = tool.call(json!({ "code": "1" }), call_context(None)).await;
    assert!(matches!(result, Err(ToolError::NotConfigured(_))), "{result:?}");
}

#[tokio::test]
async fn one_tenant_cannot_take_every_turn() {
    let limits =
        PythonLimits { at_once: 1, waiting: 4, time: Duration::from_secs(1), ..PythonLimits::default() };
    let tool = std::sync::Arc::new(python_tool(limits));
    let endless: Vec<_> = (0..5)
        .map(|_| {
            let tool = tool.clone();
            tokio::spawn(
                async move { tool.call(json!({ "code": "while True: pass" }), call_context(None)).await },
            )
        })
        .collect();
    // Once one was turned away, there is no room for this tenant.
    let (first, _, rest) = futures_util::future::select_all(endless).await;
    match first.expect("no panic") {
        Err(ToolError::NotConfigured(why)) => return eprintln!("SKIPPED: Python needs a jail: {why}"),
        Err(ToolError::Unavailable(_)) => {}
        other => panic!("{other:?}"),
    }
    let other = ToolCallContext { tenant: "other", ..call_context(None) };
    let answer = tool.call(json!({ "code": "6 * 7" }), other).await.expect("its turn comes");
    assert_eq!(answer.text, "42");
    assert!(rest.iter().any(|call| !call.is_finished()), "before those who came first");
    rest.iter().for_each(tokio::task::JoinHandle::abort);
}
