//! What runs cost: by the prices of the settings, in lists, and against a budget.

use std::fs;
use std::path::Path;

use doran_llm::{ScriptedDialect, ScriptedServer, ScriptedVendorAnswer, Usage};
use serde_json::Value;

use crate::program::{fresh_directory, run_doran, utf8};

/// A vendor that says the same to everybody and counts a thousand tokens in, a hundred out.
async fn priced_vendor() -> ScriptedServer {
    let usage = Usage { input_tokens: 1_000, output_tokens: 100, ..Usage::default() };
    let answer = ScriptedVendorAnswer {
        usage: Some(usage),
        ..ScriptedVendorAnswer::text("연차휴가는 15일입니다.")
    };
    ScriptedServer::start_with_responder(move |_| ScriptedDialect::Chat.streamed_response(&answer))
        .await
        .expect("a server")
}

/// Two dollars for a million tokens read, ten for a million written: 0.3 cents a call.
fn write_settings(here: &Path, model: &str, more: &str) {
    let prices = format!("[prices.\"{model}\"]\ninput = 2.0\noutput = 10.0\n");
    fs::write(here.join("doran.toml"), format!("model = \"{model}\"\n{more}\n{prices}")).expect("written");
}

fn list_runs(here: &Path) -> Vec<Value> {
    let listed = utf8(&run_doran(here, &["runs", "--json"], "").stdout);
    listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_run_costs_what_its_calls_do_and_stops_at_its_budget() {
    let here = fresh_directory("cost");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = runtime.block_on(priced_vendor());
    let model = format!("openai-compatible:{}/v1#m", server.url());

    write_settings(&here, &model, "");
    let asked = run_doran(&here, &["ask", "--agent", "react", "연차휴가는 며칠인가요?"], "");
    assert!(asked.status.success(), "{}", utf8(&asked.stderr));
    let calls = server.received_requests().len() as u64;
    assert!(calls >= 1);
    let run = &list_runs(&here)[0];
    assert_eq!(run["input_tokens"], calls * 1_000, "{run}");
    assert_eq!(run["cost_micros"], calls * 3_000, "{run}");

    // Tokens past the budget stop the run; so does money. What was spent until then is booked.
    for (more, sentence) in [
        ("max_run_tokens = 500", "may use at most 500 tokens"),
        ("max_run_cost_cents = 1", "may cost at most 0.01 US dollars"),
    ] {
        let dear = if more.contains("cost") { "input = 200.0" } else { "input = 2.0" };
        write_settings(&here, &model, more);
        let file = here.join("doran.toml");
        let now = fs::read_to_string(&file).expect("the file").replace("input = 2.0", dear);
        fs::write(&file, now).expect("written");
        let before = server.received_requests().len();
        let stopped = run_doran(&here, &["ask", "--agent", "react", "연차휴가는 며칠인가요?"], "");
        assert!(!stopped.status.success(), "{}", utf8(&stopped.stdout));
        assert!(utf8(&stopped.stderr).contains(sentence), "{}", utf8(&stopped.stderr));
        assert_eq!(server.received_requests().len(), before + 1, "{more}: nobody was asked after that");
        let run = &list_runs(&here)[0];
        assert_eq!(
            (run["status"].as_str(), run["input_tokens"].as_u64()),
            (Some("failed"), Some(1_000)),
            "{run}"
        );
    }
}

#[test]
fn a_budget_of_money_needs_prices() {
    let here = fresh_directory("unpriced");
    let model = "openai-compatible:http://127.0.0.1:9/v1#m";
    fs::write(here.join("doran.toml"), format!("model = \"{model}\"\nmax_run_cost_cents = 5\n"))
        .expect("written");
    let refused = run_doran(&here, &["ask", "--lang", "ko", "안녕?"], "");
    let stderr = utf8(&refused.stderr);
    assert!(!refused.status.success());
    assert!(
        stderr.contains("`max_run_cost_cents`를 지킬 수 없습니다") && stderr.contains("[prices."),
        "{stderr}"
    );
}

#[test]
fn the_budget_of_the_month_stops_the_program_without_a_server_too() {
    let here = fresh_directory("month");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = runtime.block_on(priced_vendor());
    let model = format!("openai-compatible:{}/v1#m", server.url());
    // A call costs 0.3 cents of one cent: three runs are answered, the fourth has too little left, and the fifth nothing.
    write_settings(&here, &model, "monthly_budget_cents = 1");
    let ask = || run_doran(&here, &["ask", "--agent", "react", "연차휴가는 며칠인가요?"], "");
    for nth in 0..3 {
        let asked = ask();
        assert!(asked.status.success(), "{nth}: {}", utf8(&asked.stderr));
    }
    let stopped = utf8(&ask().stderr);
    assert!(stopped.contains("may cost at most 0.001 US dollars"), "{stopped}");
    let before = server.received_requests().len();
    assert_eq!(before, 4);
    let refused = ask();
    assert!(!refused.status.success() && utf8(&refused.stderr).contains("the budget of this month is spent"));
    assert_eq!(server.received_requests().len(), before, "nobody was asked");
}
