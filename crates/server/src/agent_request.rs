//! Requests to an agent, shared by all dialects: validation, the start of the run, and its outcome.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use doran_agents::protocol::{StepNotes, notes_of_entry};
use doran_agents::retrieval::{LibraryError, is_collection_name};
use doran_agents::{Agent, AgentTurn, AskOptions};
use doran_engine::store::{
    IfBusy, Retention, RunIdempotencyKey, RunRow, RunStatus, Seq, StoreError, ThreadRow,
};
use doran_engine::{
    Acknowledgement, EngineError, RunHandle, RunKey, StartOptions, TenantId, ThreadId, ThreadKey,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::ServerApp;
use crate::api::QuestionInfo;
use crate::authentication::ApiCaller;
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::idempotency;
use crate::thread_settings::apply_thread_settings;
use crate::transcript_stream::is_client_tool;

/// The most characters of a title made from a question.
const MAX_GENERATED_TITLE_CHARS: usize = 60;

/// How often a queued run is looked at.
const QUEUE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long a request waits for a run that was cancelled.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// Entries of a log that are read in one go.
const ENTRIES_PER_PAGE: usize = 500;

/// Where a thread keeps the hash of the request that made it.
pub(crate) const REQUEST_HASH_METADATA: &str = "made_by";

/// A question as any dialect brings it.
pub(crate) struct AgentRequest<'a> {
    pub(crate) agent: &'a str,
    pub(crate) thread: ThreadKey,
    pub(crate) message: &'a str,
    pub(crate) options: AskOptions,
    pub(crate) if_busy: IfBusy,
    /// When the client is told of the run: with the first event of a stream, or with its result.
    pub(crate) acknowledge: Acknowledgement,
    /// Where the run begins and where it pauses.
    pub(crate) placement: RunPlacement,
    /// The key of the client, and the bytes that it stands for.
    pub(crate) idempotency: Option<(String, &'a [u8])>,
    /// The name of the API key of the caller.
    pub(crate) key: Option<Arc<str>>,
}

/// Where a run begins, where it pauses, and what is noted with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunPlacement {
    /// The log entry that the run follows, if it is not the newest.
    pub(crate) from: Option<Seq>,
    pub(crate) pause_before: BTreeSet<String>,
    pub(crate) pause_after: BTreeSet<String>,
    /// Free pairs that are stored with the run.
    pub(crate) metadata: Map<String, Value>,
}

/// Whether a run was started.
pub(crate) enum RunStart {
    Started(RunHandle),
    /// The thread waits for an answer, and no run was started.
    ThreadWaiting(WaitingRun),
}

/// A run that waits for a person, and what it asks.
pub(crate) struct WaitingRun {
    pub(crate) run: RunKey,
    pub(crate) questions: Vec<QuestionInfo>,
}

impl WaitingRun {
    /// Whether it waits for tools that the client runs, and for nothing else.
    fn waits_for_client_tools(&self) -> bool {
        !self.questions.is_empty() && self.questions.iter().all(is_client_tool)
    }
}

/// Starts the run, after those that are under way. A thread that waits for a person takes no question, because
/// the run could wait for ever: the caller gets the questions of that thread instead.
pub(crate) async fn start_unless_waiting(
    app: &ServerApp,
    mut ask: AgentRequest<'_>,
) -> Result<RunStart, ApiError> {
    let waits = find_waiting_run(app, &ask.thread).await?;
    ask.if_busy = match &waits {
        // The client sends a new question instead of running its tools.
        Some(waits) if waits.waits_for_client_tools() => IfBusy::Interrupt,
        Some(_) => IfBusy::Reject,
        None => IfBusy::Enqueue,
    };
    let waits = waits.is_some();
    match start_agent_run(app, &ask).await {
        Err(error) if waits && error.code == ApiErrorCode::Busy => {}
        begun => return begun.map(RunStart::Started),
    }
    if let Some(waits) = find_waiting_run(app, &ask.thread).await? {
        return Ok(RunStart::ThreadWaiting(waits));
    }
    // It was answered in between.
    ask.if_busy = IfBusy::Enqueue;
    start_agent_run(app, &ask).await.map(RunStart::Started)
}

/// What the thread waits for, once it is known that the run cannot begin before. Never ends for one that began.
pub(crate) async fn wait_until_blocked(app: &ServerApp, run: &RunKey, thread: &ThreadKey) -> WaitingRun {
    loop {
        tokio::time::sleep(QUEUE_POLL_INTERVAL).await;
        match app.runtime.run_row(run).await {
            Ok(row) if row.status == RunStatus::Queued => {}
            Ok(_) | Err(_) => return std::future::pending().await,
        }
        if let Ok(Some(waits)) = find_waiting_run(app, thread).await {
            return waits;
        }
    }
}

async fn find_waiting_run(app: &ServerApp, thread: &ThreadKey) -> Result<Option<WaitingRun>, ApiError> {
    let questions = match app.runtime.open_questions(thread).await {
        Ok(questions) => questions,
        Err(EngineError::Store(StoreError::NotFound { .. })) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let run = questions.first().map(|(run, _)| run.clone());
    Ok(run.map(|run| WaitingRun { run, questions: QuestionInfo::from_log_all(&questions) }))
}

/// Starts the run. Its input is on disk when this returns, unless the client is told with the result only.
pub(crate) async fn start_agent_run(app: &ServerApp, ask: &AgentRequest<'_>) -> Result<RunHandle, ApiError> {
    let agent = find_agent(app, ask.agent)?;
    let input = message_input(app, &agent, ask).await?;
    // A new thread is called by its first question, until somebody calls it otherwise.
    let title = title_from_message(ask.message);
    start_run_with_input(app, &agent, ask, &input, &title).await
}

/// The message of a request as input of its agent.
async fn message_input(app: &ServerApp, agent: &Agent, ask: &AgentRequest<'_>) -> Result<Value, ApiError> {
    if !agent.is_chat() {
        return Err(ApiError::with_message(
            ApiErrorCode::BadInput,
            format!("the graph `{}` takes `input`, not a message", agent.name),
            format!("그래프 `{}`에는 메시지가 아니라 `input`을 보냅니다", agent.name),
        ));
    }
    let mut options = ask.options.clone();
    if let Some(thread) = app.runtime.find_thread_row_before_start(&ask.thread).await? {
        apply_thread_settings(&mut options, &thread);
    }
    chat_input(app, agent, ask.message, &options)
}

/// A message as input of an agent, if it keeps the limits.
pub(crate) fn chat_input(
    app: &ServerApp,
    agent: &Agent,
    message: &str,
    options: &AskOptions,
) -> Result<Value, ApiError> {
    check_message(app, message, options)?;
    check_collection(options.collection.as_deref())?;
    Ok(agent.input(message, options))
}

/// Starts a run with this input.
pub(crate) async fn start_run_with_input(
    app: &ServerApp,
    agent: &Agent,
    ask: &AgentRequest<'_>,
    input: &Value,
    title: &str,
) -> Result<RunHandle, ApiError> {
    let idempotency = match &ask.idempotency {
        Some((key, bytes)) => {
            idempotency::check_key_unused(app, &ask.thread.tenant, key).await?;
            Some(RunIdempotencyKey { key: key.clone(), hash: request_hash(ask.agent, &ask.thread, bytes) })
        }
        None => None,
    };
    let mut thread_metadata = title_metadata(title);
    thread_metadata.insert("agent".to_owned(), Value::String(agent.name.clone()));
    let RunPlacement { from, pause_before, pause_after, mut metadata } = ask.placement.clone();
    metadata.extend(key_metadata(ask.key.as_deref()));
    if !ask.message.trim().is_empty() {
        metadata.insert(QUESTION_TITLE_METADATA.to_owned(), title.into());
    }
    let options = StartOptions {
        idempotency,
        if_busy: ask.if_busy,
        acknowledge: ask.acknowledge,
        thread_metadata,
        from,
        pause_before,
        pause_after,
        metadata,
        ..StartOptions::default()
    };
    let run = submit_run(app, agent, &ask.thread, Some(input), options).await?;
    // The run is accepted, whatever becomes of the title.
    if from == Some(0)
        && !run.is_repeated()
        && let Err(error) = follow_first_question(app, &ask.thread, title).await
    {
        tracing::warn!(%error, thread = %ask.thread, "the title does not follow the new first question");
    }
    Ok(run)
}

/// Where a thread stores the title that was made from its first question, and a run that of its own. As long as the title of a
/// thread is the same, nobody renamed it.
pub(crate) const QUESTION_TITLE_METADATA: &str = "question_title";

fn title_metadata(title: &str) -> Map<String, Value> {
    ["title", QUESTION_TITLE_METADATA].map(|name| (name.to_owned(), Value::from(title))).into_iter().collect()
}

/// Calls a thread by another version of its first question, if it still has the title of that question.
async fn follow_first_question(app: &ServerApp, thread: &ThreadKey, title: &str) -> Result<(), EngineError> {
    let Some(row) = app.runtime.find_thread_row(thread).await? else { return Ok(()) };
    let made = row.metadata.get(QUESTION_TITLE_METADATA);
    if made.is_some() && made == row.metadata.get("title") {
        app.runtime.put_thread(thread, &title_metadata(title)).await?;
    }
    Ok(())
}

/// Starts a run and counts it. Every run of every route starts here.
pub(crate) async fn submit_run(
    app: &ServerApp,
    agent: &Agent,
    thread: &ThreadKey,
    input: Option<&Value>,
    options: StartOptions,
) -> Result<RunHandle, ApiError> {
    let acknowledge = options.acknowledge;
    let run = app.runtime.start(&agent.name, thread, input, options).await?;
    app.metrics.count_run_started();
    // The log may leave the machine. A run that is told of at its rest is not in it before.
    if acknowledge == Acknowledgement::Input {
        tracing::info!(run = %run.id(), agent = %agent.name, "run started");
    }
    Ok(run)
}

/// An error if the budget of the month is spent, so that no run begins now.
pub(crate) async fn check_budget(app: &ServerApp, tenant: &TenantId) -> Result<(), ApiError> {
    match &app.budget {
        Some(budget) if budget.left_micros(&app.runtime, tenant).await? == 0 => {
            Err(ApiErrorCode::BudgetSpent.into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Where a run stores the name of the API key it was started with.
pub(crate) const KEY_METADATA: &str = "key";
/// The pair of metadata that is the server's own, in runs whose other pairs are those of clients.
pub(crate) const DORAN_METADATA: &str = "doran";

/// The name of the API key that a run was started with.
pub(crate) fn run_key_name(metadata: &Map<String, Value>) -> Option<&str> {
    let key = match metadata.get(DORAN_METADATA) {
        // Whatever else such a run has is its client's own.
        Some(doran) => doran.get(KEY_METADATA),
        None => metadata.get(KEY_METADATA),
    };
    key.and_then(Value::as_str)
}

fn key_metadata(key: Option<&str>) -> Map<String, Value> {
    key.map(|key| (KEY_METADATA.to_owned(), Value::from(key))).into_iter().collect()
}

/// A name that no collection can have is refused, so that a slip is not taken for an empty collection.
pub(crate) fn check_collection(collection: Option<&str>) -> Result<(), ApiError> {
    if collection.is_none_or(is_collection_name) {
        return Ok(());
    }
    let wrong = LibraryError::BadCollection;
    Err(ApiError::with_message(ApiErrorCode::BadInput, wrong.to_string(), wrong.message_ko()))
}

/// The result of a run.
pub(crate) struct RunWaitOutcome {
    pub(crate) row: RunRow,
    /// What the person sees, once the run is over, its sources counted as people count them.
    pub(crate) turn: Option<AgentTurn>,
    /// What the thread waits for, where the run is queued behind one that waits for a person.
    pub(crate) blocked_by: Option<WaitingRun>,
}

/// Waits until the run is over or asks something, or the time of the limits is over. The run goes on either way. After an
/// error nobody may be told of the run before [`RunHandle::wait_until_accepted`].
pub(crate) async fn wait_for_run(
    app: &ServerApp,
    agent: &str,
    run: &RunHandle,
) -> Result<RunWaitOutcome, ApiError> {
    let key = run.key();
    let waited = tokio::select! {
        biased;
        () = app.draining.cancelled() => return Err(ApiErrorCode::Stopping.into()),
        waited = tokio::time::timeout(app.limits.answer_timeout, run.wait()) => waited,
        waits = wait_until_blocked(app, &key, run.thread()) => {
            let row = app.runtime.run_row(&key).await?;
            return Ok(RunWaitOutcome { row, turn: None, blocked_by: Some(waits) });
        }
    };
    let row = match waited {
        Ok(row) => row?,
        Err(_) => app.runtime.run_row(&key).await?,
    };
    let turn = match row.status {
        RunStatus::Finished => Some(match run.final_state(agent) {
            Some(state) => turn_from_state(&self::find_agent(app, agent)?, &state)?,
            None => load_turn(app, agent, &row).await?,
        }),
        _ => None,
    };
    Ok(RunWaitOutcome { row, turn: turn.map(AgentTurn::with_renumbered_sources), blocked_by: None })
}

/// Waits a moment for a run that was cancelled.
pub(crate) async fn wait_for_cancel(app: &ServerApp, row: RunRow) -> Result<RunRow, ApiError> {
    if row.status.is_end() {
        return Ok(row);
    }
    // Its worker learns of it at once, or when it next renews its lease.
    let run = app.runtime.run_handle(&row.key()).await?;
    match tokio::time::timeout(CANCEL_WAIT, run.wait()).await {
        Ok(ended) => Ok(ended?),
        Err(_) => Ok(row),
    }
}

/// How many requests a run sent to models, by the notes of its steps. For a run without a turn, which counts them itself.
pub(crate) async fn count_model_requests(app: &ServerApp, row: &RunRow) -> Result<u32, ApiError> {
    let Some(first) = row.first_seq else { return Ok(0) };
    let (mut count, mut after) = (0, first - 1);
    loop {
        let page = app.runtime.entries(&row.thread, after, ENTRIES_PER_PAGE).await?;
        for entry in page.iter().filter(|entry| entry.run == Some(row.run)) {
            let notes = notes_of_entry(&entry.body).map_err(|error| {
                tracing::error!(%error, seq = entry.seq, "cannot read the notes of a step; its model calls are not counted");
                ApiError::from(ApiErrorCode::Internal)
            })?;
            count += notes.iter().map(StepNotes::request_count).sum::<u32>();
        }
        match page.last() {
            Some(last) if page.len() == ENTRIES_PER_PAGE => after = last.seq,
            Some(_) | None => return Ok(count),
        }
    }
}

/// The turn that a finished run ended with, by the state after its last entry, its sources numbered as the agent did.
pub(crate) async fn load_turn(app: &ServerApp, name: &str, row: &RunRow) -> Result<AgentTurn, ApiError> {
    let agent = find_agent(app, name)?;
    let view = app.runtime.view(&agent.name, &row.thread, row.last_seq).await?;
    turn_from_state(&agent, &view.state)
}

fn turn_from_state(agent: &Agent, state: &Value) -> Result<AgentTurn, ApiError> {
    agent.read_turn(state).map_err(|error| {
        tracing::error!(%error, "cannot read the state of a thread with this agent; the agent may have changed since the run");
        ApiErrorCode::Internal.into()
    })
}

/// The agent of this name.
pub(crate) fn find_agent(app: &ServerApp, name: &str) -> Result<Agent, ApiError> {
    app.find_agent(name).ok_or_else(|| {
        let agents = app.agents.current();
        let known: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let known = known.join(", ");
        ApiError::with_message(
            ApiErrorCode::UnknownAgent,
            format!("there are: {known}"),
            format!("있는 에이전트: {known}"),
        )
    })
}

/// The thread of this name, of the caller's.
pub(crate) fn thread_key(caller: &ApiCaller, name: &str) -> Result<ThreadKey, ApiError> {
    let thread = ThreadId::new(name).map_err(EngineError::from)?;
    Ok(ThreadKey { tenant: caller.tenant.clone(), thread })
}

/// The thread that a field of the request names, of the caller's.
pub(crate) fn thread_key_from_field(
    caller: &ApiCaller,
    field: &str,
    name: &str,
) -> Result<ThreadKey, ApiError> {
    thread_key(caller, name).map_err(|_| {
        ApiError::with_message(
            ApiErrorCode::BadInput,
            format!("`{field}` is not a name that a thread can have"),
            format!("`{field}`: 대화에 쓸 수 없는 이름입니다"),
        )
    })
}

/// Whether nothing was sent to a thread so far.
pub(crate) async fn is_new_thread(app: &ServerApp, thread: &ThreadKey) -> Result<bool, ApiError> {
    Ok(app.runtime.find_thread_row(thread).await?.is_none_or(|row| row.head == 0))
}

/// The thread of a request that names none: one nobody has used before, or, for a request that may be sent again, the
/// one that its idempotency key stands for. Once a key is forgotten, it stands for a new one.
pub(crate) async fn new_thread_key(
    app: &ServerApp,
    caller: &ApiCaller,
    idempotency: Option<&str>,
) -> Result<ThreadKey, ApiError> {
    let Some(key) = idempotency else { return Ok(random_thread_key(caller)) };
    let forgotten = now_millis().saturating_sub(Retention::default().idempotency.as_millis());
    let mut used = key.to_owned();
    loop {
        let digest = Sha256::digest(used.as_bytes());
        let thread = thread_key(caller, &format!("once-{}", hex::encode(&digest[..16])))?;
        match app.runtime.find_thread_row(&thread).await? {
            Some(row) if u128::try_from(row.created_at).unwrap_or_default() < forgotten => {
                // It only grows, so no name comes twice.
                used = format!("{used} {}", row.created_at);
            }
            Some(_) | None => return Ok(thread),
        }
    }
}

/// A thread that nobody has used before.
pub(crate) fn random_thread_key(caller: &ApiCaller) -> ThreadKey {
    ThreadKey { tenant: caller.tenant.clone(), thread: ThreadId::random() }
}

fn now_millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// The thread that the same request made before, if its client gave a key by which it can be repeated.
pub(crate) async fn find_created_thread(
    app: &ServerApp,
    thread: &ThreadKey,
    key: Option<&str>,
    hash: &str,
) -> Result<Option<ThreadRow>, ApiError> {
    let Some(key) = key else { return Ok(None) };
    match app.runtime.find_thread_row(thread).await? {
        Some(row) if row.metadata.get(REQUEST_HASH_METADATA).and_then(Value::as_str) == Some(hash) => {
            Ok(Some(row))
        }
        Some(_) => Err(EngineError::from(StoreError::KeyReused(key.to_owned())).into()),
        None => Ok(None),
    }
}

/// What a new thread is called: the first line of its question, cut.
pub fn title_from_message(message: &str) -> String {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let clean: String = line.chars().filter(|char| !char.is_control()).collect();
    match clean.char_indices().nth(MAX_GENERATED_TITLE_CHARS) {
        Some((at, _)) => format!("{}…", clean[..at].trim_end()),
        None => clean,
    }
}

fn check_message(app: &ServerApp, message: &str, options: &AskOptions) -> Result<(), ApiError> {
    let max_bytes = app.limits.max_message_bytes;
    let AskOptions { system, document, .. } = options;
    let beside = options.message_texts().chain(system.as_deref()).chain(document.as_deref());
    let texts: Vec<&str> = beside.chain([message]).collect();
    let wrong = if texts.iter().map(|text| text.len()).sum::<usize>() > max_bytes {
        ErrorDetail::new(
            format!("`message`, with all that comes with it, has more than {max_bytes} bytes"),
            format!("`message`와 함께 온 글을 더하면 {max_bytes}바이트를 넘습니다"),
        )
    } else if texts.iter().any(|text| text.contains('\0')) {
        ErrorDetail::new(
            "`message`, or what comes with it, holds a NUL character",
            "`message`나 함께 온 글에 NUL 문자가 있습니다",
        )
    } else {
        return Ok(());
    };
    Err(ApiError::with_detail(ApiErrorCode::BadInput, wrong))
}

/// The question, the agent and the thread. The tenant is part of the key already.
pub(crate) fn request_hash(agent: &str, thread: &ThreadKey, body: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(agent.as_bytes());
    hash.update([0]);
    hash.update(thread.thread.as_str().as_bytes());
    hash.update([0]);
    hash.update(body);
    hex::encode(hash.finalize())
}

/// Agents as lists show them.
pub(crate) fn agents(app: &ServerApp) -> Arc<[Agent]> {
    app.agents.current()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_of_a_question_and_never_long() {
        assert_eq!(title_from_message("\n  연차는 며칠인가요?\n두 번째 줄"), "연차는 며칠인가요?");
        assert_eq!(title_from_message(""), "");
        let long = title_from_message(&"가나다 ".repeat(100));
        assert!(long.chars().count() <= MAX_GENERATED_TITLE_CHARS + 1 && long.ends_with('…'), "{long}");
        assert_eq!(title_from_message("a\u{7}b"), "ab");
    }
}
