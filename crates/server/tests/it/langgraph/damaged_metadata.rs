//! What was stored and cannot be read any more is named, and not taken for a default.

use doran_engine::TenantId;
use doran_engine::runtime::ScheduleTiming;
use serde_json::json;

use super::{four_graphs_app_and_runtime, hi};
use crate::{get, json, json_request, post, problem, until};

#[tokio::test]
async fn a_damaged_cron_is_listed_with_its_error_and_can_be_deleted() {
    let (app, runtime) = four_graphs_app_and_runtime();
    let body = json!({ "assistant_id": "chat", "schedule": "0 0 1 1 *", "input": hi() }).to_string();
    let mut crons = Vec::new();
    for _ in 0..2 {
        let cron = json(&app, post("/runs/crons", &body)).await;
        crons.push(cron["cron_id"].as_str().expect("an id").to_owned());
    }
    let tenant = TenantId::local();
    let schedule = runtime.schedule(&tenant, &crons[0]).await.expect("read").expect("a schedule");
    let mut damaged = schedule.definition.clone();
    damaged.metadata["doran"]["cron"] = json!("damaged");
    runtime.put_schedule(&tenant, &crons[0], &damaged, true).await.expect("stored");
    assert_eq!(problem(&app, get(&format!("/runs/crons/{}", crons[0]))).await, "500 internal");
    let listed = json(&app, post("/runs/crons/search", "{}")).await;
    let listed = listed.as_array().expect("a list");
    let mut ids: Vec<&str> = listed.iter().filter_map(|cron| cron["cron_id"].as_str()).collect();
    ids.sort_unstable();
    let mut expected: Vec<&str> = crons.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(ids, expected);
    for cron in listed {
        let is_damaged = cron["cron_id"] == crons[0].as_str();
        let named = format!("the stored cron `{}` cannot be read", crons[0]);
        assert_eq!(
            cron["error"].as_str().is_some_and(|error| error.starts_with(&named)),
            is_damaged,
            "{cron}"
        );
        assert_eq!(cron["schedule"], "0 0 1 1 *");
    }
    let gone = crate::send(&app, json_request("delete", &format!("/runs/crons/{}", crons[0]), "")).await;
    assert_eq!(gone.status(), 204);
    assert!(runtime.schedule(&tenant, &crons[0]).await.expect("read").is_none());

    // A schedule of a program is no cron.
    let mut of_program = schedule.definition;
    of_program.metadata.remove("doran");
    runtime.put_schedule(&tenant, &crons[0], &of_program, true).await.expect("stored");
    assert_eq!(problem(&app, get(&format!("/runs/crons/{}", crons[0]))).await, "404 not_found");
}

#[tokio::test]
async fn damaged_stream_modes_of_a_run_are_an_error() {
    let (app, runtime) = four_graphs_app_and_runtime();
    let body = json!({ "assistant_id": "chat", "schedule": "0 0 1 1 *", "input": hi() }).to_string();
    let cron = json(&app, post("/runs/crons", &body)).await;
    let (cron, tenant) = (cron["cron_id"].as_str().expect("an id"), TenantId::local());
    let mut due = runtime.schedule(&tenant, cron).await.expect("read").expect("a schedule").definition;
    due.timing = ScheduleTiming::Once(0);
    due.metadata["doran"]["stream_mode"] = json!("damaged");
    due.metadata["doran"]["multitask_strategy"] = json!(7);
    runtime.start_worker().await.expect("it works");
    runtime.put_schedule(&tenant, cron, &due, true).await.expect("stored");
    let mut runs = Vec::new();
    until(async || {
        runs = runtime.list_runs(&tenant, &Default::default()).await.expect("read");
        runs.first().is_some_and(|run| run.status.is_end())
    })
    .await;
    let path = format!("/threads/{}/runs/{}", runs[0].thread.thread.as_str(), runs[0].run);
    assert_eq!(problem(&app, get(&format!("{path}/stream"))).await, "500 internal");
    // A mode that the request names is not the stored one.
    let streamed = crate::send(&app, get(&format!("{path}/stream?stream_mode=values"))).await;
    assert_eq!(streamed.status(), 200);
    assert_eq!(json(&app, get(&path)).await["status"], "success");
}
