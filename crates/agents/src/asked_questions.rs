//! What people were asked on a thread, and what they answered.

use doran_engine::{EntryBody, PendingQuestion, RunId, ThreadEntry};
use serde_json::Value;

use crate::history::newest_branch;

/// A question of a run to a person, with the answer once there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionToPerson {
    /// The run that asked.
    pub run: RunId,
    /// The question.
    pub question: PendingQuestion,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at: i64,
    /// The answer.
    pub answer: Option<Value>,
    /// When it was answered, in milliseconds since 1970.
    pub answered_at: Option<i64>,
}

/// The questions along the branch that leads to the last of these entries, which are those of a thread from its first.
pub fn asked_questions_from_entries(entries: &[ThreadEntry]) -> Vec<QuestionToPerson> {
    let mut asked: Vec<QuestionToPerson> = Vec::new();
    for entry in newest_branch(entries) {
        let Some(run) = entry.run else { continue };
        match &entry.body {
            EntryBody::Paused { questions, .. } => {
                for question in questions {
                    match find_open_question(&mut asked, run, &question.id) {
                        // It is still open after others were answered.
                        Some(open) => open.question = question.clone(),
                        None => asked.push(QuestionToPerson {
                            run,
                            question: question.clone(),
                            asked_at: entry.at,
                            answer: None,
                            answered_at: None,
                        }),
                    }
                }
            }
            EntryBody::Resumed { answers } => {
                for (id, answer) in answers {
                    if let Some(open) = find_open_question(&mut asked, run, id) {
                        (open.answer, open.answered_at) = (Some(answer.clone()), Some(entry.at));
                    }
                }
            }
            EntryBody::Started { .. }
            | EntryBody::Step(_)
            | EntryBody::InnerStep(_)
            | EntryBody::Restarted { .. }
            | EntryBody::Finished
            | EntryBody::Failed { .. }
            | EntryBody::Cancelled { .. }
            | EntryBody::Edited(_) => {}
        }
    }
    asked
}

fn find_open_question<'a>(
    asked: &'a mut [QuestionToPerson],
    run: RunId,
    id: &str,
) -> Option<&'a mut QuestionToPerson> {
    asked.iter_mut().rev().find(|one| one.run == run && one.question.id == id && one.answer.is_none())
}
