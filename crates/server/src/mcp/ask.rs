//! The tool `ask`: a run of an agent, from its start to its answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::request::Parts;
use doran_agents::llm::TRACEPARENT;
use doran_agents::protocol::AgentActivity;
use doran_agents::{AgentTurn, AskOptions, Language};
use doran_engine::store::{IfBusy, RunStatus};
use doran_engine::{Acknowledgement, RunHandle};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::documents::document_uri;
use super::elicitation::{ask_person, can_ask, shown_question};
use super::{Called, McpEndpoint, result};
use crate::agent_request::{self, AgentRequest, RunPlacement, RunStart, WaitingRun};
use crate::api::QuestionInfo;
use crate::authentication::ApiCaller;
use crate::error::ApiError;
use crate::request_origin::request_origin;
use crate::telemetry::with_incoming_trace;
use crate::transcript_stream::{TranscriptEnd, TranscriptEvent, TranscriptStream};
use crate::url_encoding::percent_encode;

/// How often at most the growth of an answer is reported.
const TEXT_PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// The most characters of a progress message.
const MAX_PROGRESS_CHARS: usize = 200;

/// The arguments of `ask`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskArguments {
    /// The agent.
    agent: String,
    /// The question.
    message: String,
    /// The conversation to go on with, as an earlier answer named it. A new one if left out.
    thread: Option<String>,
    /// Look in this collection of documents only.
    collection: Option<String>,
}

impl McpEndpoint {
    pub(super) async fn ask(&self, arguments: AskArguments, context: &RequestContext<RoleServer>) -> Called {
        let AskArguments { agent, message, thread, collection } = arguments;
        let language = Language::detect(&message).unwrap_or(Language::English);
        let thread = match &thread {
            Some(name) => agent_request::thread_key_from_field(&self.caller, "thread", name)?,
            None => agent_request::random_thread_key(&self.caller),
        };
        let request = AgentRequest {
            agent: &agent,
            thread: thread.clone(),
            message: &message,
            options: AskOptions { collection, ..AskOptions::default() },
            if_busy: IfBusy::Enqueue,
            acknowledge: Acknowledgement::Input,
            placement: RunPlacement::default(),
            idempotency: None,
            key: key_name(context),
        };
        let starting = agent_request::start_unless_waiting(&self.app, request);
        let run = match with_incoming_trace(traceparent_of(context), starting).await? {
            RunStart::Started(run) => run,
            RunStart::ThreadWaiting(WaitingRun { questions, .. }) => {
                let page = page_address(context, thread.thread.as_str());
                return Ok(waiting_result((thread.thread.as_str(), &page), None, &questions, language));
            }
        };
        let key = run.key();
        tokio::select! {
            () = context.ct.cancelled() => {
                self.app.runtime.cancel(&key).await?;
                Ok(CallToolResult::error(vec![ContentBlock::text("The run was cancelled.")]))
            }
            answer = self.follow(&agent, run, context, language) => answer,
        }
    }

    /// Follows a run to its end. Where it asks something, the person is asked, and it goes on.
    async fn follow(
        &self,
        agent: &str,
        mut run: RunHandle,
        context: &RequestContext<RoleServer>,
        language: Language,
    ) -> Called {
        let mut progress = AskProgress::new(context);
        loop {
            let mut transcript = TranscriptStream::open(&self.app, agent, &run).await?;
            progress.rewind();
            let end = loop {
                match transcript.next().await {
                    Some(TranscriptEvent::Text(words)) => progress.tell_text(&words).await,
                    Some(TranscriptEvent::Activity(activity)) => progress.tell_activity(&activity).await,
                    Some(TranscriptEvent::Reset) => {}
                    Some(TranscriptEvent::Questions(questions)) => {
                        // A run that is followed from its beginning also tells what was answered long ago.
                        let open = self.still_open(&run, questions).await?;
                        if !open.is_empty() {
                            break Err(open);
                        }
                    }
                    Some(TranscriptEvent::End(end)) => break Ok(Some(end)),
                    None => break Ok(None),
                }
            };
            let questions = match end {
                Ok(Some(end)) => return self.ended(agent, &run, end).await,
                // Somebody else answered, and the run goes on.
                Ok(None) => match self.app.runtime.run_row(&run.key()).await?.status {
                    RunStatus::Queued | RunStatus::Running => continue,
                    RunStatus::Paused | RunStatus::Finished | RunStatus::Failed | RunStatus::Cancelled => {
                        return self.ended(agent, &run, TranscriptEnd::Disconnected).await;
                    }
                },
                Err(questions) => questions,
            };
            let (own, other): (Vec<_>, Vec<_>) =
                questions.iter().cloned().partition(|question| question.run == run.id().to_string());
            let answers = match other.is_empty() && can_ask(&context.peer) {
                true => ask_all(&context.peer, &own, language).await,
                false => BTreeMap::new(),
            };
            if answers.is_empty() {
                let (thread, run) = (run.thread().thread.as_str(), run.id().to_string());
                let page = page_address(context, thread);
                return Ok(waiting_result((thread, &page), Some(&run), &questions, language));
            }
            run = self.app.runtime.answer(&run.key(), &answers).await?;
        }
    }

    /// Those of the questions that nobody has answered.
    async fn still_open(
        &self,
        run: &RunHandle,
        questions: Vec<QuestionInfo>,
    ) -> Result<Vec<QuestionInfo>, ApiError> {
        let open = self.app.runtime.open_questions(run.thread()).await?;
        let is_open = |question: &QuestionInfo| {
            open.iter().any(|(of, pending)| of.run.to_string() == question.run && pending.id == question.id)
        };
        Ok(questions.into_iter().filter(is_open).collect())
    }

    /// The result of a run.
    async fn ended(&self, agent: &str, run: &RunHandle, end: TranscriptEnd) -> Called {
        let (thread, id) = (run.thread().thread.to_string(), run.id().to_string());
        let failed = |code: &str, text: String| {
            let structured = json!({ "thread": thread, "run": id, "status": "failed", "code": code });
            let mut failed = CallToolResult::error(vec![ContentBlock::text(text)]);
            failed.structured_content = Some(structured);
            failed
        };
        match end {
            TranscriptEnd::Finished => {
                let row = self.app.runtime.run_row(&run.key()).await?;
                let turn = agent_request::load_turn(&self.app, agent, &row).await?;
                Ok(answer_result(&thread, &id, &turn.with_renumbered_sources()))
            }
            TranscriptEnd::Unanswered { code, text } => Ok(failed(&code, text)),
            TranscriptEnd::Failed { code, message } => {
                Ok(failed(&code, format!("The run failed ({code}): {message}")))
            }
            TranscriptEnd::Cancelled => Ok(failed("run_cancelled", "The run was cancelled.".to_owned())),
            TranscriptEnd::Disconnected => Err(ApiError::not_finished(&thread)),
        }
    }
}

/// The place in a trace that a call comes with: in itself, or in the header of its request.
fn traceparent_of(context: &RequestContext<RoleServer>) -> Option<&str> {
    let header = || {
        let parts = context.extensions.get::<Parts>()?;
        parts.headers.get(TRACEPARENT)?.to_str().ok()
    };
    context.meta.get_traceparent().or_else(header)
}

/// The address of a conversation on the page, as the host reaches this server.
fn page_address(context: &RequestContext<RoleServer>, thread: &str) -> String {
    let origin = context.extensions.get::<Parts>().map(|parts| request_origin(&parts.headers));
    format!("{}/t/{}", origin.unwrap_or_default(), percent_encode(thread))
}

/// The name of the API key that the request was sent with.
fn key_name(context: &RequestContext<RoleServer>) -> Option<Arc<str>> {
    context.extensions.get::<Parts>()?.extensions.get::<ApiCaller>()?.key.clone()
}

/// Puts the questions to the person, one after the other. The answers to those that were answered.
async fn ask_all(
    peer: &Peer<RoleServer>,
    questions: &[QuestionInfo],
    language: Language,
) -> BTreeMap<String, Value> {
    let mut answers = BTreeMap::new();
    for question in questions {
        match ask_person(peer, question, language).await {
            Some(answer) => drop(answers.insert(question.id.clone(), answer)),
            // Who closed one form is not shown the next.
            None => break,
        }
    }
    answers
}

/// The words of the answer as they are, then what it rests on.
fn answer_result(thread: &str, run: &str, turn: &AgentTurn) -> CallToolResult {
    let mut blocks = vec![ContentBlock::text(turn.response.clone())];
    if !turn.sources.is_empty() {
        let lines = turn.sources.iter().map(|source| {
            format!("[{}] {} ({})", source.number, source.title, document_uri(&source.document))
        });
        blocks.push(ContentBlock::text(format!("Sources:\n{}", lines.collect::<Vec<_>>().join("\n"))));
    }
    let structured = json!({
        "thread": thread,
        "run": run,
        "status": "finished",
        "answer": turn.response,
        "sources": turn.sources,
        "toolsUsed": turn.tools_used,
    });
    result(blocks, structured)
}

/// A run that waits for a person whom this host cannot ask.
fn waiting_result(
    (thread, page): (&str, &str),
    run: Option<&str>,
    questions: &[QuestionInfo],
    language: Language,
) -> CallToolResult {
    let shown: Vec<String> = questions.iter().map(|question| shown_question(question, language)).collect();
    let shown = shown.join("\n");
    let text = language.pick(
        format!(
            "이 대화는 사람의 답을 기다립니다. 웹 화면에서 답하세요: {page}\n모델이 대신 답할 수 없습니다.\n{shown}"
        ),
        format!(
            "This conversation waits for a person. Answer it on the page: {page}\nA model cannot answer for them.\n{shown}"
        ),
    );
    let structured = json!({ "thread": thread, "run": run, "status": "paused", "questions": questions });
    result(vec![ContentBlock::text(text)], structured)
}

/// Tells a host how a run is doing, if it wants to know.
struct AskProgress {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    /// How often progress was sent. It only grows.
    sent_count: u32,
    /// Activities that were reported. A run that is followed again has them again.
    activities: usize,
    seen: usize,
    chars: usize,
    text_sent_at: Option<Instant>,
}

impl AskProgress {
    fn new(context: &RequestContext<RoleServer>) -> Self {
        let (peer, token) = (context.peer.clone(), context.meta.get_progress_token());
        Self { peer, token, sent_count: 0, activities: 0, seen: 0, chars: 0, text_sent_at: None }
    }

    /// The run is followed from its beginning.
    fn rewind(&mut self) {
        (self.seen, self.chars) = (0, 0);
    }

    async fn tell_activity(&mut self, activity: &AgentActivity) {
        self.seen += 1;
        if self.seen <= self.activities {
            return;
        }
        self.activities = self.seen;
        let message = match activity {
            AgentActivity::Thinking { content, .. } => content.clone(),
            AgentActivity::ToolCall { name, .. } => name.clone(),
            AgentActivity::ToolResult { name, failed: true, .. } => format!("{name}: failed"),
            AgentActivity::ToolResult { name, ms, .. } => format!("{name}: {ms} ms"),
            AgentActivity::Sources { sources } => format!("{} sources", sources.len()),
            AgentActivity::Unknown(_) => return,
        };
        self.report(message).await;
    }

    async fn tell_text(&mut self, words: &str) {
        self.chars += words.chars().count();
        if self.text_sent_at.is_none_or(|sent| sent.elapsed() >= TEXT_PROGRESS_INTERVAL) {
            self.text_sent_at = Some(Instant::now());
            self.report(format!("{} characters", self.chars)).await;
        }
    }

    async fn report(&mut self, message: String) {
        let Some(token) = &self.token else { return };
        self.sent_count += 1;
        let message: String = message.chars().take(MAX_PROGRESS_CHARS).collect();
        let progress =
            ProgressNotificationParam::new(token.clone(), f64::from(self.sent_count)).with_message(message);
        // A host that is gone gets no report; the run goes on.
        drop(self.peer.notify_progress(progress).await);
    }
}
