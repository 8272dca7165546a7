//! A node at work: what it shows is shown at once and noted beside its step, so that whoever comes late sees it too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use doran_engine::Cx;
use doran_llm::ReplyFormatError;

use crate::language::UserLanguage;
use crate::protocol::{AgentActivity, ModelCallNote, StepNotes, ThinkingStep};

/// A node at work.
pub(crate) struct NodeWork {
    pub(crate) cx: Cx,
    pub(crate) language: UserLanguage,
    notes: Mutex<PendingNotes>,
}

#[derive(Default)]
struct PendingNotes {
    step: StepNotes,
    calls: u32,
}

impl NodeWork {
    pub(crate) fn new(cx: Cx, language: UserLanguage) -> Self {
        Self { cx, language, notes: Mutex::default() }
    }

    /// Shows an activity and notes it.
    pub(crate) fn show_activity(&self, activity: AgentActivity) {
        self.cx.emit(activity.to_json());
        self.note_activities([activity]);
    }

    /// Notes activities that were shown already, in an order of their own.
    pub(crate) fn note_activities(&self, shown: impl IntoIterator<Item = AgentActivity>) {
        let mut noted = self.lock_notes();
        noted.step.events.extend(shown);
        self.cx.note(StepNotes::EVENTS, &noted.step.events);
    }

    /// Tells what the node is at, in the person's language.
    pub(crate) fn show_thinking(&self, step: ThinkingStep, ko: impl Into<String>, en: impl Into<String>) {
        let content: String = match self.language {
            UserLanguage::Ko => ko.into(),
            UserLanguage::En => en.into(),
        };
        self.show_activity(AgentActivity::Thinking { step, content });
    }

    /// Notes a request to a model. A reply from a cache cost nothing and is no request.
    pub(crate) fn note_model_call(&self, note: ModelCallNote) {
        let mut noted = self.lock_notes();
        noted.calls += u32::from(note.is_request());
        noted.step.models.push(note);
        self.cx.note(StepNotes::MODELS, &noted.step.models);
    }

    /// Notes that the reply of a model did not fit its schema twice, so that the node goes on without it.
    pub(crate) fn note_misfit(&self, misfit: &ReplyFormatError) {
        tracing::warn!(%misfit, "a reply did not fit its schema twice");
        self.cx.note("misfit", misfit.to_string());
    }

    /// How many requests were sent to models so far, failed ones included.
    pub(crate) fn model_calls(&self) -> u32 {
        self.lock_notes().calls
    }

    fn lock_notes(&self) -> MutexGuard<'_, PendingNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
