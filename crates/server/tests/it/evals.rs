//! Evaluations: sets are changed by administrators, stay with their tenant, and run in the background.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use doran_agents::eval::{AgentEvalReport, EvalDocuments};
use doran_agents::{Agent, AgentParts, build_default_agents, samples};
use doran_engine::TenantId;
use doran_engine::store::RamStore;
use doran_llm::ChatModel;
use doran_offline::OfflineModel;
use doran_retrieval::{DocumentTenant, RamKeywordIndex};
use doran_server::api::EvalRunInfo;
use doran_server::{
    ApiKey, ApiKeys, EvalStore, EvalStoreError, EvalUsage, EvalUsageStore, KeyHash, MonthlyBudget, ServerApp,
    StoredEvalSet,
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::budget::{CALL_MICROS, PricedReplyModel};
use crate::{PausingModel, app, get, json, json_request, problem, send, until, with_key_of};

type TenantAndSet = (TenantId, String);

/// Sets, reports, runs and usage in memory. Its agents search the samples.
#[derive(Default)]
struct RamEvals {
    sets: Mutex<BTreeMap<TenantAndSet, StoredEvalSet>>,
    reports: Mutex<BTreeMap<TenantAndSet, Vec<AgentEvalReport>>>,
    runs: Mutex<BTreeMap<TenantAndSet, EvalRunInfo>>,
    usage: Mutex<Vec<(TenantId, EvalUsage)>>,
    /// Answers in place of the built-in model.
    model: Option<Arc<dyn ChatModel>>,
}

#[async_trait]
impl EvalStore for RamEvals {
    async fn names(&self, tenant: &TenantId) -> Result<Vec<String>, EvalStoreError> {
        let sets = self.sets.lock().expect("a lock");
        Ok(sets.keys().filter(|(owner, _)| owner == tenant).map(|(_, name)| name.clone()).collect())
    }

    async fn read(&self, tenant: &TenantId, name: &str) -> Result<Option<StoredEvalSet>, EvalStoreError> {
        let found = self.sets.lock().expect("a lock").get(&(tenant.clone(), name.to_owned())).cloned();
        // Somebody else may write before the caller does.
        tokio::task::yield_now().await;
        Ok(found)
    }

    async fn write(
        &self,
        tenant: &TenantId,
        name: &str,
        replaced: Option<u64>,
        text: &str,
    ) -> Result<bool, EvalStoreError> {
        let (mut sets, key) = (self.sets.lock().expect("a lock"), (tenant.clone(), name.to_owned()));
        if sets.get(&key).map(|stored| stored.revision) != replaced {
            return Ok(false);
        }
        let revision = replaced.unwrap_or_default() + 1;
        sets.insert(key, StoredEvalSet { text: text.to_owned(), revision });
        Ok(true)
    }

    async fn remove(&self, tenant: &TenantId, name: &str) -> Result<(), EvalStoreError> {
        let key = (tenant.clone(), name.to_owned());
        self.sets.lock().expect("a lock").remove(&key);
        self.runs.lock().expect("a lock").remove(&key);
        Ok(())
    }

    async fn reports(&self, tenant: &TenantId, name: &str) -> Result<Vec<AgentEvalReport>, EvalStoreError> {
        let reports = self.reports.lock().expect("a lock");
        Ok(reports.get(&(tenant.clone(), name.to_owned())).cloned().unwrap_or_default())
    }

    async fn newest_report(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Option<AgentEvalReport>, EvalStoreError> {
        Ok(self.reports(tenant, name).await?.into_iter().next())
    }

    async fn save_report(
        &self,
        tenant: &TenantId,
        name: &str,
        report: &AgentEvalReport,
    ) -> Result<(), EvalStoreError> {
        let mut reports = self.reports.lock().expect("a lock");
        let kept = reports.entry((tenant.clone(), name.to_owned())).or_default();
        kept.retain(|one| one.variant != report.variant);
        kept.insert(0, report.clone());
        Ok(())
    }

    async fn last_run(&self, tenant: &TenantId, set: &str) -> Result<Option<EvalRunInfo>, EvalStoreError> {
        Ok(self.runs.lock().expect("a lock").get(&(tenant.clone(), set.to_owned())).cloned())
    }

    async fn save_run(&self, tenant: &TenantId, run: &EvalRunInfo) -> Result<(), EvalStoreError> {
        self.runs.lock().expect("a lock").insert((tenant.clone(), run.set.clone()), run.clone());
        Ok(())
    }

    async fn agents(&self, _: EvalDocuments) -> Result<Vec<Agent>, EvalStoreError> {
        let index = RamKeywordIndex::from_documents(&DocumentTenant::new("local"), &samples::rule_books());
        let model = self.model.clone().unwrap_or_else(|| Arc::new(OfflineModel));
        Ok(build_default_agents(&AgentParts::new(model, Arc::new(index))).expect("sound graphs"))
    }
}

#[async_trait]
impl EvalUsageStore for RamEvals {
    async fn add(&self, tenant: &TenantId, usage: EvalUsage) -> Result<(), EvalStoreError> {
        self.usage.lock().expect("a lock").push((tenant.clone(), usage));
        Ok(())
    }

    async fn since(&self, tenant: &TenantId, since: i64) -> Result<Vec<EvalUsage>, EvalStoreError> {
        let usage = self.usage.lock().expect("a lock");
        let ours = usage.iter().filter(|(owner, usage)| owner == tenant && usage.at >= since);
        Ok(ours.map(|(_, usage)| usage.clone()).collect())
    }
}

fn app_with_evals(model: Option<Arc<dyn ChatModel>>) -> ServerApp {
    let evals = Arc::new(RamEvals { model, ..RamEvals::default() });
    app().evals(evals.clone(), evals)
}

fn case(id: &str, ask: &str, words: &str) -> Value {
    json!({ "id": id, "agent": "assistant", "ask": ask, "expect": { "contains": [words] } })
}

async fn put_case(app: &ServerApp, set: &str, case: &Value) {
    let path = format!("/api/evals/{set}/cases/{}", case["id"].as_str().expect("an id"));
    let response = send(app, json_request("put", &path, &case.to_string())).await;
    assert_eq!(response.status(), 204, "{case}");
}

/// Waits until the run of the set is over.
async fn finished(app: &ServerApp, set: &str) -> Value {
    let look = async {
        loop {
            let info = json(app, get(&format!("/api/evals/{set}"))).await;
            if info["run"]["status"] != "running" {
                return info;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), look).await.expect("the run ends")
}

#[tokio::test]
async fn a_set_is_run_and_changes_are_reported() {
    let app = app_with_evals(None);
    put_case(&app, "휴가", &case("leave", "연차휴가는 며칠인가요?", "15일")).await;
    put_case(&app, "휴가", &case("wrong", "연차휴가는 며칠인가요?", "99일")).await;
    let listed = json(&app, get("/api/evals")).await;
    assert_eq!((&listed["sets"][0]["name"], &listed["sets"][0]["cases"]), (&json!("휴가"), &json!(2)));
    assert_eq!(listed["may_change"], true);
    let set = "%ED%9C%B4%EA%B0%80";
    let run = async |variants: Value| {
        let body = json!({ "variants": variants }).to_string();
        let started = send(&app, json_request("put", &format!("/api/evals/{set}/run"), &body)).await;
        assert_eq!(started.status(), 202);
        finished(&app, set).await
    };
    let first = run(json!([{}, { "instructions": "짧게 답하세요." }])).await;
    assert_eq!((&first["run"]["status"], &first["run"]["done"]), (&json!("finished"), &json!(4)));
    assert_eq!(first["reports"].as_array().map(Vec::len), Some(2), "one for each variant");
    let report = first["reports"].as_array().expect("reports").iter().find(|one| one["variant"] == json!({}));
    let cases = &report.expect("the report of the default")["cases"];
    assert_eq!(cases[0]["failures"], json!([]));
    assert_eq!(cases[1]["failures"][0]["expected"], "99일");
    assert!(cases[1]["observed"]["response"].as_str().expect("an answer").contains("15일"));
    // The case is corrected, and a second run tells that it holds now.
    put_case(&app, "휴가", &case("wrong", "연차휴가는 며칠인가요?", "15일")).await;
    let second = run(json!([{}])).await;
    assert_eq!(second["reports"][0]["changes"], json!([{ "change": "mended", "id": "wrong" }]));
    // Nothing of it is among the conversations or the runs.
    assert_eq!(json(&app, get("/api/threads")).await["threads"], json!([]));
    assert_eq!(json(&app, get("/api/runs")).await["runs"], json!([]));
}

#[tokio::test]
async fn cases_are_changed_and_deleted_and_the_last_takes_the_set_with_it() {
    let app = app_with_evals(None);
    put_case(&app, "leave", &case("a", "?", "x")).await;
    let renamed = json_request("put", "/api/evals/leave/cases/a", &case("b", "??", "y").to_string());
    assert_eq!(send(&app, renamed).await.status(), 204);
    let info = json(&app, get("/api/evals/leave")).await;
    assert_eq!(info["cases"].as_array().map(Vec::len), Some(1));
    assert_eq!((&info["cases"][0]["id"], &info["cases"][0]["ask"]), (&json!("b"), &json!("??")));
    let delete = |path: &str| json_request("delete", path, "");
    assert_eq!(problem(&app, delete("/api/evals/leave/cases/a")).await, "404 not_found");
    assert_eq!(send(&app, delete("/api/evals/leave/cases/b")).await.status(), 204);
    assert_eq!(problem(&app, get("/api/evals/leave")).await, "404 not_found");
    assert_eq!(problem(&app, delete("/api/evals/leave/run")).await, "404 not_found");
}

#[tokio::test]
async fn what_could_not_fail_or_is_no_file_name_is_refused() {
    let app = app_with_evals(None);
    let nothing = json!({ "id": "a", "agent": "assistant", "ask": "?", "expect": {} });
    let unknown = json!({ "id": "a", "agent": "nobody", "ask": "?", "expect": { "contains": ["x"] } });
    let nul = case("a", "\0", "x");
    let put = |set: &str, body: &Value| {
        json_request("put", &format!("/api/evals/{set}/cases/a"), &body.to_string())
    };
    assert_eq!(problem(&app, put("leave", &nothing)).await, "400 bad_input");
    assert_eq!(problem(&app, put("leave", &unknown)).await, "404 unknown_agent");
    assert_eq!(problem(&app, put("leave", &nul)).await, "400 bad_input");
    let never = json!({ "id": "a", "agent": "assistant", "ask": "?", "expect": { "most_cost": -1 } });
    assert_eq!(problem(&app, put("leave", &never)).await, "400 bad_input");
    for name in ["..", "a.b", "-x", "a%2Fb", "a%20b", "%00", &"x".repeat(41)] {
        assert_eq!(problem(&app, put(name, &case("a", "?", "x"))).await, "400 bad_input", "{name}");
    }
    put_case(&app, "leave", &case("a", "?", "x")).await;
    for variants in
        [json!([]), json!([{}, {}]), json!([{ "model": "ollama:x" }]), json!([{ "instructions": " " }])]
    {
        let body = json!({ "variants": variants }).to_string();
        assert_eq!(
            problem(&app, json_request("put", "/api/evals/leave/run", &body)).await,
            "400 bad_input",
            "{variants}"
        );
    }
}

#[tokio::test]
async fn only_administrators_change_sets_and_nobody_sees_those_of_another_tenant() {
    let key = |name: &str, tenant: &str, is_admin| ApiKey {
        name: name.into(),
        tenant: TenantId::new(tenant).expect("a name"),
        hash: KeyHash::from_secret(&format!("key-{name}")),
        is_admin,
    };
    let keys = vec![key("boss", "a", true), key("user", "a", false), key("other", "b", true)];
    let app = app_with_evals(None).keys(ApiKeys::new(keys));
    let body = case("a", "비밀 질문", "x").to_string();
    let put = || json_request("put", "/api/evals/leave/cases/a", &body);
    assert_eq!(send(&app, with_key_of("boss", put())).await.status(), 204);
    let changes = [
        put(),
        json_request("delete", "/api/evals/leave/cases/a", ""),
        json_request("delete", "/api/evals/leave", ""),
        json_request("put", "/api/evals/leave/run", r#"{"variants":[{}]}"#),
        json_request("delete", "/api/evals/leave/run", ""),
    ];
    for change in changes {
        let path = change.uri().to_string();
        assert_eq!(problem(&app, with_key_of("user", change)).await, "403 admin_only", "{path}");
    }
    let seen = json(&app, with_key_of("user", get("/api/evals/leave"))).await;
    assert_eq!((&seen["cases"][0]["ask"], &seen["may_change"]), (&json!("비밀 질문"), &json!(false)));
    assert_eq!(json(&app, with_key_of("other", get("/api/evals"))).await["sets"], json!([]));
    assert_eq!(problem(&app, with_key_of("other", get("/api/evals/leave"))).await, "404 not_found");
    let delete = json_request("delete", "/api/evals/leave", "");
    assert_eq!(problem(&app, with_key_of("other", delete)).await, "404 not_found");
}

#[tokio::test]
async fn a_run_can_be_stopped_and_a_second_one_waits_for_its_end() {
    let app = app_with_evals(Some(Arc::new(PausingModel(Arc::default()))));
    put_case(&app, "leave", &case("a", "연차휴가는 며칠인가요?", "15일")).await;
    let start = || json_request("put", "/api/evals/leave/run", r#"{"variants":[{}]}"#);
    assert_eq!(send(&app, start()).await.status(), 202);
    until(async || json(&app, get("/api/evals/leave")).await["run"]["case"] == "a").await;
    assert_eq!(problem(&app, start()).await, "409 conflict");
    assert_eq!(send(&app, json_request("delete", "/api/evals/leave/run", "")).await.status(), 204);
    let info = finished(&app, "leave").await;
    assert_eq!((&info["run"]["status"], &info["reports"]), (&json!("stopped"), &json!([])));
    assert_eq!(send(&app, start()).await.status(), 202, "another one can start");
}

/// The tenant `a` with an administrator.
fn boss_key() -> ApiKeys {
    ApiKeys::new(vec![ApiKey {
        name: "boss".into(),
        tenant: TenantId::new("a").expect("a name"),
        hash: KeyHash::from_secret("key-boss"),
        is_admin: true,
    }])
}

#[tokio::test]
async fn the_budget_is_looked_at_between_the_turns_of_a_question() {
    let calls = Arc::new(AtomicUsize::new(0));
    let model: Arc<dyn ChatModel> = Arc::new(PricedReplyModel(calls.clone()));
    let evals = Arc::new(RamEvals { model: Some(model), ..RamEvals::default() });
    let budget = MonthlyBudget::new(2 * CALL_MICROS).evals(evals.clone());
    let app = app().evals(evals.clone(), evals).budget(budget).keys(boss_key());
    let before = vec!["안녕?"; 6];
    let asked = json!({ "id": "1", "agent": "react", "before": before, "ask": "안녕?",
        "expect": { "contains": ["네"] } });
    for request in [
        json_request("put", "/api/evals/long/cases/1", &asked.to_string()),
        json_request("put", "/api/evals/long/run", r#"{"variants":[{}]}"#),
    ] {
        assert!(send(&app, with_key_of("boss", request)).await.status().is_success());
    }
    let look = async || json(&app, with_key_of("boss", get("/api/evals/long"))).await;
    until(async || look().await["run"]["status"] != "running").await;
    let run = look().await["run"].clone();
    assert_eq!(run["status"], "failed", "{run}");
    assert!(run["ko"].as_str().is_some_and(|why| why.contains("예산")), "{run}");
    assert_eq!(calls.load(Ordering::SeqCst), 2, "no turn begins after the budget is spent");
    let usage = json(&app, with_key_of("boss", get("/api/usage"))).await;
    assert_eq!(usage["budget"]["spent_micros"], json!(2 * CALL_MICROS), "{usage}");
}

#[tokio::test]
async fn what_questions_cost_is_counted_and_the_budget_ends_an_evaluation() {
    let calls = Arc::new(AtomicUsize::new(0));
    let model: Arc<dyn ChatModel> = Arc::new(PricedReplyModel(calls.clone()));
    let evals = Arc::new(RamEvals { model: Some(model), ..RamEvals::default() });
    let budget = MonthlyBudget::new(3 * CALL_MICROS - 1).evals(evals.clone());
    let app = app().evals(evals.clone(), evals).budget(budget).keys(boss_key());
    let send_as_boss = async |request| {
        let response = send(&app, with_key_of("boss", request)).await;
        assert!(response.status().is_success(), "{response:?}");
    };
    // The earlier question of the conversation costs as much as the one that is judged.
    let asked = json!({ "id": "1", "agent": "react", "before": ["안녕?"], "ask": "안녕?",
        "expect": { "contains": ["네"] } });
    send_as_boss(json_request("put", "/api/evals/leave/cases/1", &asked.to_string())).await;
    let more = json!({ "id": "2", "agent": "react", "ask": "안녕?", "expect": { "contains": ["네"] } });
    send_as_boss(json_request("put", "/api/evals/leave/cases/2", &more.to_string())).await;
    send_as_boss(json_request(
        "put",
        "/api/evals/leave/run",
        r#"{"variants":[{}, {"instructions":"짧게"}]}"#,
    ))
    .await;
    let look = async || json(&app, with_key_of("boss", get("/api/evals/leave"))).await;
    until(async || look().await["run"]["status"] != "running").await;
    let run = look().await["run"].clone();
    assert_eq!((&run["status"], &run["done"]), (&json!("failed"), &json!(2)), "{run}");
    assert!(run["ko"].as_str().expect("a reason").contains("예산"), "{run}");
    assert_eq!(calls.load(Ordering::SeqCst), 3, "the third call goes over the budget, and no fourth begins");
    let usage = json(&app, with_key_of("boss", get("/api/usage?days=7"))).await;
    let spent = json!(3 * CALL_MICROS);
    assert_eq!((&usage["runs"], &usage["cost_micros"]), (&json!(3), &spent), "{usage}");
    assert_eq!((&usage["evals"]["runs"], &usage["evals"]["cost_micros"]), (&json!(3), &spent));
    for group in ["by_day", "by_agent", "by_model", "by_key"] {
        assert_eq!(usage[group][0]["cost_micros"], spent, "{group}: {usage}");
    }
    assert_eq!(
        (&usage["by_agent"][0]["name"], &usage["by_key"][0]["name"]),
        (&json!("react"), &json!("boss"))
    );
    assert_eq!(usage["budget"]["spent_micros"], spent);
    // Nobody else may spend either.
    let start = json_request("post", "/api/chat", r#"{"agent":"react","message":"안녕?"}"#);
    assert_eq!(problem(&app, with_key_of("boss", start)).await, "402 budget_spent");
}

#[tokio::test]
async fn a_run_whose_server_ended_is_interrupted_and_can_be_started_again() {
    let leave: Arc<Notify> = Arc::default();
    let evals = Arc::new(RamEvals { model: Some(Arc::new(PausingModel(leave))), ..RamEvals::default() });
    let stopping = CancellationToken::new();
    let first = app().evals(evals.clone(), evals.clone()).shutdown_token(stopping.clone());
    put_case(&first, "leave", &case("a", "연차휴가는 며칠인가요?", "15일")).await;
    let start = r#"{"variants":[{"instructions":"짧게 답하세요."}]}"#;
    assert_eq!(send(&first, json_request("put", "/api/evals/leave/run", start)).await.status(), 202);
    until(async || json(&first, get("/api/evals/leave")).await["run"]["case"] == "a").await;
    // Another server with the same files and no lease of a living one: the first was killed.
    let second = app().evals(evals.clone(), evals.clone());
    let run = json(&second, get("/api/evals/leave")).await["run"].clone();
    assert_eq!((&run["status"], &run["done"], &run["total"]), (&json!("interrupted"), &json!(0), &json!(1)));
    assert_eq!(run["variants"], json!([{ "instructions": "짧게 답하세요." }]), "it can be started again");
    // The first one is told to end, and says so itself.
    stopping.cancel();
    until(async || json(&first, get("/api/evals/leave")).await["run"]["status"] == "interrupted").await;
    let usage = json(&second, get("/api/usage")).await;
    assert_eq!(usage["evals"]["runs"], 1, "what was spent until then is counted: {usage}");
    assert_eq!(usage["complete"], false, "and is an estimate");
    assert_eq!(send(&second, json_request("put", "/api/evals/leave/run", start)).await.status(), 202);
}

#[tokio::test]
async fn replicas_see_the_same_run_ask_one_at_a_time_and_stop_each_other() {
    let leave: Arc<Notify> = Arc::default();
    let evals = Arc::new(RamEvals { model: Some(Arc::new(PausingModel(leave))), ..RamEvals::default() });
    let values = Arc::new(RamStore::new());
    let replica = || app().evals(evals.clone(), evals.clone()).shared_values(values.clone());
    let (here, there) = (replica(), replica());
    put_case(&here, "leave", &case("a", "연차휴가는 며칠인가요?", "15일")).await;
    let start = || json_request("put", "/api/evals/leave/run", r#"{"variants":[{}]}"#);
    assert_eq!(send(&here, start()).await.status(), 202);
    until(async || json(&there, get("/api/evals/leave")).await["run"]["case"] == "a").await;
    assert_eq!(json(&there, get("/api/evals/leave")).await["run"]["status"], "running");
    assert_eq!(problem(&there, start()).await, "409 conflict");
    assert_eq!(send(&there, json_request("delete", "/api/evals/leave/run", "")).await.status(), 204);
    until(async || json(&there, get("/api/evals/leave")).await["run"]["status"] == "stopped").await;
    until(async || send(&there, start()).await.status() == 202).await;
}

#[tokio::test]
async fn changes_of_two_people_at_once_are_both_kept() {
    let app = app_with_evals(None);
    let puts = (0..20).map(|number| {
        let app = app.clone();
        tokio::spawn(async move { put_case(&app, "leave", &case(&format!("c{number}"), "?", "x")).await })
    });
    for put in puts.collect::<Vec<_>>() {
        put.await.expect("stored");
    }
    let info = json(&app, get("/api/evals/leave")).await;
    assert_eq!(info["cases"].as_array().map(Vec::len), Some(20));
}
