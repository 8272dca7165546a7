//! The ready nodes that described agents are made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::state::{Change, Changes};
use doran_engine::{Cx, NodeError, Snap};
use doran_llm::{
    ChatRequest, Message, ModelRole, Purpose, ResponseSchema, Role, ToolChoice, ToolSpec, read_value, repair,
};
use doran_retrieval::{Filter, Index};
use minijinja::{Environment, context};
use serde_json::{Value, json};

use super::form::Both;
use super::state::{DescribedState, DescribedStateUpdate};
use crate::agents::Parts;
use crate::nodes::{
    BYTES_PER_TOKEN, CONTEXT_LENGTH, Caller, DECIDING, Finder, Models, NEIGHBOURS, Step, Words, Work,
    call_tools, fitted, last_words, material, transcript, verified, within,
};
use crate::prompt::{PromptError, Prompts};
use crate::source::{Source, without_old_marks};
use crate::state::{cut, question, spoken, typed};
use crate::tools::{Taint, Toolbox};

/// What a node does, with what it needs for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ready {
    /// Chooses one of several values.
    Choose { prompt: String, choices: Vec<String>, into: String },
    /// Looks documents up.
    Retrieve { most: usize },
    /// Answers, or asks for tools.
    CallModel { prompt: String, tools: Option<Vec<String>>, rounds: usize, into: String },
    /// Runs the tools that were asked for.
    CallTools,
    /// Sums older messages up.
    Summarize { most: usize, keep: usize },
    /// Judges whether there is enough to answer.
    Evaluate { prompt: String, rounds: usize, into: String },
    /// Asks a person.
    Interrupt { ask: Both, into: String },
    /// Runs another described agent.
    Subgraph { graph: String },
    /// Answers by a model, without tools.
    Respond { prompt: String },
    /// Answers with fixed words.
    Say { text: String },
}

/// What ready nodes work with.
pub(super) struct Shop {
    pub(super) models: Models,
    pub(super) tools: Toolbox,
    index: Arc<dyn Index>,
    finder: Finder,
    /// Tokens the model can take.
    context_length: usize,
}

impl Shop {
    pub(super) fn new(parts: &Parts, context_length: Option<usize>) -> Result<Self, PromptError> {
        let prompts = Prompts::with(&BTreeMap::new())?;
        let finder = Finder::new(parts, prompts, NEIGHBOURS);
        let (models, tools, index) = (parts.models(), parts.tools.clone(), parts.index.clone());
        let context_length = context_length.unwrap_or(CONTEXT_LENGTH);
        Ok(Self { models, tools, index, finder, context_length })
    }

    fn specs(&self, tools: Option<&[String]>) -> Vec<ToolSpec> {
        let wanted = |spec: &ToolSpec| tools.is_none_or(|tools| tools.contains(&spec.name));
        self.tools.specs().into_iter().filter(wanted).collect()
    }

    /// What a node would ask models in this state.
    pub(super) fn explain(&self, ready: &Ready, state: &DescribedState) -> Vec<ChatRequest> {
        let request = match ready {
            Ready::Choose { prompt, choices, .. } => self.choose_request(state, prompt, choices),
            Ready::CallModel { prompt, tools, rounds, .. } => {
                self.model_request(state, prompt, tools.as_deref(), *rounds)
            }
            Ready::Evaluate { prompt, .. } => self.evaluate_request(state, prompt),
            Ready::Respond { prompt } => self.model_request(state, prompt, Some(&[]), 0),
            Ready::Retrieve { .. } => {
                return self.finder.explain(&state.messages, state.progress.language).into_iter().collect();
            }
            Ready::CallTools
            | Ready::Summarize { .. }
            | Ready::Interrupt { .. }
            | Ready::Subgraph { .. }
            | Ready::Say { .. } => return Vec::new(),
        };
        request.into_iter().collect()
    }

    fn model_request(
        &self,
        state: &DescribedState,
        prompt: &str,
        tools: Option<&[String]>,
        rounds: usize,
    ) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let mut messages = vec![Message::system("system", filled(prompt, state)?)];
        if let Some(summary) = state.summary.joined() {
            messages.push(Message::system("summary", summary));
        }
        messages.extend(state.context.as_deref().map(|found| material(found, language)));
        messages.extend(without_old_marks(&state.messages));
        let tools = self.specs(tools);
        let may_call = !tools.is_empty() && (state.progress.tool_rounds as usize) < rounds;
        let tool_choice = if may_call { ToolChoice::Auto } else { ToolChoice::None };
        Ok(self.fitted(state, ChatRequest { tools, tool_choice, ..ChatRequest::new(messages) }))
    }

    fn choose_request(
        &self,
        state: &DescribedState,
        prompt: &str,
        choices: &[String],
    ) -> Result<ChatRequest, NodeError> {
        let mut messages = vec![Message::system("system", filled(prompt, state)?)];
        let asked = question(&state.messages).cloned().into_iter().collect();
        messages.extend(within(asked, DECIDING, spoken(None, &state.messages)));
        let schema = json!({
            "type": "object",
            "properties": { "choice": { "type": "string", "enum": choices } },
            "required": ["choice"],
            "additionalProperties": false,
        });
        Ok(self.fitted(
            state,
            ChatRequest {
                purpose: Purpose::Classify,
                role: ModelRole::Small,
                schema: Some(ResponseSchema { name: "choice".into(), schema }),
                temperature: Some(0.0),
                ..ChatRequest::new(messages)
            },
        ))
    }

    fn evaluate_request(&self, state: &DescribedState, prompt: &str) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let mut messages = vec![Message::system("system", filled(prompt, state)?)];
        messages.extend(state.context.as_deref().map(|found| material(found, language)));
        messages.extend(question(&state.messages).cloned());
        let schema = json!({
            "type": "object",
            "properties": {
                "is_sufficient": { "type": "boolean" },
                "reasoning": { "type": "string" },
                "missing_info": { "type": ["string", "null"] },
            },
            "required": ["is_sufficient", "reasoning", "missing_info"],
            "additionalProperties": false,
        });
        Ok(self.fitted(
            state,
            ChatRequest {
                purpose: Purpose::Sufficiency,
                schema: Some(ResponseSchema { name: "sufficiency".into(), schema }),
                temperature: Some(0.0),
                ..ChatRequest::new(messages)
            },
        ))
    }

    fn fitted(&self, state: &DescribedState, request: ChatRequest) -> ChatRequest {
        fitted(request, self.context_length, spoken(None, &state.messages))
    }
}

/// Runs a ready node.
pub(super) async fn run(
    shop: Arc<Shop>,
    ready: Ready,
    name: String,
    state: Snap<DescribedState>,
    cx: Cx,
) -> Result<DescribedStateUpdate, NodeError> {
    let language = spoken(None, &state.messages);
    let work = Work::new(cx, language);
    let update = match &ready {
        Ready::Choose { prompt, choices, into } => {
            choose(&shop, &work, &state, prompt, choices, into).await?
        }
        Ready::Retrieve { most } => look_up(&shop, &work, &state, *most).await?,
        Ready::CallModel { prompt, tools, rounds, into } => {
            let request = shop.model_request(&state, prompt, tools.as_deref(), *rounds)?;
            let (update, called) = answer(&shop, &work, &state, request).await?;
            let outcome = if called { "tools" } else { "answer" };
            update.values([(into.clone(), json!(outcome))])
        }
        Ready::CallTools => return tools(&shop, &work, &state, &name).await,
        Ready::Summarize { most, keep } => summarize(&shop, &work, &state, *most, *keep).await?,
        Ready::Evaluate { prompt, rounds, into } => {
            evaluate(&shop, &work, &state, prompt, *rounds, into).await?
        }
        Ready::Interrupt { ask, into } => {
            let asked: Value = work.cx.ask(json!({ "type": "question", "ko": ask.ko, "en": ask.en })).await?;
            DescribedState::update().values([(into.clone(), asked)])
        }
        Ready::Respond { prompt } => {
            answer(&shop, &work, &state, shop.model_request(&state, prompt, Some(&[]), 0)?).await?.0
        }
        Ready::Say { text } => {
            let text = filled(text, &state)?;
            work.cx.token(text.clone());
            DescribedState::update().messages(Message::assistant(work.cx.new_id(), text))
        }
        Ready::Subgraph { .. } => DescribedState::update(),
    };
    let mut progress = state.progress.after(&name, work.calls());
    progress.language = language;
    Ok(update.progress(progress))
}

/// A value that fits the schema of the request; nothing where it did not fit twice.
async fn fitting(shop: &Shop, work: &Work, request: ChatRequest) -> Result<Option<Value>, NodeError> {
    let Some(schema) = request.schema.clone() else { return Ok(None) };
    let reply = work.ask(&shop.models, request.clone(), Words::Hidden).await?;
    let misfit = match read_value(&reply, &schema) {
        Ok(value) => return Ok(Some(value)),
        Err(misfit) => misfit,
    };
    let reply = work.ask(&shop.models, repair(request, &reply, &misfit), Words::Hidden).await?;
    Ok(read_value(&reply, &schema).ok())
}

/// A reply that does not fit twice takes the last choice: by custom the one for everything else.
async fn choose(
    shop: &Shop,
    work: &Work,
    state: &DescribedState,
    prompt: &str,
    choices: &[String],
    into: &str,
) -> Result<DescribedStateUpdate, NodeError> {
    let chosen = fitting(shop, work, shop.choose_request(state, prompt, choices)?).await?;
    let chosen = chosen.and_then(|chosen| chosen["choice"].as_str().map(str::to_owned));
    let choice = chosen.or_else(|| choices.last().cloned()).unwrap_or_default();
    work.thinking(Step::Routing, choice.clone(), choice.clone());
    Ok(DescribedState::update().values([(into.to_owned(), json!(choice))]))
}

async fn look_up(
    shop: &Shop,
    work: &Work,
    state: &DescribedState,
    most: usize,
) -> Result<DescribedStateUpdate, NodeError> {
    work.thinking(Step::Searching, "문서를 찾고 있습니다", "looking documents up");
    let filter = Filter { collection: state.collection.clone(), ..Filter::default() };
    let found = shop.finder.find(work, &state.messages, most, filter).await?;
    let taint = state.taint.and(Taint::of(&[material(&found, work.language)]));
    Ok(DescribedState::update().context(Some(found)).taint(taint))
}

/// Asks for an answer; tells whether tools are to be run first.
async fn answer(
    shop: &Shop,
    work: &Work,
    state: &DescribedState,
    request: ChatRequest,
) -> Result<(DescribedStateUpdate, bool), NodeError> {
    let may_call = request.tool_choice == ToolChoice::Auto;
    let offered: Vec<String> = request.tools.iter().map(|tool| tool.name.clone()).collect();
    let asked = work.ask(&shop.models, request, Words::Shown).await;
    let reply = if may_call { asked? } else { last_words(work, asked)? };
    let (text, called) = (reply.text.clone(), !reply.tool_calls.is_empty());
    let update = DescribedState::update().messages(reply.into_message(work.cx.new_id()));
    if called {
        return Ok((update.offered(offered), true));
    }
    let named = Source::named_in(&text, state.context.as_deref().unwrap_or_default());
    Ok((update.sources(verified(work, &*shop.index, named).await?), false))
}

async fn tools(
    shop: &Shop,
    work: &Work,
    state: &DescribedState,
    name: &str,
) -> Result<DescribedStateUpdate, NodeError> {
    let last = state.messages.last().filter(|last| last.role == Role::Assistant);
    let calls: Vec<_> = last.into_iter().flat_map(Message::tool_calls).cloned().collect();
    let offered: Vec<&str> = state.offered.iter().map(String::as_str).collect();
    let toolbox = shop.tools.only(&offered);
    let caller =
        Caller { toolbox: &toolbox, read: &state.messages, taint: state.taint, sessions: &state.sessions };
    let called = call_tools(work, &caller, &calls).await?;
    let progress = state.progress.after(name, 0).with_tools(called.ran.iter().map(String::as_str));
    Ok(DescribedState::update()
        .messages(Message::tool_output(work.cx.new_id(), called.results))
        .sessions(called.sessions)
        .taint(called.taint)
        .progress(progress))
}

/// Tokens of a summary.
const SUMMARY_TOKENS: usize = 800;

async fn summarize(
    shop: &Shop,
    work: &Work,
    state: &DescribedState,
    most: usize,
    keep: usize,
) -> Result<DescribedStateUpdate, NodeError> {
    if state.messages.len() <= most {
        return Ok(DescribedState::update());
    }
    let older = &state.messages[..cut(&state.messages, keep)];
    let told = work.language.pick(
        "아래 대화를 요약하세요. 대화를 이어 가지 말고 요약만 쓰세요.",
        "Sum up the conversation below. Do not go on with it; write the summary only.",
    );
    let request = ChatRequest {
        purpose: Purpose::Summarize,
        role: ModelRole::Small,
        temperature: Some(0.0),
        max_output_tokens: Some(SUMMARY_TOKENS as u64),
        ..ChatRequest::new(vec![
            Message::system("system", told),
            transcript("transcript", older, work.language),
        ])
    };
    let request = shop.fitted(state, request);
    let summary = work.ask(&shop.models, request, Words::Hidden).await?.text;
    let gone = Changes::remove(older.iter().map(|message| message.id.as_str()));
    let summary = crate::nodes::cut(summary.trim(), SUMMARY_TOKENS * BYTES_PER_TOKEN);
    Ok(DescribedState::update().summary(state.summary.and(summary, 3)).messages(gone))
}

async fn evaluate(
    shop: &Shop,
    work: &Work,
    state: &DescribedState,
    prompt: &str,
    rounds: usize,
    into: &str,
) -> Result<DescribedStateUpdate, NodeError> {
    let count = format!("{into}_rounds");
    let round = state.values.get(&count).and_then(Value::as_u64).unwrap_or(0) + 1;
    let judged = if round >= rounds as u64 {
        None
    } else {
        fitting(shop, work, shop.evaluate_request(state, prompt)?).await?
    };
    let enough = judged.as_ref().is_none_or(|judged| judged["is_sufficient"] == true);
    let missing = judged.map(|judged| judged["missing_info"].clone()).unwrap_or(Value::Null);
    let verdict = if enough { "sufficient" } else { "insufficient" };
    work.thinking(Step::EvaluationResult, verdict, verdict);
    Ok(DescribedState::update().values([
        (into.to_owned(), json!(verdict)),
        (format!("{into}_missing"), missing),
        (count, json!(round)),
    ]))
}

/// What a graph inside is given: all that the outer one has.
pub(super) fn into_inner(outer: &DescribedState) -> DescribedStateUpdate {
    let mut update = DescribedState::update()
        .messages(outer.messages.clone())
        .summary(outer.summary.clone())
        .context(outer.context.clone())
        .progress(outer.progress.clone())
        .offered(outer.offered.clone())
        .collection(outer.collection.clone())
        .taint(outer.taint)
        .sessions(outer.sessions.clone());
    if !outer.values.is_empty() {
        update = update.values(outer.values.clone());
    }
    update
}

/// What the outer graph takes from the inner one. What that one took out of the messages is out of them here too.
pub(super) fn from_inner(inner: &DescribedState) -> DescribedStateUpdate {
    let mut update = DescribedState::update()
        .messages(Changes(vec![Change::Clear]).put(inner.messages.clone()))
        .summary(inner.summary.clone())
        .context(inner.context.clone())
        .sources(inner.sources.clone())
        .progress(inner.progress.clone())
        .offered(inner.offered.clone())
        .taint(inner.taint)
        .sessions(inner.sessions.clone());
    if !inner.values.is_empty() {
        update = update.values(inner.values.clone());
    }
    update
}

/// A prompt with its slots filled. What is not there is empty.
fn filled(prompt: &str, state: &DescribedState) -> Result<String, NodeError> {
    // A text that came along is material, and no words of a prompt.
    let asked = question(&state.messages).map(typed).unwrap_or_default();
    let summary = state.summary.joined().unwrap_or_default();
    let values: BTreeMap<String, minijinja::Value> =
        state.values.iter().map(|(name, value)| (name.clone(), slot(value))).collect();
    let templates = Environment::new();
    let text = templates.render_str(
        prompt,
        context! { question => asked, summary, values => minijinja::Value::from(values) },
    )?;
    Ok(text.trim().to_owned())
}

fn slot(value: &Value) -> minijinja::Value {
    match value {
        Value::Null => minijinja::Value::from(()),
        Value::Bool(truth) => minijinja::Value::from(*truth),
        Value::Number(number) => {
            number.as_f64().map_or_else(|| minijinja::Value::from(number.to_string()), minijinja::Value::from)
        }
        Value::String(text) => minijinja::Value::from(text.clone()),
        Value::Array(items) => minijinja::Value::from(items.iter().map(slot).collect::<Vec<_>>()),
        Value::Object(fields) => minijinja::Value::from(
            fields.iter().map(|(name, value)| (name.clone(), slot(value))).collect::<BTreeMap<_, _>>(),
        ),
    }
}
