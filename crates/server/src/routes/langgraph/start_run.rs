//! The run that a request leads to: a new one, or one that waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use doran_agents::llm::{ImageReference, Message, Role};
use doran_agents::{
    Agent, AskOptions, EarlierMessage, MESSAGES_FIELD, MessagePart, QuestionLabel, STANDING_MESSAGE_ID_PREFIX,
};
use doran_engine::runtime::{EmittedDataRetention, StateEdit};
use doran_engine::store::{IfBusy, RunRow, RunStatus, Seq, StoreError, ThreadRow};
use doran_engine::{
    Acknowledgement, EngineError, EntryBody, MisuseError, PendingQuestion, QuestionKind, RunHandle,
    RunLimits, StartOptions, ThreadKey,
};
use serde_json::{Map, Value, json};

use super::assistants::{Assistant, find_assistant};
use super::checkpoints::load_checkpoints;
use super::ids::CheckpointId;
use super::invalid;
use super::messages::{message_from_json, parse_raw_json, update_from_json};
use super::metadata::{DORAN_METADATA, check_metadata, mark_rolled_back};
use super::run_request::{MultitaskStrategy, OneOrMany, RunCommand, RunGraphBody, RunSettings};
use crate::ServerApp;
use crate::agent_request::{self, KEY_METADATA};
use crate::error::{ApiError, ApiErrorCode};
use crate::error_detail::ErrorDetail;
use crate::routes::runs::validate_answers;
use crate::run_images::check_images;

/// A run that was started, or goes on.
pub(super) struct StartedGraphRun {
    pub(super) agent: Agent,
    pub(super) run: Arc<RunHandle>,
    /// The first of its events that belongs to this request.
    pub(super) first_event: u64,
}

/// The assistant that a request names.
pub(super) async fn named_assistant(
    app: &ServerApp,
    thread: &ThreadKey,
    id: &str,
) -> Result<Assistant, ApiError> {
    find_assistant(app, &thread.tenant, id).await?.ok_or_else(|| {
        // An assistant that is gone, or one that there never was.
        if uuid::Uuid::parse_str(id).is_ok() {
            return ApiErrorCode::NotFound.into();
        }
        let agents = app.agents.current();
        let known: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        let known = known.join(", ");
        invalid(
            &format!("`assistant_id` is neither the id of an assistant nor one of the graphs: {known}"),
            &format!("`assistant_id`가 어시스턴트의 id도 그래프의 이름({known})도 아닙니다"),
        )
    })
}

/// Metadata of a thread name the graph and the assistant of its newest run. `before` is the thread before that was started,
/// which named them where nothing else was named.
async fn name_graph(
    app: &ServerApp,
    before: Option<&ThreadRow>,
    agent: &Agent,
    assistant: &Assistant,
) -> Result<(), ApiError> {
    let Some(row) = before else { return Ok(()) };
    let names = Map::from_iter([
        ("graph_id".to_owned(), agent.name.as_str().into()),
        ("assistant_id".to_owned(), assistant.assistant_id.as_str().into()),
    ]);
    if names.iter().any(|(name, value)| row.metadata.get(name).is_some_and(|known| known != value)) {
        app.runtime.put_thread(&row.key, &names).await?;
    }
    Ok(())
}

/// Starts the run that a request asks for, or goes on with the one that waits. `key` is the name of the caller's API key.
pub(super) async fn start_graph_run(
    app: &ServerApp,
    thread: &ThreadKey,
    key: Option<&str>,
    body: &RunGraphBody,
    is_stateless: bool,
    acknowledge: Acknowledgement,
) -> Result<StartedGraphRun, ApiError> {
    let assistant = named_assistant(app, thread, &body.assistant_id).await?;
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
    let settings = RunSettings::merge(&assistant, body.config.as_ref(), body.context.as_ref())?;
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
        reject_with_resume(body, checkpoint, &row, &settings)?;
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
            reject_with_resume(body, checkpoint, row, &settings)?;
            return answer_run(app, agent, row.clone(), answers).await;
        }
        // It still waits: the client gets the same answer again.
        let head = app.runtime.thread_row(thread).await?.head;
        let run = Arc::new(app.runtime.run_handle(&row.key()).await?);
        let first_event = (head + 1).saturating_sub(row.first_seq.unwrap_or(head));
        return Ok(StartedGraphRun { agent, run, first_event });
    }
    let request = NewRunRequest { thread, key, body, assistant: &assistant, agent, settings, acknowledge };
    start_new_run(app, request, paused.is_some(), checkpoint, is_stateless).await
}

/// What was found out about a request for a new run.
struct NewRunRequest<'a> {
    thread: &'a ThreadKey,
    key: Option<&'a str>,
    body: &'a RunGraphBody,
    assistant: &'a Assistant,
    agent: Agent,
    settings: RunSettings,
    acknowledge: Acknowledgement,
}

async fn start_new_run(
    app: &ServerApp,
    request: NewRunRequest<'_>,
    is_paused: bool,
    checkpoint: Option<CheckpointId>,
    is_stateless: bool,
) -> Result<StartedGraphRun, ApiError> {
    let NewRunRequest { thread, key, body, assistant, agent, settings, acknowledge } = request;
    let strategy = body.multitask_strategy.unwrap_or_default();
    let if_busy = match strategy.if_busy() {
        IfBusy::Rollback => IfBusy::Rollback,
        // Nobody would answer the question any more: a new input leaves it behind.
        _ if is_paused => IfBusy::Interrupt,
        if_busy => if_busy,
    };
    let pause_before = node_names(&agent, "interrupt_before", body.interrupt_before.clone())?;
    let pause_after = node_names(&agent, "interrupt_after", body.interrupt_after.clone())?;
    let mut input = match &body.input {
        Some(input) => Some(graph_input(app, thread, &agent, input.clone()).await?),
        None => None,
    };
    let from = match checkpoint {
        Some(checkpoint) => Some(start_entry(app, thread, checkpoint, &mut input).await?),
        None => None,
    };
    if let Some(command) = &body.command {
        apply_command(app, &agent, thread, from, command).await?;
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
    let doran = json!({
        "multitask_strategy": strategy,
        "stream_mode": body.stream_modes(),
        "stream_subgraphs": body.stream_subgraphs.unwrap_or(false),
        "stateless": is_stateless,
        "interrupt_before": pause_before,
        "interrupt_after": pause_after,
        "settings": settings.digest(),
        KEY_METADATA: key,
    });
    metadata.insert(DORAN_METADATA.to_owned(), doran);
    let thread_metadata = Map::from_iter([
        ("agent".to_owned(), agent.name.as_str().into()),
        ("graph_id".to_owned(), agent.name.as_str().into()),
        ("assistant_id".to_owned(), assistant.assistant_id.as_str().into()),
        // Metadata of a thread are those of its client, who does not expect a `title` among them.
        (DORAN_METADATA.to_owned(), json!({ "title": thread_title(&agent, body.input.as_ref()) })),
    ]);
    let options = StartOptions {
        if_busy,
        acknowledge,
        from: if body.command.is_some() { None } else { from },
        metadata,
        thread_metadata,
        limits: run_limits(app, settings.recursion_limit),
        context: settings.context,
        pause_before,
        pause_after,
        keep_emitted: match (body.stream_resumable.unwrap_or(false), agent.is_chat()) {
            (false, _) => EmittedDataRetention::Nothing,
            // Text of a chat is in its messages.
            (true, true) => EmittedDataRetention::Data,
            (true, false) => EmittedDataRetention::DataAndText,
        },
        ..StartOptions::default()
    };
    // Reading it after the start would wait until the input is on disk.
    let before = app.runtime.find_thread_row(thread).await?;
    let rolled_back = match strategy {
        MultitaskStrategy::Rollback => before.as_ref().and_then(|row| row.active),
        _ => None,
    };
    let run =
        agent_request::submit_run(app, &agent, thread, input.as_ref(), options).await.map_err(|error| {
            let is_about_request = matches!(error.code, ApiErrorCode::BadInput);
            if is_about_request { error.under_code(ApiErrorCode::Invalid) } else { error }
        })?;
    name_graph(app, before.as_ref(), &agent, assistant).await?;
    if let Some(run) = rolled_back {
        // Another one may have begun meanwhile, and this one have gone on.
        let row = app.runtime.run_row(&thread.run(run)).await?;
        if row.cancel_asked || row.status == RunStatus::Cancelled {
            mark_rolled_back(app, thread, run).await?;
        }
    }
    let run = Arc::new(run);
    drop(app.run_starts.send(run.clone()));
    Ok(StartedGraphRun { agent, run, first_event: 1 })
}

/// Changes the state as a command says, and sets the nodes that run next.
async fn apply_command(
    app: &ServerApp,
    agent: &Agent,
    thread: &ThreadKey,
    from: Option<Seq>,
    command: &RunCommand,
) -> Result<(), ApiError> {
    let update = command.update.clone();
    let update = update.map(|update| update_from_json(agent, "command.update", update.into())).transpose()?;
    let edit = StateEdit { update, cancel_paused: true, ..StateEdit::default() };
    let is_new = app.runtime.find_thread_row(thread).await?.is_none();
    if is_new {
        app.runtime.put_thread(thread, &Map::new()).await?;
    }
    let edited = match command.goto().as_slice() {
        [] => app.runtime.edit(&agent.name, thread, from, &edit).await,
        targets => app.runtime.edit_and_goto(&agent.name, thread, from, &edit, targets).await,
    };
    if is_new && edited.is_err() {
        app.runtime.delete_thread(thread).await?;
    }
    edited.map(drop).map_err(|error| match error {
        EngineError::Misuse(MisuseError::UnknownNode { node, .. }) => invalid(
            &format!("`command.goto`: there is no node `{node}`"),
            &format!("`command.goto`: 노드 `{node}`가 없습니다"),
        ),
        EngineError::Misuse(misuse @ MisuseError::InputForJoin { .. }) => {
            invalid(&format!("`command.goto`: {misuse}"), &format!("`command.goto`: {misuse}"))
        }
        error => state_error(error),
    })
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
                *input = Some(parse_raw_json(given)?);
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

/// What a new thread is called: the first message of a person, or the graph if there is none.
fn thread_title(agent: &Agent, input: Option<&Value>) -> String {
    let messages = match input.and_then(|input| input.get(MESSAGES_FIELD)) {
        Some(Value::Array(messages)) => messages.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    let read = messages.iter().filter_map(|message| message_from_json(MESSAGES_FIELD, message).ok());
    let mut titles = read
        .filter(|message| message.role == Role::User)
        .map(|message| agent_request::title_from_message(&message.text()));
    titles.find(|title| !title.is_empty()).unwrap_or_else(|| agent.name.clone())
}

/// What a client sends as input, as the graph takes it.
pub(super) async fn graph_input(
    app: &ServerApp,
    thread: &ThreadKey,
    agent: &Agent,
    input: Value,
) -> Result<Value, ApiError> {
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
    let known = agent.question_fields();
    if let Some(unknown) = fields.keys().find(|name| !known.contains(name)) {
        let unknown: String = unknown.chars().take(64).collect();
        let known = known.join("`, `");
        return Err(invalid(
            &format!("`input`: there is no field `{unknown}`; there are `{MESSAGES_FIELD}`, `{known}`"),
            &format!("`input`: 필드 `{unknown}`이(가) 없습니다. 있는 것: `{MESSAGES_FIELD}`, `{known}`"),
        ));
    }
    // What else may come with a question is named as in the rest of the API.
    let mut options: AskOptions = serde_json::from_value(fields.into())
        .map_err(|error| invalid(&format!("`input`: {error}"), &format!("`input`: {error}")))?;
    let mut question: Option<Message> = None;
    for (at, message) in messages.iter().enumerate() {
        let place = format!("input.messages[{at}]");
        let message = message_from_json(&place, message)?;
        check_chat_message(app, thread, agent, &place, &message).await?;
        options.earlier.extend(question.take().map(EarlierMessage::Labelled));
        match message.role {
            Role::User => question = Some(message),
            // What holds for the whole conversation is one text.
            Role::System => {
                let before = options.system.take().map(|before| format!("{before}\n\n"));
                options.system = Some(before.unwrap_or_default() + &message.text());
            }
            Role::Assistant | Role::Tool => options.earlier.push(EarlierMessage::Labelled(message)),
        }
    }
    let mut text = String::new();
    if let Some(question) = question {
        text = question.text();
        options.images = message_images(&question);
        options.label =
            QuestionLabel { id: Some(question.id.clone()), client_fields: question.client_fields };
    }
    if text.trim().is_empty() {
        return Err(invalid(
            "`input.messages` does not end with a message of a person",
            "`input.messages`의 마지막이 사람의 메시지가 아닙니다",
        ));
    }
    agent_request::chat_input(app, agent, &text, &options)
        .map_err(|error| error.under_code(ApiErrorCode::Invalid))
}

/// Refuses a message that the agent cannot take.
async fn check_chat_message(
    app: &ServerApp,
    thread: &ThreadKey,
    agent: &Agent,
    place: &str,
    message: &Message,
) -> Result<(), ApiError> {
    let is_of_tools = message.role == Role::Tool || message.tool_calls().next().is_some();
    if is_of_tools && !agent.accepts_turn_requests {
        return Err(invalid(
            &format!(
                "`{place}` calls a tool or has the result of one, which the agent `{}` does not take",
                agent.name
            ),
            &format!("`{place}`: 에이전트 `{}`은(는) 도구의 호출과 결과를 받지 않습니다", agent.name),
        ));
    }
    if message.id.as_str().starts_with(STANDING_MESSAGE_ID_PREFIX) {
        return Err(invalid(
            &format!("`{place}.id` begins with `{STANDING_MESSAGE_ID_PREFIX}`, which belongs to the server"),
            &format!("`{place}.id`: `{STANDING_MESSAGE_ID_PREFIX}`로 시작하는 id는 서버가 씁니다"),
        ));
    }
    let images = AskOptions { images: message_images(message), ..AskOptions::default() };
    check_images(app, thread, agent, &images).await.map_err(|error| error.under_code(ApiErrorCode::Invalid))
}

fn message_images(message: &Message) -> Vec<ImageReference> {
    let image = |part: &MessagePart| match part {
        MessagePart::Image(image) => Some(image.clone()),
        _ => None,
    };
    message.parts.iter().filter_map(image).collect()
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
    let run = Arc::new(app.runtime.answer(&row.key(), &answers).await?);
    Ok(StartedGraphRun { agent, run, first_event })
}

/// A run that goes on keeps what it was started with.
fn reject_with_resume(
    body: &RunGraphBody,
    checkpoint: Option<CheckpointId>,
    row: &RunRow,
    settings: &RunSettings,
) -> Result<(), ApiError> {
    let command = body.command.as_ref();
    // Clients send the same settings with every request.
    let settings_digest = settings.digest();
    let is_known = |doran: &Value| doran["settings"] == settings_digest.as_str();
    let has_others = !row.metadata.get(DORAN_METADATA).is_some_and(is_known);
    let given = [
        ("metadata", body.metadata.as_ref().is_some_and(|metadata| !metadata.is_empty())),
        ("interrupt_before", body.interrupt_before.is_some()),
        ("interrupt_after", body.interrupt_after.is_some()),
        ("checkpoint", checkpoint.is_some()),
        ("context", body.context.as_ref().is_some_and(|context| !context.is_empty()) && has_others),
        ("config", body.config.as_ref().is_some_and(|config| config.is_setting()) && has_others),
        ("command.update", command.is_some_and(|command| command.update.is_some())),
        ("command.goto", command.is_some_and(|command| !command.goto().is_empty())),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((field, _)) => Err(invalid(
            &format!("`{field}` is not supported for a run that goes on: it was set when the run started"),
            &format!("이어지는 실행에는 `{field}`을(를) 줄 수 없습니다. 실행을 시작할 때 정합니다"),
        )),
        None => Ok(()),
    }
}

/// The limits of a run of at most so many steps.
pub(super) fn run_limits(app: &ServerApp, steps: Option<u32>) -> Option<RunLimits> {
    let limits = app.runtime.default_limits();
    Some(RunLimits { steps: steps?.min(limits.steps), ..limits.clone() })
}

fn node_names(
    agent: &Agent,
    field: &str,
    nodes: Option<OneOrMany<String>>,
) -> Result<BTreeSet<String>, ApiError> {
    let nodes: BTreeSet<String> = nodes.map(OneOrMany::into_vec).unwrap_or_default().into_iter().collect();
    if nodes.is_empty() {
        return Ok(nodes);
    }
    let topology = agent.topology();
    if nodes.contains("*") {
        return Ok(topology.nodes.into_iter().map(|node| node.id).collect());
    }
    match nodes.iter().find(|node| !topology.has_node(node)) {
        Some(unknown) => Err(invalid(
            &format!("`{field}`: there is no node `{unknown}`"),
            &format!("`{field}`: 노드 `{unknown}`가 없습니다"),
        )),
        None => Ok(nodes),
    }
}

/// A change of the state that the graph does not take is a mistake of the request.
pub(super) fn state_error(error: EngineError) -> ApiError {
    let is_about_request = matches!(error, EngineError::StateMismatch { .. });
    let error = match error {
        EngineError::StateMismatch { reason, .. } => {
            let ErrorDetail { en, ko } = ErrorDetail::from_state_mismatch(&reason);
            invalid(&format!("`values`: {en}"), &format!("`values`가 그래프의 상태에 맞지 않습니다: {ko}"))
        }
        other => other.into(),
    };
    let is_input = is_about_request || error.code == ApiErrorCode::BadInput;
    if is_input { error.under_code(ApiErrorCode::Invalid) } else { error }
}
