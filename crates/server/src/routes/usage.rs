//! Tokens and cost, in total and per model of a thread.

use std::collections::BTreeMap;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::Response;
use doran_agents::protocol::notes_of_entry;
use doran_engine::ThreadKey;
use doran_engine::store::{DeletedUsage, RunFilter, RunRow, RunStatus, RunUsage, Seq};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ApiRoute, json_response, query_value};
use crate::ServerApp;
use crate::agent_request;
use crate::api::{
    BudgetInfo, DayUsageInfo, DeletedUsageInfo, EvalUsageInfo, ModelUsageInfo, NamedUsageInfo, UsageInfo,
};
use crate::authentication::ApiCaller;
use crate::budget::now_millis;
use crate::error::{ApiError, ApiErrorCode};
use crate::eval_usage::{EvalUsage, ModelUsage, UsageByModel, add_by_model, add_note, is_estimate};
use crate::openapi::{Operation, OperationTag};

/// Runs or steps read in one go, and how often.
const PAGE_SIZE: usize = 500;
const MAX_PAGES: usize = 40;
/// Threads whose steps are read to split usage by model.
const MAX_THREADS_BY_MODEL: usize = 200;
/// The most days that are listed one by one.
const MAX_DAYS: u32 = 366;
const DAY_MILLIS: i64 = 86_400_000;

pub(super) fn routes() -> Vec<ApiRoute> {
    vec![ApiRoute::get(
        "/api/usage",
        get_usage,
        Operation::new(
            OperationTag::Server,
            "get_usage",
            "Returns the tokens and the money that runs used, for a thread or for the last days also in groups.",
        )
        .query::<UsageQuery>()
        .returns::<UsageInfo>(200, "The usage.")
        .errors(&[ApiErrorCode::NotFound]),
    )]
}

/// What may follow the path.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UsageQuery {
    /// Only this thread, also by model.
    #[schemars(length(min = 1, max = 200))]
    thread: Option<String>,
    /// Only the last so many days, also by day, agent, model and API key.
    #[schemars(range(min = 1, max = MAX_DAYS))]
    days: Option<u32>,
    /// Where days begin: minutes that the clock of the reader is ahead of UTC.
    #[serde(default)]
    #[schemars(range(min = -840, max = 840))]
    utc_offset: i32,
}

/// `GET /api/usage`: tokens and money of a thread, also by model, or of the newest runs of all.
async fn get_usage(
    State(app): State<ServerApp>,
    caller: ApiCaller,
    of: Result<Query<UsageQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let UsageQuery { thread, days, utc_offset } = query_value(of)?;
    if days.is_some_and(|days| !(1..=MAX_DAYS).contains(&days)) || !(-840..=840).contains(&utc_offset) {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            format!("`days` is 1 to {MAX_DAYS}, `utc_offset` is at most 840 minutes"),
            format!("`days`는 1~{MAX_DAYS}, `utc_offset`은 840분까지입니다"),
        ));
    }
    let thread = thread.map(|name| agent_request::thread_key(&caller, &name)).transpose()?;
    let mut groups = days.map(|days| UsageGroups::new(days, i64::from(utc_offset), now_millis()));
    if let Some(thread) = &thread {
        app.runtime.thread_row(thread).await?;
    }
    let (mut total, mut runs, mut before, mut all, mut exact) = (RunUsage::default(), 0, None, false, true);
    'pages: for _ in 0..MAX_PAGES {
        let filter = RunFilter {
            thread: thread.as_ref().map(|thread| thread.thread.clone()),
            before,
            limit: PAGE_SIZE,
            ..RunFilter::default()
        };
        let page = app.runtime.list_runs(&caller.tenant, &filter).await?;
        for run in &page {
            if let Some(groups) = &mut groups {
                if run.created_at < groups.since {
                    all = true;
                    break 'pages;
                }
                groups.add_run(run);
            }
            total += run.usage;
            runs += 1;
            // What a request took that was stopped or cut off is an estimate, and a run under way spends more.
            exact &= run.status == RunStatus::Finished || run.usage.is_zero();
        }
        before = page.last().map(|run| run.run);
        all = page.len() < PAGE_SIZE;
        if all {
            break;
        }
    }
    let mut evals: Option<UsageSum> = None;
    if let Some(log) = app.eval_usage.as_ref().filter(|_| thread.is_none()) {
        let since = groups.as_ref().map_or(0, |groups| groups.since);
        for row in log.since(&caller.tenant, since).await? {
            let sum = evals.get_or_insert_default();
            sum.0 += row.turns;
            sum.1 += row.used;
            runs += row.turns;
            total += row.used;
            exact &= row.is_exact;
            if let Some(groups) = &mut groups {
                groups.add_eval(&row);
            }
        }
    }
    let mut deleted: Option<UsageSum> = None;
    if thread.is_none() {
        let since = groups.as_ref().map_or(0, |groups| groups.since);
        for row in app.runtime.deleted_usage(&caller.tenant, since).await? {
            let sum = deleted.get_or_insert_default();
            sum.0 += row.runs;
            sum.1 += row.usage;
            runs += row.runs;
            total += row.usage;
            exact &= row.is_exact;
            if let Some(groups) = &mut groups {
                groups.add_deleted(&row);
            }
        }
    }
    let RunUsage { input_tokens, output_tokens, cost_micros } = total;
    let mut complete = all && exact;
    let by_model = match (&thread, &groups) {
        (Some(thread), _) => {
            let (by_model, is_exact) = usage_by_model(&app, thread, 0).await?;
            complete &= is_exact;
            Some(model_usage(by_model))
        }
        (None, Some(groups)) => {
            let (by_model, is_exact) = groups.usage_by_model(&app).await?;
            complete &= is_exact && groups.threads.len() <= MAX_THREADS_BY_MODEL;
            Some(model_usage(by_model))
        }
        (None, None) => None,
    };
    let budget = match &app.budget {
        Some(budget) => Some(BudgetInfo {
            limit_micros: budget.cost_micros,
            spent_micros: budget.spent_now_micros(&app.runtime, &caller.tenant).await?,
        }),
        None => None,
    };
    let (by_day, by_agent, by_key) = match groups {
        Some(groups) => {
            (Some(groups.days()), Some(named_usage(groups.agents)), Some(named_usage(groups.keys)))
        }
        None => (None, None, None),
    };
    Ok(json_response(UsageInfo {
        runs,
        complete,
        input_tokens,
        output_tokens,
        cost_micros,
        by_model,
        by_day,
        by_agent,
        by_key,
        evals: evals.map(|(runs, RunUsage { input_tokens, output_tokens, cost_micros })| EvalUsageInfo {
            runs,
            input_tokens,
            output_tokens,
            cost_micros,
        }),
        deleted: deleted.map(|(runs, RunUsage { input_tokens, output_tokens, cost_micros })| {
            DeletedUsageInfo { runs, input_tokens, output_tokens, cost_micros }
        }),
        krw_per_usd: app.krw_per_usd,
        budget,
    }))
}

/// Runs, and what they used.
type UsageSum = (u64, RunUsage);

/// What runs used since a time, in groups.
struct UsageGroups {
    /// The start of the oldest day.
    since: i64,
    /// Milliseconds that the clock of the reader is ahead of UTC.
    offset: i64,
    days: BTreeMap<i64, UsageSum>,
    agents: BTreeMap<String, UsageSum>,
    keys: BTreeMap<String, UsageSum>,
    /// What models took in evaluations.
    models: UsageByModel,
    /// The threads of the runs, each with the oldest entry that counts; newest first.
    threads: Vec<(ThreadKey, Seq)>,
}

impl UsageGroups {
    fn new(days: u32, offset_minutes: i64, now: i64) -> Self {
        let offset = offset_minutes * 60_000;
        let today = (now + offset).div_euclid(DAY_MILLIS);
        Self {
            since: (today - i64::from(days) + 1) * DAY_MILLIS - offset,
            offset,
            days: BTreeMap::new(),
            agents: BTreeMap::new(),
            keys: BTreeMap::new(),
            models: UsageByModel::new(),
            threads: Vec::new(),
        }
    }

    /// Adds to a day, an agent and, where it is known, a key.
    fn add(&mut self, at: i64, agent: &str, key: Option<&str>, (runs, used): UsageSum) {
        let day = (at + self.offset).div_euclid(DAY_MILLIS) * DAY_MILLIS - self.offset;
        let of_key = key.map(|key| self.keys.entry(key.to_owned()).or_default());
        let sums = [self.days.entry(day).or_default(), self.agents.entry(agent.to_owned()).or_default()];
        for sum in sums.into_iter().chain(of_key) {
            sum.0 += runs;
            sum.1 += used;
        }
    }

    fn add_deleted(&mut self, row: &DeletedUsage) {
        self.add(row.at, &row.graph, None, (row.runs, row.usage));
    }

    fn add_eval(&mut self, row: &EvalUsage) {
        self.add(row.at, &row.agent, Some(&row.key), (row.turns, row.used));
        add_by_model(&mut self.models, &row.models);
    }

    fn add_run(&mut self, run: &RunRow) {
        let key = agent_request::run_key_name(&run.metadata).unwrap_or_default();
        self.add(run.created_at, &run.graph, Some(key), (1, run.usage));
        let Some(first) = run.first_seq else { return };
        if let Some((_, oldest)) = self.threads.iter_mut().find(|(thread, _)| *thread == run.thread) {
            *oldest = first.min(*oldest);
        } else if self.threads.len() <= MAX_THREADS_BY_MODEL {
            // One more tells that there are more.
            self.threads.push((run.thread.clone(), first));
        }
    }

    fn days(&self) -> Vec<DayUsageInfo> {
        let info = |(start, (runs, usage)): (&i64, &UsageSum)| DayUsageInfo {
            start: *start,
            runs: *runs,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cost_micros: usage.cost_micros,
        };
        self.days.iter().rev().map(info).collect()
    }

    /// What each model took in evaluations and on the newest threads, and whether that is all of it and exact.
    async fn usage_by_model(&self, app: &ServerApp) -> Result<(UsageByModel, bool), ApiError> {
        let (mut sums, mut is_exact) = (self.models.clone(), true);
        for (thread, oldest) in self.threads.iter().take(MAX_THREADS_BY_MODEL) {
            let (took, is_thread_exact) = match usage_by_model(app, thread, oldest.saturating_sub(1)).await {
                // Deleted in between.
                Err(error) if error.code == ApiErrorCode::NotFound => continue,
                took => took?,
            };
            is_exact &= is_thread_exact;
            add_by_model(&mut sums, &took);
        }
        Ok((sums, is_exact))
    }
}

fn named_usage(sums: BTreeMap<String, UsageSum>) -> Vec<NamedUsageInfo> {
    let info = |(name, (runs, usage)): (String, UsageSum)| NamedUsageInfo {
        name,
        runs,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cost_micros: usage.cost_micros,
    };
    sums.into_iter().map(info).collect()
}

/// What each model took after an entry, as the steps of the thread noted it, and whether that is exact: every step was read,
/// nothing is an estimate because a request was cut off, and no process died under a run. A run may finish well after that.
async fn usage_by_model(
    app: &ServerApp,
    thread: &ThreadKey,
    after: Seq,
) -> Result<(UsageByModel, bool), ApiError> {
    let (mut took, mut after) = (UsageByModel::new(), after);
    let (mut has_estimates, mut is_whole) = (false, false);
    for _ in 0..MAX_PAGES {
        let page = app.runtime.entries(thread, after, PAGE_SIZE).await?;
        for entry in &page {
            // Of a call that was under way when the process died nothing is known.
            has_estimates |= entry.follows_lost_worker();
            let notes = notes_of_entry(&entry.body).map_err(|error| {
                tracing::error!(%error, seq = entry.seq, "cannot read the notes of a step; its usage is not counted");
                ApiError::from(ApiErrorCode::Internal)
            })?;
            for note in notes.into_iter().flat_map(|notes| notes.models) {
                has_estimates |= is_estimate(&note);
                add_note(&mut took, note);
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE_SIZE => after = last.seq,
            Some(_) | None => {
                is_whole = true;
                break;
            }
        }
    }
    Ok((took, is_whole && !has_estimates))
}

fn model_usage(sums: UsageByModel) -> Vec<ModelUsageInfo> {
    let info = |(name, ModelUsage { calls, input_tokens, output_tokens, cost_micros })| ModelUsageInfo {
        name,
        calls,
        input_tokens,
        output_tokens,
        cost_micros,
    };
    sums.into_iter().map(info).collect()
}
