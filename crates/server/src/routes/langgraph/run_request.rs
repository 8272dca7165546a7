//! Requests to run a graph: their fields.

use std::collections::BTreeSet;

use doran_engine::ThreadKey;
use doran_engine::runtime::GotoTarget;
use doran_engine::store::IfBusy;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::assistants::Assistant;
use super::ids::CheckpointId;
use super::invalid;
use super::run_events::StreamMode;
use crate::error::ApiError;

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
    /// Values that all nodes of the run can read. They come before those of the assistant.
    #[serde(default)]
    pub(super) context: Option<Map<String, Value>>,
    /// Free pairs of the run.
    #[serde(default)]
    pub(super) metadata: Option<Map<String, Value>>,
    /// What is streamed. The default is `values`.
    #[serde(default)]
    pub(super) stream_mode: Option<OneOrMany<StreamMode>>,
    /// Whether steps of graphs inside nodes are streamed too.
    #[serde(default)]
    pub(super) stream_subgraphs: Option<bool>,
    /// Whether `custom` events are stored, for those who join or come back. All other events always are.
    #[serde(default)]
    pub(super) stream_resumable: Option<bool>,
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
    /// When a step is stored. Both values behave alike: Doran stores a step before it sends it.
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
    pub(super) resume: Option<Value>,
    /// Changes of the state, as if a node had made them.
    #[serde(default)]
    pub(super) update: Option<Map<String, Value>>,
    /// The nodes that run next, and nothing else that was due.
    #[serde(default)]
    goto: Option<OneOrMany<GotoBody>>,
}

impl RunCommand {
    /// A command that answers questions by their ids.
    pub(super) fn answering(answers: Map<String, Value>) -> Self {
        Self { resume: Some(answers.into()), update: None, goto: None }
    }

    /// The tasks that run next.
    pub(super) fn goto(&self) -> Vec<GotoTarget> {
        let bodies = self.goto.clone().map(OneOrMany::into_vec).unwrap_or_default();
        bodies.into_iter().map(GotoBody::into_target).collect()
    }
}

/// A node that runs next.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum GotoBody {
    /// By its name.
    Node(String),
    /// With an input of its own.
    Send(SendBody),
}

/// A task of a node with an input of its own, which the node reads beside the state.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SendBody {
    /// The node.
    node: String,
    /// The input.
    #[serde(default)]
    input: Value,
}

impl GotoBody {
    fn into_target(self) -> GotoTarget {
        match self {
            Self::Node(node) => GotoTarget { node, input: None },
            Self::Send(SendBody { node, input }) => GotoTarget { node, input: Some(input) },
        }
    }
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
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunConfig {
    /// Maximum number of steps of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recursion_limit: Option<u32>,
    /// `thread_id`, `checkpoint_id` and `checkpoint_ns`, as in the request itself; everything else as in `context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configurable: Option<Map<String, Value>>,
}

/// What clients put into `configurable` beside values of their own.
const CONFIGURABLE_PLACES: [&str; 3] = ["thread_id", "checkpoint_id", "checkpoint_ns"];

impl RunConfig {
    /// The values of `configurable` that nodes read.
    pub(super) fn context(&self) -> Map<String, Value> {
        let given = self.configurable.iter().flatten();
        given
            .filter(|(name, _)| !CONFIGURABLE_PLACES.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// Whether it sets more than a place.
    pub(super) fn is_setting(&self) -> bool {
        self.recursion_limit.is_some() || !self.context().is_empty()
    }

    /// The place where the run starts, where `configurable` names one.
    fn checkpoint(&self) -> Result<CheckpointBody, ApiError> {
        let text = |name: &str| match self.configurable.as_ref().and_then(|given| given.get(name)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(invalid(
                &format!("`config.configurable.{name}` is not a text"),
                &format!("`config.configurable.{name}`이(가) 문자열이 아닙니다"),
            )),
        };
        let [thread_id, checkpoint_id, checkpoint_ns] = CONFIGURABLE_PLACES.map(text);
        Ok(CheckpointBody {
            checkpoint_id: checkpoint_id?,
            thread_id: thread_id?,
            checkpoint_ns: checkpoint_ns?,
            checkpoint_map: None,
        })
    }
}

/// What the nodes of a run can read, and its limit.
#[derive(Clone, Debug)]
pub(super) struct RunSettings {
    /// The values, if there are any.
    pub(super) context: Option<Value>,
    /// The most steps.
    pub(super) recursion_limit: Option<u32>,
}

impl RunSettings {
    /// The settings of an assistant, and those of a request over them.
    pub(super) fn merge(
        assistant: &Assistant,
        config: Option<&RunConfig>,
        context: Option<&Map<String, Value>>,
    ) -> Result<Self, ApiError> {
        let own = given_context(config, context)?;
        let mut merged = assistant.context().clone();
        merged.extend(own);
        let limit = config.and_then(|config| config.recursion_limit);
        Ok(Self {
            context: (!merged.is_empty()).then(|| merged.into()),
            recursion_limit: limit.or(assistant.recursion_limit()),
        })
    }

    /// A text that is the same for the same settings.
    pub(super) fn digest(&self) -> String {
        let settings = json!([self.context, self.recursion_limit]).to_string();
        hex::encode(&Sha256::digest(settings.as_bytes())[..16])
    }
}

/// The values that a request gives to nodes, by either of its fields.
pub(super) fn given_context(
    config: Option<&RunConfig>,
    context: Option<&Map<String, Value>>,
) -> Result<Map<String, Value>, ApiError> {
    let configured = config.map(RunConfig::context).unwrap_or_default();
    match context {
        Some(context) if !context.is_empty() && !configured.is_empty() => Err(invalid(
            "`context` and values in `config.configurable` do not come together; send `context`",
            "`context`와 `config.configurable`의 값을 함께 보낼 수 없습니다. `context`를 보내세요",
        )),
        Some(context) if configured.is_empty() => Ok(context.clone()),
        _ => Ok(configured),
    }
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

impl MultitaskStrategy {
    pub(super) fn if_busy(self) -> IfBusy {
        match self {
            Self::Reject => IfBusy::Reject,
            Self::Enqueue => IfBusy::Enqueue,
            Self::Interrupt => IfBusy::Interrupt,
            Self::Rollback => IfBusy::Rollback,
        }
    }
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

impl RunGraphBody {
    pub(super) fn stream_modes(&self) -> BTreeSet<StreamMode> {
        let modes = self.stream_mode.clone().map(OneOrMany::into_vec).unwrap_or_default();
        if modes.is_empty() { BTreeSet::from([StreamMode::Values]) } else { modes.into_iter().collect() }
    }

    /// Where the run starts, by any of the places in which clients say so.
    pub(super) fn start_checkpoint(&self, thread: &ThreadKey) -> Result<Option<CheckpointId>, ApiError> {
        let name = thread.thread.as_str();
        let configured = self.config.as_ref().map(RunConfig::checkpoint).transpose()?;
        let direct = self.checkpoint_id.as_deref().map(parse_checkpoint).transpose()?;
        let body = self.checkpoint.as_ref().map(|body| body.read(name)).transpose()?.flatten();
        let configured = configured.map(|body| body.read(name)).transpose()?.flatten();
        Ok(body.or(direct).or(configured))
    }

    /// A request of the event protocol.
    pub(super) fn for_assistant(assistant_id: &str) -> Result<Self, ApiError> {
        super::read_fields(&Map::from_iter([("assistant_id".to_owned(), assistant_id.into())]))
    }
}
