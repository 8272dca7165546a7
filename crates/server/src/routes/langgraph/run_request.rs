//! Requests to run a graph: their fields, and the run that they lead to.

use std::collections::{BTreeMap, BTreeSet};

use doran_agents::llm::{Message, Role};
use doran_agents::{Agent, AskOptions, EarlierMessage, MESSAGES_FIELD};
use doran_engine::runtime::StateEdit;
use doran_engine::store::{IfBusy, RunRow, RunStatus, Seq, StoreError};
use doran_engine::{
    EngineError, EntryBody, PendingQuestion, QuestionKind, RunHandle, StartOptions, ThreadKey, stored_json,
};
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use super::assistants::{Assistant, find_assistant};
use super::checkpoints::load_checkpoints;
use super::ids::CheckpointId;
use super::messages::{message_from_json, update_from_json};
use super::run_events::StreamMode;
use super::{DORAN_METADATA, check_metadata, invalid, mark_rolled_back};
use crate::ServerApp;
use crate::agent_request;
use crate::error::{ApiError, ApiErrorCode};
use crate::routes::runs::validate_answers;

/// A request to run a graph.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunGraphBody {
    /// The id of an assistant, or the name of its graph.
    pub(super) assistant_id: String,
    /// The values that the run starts with. Without them the run goes on where the thread stands.
    #[serde(default)]
    pub(super) input: Option<Value>,
    /// Answers what the thread waits for, or changes its state, instead of an input.
    #[serde(default)]
    pub(super) command: Option<RunCommand>,
    /// Where the run starts. The default is where the thread stands.
    #[serde(default)]
    pub(super) checkpoint: Option<CheckpointBody>,
    /// The same by its id.
    #[serde(default)]
    pub(super) checkpoint_id: Option<String>,
    /// Settings of the run.
    #[serde(default)]
    pub(super) config: Option<RunConfig>,
    /// Free pairs of the run.
    #[serde(default)]
    pub(super) metadata: Option<Map<String, Value>>,
    /// What is streamed. The default is `values`.
    #[serde(default)]
    pub(super) stream_mode: Option<OneOrMany<StreamMode>>,
    /// Whether steps of graphs inside nodes are streamed too.
    #[serde(default)]
    pub(super) stream_subgraphs: Option<bool>,
    /// Whether events have ids to come back with. They always have.
    #[serde(default)]
    #[allow(dead_code, reason = "every stream is resumable")]
    stream_resumable: Option<bool>,
    /// Nodes before which the run pauses; `*` for all.
    #[serde(default)]
    pub(super) interrupt_before: Option<OneOrMany<String>>,
    /// Nodes after which the run pauses; `*` for all.
    #[serde(default)]
    pub(super) interrupt_after: Option<OneOrMany<String>>,
    /// What happens when the thread has a run already.
    #[serde(default)]
    pub(super) multitask_strategy: Option<MultitaskStrategy>,
    /// What happens when the thread does not exist.
    #[serde(default)]
    pub(super) if_not_exists: Option<IfNotExists>,
    /// What happens to the run when the client goes away. The default is `continue`.
    #[serde(default)]
    pub(super) on_disconnect: Option<OnDisconnect>,
    /// What happens to the thread of a run without one. The default is `delete`.
    #[serde(default)]
    pub(super) on_completion: Option<OnCompletion>,
    /// When a step is stored. Doran stores each before it is told; so do both of these.
    #[serde(default)]
    #[allow(dead_code, reason = "what is stored is no less durable than either")]
    durability: Option<StepDurability>,
}

/// One value, or a list of them.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(super) enum OneOrMany<T> {
    /// One.
    One(T),
    /// A list.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(super) fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Value::deserialize(from)? {
            list @ Value::Array(_) => serde_json::from_value(list).map(Self::Many),
            one => serde_json::from_value(one).map(Self::One),
        }
        .map_err(D::Error::custom)
    }
}

/// What a run does instead of taking an input.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCommand {
    /// The answer to what the thread waits for, or the answers by their ids.
    #[serde(default, deserialize_with = "present")]
    resume: Option<Value>,
    /// Changes of the state, as if a node had made them.
    #[serde(default)]
    update: Option<Map<String, Value>>,
}

/// A field that is there was given, also if it is `null`.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A checkpoint as clients name one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointBody {
    /// Its id.
    #[serde(default)]
    checkpoint_id: Option<String>,
    /// The thread.
    #[serde(default)]
    thread_id: Option<String>,
    /// The graph inside the graph; only the outermost one is supported.
    #[serde(default)]
    checkpoint_ns: Option<String>,
    /// Checkpoints of graphs inside; not used.
    #[serde(default)]
    checkpoint_map: Option<Map<String, Value>>,
}

impl CheckpointBody {
    /// The checkpoint on this thread.
    pub(super) fn read(&self, thread: &str) -> Result<Option<CheckpointId>, ApiError> {
        if self.checkpoint_ns.as_ref().is_some_and(|namespace| !namespace.is_empty())
            || self.checkpoint_map.as_ref().is_some_and(|map| !map.is_empty())
        {
            return Err(invalid(
                "`checkpoint.checkpoint_ns` and `checkpoint.checkpoint_map` of a graph inside a graph are not supported",
                "그래프 안의 그래프를 가리키는 `checkpoint.checkpoint_ns`와 `checkpoint.checkpoint_map`은 지원하지 않습니다",
            ));
        }
        if self.thread_id.as_ref().is_some_and(|named| named != thread) {
            return Err(invalid(
                "`checkpoint.thread_id` is another thread",
                "`checkpoint.thread_id`가 다른 대화입니다",
            ));
        }
        self.checkpoint_id.as_deref().map(parse_checkpoint).transpose()
    }
}

/// Reads the id of a checkpoint.
pub(super) fn parse_checkpoint(text: &str) -> Result<CheckpointId, ApiError> {
    CheckpointId::parse(text).ok_or_else(|| {
        invalid(
            "`checkpoint_id` is not the id of a checkpoint",
            "`checkpoint_id`가 체크포인트의 id가 아닙니다",
        )
    })
}

/// Settings of a run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunConfig {
    /// The most steps of the run.
    #[serde(default)]
    recursion_limit: Option<u32>,
    /// Only `thread_id`, `checkpoint_id` and `checkpoint_ns`, as in the request itself.
    #[serde(default)]
    configurable: Option<ConfigurableBody>,
}

/// What clients put into a configuration beside values of their own.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConfigurableBody {
    /// The thread.
    #[serde(default)]
    thread_id: Option<String>,
    /// Where the run starts.
    #[serde(default)]
    checkpoint_id: Option<String>,
    /// The graph inside the graph.
    #[serde(default)]
    checkpoint_ns: Option<String>,
}

/// What happens when a thread has a run already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum MultitaskStrategy {
    /// The request is rejected.
    Reject,
    /// The new run waits.
    #[default]
    Enqueue,
    /// The run is cancelled, and what it did stays.
    Interrupt,
    /// The run is cancelled, and what it did is taken back.
    Rollback,
}

/// What happens when a thread does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum IfNotExists {
    /// It is made.
    Create,
    /// The request is rejected.
    #[default]
    Reject,
}

/// What happens to a run when its client goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnDisconnect {
    /// It is cancelled.
    Cancel,
    /// It goes on.
    #[default]
    Continue,
}

/// What happens to the thread of a run that was started without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnCompletion {
    /// It is deleted.
    #[default]
    Delete,
    /// It stays.
    Keep,
}

/// When a step is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StepDurability {
    /// While the next one runs.
    Async,
    /// Before the next one runs.
    Sync,
}

/// A run that was started, or goes on.
pub(super) struct StartedGraphRun {
    pub(super) agent: Agent,
    pub(super) run: RunHandle,
    pub(super) row: RunRow,
    /// The first of its events that belongs to this request.
    pub(super) first_event: u64,
}

impl RunGraphBody {
    pub(super) fn stream_modes(&self) -> BTreeSet<StreamMode> {
        let modes = self.stream_mode.clone().map(OneOrMany::into_vec).unwrap_or_default();
        if modes.is_empty() { BTreeSet::from([StreamMode::Values]) } else { modes.into_iter().collect() }
    }

    /// Where the run starts, by any of the places in which clients say so.
    fn start_checkpoint(&self, thread: &ThreadKey) -> Result<Option<CheckpointId>, ApiError> {
        let name = thread.thread.as_str();
        let configured = self.config.as_ref().and_then(|config| config.configurable.clone());
        let configured = configured.map(|given| CheckpointBody {
            checkpoint_id: given.checkpoint_id,
            thread_id: given.thread_id,
            checkpoint_ns: given.checkpoint_ns,
            checkpoint_map: None,
        });
        let direct = self.checkpoint_id.as_deref().map(parse_checkpoint).transpose()?;
        let body = self.checkpoint.as_ref().map(|body| body.read(name)).transpose()?.flatten();
        let configured = configured.map(|body| body.read(name)).transpose()?.flatten();
        Ok(body.or(direct).or(configured))
    }
}

/// Starts the run that a request asks for, or goes on with the one that waits.
pub(super) async fn start_graph_run(
    app: &ServerApp,
    thread: &ThreadKey,
    body: &RunGraphBody,
    is_stateless: bool,
) -> Result<StartedGraphRun, ApiError> {
    let assistant = find_assistant(app, &thread.tenant, &body.assistant_id).await?.ok_or_else(|| {
        let agents = app.agents.current();
        let known: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let known = known.join(", ");
        invalid(
            &format!("`assistant_id` is neither the id of an assistant nor one of the graphs: {known}"),
            &format!("`assistant_id`가 어시스턴트의 id도 그래프의 이름({known})도 아닙니다"),
        )
    })?;
    let agent = agent_request::find_agent(app, &assistant.graph_id)?;
    if body.input.is_some() && body.command.is_some() {
        return Err(invalid(
            "`input` and `command` do not come together",
            "`input`과 `command`는 함께 보내지 않습니다",
        ));
    }
    if let Some(metadata) = &body.metadata {
        check_metadata(metadata)?;
    }
    let paused = find_paused_run(app, thread).await?;
    let checkpoint = match body.start_checkpoint(thread)? {
        // Where the thread stands already: clients say so with every request.
        Some(checkpoint) if stands_at(app, thread, checkpoint).await? => None,
        checkpoint => checkpoint,
    };
    if let Some(resume) = body.command.as_ref().and_then(|command| command.resume.as_ref()) {
        let Some((row, questions)) = paused else {
            return Err(invalid(
                "`command.resume`: the thread waits for nothing",
                "`command.resume`: 이 대화는 아무것도 기다리지 않습니다",
            ));
        };
        reject_with_resume(body, checkpoint)?;
        let answers = answers(resume, &questions)?;
        return answer_run(app, agent, row, answers).await;
    }
    if let Some((row, questions)) = &paused
        && body.input.is_none()
        && body.command.is_none()
        && checkpoint.is_none()
    {
        let breakpoints = questions.iter().filter(|question| question.kind == QuestionKind::Breakpoint);
        let answers: BTreeMap<String, Value> =
            breakpoints.map(|question| (question.id.clone(), Value::Bool(true))).collect();
        if !answers.is_empty() {
            reject_with_resume(body, checkpoint)?;
            return answer_run(app, agent, row.clone(), answers).await;
        }
        // It still waits: the client is told so again.
        let head = app.runtime.thread_row(thread).await?.head;
        let run = app.runtime.run_handle(&row.key()).await?;
        let first_event = (head + 1).saturating_sub(row.first_seq.unwrap_or(head));
        return Ok(StartedGraphRun { agent, run, row: row.clone(), first_event });
    }
    start_new_run(app, thread, body, &assistant, agent, paused.is_some(), checkpoint, is_stateless).await
}

#[allow(clippy::too_many_arguments, reason = "what was found out about one request")]
async fn start_new_run(
    app: &ServerApp,
    thread: &ThreadKey,
    body: &RunGraphBody,
    assistant: &Assistant,
    agent: Agent,
    is_paused: bool,
    checkpoint: Option<CheckpointId>,
    is_stateless: bool,
) -> Result<StartedGraphRun, ApiError> {
    let strategy = body.multitask_strategy.unwrap_or_default();
    let if_busy = match strategy {
        MultitaskStrategy::Rollback => IfBusy::Rollback,
        // Nobody would answer the question any more: a new input leaves it behind.
        _ if is_paused => IfBusy::Interrupt,
        MultitaskStrategy::Reject => IfBusy::Reject,
        MultitaskStrategy::Enqueue => IfBusy::Enqueue,
        MultitaskStrategy::Interrupt => IfBusy::Interrupt,
    };
    let mut input = match &body.input {
        Some(input) => Some(graph_input(app, &agent, input.clone())?),
        None => None,
    };
    let from = match checkpoint {
        Some(checkpoint) => Some(start_entry(app, thread, checkpoint, &mut input).await?),
        None => None,
    };
    if let Some(update) = body.command.as_ref().and_then(|command| command.update.clone()) {
        let update = update_from_json(&agent, "command.update", update.into())?;
        let edit = StateEdit { update: Some(update), ..StateEdit::default() };
        app.runtime.edit(&agent.name, thread, from, &edit).await.map_err(state_error)?;
    } else if input.is_none() {
        let is_due = match app.runtime.view(&agent.name, thread, from).await {
            Ok(view) => !view.next.is_empty(),
            Err(EngineError::Store(StoreError::NotFound { .. })) => false,
            Err(error) => return Err(error.into()),
        };
        if !is_due {
            return Err(invalid(
                "`input` is missing, and nothing is due on the thread",
                "`input`이 없고, 이 대화에는 할 일이 남아 있지 않습니다",
            ));
        }
    }
    let mut metadata = body.metadata.clone().unwrap_or_default();
    metadata.extend(assistant.run_metadata());
    let pause_before = node_names(&agent, body.interrupt_before.clone());
    let pause_after = node_names(&agent, body.interrupt_after.clone());
    let doran = json!({
        "multitask_strategy": strategy,
        "stream_mode": body.stream_modes(),
        "stateless": is_stateless,
        "interrupt_before": pause_before,
        "interrupt_after": pause_after,
    });
    metadata.insert(DORAN_METADATA.to_owned(), doran);
    let thread_metadata = Map::from_iter([
        ("agent".to_owned(), agent.name.as_str().into()),
        ("graph_id".to_owned(), agent.name.as_str().into()),
        ("assistant_id".to_owned(), assistant.assistant_id.as_str().into()),
    ]);
    let options = StartOptions {
        if_busy,
        from: if body.command.is_some() { None } else { from },
        metadata,
        thread_metadata,
        limits: run_limits(app, body),
        pause_before,
        pause_after,
        ..StartOptions::default()
    };
    let rolled_back = match strategy {
        MultitaskStrategy::Rollback => app.runtime.find_thread_row(thread).await?.and_then(|row| row.active),
        _ => None,
    };
    let run =
        agent_request::submit_run(app, &agent, thread, input.as_ref(), options).await.map_err(|error| {
            let is_about_request = matches!(error.code, ApiErrorCode::BadInput);
            if is_about_request { error.under_code(ApiErrorCode::Invalid) } else { error }
        })?;
    if let Some(run) = rolled_back {
        mark_rolled_back(app, thread, run).await?;
    }
    let row = app.runtime.run_row(&run.key()).await?;
    Ok(StartedGraphRun { agent, run, row, first_event: 1 })
}

/// Where a run from a checkpoint starts. Before an input stands the entry that it followed; without another input the run
/// takes the same again.
async fn start_entry(
    app: &ServerApp,
    thread: &ThreadKey,
    checkpoint: CheckpointId,
    input: &mut Option<Value>,
) -> Result<Seq, ApiError> {
    let unknown = || ApiError::from(ApiErrorCode::NotFound);
    let before = checkpoint.seq.checked_sub(1).ok_or_else(unknown)?;
    let entries = app.runtime.entries(thread, before, 1).await?;
    let entry = entries.first().filter(|entry| entry.seq == checkpoint.seq).ok_or_else(unknown)?;
    match (&entry.body, checkpoint.is_after) {
        (EntryBody::Started { input: given, .. }, false) => {
            if let (None, Some(given)) = (&input, given) {
                *input = Some(stored_json::from_str(given.get()).map_err(|_| ApiErrorCode::Internal)?);
            }
            Ok(entry.parent)
        }
        (
            EntryBody::Started { .. }
            | EntryBody::Step(_)
            | EntryBody::Edited(_)
            | EntryBody::Paused { edit: Some(_), .. },
            true,
        ) => Ok(entry.seq),
        _ => Err(unknown()),
    }
}

/// What a client sends as input, as the graph takes it.
fn graph_input(app: &ServerApp, agent: &Agent, input: Value) -> Result<Value, ApiError> {
    if !agent.prepares_turns() {
        return update_from_json(agent, "input", input);
    }
    let Value::Object(mut fields) = input else {
        return Err(invalid("`input` is not an object", "`input`이 객체가 아닙니다"));
    };
    let messages = match fields.remove(MESSAGES_FIELD) {
        Some(Value::Array(messages)) => messages,
        Some(one) => vec![one],
        None => Vec::new(),
    };
    // What else may come with a question is named as in the rest of the API.
    let mut options: AskOptions = serde_json::from_value(fields.into())
        .map_err(|error| invalid(&format!("`input`: {error}"), &format!("`input`: {error}")))?;
    let mut question: Option<Message> = None;
    for (at, message) in messages.iter().enumerate() {
        let message = message_from_json(&format!("input.messages[{at}]"), message)?;
        let last = question.take();
        options.earlier.extend(last.map(|last| EarlierMessage::Asked(last.text())));
        match message.role {
            Role::User => question = Some(message),
            Role::Assistant => options.earlier.push(EarlierMessage::Answered(message.text())),
            Role::System => options.system = Some(message.text()),
            Role::Tool => {
                let place = format!("input.messages[{at}]");
                return Err(invalid(
                    &format!("`{place}` is the result of a tool, which this agent runs by itself"),
                    &format!("`{place}`은(는) 도구의 결과입니다. 이 에이전트는 도구를 스스로 씁니다"),
                ));
            }
        }
    }
    let text = question.map(|question| question.text()).unwrap_or_default();
    if text.trim().is_empty() {
        return Err(invalid(
            "`input.messages` does not end with a message of a person",
            "`input.messages`의 마지막이 사람의 메시지가 아닙니다",
        ));
    }
    agent_request::chat_input(app, agent, &text, &options)
        .map_err(|error| error.under_code(ApiErrorCode::Invalid))
}

/// Whether a checkpoint is the newest of the thread.
pub(super) async fn stands_at(
    app: &ServerApp,
    thread: &ThreadKey,
    checkpoint: CheckpointId,
) -> Result<bool, ApiError> {
    let newest = match load_checkpoints(app, thread, None).await {
        Ok(tree) => tree.newest().map(|newest| newest.id),
        Err(error) if error.code == ApiErrorCode::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(newest == Some(checkpoint))
}

/// The run that waits on a thread, and what for.
async fn find_paused_run(
    app: &ServerApp,
    thread: &ThreadKey,
) -> Result<Option<(RunRow, Vec<PendingQuestion>)>, ApiError> {
    let questions = match app.runtime.open_questions(thread).await {
        Ok(questions) => questions,
        Err(EngineError::Store(StoreError::NotFound { .. })) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some((run, _)) = questions.first() else { return Ok(None) };
    let row = app.runtime.run_row(run).await?;
    let is_paused = row.status == RunStatus::Paused;
    Ok(is_paused.then(|| (row, questions.into_iter().map(|(_, question)| question).collect())))
}

/// The answers to the open questions, by their ids.
fn answers(resume: &Value, questions: &[PendingQuestion]) -> Result<BTreeMap<String, Value>, ApiError> {
    let open: Vec<&PendingQuestion> =
        questions.iter().filter(|question| question.kind != QuestionKind::Breakpoint).collect();
    let is_open = |id: &String| open.iter().any(|question| question.id == *id);
    if let Value::Object(by_id) = resume
        && !by_id.is_empty()
        && by_id.keys().all(is_open)
    {
        return Ok(by_id.clone().into_iter().collect());
    }
    match open.as_slice() {
        [one] => Ok(BTreeMap::from([(one.id.clone(), resume.clone())])),
        [] => Ok(questions.iter().map(|question| (question.id.clone(), resume.clone())).collect()),
        several => {
            let ids: Vec<&str> = several.iter().map(|question| question.id.as_str()).collect();
            let ids = ids.join("`, `");
            Err(invalid(
                &format!("`command.resume`: several things are asked; answer by their ids `{ids}`"),
                &format!("`command.resume`: 물음이 여럿입니다. id(`{ids}`)마다 답하세요"),
            ))
        }
    }
}

async fn answer_run(
    app: &ServerApp,
    agent: Agent,
    row: RunRow,
    answers: BTreeMap<String, Value>,
) -> Result<StartedGraphRun, ApiError> {
    let answers = validate_answers(app, &row, answers)
        .await
        .map_err(|error| error.under_code(ApiErrorCode::Invalid))?;
    let head = app.runtime.thread_row(&row.thread).await?.head;
    // The run stays the same: its next entry is the answer.
    let first_event = (head + 2).saturating_sub(row.first_seq.unwrap_or(head));
    let run = app.runtime.answer(&row.key(), &answers).await?;
    let row = app.runtime.run_row(&row.key()).await?;
    Ok(StartedGraphRun { agent, run, row, first_event })
}

/// A run that goes on keeps what it was started with.
fn reject_with_resume(body: &RunGraphBody, checkpoint: Option<CheckpointId>) -> Result<(), ApiError> {
    let given = [
        ("metadata", body.metadata.as_ref().is_some_and(|metadata| !metadata.is_empty())),
        ("interrupt_before", body.interrupt_before.is_some()),
        ("interrupt_after", body.interrupt_after.is_some()),
        ("checkpoint", checkpoint.is_some()),
        ("command.update", body.command.as_ref().is_some_and(|command| command.update.is_some())),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((field, _)) => Err(invalid(
            &format!("`{field}` is not supported for a run that goes on: it was set when the run started"),
            &format!("이어지는 실행에는 `{field}`을(를) 줄 수 없습니다. 실행을 시작할 때 정합니다"),
        )),
        None => Ok(()),
    }
}

fn run_limits(app: &ServerApp, body: &RunGraphBody) -> Option<doran_engine::RunLimits> {
    let steps = body.config.as_ref()?.recursion_limit?;
    let limits = app.runtime.default_limits();
    Some(doran_engine::RunLimits { steps: steps.min(limits.steps), ..limits.clone() })
}

fn node_names(agent: &Agent, nodes: Option<OneOrMany<String>>) -> BTreeSet<String> {
    let nodes = nodes.map(OneOrMany::into_vec).unwrap_or_default();
    if nodes.iter().any(|node| node == "*") {
        return agent.topology().nodes.into_iter().map(|node| node.id).collect();
    }
    nodes.into_iter().collect()
}

/// A change of the state that the graph does not take is a mistake of the request.
pub(super) fn state_error(error: EngineError) -> ApiError {
    let is_about_request = matches!(error, EngineError::StateMismatch { .. });
    let error = match error {
        EngineError::StateMismatch { message, .. } => invalid(
            &format!("`values`: {message}"),
            &format!("`values`가 그래프의 상태에 맞지 않습니다: {message}"),
        ),
        other => other.into(),
    };
    let is_input = is_about_request || error.code == ApiErrorCode::BadInput;
    if is_input { error.under_code(ApiErrorCode::Invalid) } else { error }
}
