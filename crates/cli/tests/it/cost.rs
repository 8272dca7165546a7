//! What runs cost: by the prices of the settings, in lists, and against a budget.

use std::fs;
use std::path::Path;

use doran_llm::{Said, ScriptedServer, Usage, Wire};
use serde_json::Value;

use crate::program::{fresh, text, told};

/// A vendor that says the same to everybody and counts a thousand tokens in, a hundred out.
async fn vendor() -> ScriptedServer {
    let usage = Usage { input_tokens: 1_000, output_tokens: 100, ..Usage::default() };
    let said = Said { usage: Some(usage), ..Said::text("연차휴가는 15일입니다.") };
    ScriptedServer::answering(move |_| Wire::Chat.streamed(&said)).await.expect("a server")
}

/// Two dollars for a million tokens read, ten for a million written: 0.3 cents a call.
fn settings(here: &Path, model: &str, more: &str) {
    let prices = format!("[prices.\"{model}\"]\ninput = 2.0\noutput = 10.0\n");
    fs::write(here.join("doran.toml"), format!("model = \"{model}\"\n{more}\n{prices}")).expect("written");
}

fn runs(here: &Path) -> Vec<Value> {
    let listed = text(&told(here, &["runs", "--json"], "").stdout);
    listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_run_costs_what_its_calls_do_and_stops_at_its_budget() {
    let here = fresh("cost");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = runtime.block_on(vendor());
    let model = format!("openai-compatible:{}/v1#m", server.url());

    settings(&here, &model, "");
    let asked = told(&here, &["ask", "--agent", "react", "연차휴가는 며칠인가요?"], "");
    assert!(asked.status.success(), "{}", text(&asked.stderr));
    let calls = server.heard().len() as u64;
    assert!(calls >= 1);
    let run = &runs(&here)[0];
    assert_eq!(run["input_tokens"], calls * 1_000, "{run}");
    assert_eq!(run["cost_micros"], calls * 3_000, "{run}");

    // Tokens past the budget stop the run; so does money. What was spent until then is booked.
    for (more, sentence) in [
        ("max_run_tokens = 500", "may use at most 500 tokens"),
        ("max_run_cost_cents = 1", "may cost at most 0.01 US dollars"),
    ] {
        let dear = if more.contains("cost") { "input = 200.0" } else { "input = 2.0" };
        settings(&here, &model, more);
        let file = here.join("doran.toml");
        let now = fs::read_to_string(&file).expect("the file").replace("input = 2.0", dear);
        fs::write(&file, now).expect("written");
        let before = server.heard().len();
        let stopped = told(&here, &["ask", "--agent", "react", "연차휴가는 며칠인가요?"], "");
        assert!(!stopped.status.success(), "{}", text(&stopped.stdout));
        assert!(text(&stopped.stderr).contains(sentence), "{}", text(&stopped.stderr));
        assert_eq!(server.heard().len(), before + 1, "{more}: nobody was asked after that");
        let run = &runs(&here)[0];
        assert_eq!(
            (run["status"].as_str(), run["input_tokens"].as_u64()),
            (Some("failed"), Some(1_000)),
            "{run}"
        );
    }
}

#[test]
fn a_budget_of_money_needs_prices() {
    let here = fresh("unpriced");
    let model = "openai-compatible:http://127.0.0.1:9/v1#m";
    fs::write(here.join("doran.toml"), format!("model = \"{model}\"\nmax_run_cost_cents = 5\n"))
        .expect("written");
    let refused = told(&here, &["ask", "--lang", "ko", "안녕?"], "");
    let stderr = text(&refused.stderr);
    assert!(!refused.status.success());
    assert!(
        stderr.contains("`max_run_cost_cents`를 지킬 수 없습니다") && stderr.contains("[prices."),
        "{stderr}"
    );
}
