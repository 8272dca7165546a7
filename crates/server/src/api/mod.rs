//! The JSON that leaves and enters the server. These types are the interface; inner types are free to change. The OpenAPI
//! document and the types of the web page are generated from them.

mod agents;
mod chat;
mod documents;
mod evals;
mod models;
mod openai;
mod openai_responses;
mod problem;
mod run_event;
mod runs;
mod threads;
mod usage;

pub use doran_agents::failure::{ModelErrorAdvice, advice};

pub use agents::{AgentInfo, AgentList};
pub use chat::{ChatAnswer, ChatPause, ChatPauseStatus, ChatTurn};
pub(crate) use documents::CollectionName;
pub use documents::{
    AddedDocument, ByteRange, DocumentInfo, DocumentList, DocumentText, HighlightInfo, OutlineEntry,
    SearchHit, SearchHitList,
};
pub use evals::{
    EvalCaseInfo, EvalRunInfo, EvalRunStatus, EvalSetInfo, EvalSetList, EvalSetSummary, StartEvalRun,
};
pub use models::{
    AgentModel, ModelKeyOrigin, ModelList, ModelOffers, ModelOption, ModelTest, ModelTestError,
    OfferedModelProvider, OfferedModelServer, ProviderModelList,
};
pub use openai::{
    OpenAiAnnotation, OpenAiAnswerMessage, OpenAiChoice, OpenAiCompletion, OpenAiEmbedding,
    OpenAiEmbeddingList, OpenAiEmbeddingUsage, OpenAiEmbeddingVector, OpenAiError, OpenAiErrorBody,
    OpenAiFunctionCall, OpenAiModel, OpenAiModelList, OpenAiToolCall, OpenAiUsage, UrlCitation,
};
pub use openai_responses::{
    OpenAiCachedTokens, OpenAiDeletedResponse, OpenAiIncompleteDetails, OpenAiOutputItem, OpenAiOutputText,
    OpenAiReasoningTokens, OpenAiResponse, OpenAiResponseError, OpenAiResponseRequest, OpenAiResponseStatus,
    OpenAiResponseUsage, OpenAiTextAnnotation,
};
pub use problem::Problem;
pub use run_event::{QuestionInfo, RunEvent, RunEventBody, StepTask};
pub use runs::{
    RunAnswer, RunDetail, RunInfo, RunList, RunPage, StartRun, WaitingQuestion, WaitingQuestionList,
};
pub use threads::{
    DecisionInfo, FeedbackInfo, FeedbackRating, HistoryEntry, HistoryStep, MessageInfo, MessageList,
    ThreadHistory, ThreadInfo, ThreadList, ThreadStateInfo,
};
pub(crate) use threads::{FEEDBACK_METADATA_PREFIX, PINNED_METADATA};
pub use usage::{
    BudgetInfo, DayUsageInfo, DeletedUsageInfo, EvalUsageInfo, HealthInfo, HealthStatus, MemoryFactInfo,
    MemoryFactList, ModelUsageInfo, NamedUsageInfo, UsageInfo,
};
