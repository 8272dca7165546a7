//! The ready nodes that described agents are made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use doran_engine::state::ItemChanges;
use doran_engine::{Cx, NodeError, RetryPolicy, Snap};
use doran_llm::{
    ChatRequest, Message, ModelRole, ResponseSchema, Role, ToolChoice, ToolSpec, parse_reply_json,
    repair_request,
};
use doran_retrieval::{DocumentIndex, DocumentTenant};
use serde_json::{Value, json};

use super::description::BilingualText;
use super::http::HttpCall;
use super::http_nodes::{item_variables, map_items, node_variables, run_http, run_http_map};
use super::state::{DescribedState, DescribedStateUpdate};
use super::subgraphs::SubgraphQuestion;
use super::template;
use crate::agents::{AgentParts, TurnRequest};
use crate::nodes::{
    BYTES_PER_TOKEN, DEFAULT_CONTEXT_TOKENS, DEFAULT_NEIGHBOURS, DocumentFinder, MAX_DECISION_TOKENS, Models,
    NodeWork, RERANK_PROMPT, REWORD_PROMPT, ReplyVisibility, SearchScope, ToolCaller, call_tools,
    conversation_as_text, final_reply, fit_messages, fit_request, sources_message, verify_sources,
};
use crate::prompt::{PromptError, Prompts};
use crate::protocol::{InterruptQuestion, ThinkingStep};
use crate::request_format::SUMMARY_MESSAGE_ID;
use crate::request_purpose::RequestPurpose;
use crate::source::{AnswerSource, strip_old_citation_marks};
use crate::state::{AnswerLanguage, conversation_language, newest_question, older_messages_end};
use crate::tools::{Taint, Toolbox};

/// What a node does, with what it needs for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReadyNode {
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
    Interrupt { ask: BilingualText, into: String },
    /// Runs another described agent.
    Subgraph { graph: String, question: Option<SubgraphQuestion> },
    /// Calls a program.
    Http { call: HttpCall, into: String },
    /// Calls a program for each item of a list.
    MapHttp { over: String, call: HttpCall, into: String },
    /// Asks a model about each item of a list.
    MapPrompt { over: String, prompt: String, into: String },
    /// Answers by a model, without tools.
    Respond { prompt: String },
    /// Answers with fixed words.
    Say { text: String },
}

impl ReadyNode {
    /// How often the node is tried, if it says so.
    pub(super) fn retry_policy(&self) -> Option<RetryPolicy> {
        match self {
            Self::Http { call, .. } | Self::MapHttp { call, .. } => Some(RetryPolicy::times(call.attempts())),
            _ => None,
        }
    }
}

/// What ready nodes work with.
pub(super) struct ReadyNodeContext {
    pub(super) models: Models,
    pub(super) tools: Toolbox,
    index: Arc<dyn DocumentIndex>,
    finder: DocumentFinder,
    /// Tokens the model can take.
    context_length: usize,
    language: AnswerLanguage,
}

impl ReadyNodeContext {
    pub(super) fn new(parts: &AgentParts, context_length: Option<usize>) -> Result<Self, PromptError> {
        let prompts = Prompts::with_overrides(&[REWORD_PROMPT, RERANK_PROMPT], &BTreeMap::new())?;
        let finder = DocumentFinder::new(parts, prompts, DEFAULT_NEIGHBOURS);
        let (models, tools, index) = (parts.models(), parts.tools.clone(), parts.searched_index());
        let context_length = context_length.unwrap_or(DEFAULT_CONTEXT_TOKENS);
        let language = parts.answer_language(None);
        Ok(Self { models, tools, index, finder, context_length, language })
    }

    fn tool_specs(&self, tools: Option<&[String]>) -> Vec<ToolSpec> {
        let wanted = |spec: &ToolSpec| tools.is_none_or(|tools| tools.contains(&spec.name));
        self.tools.specs().into_iter().filter(wanted).collect()
    }

    /// What a node would ask models in this state.
    pub(super) async fn explain(
        &self,
        ready: &ReadyNode,
        state: &DescribedState,
        tenant: &DocumentTenant,
    ) -> Result<Vec<ChatRequest>, NodeError> {
        let request = match ready {
            ReadyNode::Choose { prompt, choices, .. } => self.choose_request(state, prompt, choices),
            ReadyNode::CallModel { prompt, tools, rounds, .. } => {
                self.model_request(state, prompt, tools.as_deref(), *rounds)
            }
            ReadyNode::Evaluate { prompt, .. } => self.evaluate_request(state, prompt),
            ReadyNode::Respond { prompt } => self.model_request(state, prompt, Some(&[]), 0),
            ReadyNode::Retrieve { most } => {
                let scope = SearchScope { limit: *most, collection: state.collection.clone() };
                return self.finder.explain(&state.messages, &state.progress, tenant, scope).await;
            }
            ReadyNode::CallTools
            | ReadyNode::Summarize { .. }
            | ReadyNode::Interrupt { .. }
            | ReadyNode::Subgraph { .. }
            | ReadyNode::Http { .. }
            | ReadyNode::MapHttp { .. }
            | ReadyNode::MapPrompt { .. }
            | ReadyNode::Say { .. } => return Ok(Vec::new()),
        };
        Ok(vec![request?])
    }

    fn model_request(
        &self,
        state: &DescribedState,
        prompt: &str,
        tools: Option<&[String]>,
        rounds: usize,
    ) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let mut messages = vec![Message::system("system", render_prompt(prompt, state)?)];
        if let Some(summary) = state.summary.joined_text() {
            messages.push(Message::system(SUMMARY_MESSAGE_ID, summary));
        }
        messages.extend(state.context.as_deref().map(|found| sources_message(found, language)));
        messages.extend(strip_old_citation_marks(&state.messages));
        let tools = self.tool_specs(tools);
        let may_call = !tools.is_empty() && (state.progress.tool_rounds as usize) < rounds;
        let tool_choice = if may_call { ToolChoice::Auto } else { ToolChoice::None };
        let temperature = state.progress.chosen.temperature;
        let request = ChatRequest { tools, tool_choice, temperature, ..ChatRequest::new(messages) };
        Ok(self.fit_request(state, request))
    }

    fn choose_request(
        &self,
        state: &DescribedState,
        prompt: &str,
        choices: &[String],
    ) -> Result<ChatRequest, NodeError> {
        let mut messages = vec![Message::system("system", render_prompt(prompt, state)?)];
        let question = newest_question(&state.messages).cloned().into_iter().collect();
        messages.extend(fit_messages(
            question,
            MAX_DECISION_TOKENS,
            conversation_language(self.language, &state.messages),
        ));
        let schema = json!({
            "type": "object",
            "properties": { "choice": { "type": "string", "enum": choices } },
            "required": ["choice"],
            "additionalProperties": false,
        });
        Ok(self.fit_request(
            state,
            ChatRequest {
                purpose: RequestPurpose::Classify.label(),
                role: ModelRole::Small,
                schema: Some(ResponseSchema { name: "choice".into(), schema }),
                temperature: Some(0.0),
                ..ChatRequest::new(messages)
            },
        ))
    }

    fn evaluate_request(&self, state: &DescribedState, prompt: &str) -> Result<ChatRequest, NodeError> {
        let language = state.progress.language;
        let mut messages = vec![Message::system("system", render_prompt(prompt, state)?)];
        messages.extend(state.context.as_deref().map(|found| sources_message(found, language)));
        messages.extend(newest_question(&state.messages).cloned());
        let schema = json!({
            "type": "object",
            "properties": {
                "reasoning": { "type": "string" },
                "is_sufficient": { "type": "boolean" },
                "missing_info": { "type": ["string", "null"] },
            },
            // The reason comes first, so that a model thinks before it chooses.
            "required": ["reasoning", "is_sufficient", "missing_info"],
            "additionalProperties": false,
        });
        Ok(self.fit_request(
            state,
            ChatRequest {
                purpose: RequestPurpose::Sufficiency.label(),
                schema: Some(ResponseSchema { name: "sufficiency".into(), schema }),
                temperature: Some(0.0),
                ..ChatRequest::new(messages)
            },
        ))
    }

    fn fit_request(&self, state: &DescribedState, request: ChatRequest) -> ChatRequest {
        fit_request(request, self.context_length, conversation_language(self.language, &state.messages))
    }
}

/// Runs a ready node.
pub(super) async fn run_ready_node(
    node_context: Arc<ReadyNodeContext>,
    ready: ReadyNode,
    name: String,
    state: Snap<DescribedState>,
    cx: Cx,
) -> Result<DescribedStateUpdate, NodeError> {
    let language = conversation_language(node_context.language, &state.messages);
    let work = NodeWork::new(cx, &state.progress).in_language(language);
    let update = match &ready {
        ReadyNode::Choose { prompt, choices, into } => {
            choose(&node_context, &work, &state, prompt, choices, into).await?
        }
        ReadyNode::Retrieve { most } => retrieve_sources(&node_context, &work, &state, *most).await?,
        ReadyNode::CallModel { prompt, tools, rounds, into } => {
            let request = node_context.model_request(&state, prompt, tools.as_deref(), *rounds)?;
            let (update, called) = ask_for_answer(&node_context, &work, &state, request).await?;
            let outcome = if called { "tools" } else { "answer" };
            update.values([(into.clone(), json!(outcome))])
        }
        ReadyNode::CallTools => return run_tool_calls(&node_context, &work, &state, &name).await,
        ReadyNode::Summarize { most, keep } => summarize(&node_context, &work, &state, *most, *keep).await?,
        ReadyNode::Evaluate { prompt, rounds, into } => {
            evaluate(&node_context, &work, &state, prompt, *rounds, into).await?
        }
        ReadyNode::Interrupt { ask, into } => {
            let (ko, en) = (render_prompt(&ask.ko, &state)?, render_prompt(&ask.en, &state)?);
            let question = InterruptQuestion::Question { ko, en };
            let answer: Value = work.cx.ask(question).await?;
            DescribedState::update().values([(into.clone(), answer)])
        }
        ReadyNode::Respond { prompt } => {
            ask_for_answer(
                &node_context,
                &work,
                &state,
                node_context.model_request(&state, prompt, Some(&[]), 0)?,
            )
            .await?
            .0
        }
        ReadyNode::Say { text } => {
            let text = render_prompt(text, &state)?;
            work.show_reply_text(text.clone());
            DescribedState::update().messages(Message::assistant(work.take_reply_id(), text))
        }
        ReadyNode::Http { call, into } => {
            let result = run_http(&work, &name, call, &state).await?;
            outside_update(&state, into, result)
        }
        ReadyNode::MapHttp { over, call, into } => {
            let results = run_http_map(&work, &name, call, over, &state).await?;
            outside_update(&state, into, results)
        }
        ReadyNode::MapPrompt { over, prompt, into } => {
            let replies = ask_for_items(&node_context, &work, &state, over, prompt).await?;
            DescribedState::update().values([(into.clone(), replies)])
        }
        ReadyNode::Subgraph { .. } => DescribedState::update(),
    };
    let mut progress = state.progress.after_node(&name, work.model_calls());
    progress.language = language;
    Ok(update.progress(progress))
}

/// The answer of a program is text from outside, and may be private.
fn outside_update(state: &DescribedState, into: &str, result: Value) -> DescribedStateUpdate {
    let taint = state.taint.union(Taint { untrusted: true, private: true });
    DescribedState::update().values([(into.to_owned(), result)]).taint(taint)
}

/// Asks a model about each item of a list, one after the other. The replies are in the order of the items.
async fn ask_for_items(
    node_context: &ReadyNodeContext,
    work: &NodeWork,
    state: &DescribedState,
    over: &str,
    prompt: &str,
) -> Result<Value, NodeError> {
    let mut replies = Vec::new();
    for (index, item) in map_items(over, state)?.into_iter().enumerate() {
        let text = template::render_text(prompt, &item_variables(state, index, item))?;
        let request = ChatRequest {
            purpose: RequestPurpose::Answer.label(),
            temperature: Some(0.0),
            ..ChatRequest::new(vec![Message::user("item", text.trim())])
        };
        let request = node_context.fit_request(state, request);
        replies.push(work.ask(&node_context.models, request, ReplyVisibility::Hidden).await?.text);
    }
    Ok(json!(replies))
}

/// A value that fits the schema of the request; nothing where it did not fit twice.
async fn ask_structured_value(
    node_context: &ReadyNodeContext,
    work: &NodeWork,
    request: ChatRequest,
) -> Result<Option<Value>, NodeError> {
    let Some(schema) = request.schema.clone() else { return Ok(None) };
    let reply = work.ask(&node_context.models, request.clone(), ReplyVisibility::Hidden).await?;
    let misfit = match parse_reply_json(&reply, &schema) {
        Ok(value) => return Ok(Some(value)),
        Err(misfit) => misfit,
    };
    let reply = work
        .ask(&node_context.models, repair_request(request, &reply, &misfit), ReplyVisibility::Hidden)
        .await?;
    Ok(parse_reply_json(&reply, &schema).inspect_err(|misfit| work.note_misfit(misfit)).ok())
}

/// A reply that does not fit twice takes the last choice: by custom the one for everything else.
async fn choose(
    node_context: &ReadyNodeContext,
    work: &NodeWork,
    state: &DescribedState,
    prompt: &str,
    choices: &[String],
    into: &str,
) -> Result<DescribedStateUpdate, NodeError> {
    let chosen =
        ask_structured_value(node_context, work, node_context.choose_request(state, prompt, choices)?)
            .await?;
    let chosen = chosen.and_then(|chosen| chosen["choice"].as_str().map(str::to_owned));
    let choice = chosen.or_else(|| choices.last().cloned()).unwrap_or_default();
    work.show_thinking(ThinkingStep::Routing, choice.clone(), choice.clone());
    Ok(DescribedState::update().values([(into.to_owned(), json!(choice))]))
}

async fn retrieve_sources(
    node_context: &ReadyNodeContext,
    work: &NodeWork,
    state: &DescribedState,
    max_passages: usize,
) -> Result<DescribedStateUpdate, NodeError> {
    let scope = SearchScope { limit: max_passages, collection: state.collection.clone() };
    let (found, taint) = node_context.finder.find(work, &state.messages, scope, state.taint).await?;
    Ok(DescribedState::update().context(found).taint(taint))
}

/// Asks for an answer; tells whether tools are to be run first.
async fn ask_for_answer(
    node_context: &ReadyNodeContext,
    work: &NodeWork,
    state: &DescribedState,
    request: ChatRequest,
) -> Result<(DescribedStateUpdate, bool), NodeError> {
    let may_call = request.tool_choice == ToolChoice::Auto;
    let offered: Vec<String> = request.tools.iter().map(|tool| tool.name.clone()).collect();
    let reply = work.ask(&node_context.models, request, ReplyVisibility::Shown).await;
    let reply = if may_call { reply? } else { final_reply(work, reply)? };
    let (text, called) = (reply.text.clone(), !reply.tool_calls.is_empty());
    let update = DescribedState::update().messages(reply.into_message(work.take_reply_id()));
    if called {
        return Ok((update.offered(offered), true));
    }
    let named = AnswerSource::cited_in(&text, state.context.as_deref().unwrap_or_default());
    Ok((update.sources(verify_sources(work, &*node_context.index, named).await?), false))
}

async fn run_tool_calls(
    node_context: &ReadyNodeContext,
    work: &NodeWork,
    state: &DescribedState,
    name: &str,
) -> Result<DescribedStateUpdate, NodeError> {
    let last = state.messages.last().filter(|last| last.role == Role::Assistant);
    let calls: Vec<_> = last.into_iter().flat_map(Message::tool_calls).cloned().collect();
    let offered: Vec<&str> = state.offered.iter().map(String::as_str).collect();
    let toolbox = node_context.tools.restricted_to(&offered);
    let caller = ToolCaller {
        toolbox: &toolbox,
        read_messages: &state.messages,
        taint: state.taint,
        sessions: &state.sessions,
        turn_request: &TurnRequest::default(),
    };
    let called = call_tools(work, &caller, &calls).await?;
    let progress =
        state.progress.after_node(name, 0).after_tool_round(called.tools_run.iter().map(String::as_str));
    Ok(DescribedState::update()
        .messages(called.message(work.cx.new_id()))
        .sessions(called.sessions)
        .taint(called.taint)
        .progress(progress))
}

/// Tokens of a summary.
const MAX_SUMMARY_TOKENS: usize = 800;

async fn summarize(
    node_context: &ReadyNodeContext,
    work: &NodeWork,
    state: &DescribedState,
    max_messages: usize,
    keep: usize,
) -> Result<DescribedStateUpdate, NodeError> {
    if state.messages.len() <= max_messages {
        return Ok(DescribedState::update());
    }
    let older = &state.messages[..older_messages_end(&state.messages, keep)];
    let instruction = work.language.pick(
        "아래 대화를 요약하세요. 대화를 이어 가지 말고 요약만 쓰세요.",
        "Sum up the conversation below. Do not go on with it; write the summary only.",
    );
    let request = ChatRequest {
        purpose: RequestPurpose::Summarize.label(),
        role: ModelRole::Small,
        temperature: Some(0.0),
        max_output_tokens: Some(MAX_SUMMARY_TOKENS as u64),
        ..ChatRequest::new(vec![
            Message::system("system", instruction),
            conversation_as_text("transcript", older, work.language),
        ])
    };
    let request = node_context.fit_request(state, request);
    let summary = work.ask(&node_context.models, request, ReplyVisibility::Hidden).await?.text;
    let gone = ItemChanges::remove(older.iter().map(|message| message.id.as_str()));
    let summary = crate::nodes::truncate_at_sentence(summary.trim(), MAX_SUMMARY_TOKENS * BYTES_PER_TOKEN);
    Ok(DescribedState::update().summary(state.summary.push_summary(summary, 3)).messages(gone))
}

async fn evaluate(
    node_context: &ReadyNodeContext,
    work: &NodeWork,
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
        ask_structured_value(node_context, work, node_context.evaluate_request(state, prompt)?).await?
    };
    let enough = judged.as_ref().is_none_or(|judged| judged["is_sufficient"] == true);
    let missing = judged.map(|judged| judged["missing_info"].clone()).unwrap_or(Value::Null);
    let verdict = if enough { "sufficient" } else { "insufficient" };
    work.show_thinking(ThinkingStep::EvaluationResult, verdict, verdict);
    Ok(DescribedState::update().values([
        (into.to_owned(), json!(verdict)),
        (format!("{into}_missing"), missing),
        (count, json!(round)),
    ]))
}

/// A prompt with its slots filled. What is not there is empty.
fn render_prompt(prompt: &str, state: &DescribedState) -> Result<String, NodeError> {
    Ok(template::render_text(prompt, &node_variables(state))?.trim().to_owned())
}
