//! The JSON that leaves and enters the server. These types are the interface; inner types are free to change. The OpenAPI
//! document and the types of the web page are generated from them.

mod agents;
mod chat;
mod documents;
mod openai;
mod problem;
mod run_event;
mod runs;
mod threads;
mod usage;

pub use doran_agents::failure::{ModelErrorAdvice, advice};

pub use agents::{AgentInfo, AgentList, AgentModel, ModelList};
pub use chat::{ChatAnswer, ChatPause, ChatPauseStatus, ChatTurn};
pub(crate) use documents::CollectionName;
pub use documents::{
    AddedDocument, ByteRange, DocumentInfo, DocumentList, DocumentText, HighlightInfo, SearchHit,
    SearchHitList,
};
pub use openai::{
    OpenAiAnnotation, OpenAiAnswerMessage, OpenAiChoice, OpenAiCompletion, OpenAiError, OpenAiErrorBody,
    OpenAiModel, OpenAiModelList, OpenAiUsage, UrlCitation,
};
pub use problem::Problem;
pub use run_event::{QuestionInfo, RunEvent, RunEventBody, StepTask};
pub use runs::{RunAnswer, RunDetail, RunInfo, RunList, StartRun, WaitingQuestion, WaitingQuestionList};
pub use threads::{
    HistoryEntry, HistoryStep, MessageInfo, MessageList, ThreadHistory, ThreadInfo, ThreadList,
    ThreadStateInfo,
};
pub use usage::{HealthInfo, HealthStatus, MemoryFactInfo, MemoryFactList, ModelUsageInfo, UsageInfo};
