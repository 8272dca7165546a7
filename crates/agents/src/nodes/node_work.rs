//! What a running node shows. It is streamed at once and noted beside the step, so that late readers see it too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use doran_engine::Cx;
use doran_llm::ReplyFormatError;
use doran_retrieval::Language;

use crate::protocol::{AgentActivity, CallNote, ModelCallNote, SearchNote, StepNotes, ThinkingStep};
use crate::state::{ModelChoice, TurnProgress};

/// A node at work.
pub(crate) struct NodeWork {
    pub(crate) cx: Cx,
    pub(crate) language: Language,
    /// The model that was chosen for the turn.
    pub(crate) chosen: ModelChoice,
    /// Whether words are shown to nobody: the agent works for another one.
    is_subagent: bool,
    notes: Mutex<PendingNotes>,
    /// The id of the next reply. Made before its words are shown, and at the same place in every attempt of the node, so that
    /// no other id depends on what was shown.
    reply_id: Mutex<String>,
}

#[derive(Default)]
struct PendingNotes {
    step: StepNotes,
    calls: u32,
}

impl NodeWork {
    pub(crate) fn new(cx: Cx, progress: &TurnProgress) -> Self {
        let (language, chosen) = (progress.language, progress.chosen.clone());
        let is_subagent = progress.is_subagent;
        let reply_id = Mutex::new(cx.new_id());
        Self { cx, language, chosen, is_subagent, notes: Mutex::default(), reply_id }
    }

    /// The same in a language that the turn does not have yet.
    pub(crate) fn in_language(self, language: Language) -> Self {
        Self { language, ..self }
    }

    /// Shows the next words of the reply, if it is for the person.
    pub(crate) fn show_reply_text(&self, text: impl Into<String>) {
        if self.is_subagent {
            return;
        }
        let id = self.reply_id.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.cx.emit_text_of(&id, text);
    }

    /// The id of the reply that was shown. Words after this are of the next one.
    pub(crate) fn take_reply_id(&self) -> String {
        let mut id = self.reply_id.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *id, self.cx.new_id())
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
        let content: String = self.language.pick(ko.into(), en.into());
        self.show_activity(AgentActivity::Thinking { step, content });
    }

    /// Notes a request to a model. A reply from a cache cost nothing and is no request.
    pub(crate) fn note_model_call(&self, note: ModelCallNote) {
        let mut noted = self.lock_notes();
        noted.calls += u32::from(note.is_request());
        noted.step.models.push(note);
        self.cx.note(StepNotes::MODELS, &noted.step.models);
    }

    /// Notes a search in documents.
    pub(crate) fn note_search(&self, search: SearchNote) {
        let mut noted = self.lock_notes();
        noted.step.searches.push(search);
        self.cx.note(StepNotes::SEARCHES, &noted.step.searches);
    }

    /// Notes calls of tools.
    pub(crate) fn note_calls(&self, calls: impl IntoIterator<Item = CallNote>) {
        let mut noted = self.lock_notes();
        noted.step.calls.extend(calls);
        if !noted.step.calls.is_empty() {
            self.cx.note(StepNotes::CALLS, &noted.step.calls);
        }
    }

    /// Notes that the reply of a model did not fit its schema twice, so that the node goes on without it.
    pub(crate) fn note_misfit(&self, misfit: &ReplyFormatError) {
        tracing::warn!(%misfit, "the model returned JSON that does not match the schema, twice; using the default");
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
