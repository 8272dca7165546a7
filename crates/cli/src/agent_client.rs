//! Where questions are put: to the agents of this process, or to the server that has the data directory already.

use std::collections::BTreeMap;
use std::time::Duration;

use doran_agents::attachments::attachment_tenant;
use doran_agents::failure::BUDGET_SPENT_CODE;
use doran_agents::history;
use doran_engine::store::{RunFilter, RunStatus, StoreError};
use doran_engine::{EngineError, MisuseError, RunKey, StartOptions, ThreadId, ThreadKey, WatchUntil};
use doran_retrieval::{IngestState, LibraryError, NewDocument};
use doran_server::api::{
    DocumentInfo, MessageInfo, MessageList, ModelList, RunEvent, RunInfo, RunList, StartRun, ThreadInfo,
};
use doran_server::percent_encode;
use serde_json::{Map, Value, json};

use crate::assemble::telemetry::TELEMETRY_SHUTDOWN_TIMEOUT;
use crate::assemble::{self, App, RecordReplay};
use crate::client::ServerHttpClient;
use crate::commands::threads::{self, ThreadExport};
use crate::config::Config;
use crate::data_dir;
use crate::output::{self, BilingualMessage, bilingual};

/// How often the progress of an attached file is requested.
const ATTACHMENT_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Where questions are sent.
pub(crate) enum AgentClient {
    /// The agents here.
    Local(Box<App>),
    /// A server of ours.
    Remote(ServerHttpClient),
}

/// The server that has the data directory, if one does.
pub(crate) fn running_server(config: &Config) -> Option<ServerHttpClient> {
    data_dir::is_locked(&config.data_dir).then(|| ServerHttpClient::from_data_dir(&config.data_dir)).flatten()
}

/// A thread by the name a person gave.
pub(crate) fn parse_thread_name(name: &str) -> Result<ThreadId, BilingualMessage> {
    ThreadId::new(name).map_err(|error| {
        bilingual!("`--thread`의 값이 맞지 않습니다", "the value of `--thread` does not fit")
            .with_cause(error)
    })
}

impl AgentClient {
    /// Finds out where questions are to be sent.
    pub(crate) async fn open(config: &Config, record_replay: &RecordReplay) -> anyhow::Result<Self> {
        Self::open_with(config, record_replay, assemble::assemble_app).await
    }

    /// The same for a command that keeps running. Documents that wait are read meanwhile.
    pub(crate) async fn open_reading_documents(
        config: &Config,
        record_replay: &RecordReplay,
    ) -> anyhow::Result<Self> {
        Self::open_with(config, record_replay, assemble::assemble_app_reading_documents).await
    }

    async fn open_with(
        config: &Config,
        record_replay: &RecordReplay,
        assemble: impl AsyncFnOnce(&Config, &RecordReplay) -> anyhow::Result<App>,
    ) -> anyhow::Result<Self> {
        if let Some(client) = running_server(config) {
            if record_replay.record.is_some() || record_replay.replay.is_some() {
                return Err(bilingual!(
                    "데이터 디렉터리를 쓰는 서버가 답합니다. `--record`와 `--replay`는 그 서버를 시작할 때 주세요",
                    "the server that has the data directory answers; give `--record` and `--replay` when it is started"
                )
                .into());
            }
            return Ok(Self::Remote(client));
        }
        let app = assemble(config, record_replay).await?;
        // A run that was cut off last time is finished first.
        app.runtime.start_worker().await?;
        Ok(Self::Local(Box::new(app)))
    }

    /// Asks, and hands every event to `each`, until the answer is there or the run waits.
    pub(crate) async fn ask(
        &self,
        thread: &ThreadId,
        run: &StartRun,
        each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}/runs", percent_encode(thread.as_str()));
                client.stream_events(&path, Some(run), each).await
            }
            Self::Local(app) => {
                let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
                let started = start_run(app, &key, run).await?;
                watch_run(app, &started, 0, each).await
            }
        }
    }

    /// Answers what a run asked, and hands the events after that to `each`.
    pub(crate) async fn resume_with_answers(
        &self,
        thread: &ThreadId,
        run: &str,
        after: u64,
        answers: &BTreeMap<String, Value>,
        each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}/runs/{run}", percent_encode(thread.as_str()));
                client.post::<RunInfo>(&format!("{path}/resume"), &json!({ "answers": answers })).await?;
                client.stream_events(&format!("{path}/events?after={after}"), None::<&Value>, each).await
            }
            Self::Local(app) => {
                let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
                let run = key.run(run.parse()?);
                app.runtime.answer(&run, answers).await?;
                watch_run(app, &run, after, each).await
            }
        }
    }

    /// Waits for a run on the thread that an earlier process has left under way.
    pub(crate) async fn wait_for_active_run(&self, thread: &ThreadId) -> anyhow::Result<()> {
        let Self::Local(app) = self else { return Ok(()) };
        let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
        if let Some(run) = app.runtime.active_run(&key).await? {
            run.wait().await?;
        }
        Ok(())
    }

    /// The run that is under way or waits on the thread, or else the newest one.
    pub(crate) async fn last_run(&self, thread: &ThreadId) -> anyhow::Result<Option<RunInfo>> {
        let runs = match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}/runs", percent_encode(thread.as_str()));
                match client.get::<RunList>(&path).await {
                    Err(error) if output::error_code(&error) == Some("not_found") => Vec::new(),
                    listed => listed?.runs,
                }
            }
            Self::Local(app) => {
                let filter = RunFilter { thread: Some(thread.clone()), ..RunFilter::default() };
                let rows = app.runtime.list_runs(&app.tenant, &filter).await?;
                rows.iter().map(RunInfo::from_row).collect()
            }
        };
        let is_active = |run: &RunInfo| matches!(run.status, RunStatus::Running | RunStatus::Paused);
        Ok(runs.iter().find(|run| is_active(run)).or(runs.first()).cloned())
    }

    /// Hands the events of a run to `each`, from its start until it ends or waits.
    pub(crate) async fn watch_run(
        &self,
        thread: &ThreadId,
        run: &str,
        each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}/runs/{run}/events", percent_encode(thread.as_str()));
                client.stream_events(&path, None::<&Value>, each).await
            }
            Self::Local(app) => {
                let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
                watch_run(app, &key.run(run.parse()?), 0, each).await
            }
        }
    }

    /// Ends the run that is under way on the thread, if one is, and waits until it is over.
    pub(crate) async fn cancel_active_run(&self, thread: &ThreadId) -> anyhow::Result<()> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}", percent_encode(thread.as_str()));
                let Some(run) = client.get::<ThreadInfo>(&path).await?.active else { return Ok(()) };
                let path = format!("{path}/runs/{run}");
                client.post::<RunInfo>(&format!("{path}/cancel"), &json!({})).await?;
                client.stream_events(&format!("{path}/events"), None::<&Value>, |_| Ok(())).await
            }
            Self::Local(app) => {
                let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
                let Some(run) = app.runtime.active_run(&key).await? else { return Ok(()) };
                app.runtime.cancel(&run.key()).await?;
                run.wait().await?;
                Ok(())
            }
        }
    }

    /// The log entry that a run follows. A question from there starts a branch.
    pub(crate) async fn entry_before_run(&self, thread: &ThreadId, run: &str) -> anyhow::Result<Option<u64>> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}/runs/{run}", percent_encode(thread.as_str()));
                Ok(client.get::<RunInfo>(&path).await?.from)
            }
            Self::Local(app) => {
                let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
                Ok(app.runtime.run_row(&key.run(run.parse()?)).await?.parent_seq)
            }
        }
    }

    /// A thread and its messages.
    pub(crate) async fn thread_export(&self, thread: &ThreadId) -> anyhow::Result<ThreadExport> {
        match self {
            Self::Remote(client) => threads::fetch_thread(client, thread).await,
            Self::Local(app) => {
                let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
                let thread = ThreadInfo::from_row(&app.runtime.thread_row(&key).await?);
                Ok(ThreadExport { thread, messages: self.messages(&key.thread).await? })
            }
        }
    }

    /// The ids of the models that a chat can choose.
    pub(crate) async fn model_ids(&self) -> anyhow::Result<Vec<String>> {
        Ok(match self {
            Self::Remote(client) => {
                let listed: ModelList = client.get("/api/models").await?;
                listed.options.into_iter().map(|model| model.id).collect()
            }
            Self::Local(app) => app.model_ids(),
        })
    }

    /// Chooses the model of a thread, if the thread exists. `None` is the default. Returns whether it does.
    pub(crate) async fn set_model(&self, thread: &ThreadId, model: Option<&str>) -> anyhow::Result<bool> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}", percent_encode(thread.as_str()));
                match client.patch::<ThreadInfo>(&path, &json!({ "model": model })).await {
                    Err(error) if output::error_code(&error) == Some("not_found") => Ok(false),
                    changed => changed.map(|_| true),
                }
            }
            Self::Local(app) => {
                let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
                if app.runtime.find_thread_row(&key).await?.is_none() {
                    return Ok(false);
                }
                let metadata = Map::from_iter([("model".to_owned(), json!(model))]);
                app.runtime.put_thread(&key, &metadata).await?;
                Ok(true)
            }
        }
    }

    /// Attaches a file to a thread and waits until it is read. Whether it can be searched, or why not.
    pub(crate) async fn attach_document(
        &self,
        thread: &ThreadId,
        agent: &str,
        name: &str,
        bytes: Vec<u8>,
    ) -> anyhow::Result<Result<(), BilingualMessage>> {
        match self {
            Self::Remote(client) => attach_remotely(client, thread, name, bytes).await,
            Self::Local(app) => attach_locally(app, thread, agent, name, bytes).await,
        }
    }

    /// The messages of a thread.
    pub(crate) async fn messages(&self, thread: &ThreadId) -> anyhow::Result<Vec<MessageInfo>> {
        match self {
            Self::Remote(client) => {
                let path = format!("/api/threads/{}/messages", percent_encode(thread.as_str()));
                Ok(client.get::<MessageList>(&path).await?.messages)
            }
            Self::Local(app) => {
                let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
                let messages = history::read_history(&app.runtime, &key, &app.agents).await?;
                Ok(messages.into_iter().map(MessageInfo::from_history).collect())
            }
        }
    }

    /// Ends when this process can only end, with the reason.
    pub(crate) async fn wait_for_fatal_error(&self) -> BilingualMessage {
        match self {
            Self::Local(app) => app.wait_for_fatal_error().await,
            Self::Remote(_) => std::future::pending().await,
        }
    }

    /// Lets go in order.
    pub(crate) async fn close(&self) {
        if let Self::Local(app) = self {
            app.runtime.shutdown(Duration::from_secs(5)).await;
            app.telemetry.shut_down(TELEMETRY_SHUTDOWN_TIMEOUT).await;
            app.library.stop_workers().await;
        }
    }
}

async fn attach_remotely(
    client: &ServerHttpClient,
    thread: &ThreadId,
    name: &str,
    bytes: Vec<u8>,
) -> anyhow::Result<Result<(), BilingualMessage>> {
    let (name, thread) = (percent_encode(name), percent_encode(thread.as_str()));
    let document = client.upload(&format!("/api/documents?name={name}&thread={thread}"), bytes).await?;
    let id = document.document.document.id;
    loop {
        let DocumentInfo { status, ko, en, .. } =
            client.get(&format!("/api/documents/{id}?thread={thread}")).await?;
        match status {
            IngestState::Ready => return Ok(Ok(())),
            status if status.is_pending() => tokio::time::sleep(ATTACHMENT_POLL_INTERVAL).await,
            _ => return Ok(Err(BilingualMessage::new(ko.unwrap_or_default(), en.unwrap_or_default()))),
        }
    }
}

async fn attach_locally(
    app: &App,
    thread: &ThreadId,
    agent: &str,
    name: &str,
    bytes: Vec<u8>,
) -> anyhow::Result<Result<(), BilingualMessage>> {
    let key = ThreadKey { tenant: app.tenant.clone(), thread: thread.clone() };
    let tenant = attachment_tenant(app.tenant.as_str(), thread.as_str());
    let new = NewDocument {
        tenant: tenant.clone(),
        name: name.to_owned(),
        collection: String::new(),
        kind: None,
        bytes,
    };
    let refused = |error: LibraryError| BilingualMessage::new(error.message_ko(), error.to_string());
    // A file that is refused leaves no empty thread.
    if let Err(error) = app.library.check(&new) {
        return Ok(Err(refused(error)));
    }
    // A document that no thread owns would never be deleted.
    if app.runtime.find_thread_row(&key).await?.is_none() {
        app.runtime.put_thread(&key, &Map::from_iter([("agent".to_owned(), json!(agent))])).await?;
    }
    let mut changes = app.library.watch();
    let added = match app.library.add(new).await {
        Ok(added) => added,
        Err(error) => return Ok(Err(refused(error))),
    };
    loop {
        let status = app.library.status(&tenant, &added.id).unwrap_or_else(|| added.clone());
        if let Some(failure) = &status.failure {
            return Ok(Err(BilingualMessage::new(failure.kind.message_ko().to_owned(), failure.to_string())));
        }
        // A library that is gone tells nothing more.
        if !status.state.is_pending() || changes.changed().await.is_err() {
            return Ok(Ok(()));
        }
    }
}

async fn start_run(app: &App, thread: &ThreadKey, run: &StartRun) -> anyhow::Result<RunKey> {
    let Some(agent) = app.agents.iter().find(|agent| agent.name == run.agent) else {
        return Err(
            unknown_agent_error(&run.agent, app.agents.iter().map(|agent| agent.name.as_str())).into()
        );
    };
    let mut options = run.options();
    if let Some(row) = app.runtime.find_thread_row(thread).await? {
        doran_server::apply_thread_settings(&mut options, &row);
    }
    let input = agent.input(&run.message, &options);
    let thread_metadata = Map::from_iter([
        ("title".to_owned(), json!(doran_server::title_from_message(&run.message))),
        ("agent".to_owned(), json!(run.agent)),
    ]);
    let start = StartOptions { from: run.from, thread_metadata, ..StartOptions::default() };
    let started = app.runtime.start(&run.agent, thread, Some(&input), start).await;
    let name = &thread.thread;
    match started {
        Ok(started) => Ok(started.key()),
        Err(EngineError::Store(StoreError::Busy { .. })) => Err(bilingual!(
            "이 대화에는 끝나지 않은 실행이 있습니다. `doran chat --thread '{name}'`나 웹 화면에서 그 실행에 답하거나, `--thread`로 다른 대화를 고르세요",
            "this conversation has a run that is not over; answer it with `doran chat --thread '{name}'` or on the page, or choose another with `--thread`"
        )
        .with_code("thread_busy")
        .into()),
        Err(EngineError::Misuse(MisuseError::NotAdmitted(failure))) if failure.code == BUDGET_SPENT_CODE => {
            Err(bilingual!(
                "이번 달 예산을 다 썼습니다. 예산은 `monthly_budget_cents`로 정합니다",
                "the budget of this month is spent; `monthly_budget_cents` sets it"
            )
            .with_code(BUDGET_SPENT_CODE)
            .into())
        }
        Err(error) => Err(error.into()),
    }
}

/// The sentence for an agent that there is not.
pub(crate) fn unknown_agent_error<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> BilingualMessage {
    let known = known.collect::<Vec<_>>().join(", ");
    bilingual!(
        "`{name}`(이)라는 에이전트는 없습니다. 있는 것: {known}",
        "there is no agent `{name}`; there are: {known}"
    )
    .with_code("unknown_agent")
}

async fn watch_run(
    app: &App,
    run: &RunKey,
    after: u64,
    mut each: impl FnMut(&RunEvent) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let row = app.runtime.run_row(run).await?;
    let mut watch = app.runtime.watch(run, after, WatchUntil::RunEndedOrPaused).await?;
    let agent = app.agents.iter().find(|agent| agent.name == row.graph);
    while let Some(event) = watch.try_next().await? {
        each(&RunEvent::from_engine(row.thread.thread.as_str(), agent, &event)?)?;
    }
    Ok(())
}
