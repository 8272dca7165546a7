//! A node at work: what it shows is shown at once and noted beside its step, so that whoever comes late sees it too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use doran_engine::Cx;
use serde_json::{Value, json};

use crate::language::Language;

/// What a node is thinking about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Routing,
    Searching,
    Summarizing,
    Planning,
    ToolSelected,
    EvaluationResult,
    Generating,
}

impl Step {
    fn name(self) -> &'static str {
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
pub(crate) struct Work {
    pub(crate) cx: Cx,
    pub(crate) language: Language,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    events: Vec<Value>,
    models: Vec<Value>,
    calls: u32,
}

impl Work {
    pub(crate) fn new(cx: Cx, language: Language) -> Self {
        Self { cx, language, noted: Mutex::default() }
    }

    /// Shows an event and notes it.
    pub(crate) fn show(&self, event: Value) {
        self.cx.emit(event.clone());
        let mut noted = self.noted();
        noted.events.push(event);
        self.cx.note("events", &noted.events);
    }

    /// Notes events that were shown already, in an order of their own.
    pub(crate) fn note_events(&self, events: impl IntoIterator<Item = Value>) {
        let mut noted = self.noted();
        noted.events.extend(events);
        self.cx.note("events", &noted.events);
    }

    /// Tells what the node is at, in the person's language.
    pub(crate) fn thinking(&self, step: Step, ko: impl Into<String>, en: impl Into<String>) {
        let content: String = match self.language {
            Language::Ko => ko.into(),
            Language::En => en.into(),
        };
        self.show(json!({ "type": "thinking", "step": step.name(), "content": content }));
    }

    /// Notes a reply of a model. One that came from a cache cost nothing and is no call.
    pub(crate) fn note_model(&self, note: Value, asked: Asked) {
        let mut noted = self.noted();
        noted.models.push(note);
        noted.calls += u32::from(asked == Asked::Now);
        self.cx.note("models", &noted.models);
    }

    /// Counts calls of a model whose replies came to nothing.
    pub(crate) fn count(&self, calls: u32) {
        self.noted().calls += calls;
    }

    /// How many models were asked so far.
    pub(crate) fn calls(&self) -> u32 {
        self.noted().calls
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a reply came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The model was asked.
    Now,
    /// It had answered the same before.
    Before,
}
