//! Builds the object of a response from the log of its run.

use doran_agents::{AnswerSource, Language};
use doran_engine::store::{RunRow, RunStatus, RunUsage};
use serde::{Deserialize, Serialize};

use super::super::annotations::url_citations;
use super::super::chat_completions::failure_detail;
use super::super::client_calls::{ClientCall, client_calls, part_ended_with_calls, results_before_part};
use super::super::waiting_text::waiting_text;
use super::response_id::ResponseId;
use crate::ServerApp;
use crate::agent_request;
use crate::api::{
    OpenAiCachedTokens, OpenAiIncompleteDetails, OpenAiOutputItem, OpenAiOutputText, OpenAiReasoningTokens,
    OpenAiResponse, OpenAiResponseError, OpenAiResponseRequest, OpenAiResponseStatus, OpenAiResponseUsage,
    OpenAiTextAnnotation,
};
use crate::error::{ApiError, ApiErrorCode};
use crate::stored_json::read_stored;
use crate::transcript_stream::replay_run;

/// Where a run keeps the parameters of its request for a response.
pub(super) const REQUEST_METADATA: &str = "response";

/// What a run keeps of a request for a response.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredResponseRequest {
    #[serde(flatten)]
    pub(super) request: OpenAiResponseRequest,
    /// The language of the question.
    pub(super) language: Option<Language>,
}

/// What stays the same while a response is made.
#[derive(Clone)]
pub(super) struct ResponseHead {
    pub(super) id: ResponseId,
    pub(super) model: String,
    pub(super) created_at: i64,
    pub(super) request: OpenAiResponseRequest,
    /// The language of the question.
    pub(super) language: Language,
    /// The address of this server, for links.
    pub(super) origin: String,
}

impl ResponseHead {
    /// The head of a response of a stored run.
    pub(super) async fn load(
        app: &ServerApp,
        id: ResponseId,
        row: &RunRow,
        origin: String,
    ) -> Result<Self, ApiError> {
        let (metadata, created_at) = match id.after {
            0 => (row.metadata.clone(), row.created_at),
            after => results_before_part(app, row, after).await?.ok_or(ApiErrorCode::NotFound)?,
        };
        // Somebody else may have answered for the client, without a request for a response.
        let stored = metadata.get(REQUEST_METADATA).or_else(|| row.metadata.get(REQUEST_METADATA));
        let stored: Option<StoredResponseRequest> =
            read_stored(stored, &format!("request of response `{id}`"))?;
        let StoredResponseRequest { request, language } = stored.unwrap_or_default();
        let language = language.unwrap_or(Language::English);
        let (model, created_at) = (row.graph.clone(), created_at / 1000);
        Ok(Self { id, model, created_at, request, language, origin })
    }

    /// The response without an answer.
    pub(super) fn without_output(&self, status: OpenAiResponseStatus) -> OpenAiResponse {
        OpenAiResponse {
            id: self.id.to_string(),
            object: "response",
            created_at: self.created_at,
            status,
            error: None,
            incomplete_details: None,
            model: self.model.clone(),
            output: Vec::new(),
            usage: None,
            request: self.request.clone(),
        }
    }

    /// The response of a run that failed.
    pub(super) fn failed(&self, error: OpenAiResponseError) -> OpenAiResponse {
        OpenAiResponse { error: Some(error), ..self.without_output(OpenAiResponseStatus::Failed) }
    }

    /// A response that is complete.
    pub(super) fn completed(&self, output: Vec<OpenAiOutputItem>, usage: &RunUsage) -> OpenAiResponse {
        let usage = OpenAiResponseUsage {
            input_tokens: usage.input_tokens,
            input_tokens_details: OpenAiCachedTokens::default(),
            output_tokens: usage.output_tokens,
            output_tokens_details: OpenAiReasoningTokens::default(),
            total_tokens: usage.input_tokens.saturating_add(usage.output_tokens),
        };
        OpenAiResponse { output, usage: Some(usage), ..self.without_output(OpenAiResponseStatus::Completed) }
    }

    /// A response with an answer, which a limit on tokens may have cut.
    pub(super) fn answered(
        &self,
        output: Vec<OpenAiOutputItem>,
        usage: &RunUsage,
        is_cut_off: bool,
    ) -> OpenAiResponse {
        let response = self.completed(output, usage);
        if !is_cut_off {
            return response;
        }
        let incomplete_details = Some(OpenAiIncompleteDetails { reason: "max_output_tokens" });
        OpenAiResponse { status: OpenAiResponseStatus::Incomplete, incomplete_details, ..response }
    }

    /// The item with the text of the answer.
    pub(super) fn message_item(&self, text: &str, sources: &[AnswerSource]) -> OpenAiOutputItem {
        let annotations = url_citations(text, sources, &self.origin);
        let annotations = annotations.into_iter().map(|annotation| OpenAiTextAnnotation {
            kind: annotation.kind,
            citation: annotation.url_citation,
        });
        OpenAiOutputItem::Message {
            id: self.message_id(),
            role: "assistant",
            status: "completed",
            content: vec![OpenAiOutputText {
                kind: "output_text",
                text: text.to_owned(),
                annotations: annotations.collect(),
                logprobs: Vec::new(),
            }],
        }
    }

    pub(super) fn message_id(&self) -> String {
        self.id.to_string().replacen("resp_", "msg_", 1)
    }
}

/// The item of a tool that the client is to run.
pub(super) fn function_call_item(call: ClientCall, status: &'static str) -> OpenAiOutputItem {
    let ClientCall { id: call_id, name, arguments } = call;
    let id = call_id.replacen("call_", "fc_", 1);
    OpenAiOutputItem::FunctionCall { id, call_id, name, arguments, status }
}

pub(super) fn response_error(code: &str, message: &str) -> OpenAiResponseError {
    let detail = failure_detail(code, message);
    OpenAiResponseError { code: code.to_owned(), message: detail.en, message_ko: detail.ko }
}

/// The response as the log of its run tells it now.
pub(super) async fn load_response(
    app: &ServerApp,
    head: &ResponseHead,
    row: &RunRow,
) -> Result<OpenAiResponse, ApiError> {
    let thread = row.thread.thread.as_str();
    let is_resting = row.status.is_end() || row.status == RunStatus::Paused;
    if !is_resting && !part_ended_with_calls(app, row, head.id.after).await? {
        return Ok(head.without_output(in_progress_status(row)));
    }
    let replay = replay_run(app, &head.model, &row.key(), thread, head.id.after).await?;
    let calls = client_calls(&replay.questions);
    if !calls.is_empty() {
        return Ok(head.completed(call_output(head, &replay.text, calls), &replay.usage));
    }
    match row.status {
        RunStatus::Queued | RunStatus::Running => Ok(head.without_output(in_progress_status(row))),
        RunStatus::Paused => {
            let words = waiting_text(&replay.questions, &head.origin, thread, head.language);
            Ok(head.completed(vec![head.message_item(&words, &[])], &replay.usage))
        }
        RunStatus::Cancelled => Ok(head.without_output(OpenAiResponseStatus::Cancelled)),
        RunStatus::Failed => {
            let error = row.error.clone();
            let (code, message) = error.map(|error| (error.code, error.message)).unwrap_or_default();
            Ok(head.failed(response_error(&code, &message)))
        }
        RunStatus::Finished => {
            let turn = agent_request::load_turn(app, &head.model, row).await?.with_renumbered_sources();
            if turn.error {
                let code = turn.error_code.unwrap_or_default();
                return Ok(head.failed(response_error(&code, &turn.response)));
            }
            let output = vec![head.message_item(&turn.response, &turn.sources)];
            Ok(head.answered(output, &replay.usage, replay.is_cut_off))
        }
    }
}

fn in_progress_status(row: &RunRow) -> OpenAiResponseStatus {
    match row.status {
        RunStatus::Queued => OpenAiResponseStatus::Queued,
        _ => OpenAiResponseStatus::InProgress,
    }
}

/// The text beside the calls, and the calls.
pub(super) fn call_output(head: &ResponseHead, text: &str, calls: Vec<ClientCall>) -> Vec<OpenAiOutputItem> {
    let mut output = Vec::new();
    if !text.is_empty() {
        output.push(head.message_item(text, &[]));
    }
    output.extend(calls.into_iter().map(|call| function_call_item(call, "completed")));
    output
}
