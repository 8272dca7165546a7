//! A node at work: what it shows is shown at once and noted beside its step, so that whoever comes late sees it too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use doran_engine::Cx;
use serde_json::{Value, json};

use crate::language::UserLanguage;

/// What a node is thinking about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingStep {
    Routing,
    Searching,
    Summarizing,
    Planning,
    ToolSelected,
    EvaluationResult,
    Generating,
}

impl ThinkingStep {
    fn as_str(self) -> &'static str {
        match self {
            Self::Routing => "routing",
            Self::Searching => "searching",
            Self::Summarizing => "summarizing",
            Self::Planning => "planning",
            Self::ToolSelected => "tool_selected",
            Self::EvaluationResult => "evaluation_result",
            Self::Generating => "generating",
        }
    }
}

/// A node at work.
pub(crate) struct NodeWork {
    pub(crate) cx: Cx,
    pub(crate) language: UserLanguage,
    notes: Mutex<PendingNotes>,
}

#[derive(Default)]
struct PendingNotes {
    events: Vec<Value>,
    models: Vec<Value>,
    calls: u32,
}

impl NodeWork {
    pub(crate) fn new(cx: Cx, language: UserLanguage) -> Self {
        Self { cx, language, notes: Mutex::default() }
    }

    /// Shows an event and notes it.
    pub(crate) fn show_event(&self, event: Value) {
        self.cx.emit(event.clone());
        let mut noted = self.lock_notes();
        noted.events.push(event);
        self.cx.note("events", &noted.events);
    }

    /// Notes events that were shown already, in an order of their own.
    pub(crate) fn note_events(&self, events: impl IntoIterator<Item = Value>) {
        let mut noted = self.lock_notes();
        noted.events.extend(events);
        self.cx.note("events", &noted.events);
    }

    /// Tells what the node is at, in the person's language.
    pub(crate) fn show_thinking(&self, step: ThinkingStep, ko: impl Into<String>, en: impl Into<String>) {
        let content: String = match self.language {
            UserLanguage::Ko => ko.into(),
            UserLanguage::En => en.into(),
        };
        self.show_event(json!({ "type": "thinking", "step": step.as_str(), "content": content }));
    }

    /// Notes a reply of a model. One that came from a cache cost nothing and is no call.
    pub(crate) fn note_model_call(&self, note: Value, asked: ReplyOrigin) {
        let mut noted = self.lock_notes();
        noted.models.push(note);
        noted.calls += u32::from(asked == ReplyOrigin::Model);
        self.cx.note("models", &noted.models);
    }

    /// Counts calls of a model whose replies came to nothing.
    pub(crate) fn count_model_calls(&self, calls: u32) {
        self.lock_notes().calls += calls;
    }

    /// How many models were asked so far.
    pub(crate) fn model_calls(&self) -> u32 {
        self.lock_notes().calls
    }

    fn lock_notes(&self) -> MutexGuard<'_, PendingNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a reply came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyOrigin {
    /// The model was asked.
    Model,
    /// It had answered the same before.
    Cache,
}
