//! A call once it was looked at: run, asked about, or refused.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use doran_llm::{ImageReference, TextOrigin, ToolCall, ToolResult, is_too_deep};
use doran_retrieval::Language;
use futures_util::FutureExt;
use serde_json::{Value, json};
use tracing::Instrument;

use super::call_decision::{ToolApproval, ToolCallReason};
use super::text_cleaning::{strip_invisible, truncate_with_note};
use super::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput};
use crate::protocol::{InterruptQuestion, ToolApprovalAnswer};

/// The prefix of a tool result that is an error.
pub(super) const ERROR_PREFIX: &str = "Error: ";

/// The most bytes of [`ToolOutput::data`] that are kept. Data that is nested too deep is not kept either.
const MAX_DATA_BYTES: usize = 1024 * 1024;

/// A call that may be run, once, as it is.
pub struct ToolPermit {
    id: String,
    tool: Arc<dyn Tool>,
    arguments: Value,
}

/// A question to a person: may this call be made?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The call.
    pub call: ToolCall,
    /// Why it is asked.
    pub why: ToolCallReason,
    /// What the answer is bound to.
    pub key: String,
}

/// A call that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedToolCall {
    /// The text for the model.
    pub result: ToolResult,
    /// What the model is shown.
    pub images: Vec<ImageReference>,
    /// The data for programs.
    pub data: Value,
    /// What the tool wants to see at its next call in this thread.
    pub session: Option<String>,
    /// Why it gave nothing.
    pub error: Option<ToolError>,
    /// How long it took.
    pub ms: u64,
}

impl ToolPermit {
    pub(super) fn new(call: &ToolCall, tool: Arc<dyn Tool>) -> Self {
        Self { id: call.id.clone(), tool, arguments: call.arguments.clone() }
    }

    /// The id of the call.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the tool is.
    pub fn info(&self) -> &ToolInfo {
        self.tool.info()
    }

    /// The arguments it will be given.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// What a person is asked when the call must not be repeated and was cut off.
    pub(crate) fn unknown_outcome_question(&self) -> InterruptQuestion {
        let name = self.info().spec.name.clone();
        let ko = format!(
            "`{name}` 도구의 호출이 끊겨, 실제로 실행되었는지 알 수 없습니다. 두 번 하면 안 되는 일이라 다시 부르지 않았습니다. 실행되었나요?"
        );
        let en = format!(
            "The call of `{name}` was cut off, and whether it happened is not known. It must not happen twice, so it was not made again. Did it happen?"
        );
        let arguments = self.arguments.clone();
        InterruptQuestion::ToolUnknown { name, arguments, ko, en, call: None, key: None }
    }

    /// Makes the call. Ends within the tool's time limit; a tool that is late is dropped, one that panics has failed.
    pub async fn run(self, call: ToolCallContext<'_>) -> CompletedToolCall {
        let about = self.tool.info().clone();
        let span = tracing::info_span!("tool_call", tool = about.spec.name, call = self.id, key = call.key);
        let started = Instant::now();
        let work = AssertUnwindSafe(async { self.tool.call(self.arguments, call).await }).catch_unwind();
        let outcome = match tokio::time::timeout(about.timeout, work.instrument(span)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_panic)) => Err(ToolError::Failed(
                call.language.pick("도구가 안에서 멈췄습니다".into(), "the tool broke down inside".into()),
            )),
            Err(_late) => Err(ToolError::OutcomeUnknown(call.language.pick(
                format!("{}초 안에 끝나지 않아 멈췄습니다", about.timeout.as_secs_f32()),
                format!("stopped: it did not end within {} s", about.timeout.as_secs_f32()),
            ))),
        };
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        CompletedToolCall::new(self.id, &about, outcome, ms)
    }
}

impl std::fmt::Debug for ToolPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolPermit")
            .field("id", &self.id)
            .field("tool", &self.info().spec.name)
            .finish_non_exhaustive()
    }
}

impl CompletedToolCall {
    fn new(id: String, about: &ToolInfo, outcome: Result<ToolOutput, ToolError>, ms: u64) -> Self {
        let (output, error) = match outcome {
            Ok(output) => (output, None),
            Err(error) => (ToolOutput::text(format!("{ERROR_PREFIX}{error}")), Some(error)),
        };
        let ToolOutput { text, images, data, session, origin: reported_origin } = output;
        let cleaned = strip_invisible(&text);
        let note = match cleaned.removed {
            0 => String::new(),
            removed => format!(
                "\n(보이지 않는 문자 {removed}개를 뺐습니다 / {removed} invisible characters were taken out)"
            ),
        };
        let text =
            truncate_with_note(cleaned.text, about.max_output_bytes.saturating_sub(note.len())) + &note;
        // Why a document could not be read is a message of the program, without text of the document.
        let origin = match (reported_origin.unwrap_or(about.origin), &error) {
            (TextOrigin::Document, Some(_)) => TextOrigin::Program,
            (origin, _) => origin,
        };
        let result =
            ToolResult { call: id, name: about.spec.name.clone(), text, failed: error.is_some(), origin };
        let size = data.to_string().len();
        let fits = size <= MAX_DATA_BYTES && !is_too_deep(&data);
        let data = if fits { data } else { json!({ "left_out_bytes": size }) };
        Self { result, images, data, session, error, ms }
    }
}

impl ApprovalRequest {
    /// The question as it is stored and shown.
    pub fn question(&self) -> InterruptQuestion {
        let ToolCall { id: call, name, arguments, .. } = self.call.clone();
        let (ko, en) = match self.why {
            ToolCallReason::Policy | ToolCallReason::Refused => (
                format!("`{name}` 도구를 이 인자로 실행할까요?"),
                format!("May `{name}` be run with these arguments?"),
            ),
            ToolCallReason::Injection => (
                format!(
                    "이 대화는 밖에서 온 글을 읽었습니다. 그 글이 시킨 일일 수 있습니다. `{name}` 도구를 이 인자로 실행할까요?"
                ),
                format!(
                    "This conversation has read text from outside, which may have asked for this. May `{name}` be run with these arguments?"
                ),
            ),
        };
        let (why, approval) = (self.why, self.key.clone());
        InterruptQuestion::ApproveTool { call, name, arguments, why, approval, ko, en }
    }

    /// What `answer` (`{"approve": true}`) says to this question. Anything that is not a clear yes is a no.
    pub fn approval_from_answer(&self, answer: &Value) -> ToolApproval {
        let approved = ToolApprovalAnswer::from_json(answer).is_some_and(|answer| answer.approve);
        ToolApproval { call: self.call.id.clone(), key: self.key.clone(), approved }
    }

    /// The text for the model when no person can be asked.
    pub(crate) fn unanswered_result(&self, language: Language) -> ToolResult {
        refusal_result(
            &self.call,
            &ToolError::Denied(language.pick(
                "사람의 승인이 필요한데, 물어볼 사람이 없습니다".into(),
                "a person's approval is needed, and there is nobody to ask".into(),
            )),
        )
    }
}

/// The text for the model about a call that is not made: of the program, not of a tool.
pub(super) fn refusal_result(call: &ToolCall, error: &ToolError) -> ToolResult {
    let name = truncate_with_note(strip_invisible(&call.name).text, 100);
    ToolResult {
        call: call.id.clone(),
        name,
        text: format!("{ERROR_PREFIX}{error}"),
        failed: true,
        origin: TextOrigin::Program,
    }
}
