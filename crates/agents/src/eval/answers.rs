//! Questions whose answers are known strings of documents: how many are answered, withheld and wrong.
//!
//! `evals/answers/README.md` describes the format. It is for programs that answer by quoting, because the strings stand
//! in the documents word for word.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::run::{EvalCaseOptions, EvalError, run_case};
use super::{AgentEvalCase, AgentEvalSetError};
use crate::agents::Agent;

/// How an answer says that nothing was found.
const NOT_FOUND_PHRASES: [&str; 2] = ["찾지 못했습니다", "did not find"];

/// What stands around a quotation.
const QUOTATION_MARKS: [char; 3] = ['"', '“', '「'];

/// A question with the strings that its answer must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuestion {
    /// Its name, which no other has.
    pub id: String,
    /// Questions asked earlier in the same conversation.
    #[serde(default)]
    pub before: Vec<String>,
    /// The question that is scored.
    pub ask: String,
    /// `ko` or `en`.
    pub language: String,
    /// How it is worded: `plain`, `spoken`, `keyword`, `typo`, `long`.
    pub style: String,
    /// What is asked for.
    pub kind: String,
    /// The documents that hold the answer.
    #[serde(default)]
    pub answer_in: Vec<String>,
    /// Groups of alternatives: the answer holds one of each.
    #[serde(default)]
    pub must: Vec<Vec<String>>,
    /// Text of a likely wrong answer.
    #[serde(default)]
    pub must_not: Vec<String>,
    /// Whether the documents hold an answer.
    pub answerable: bool,
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerGrade {
    /// It holds what it must, or says that there is nothing where there is nothing.
    Right,
    /// It says that nothing was found although there is an answer.
    Withheld,
    /// Everything else.
    Wrong,
}

/// A question with its answer and grade.
#[derive(Clone, Debug, Serialize)]
pub struct GradedAnswer {
    /// The question.
    pub id: String,
    /// Whether the documents hold an answer.
    pub answerable: bool,
    /// How it is worded.
    pub style: String,
    /// What is asked for.
    pub kind: String,
    /// What was asked.
    pub ask: String,
    /// What was answered.
    pub answer: String,
    /// The titles of what it cites.
    pub sources: Vec<String>,
    /// What it is worth.
    pub grade: AnswerGrade,
    /// How long the conversation took.
    pub ms: u64,
}

/// The number of answers by grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GradeCounts {
    /// Right ones.
    pub right: usize,
    /// Withheld ones.
    pub withheld: usize,
    /// Wrong ones.
    pub wrong: usize,
}

impl AnswerQuestion {
    /// Reads questions, one JSON object a line.
    pub fn from_json_lines(text: &str) -> Result<Vec<Self>, AgentEvalSetError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let read = lines.map(|(at, line)| {
            serde_json::from_str(line)
                .map_err(|error| AgentEvalSetError::Unreadable(format!("line {}: {error}", at + 1)))
        });
        let questions: Vec<Self> = read.collect::<Result<_, _>>()?;
        let could_not_fail = |one: &&Self| one.answerable && one.must.iter().all(Vec::is_empty);
        match questions.iter().find(could_not_fail) {
            Some(one) => Err(AgentEvalSetError::Case {
                id: one.id.clone(),
                reason: "it can be answered, but `must` is empty".to_owned(),
            }),
            None => Ok(questions),
        }
    }

    /// Grades an answer by its text.
    pub fn grade(&self, answer: &str) -> AnswerGrade {
        let folded = fold_text(answer);
        let holds = |text: &String| folded.contains(&fold_text(text));
        let says_nothing = NOT_FOUND_PHRASES.iter().any(|phrase| folded.contains(phrase))
            && !answer.contains(QUOTATION_MARKS);
        match (self.answerable, says_nothing) {
            (false, true) => AnswerGrade::Right,
            (true, true) => AnswerGrade::Withheld,
            (true, false)
                if self.must.iter().all(|group| group.iter().any(holds))
                    && !self.must_not.iter().any(holds) =>
            {
                AnswerGrade::Right
            }
            (_, false) => AnswerGrade::Wrong,
        }
    }
}

/// Texts are compared in lower case, with one space for any run of white space.
fn fold_text(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

impl GradeCounts {
    /// Counts answers in groups: `answerable` and `unanswerable`, and the former by style and by kind.
    pub fn by_group(answers: &[GradedAnswer]) -> BTreeMap<String, Self> {
        let mut counts: BTreeMap<String, Self> = BTreeMap::new();
        for answer in answers {
            let groups = match answer.answerable {
                true => vec![
                    "answerable".to_owned(),
                    format!("style {}", answer.style),
                    format!("kind {}", answer.kind),
                ],
                false => vec!["unanswerable".to_owned()],
            };
            for group in groups {
                let count = counts.entry(group).or_default();
                match answer.grade {
                    AnswerGrade::Right => count.right += 1,
                    AnswerGrade::Withheld => count.withheld += 1,
                    AnswerGrade::Wrong => count.wrong += 1,
                }
            }
        }
        counts
    }

    /// How many there are.
    pub fn total(self) -> usize {
        self.right + self.withheld + self.wrong
    }
}

/// Asks an agent every question, each in a conversation of its own. `seen` is called with each as soon as it is graded.
pub async fn run_answer_questions(
    questions: &[AnswerQuestion],
    agent: &Agent,
    mut seen: impl FnMut(&GradedAnswer),
) -> Result<Vec<GradedAnswer>, EvalError> {
    let mut graded = Vec::with_capacity(questions.len());
    for question in questions {
        let case = AgentEvalCase {
            id: question.id.clone(),
            agent: agent.name.clone(),
            before: question.before.clone(),
            ask: question.ask.clone(),
            ..AgentEvalCase::default()
        };
        let started = std::time::Instant::now();
        let observed = run_case(&case, agent, &EvalCaseOptions::default()).await.0?;
        let answer = GradedAnswer {
            id: question.id.clone(),
            answerable: question.answerable,
            style: question.style.clone(),
            kind: question.kind.clone(),
            ask: question.ask.clone(),
            grade: question.grade(&observed.response),
            answer: observed.response,
            sources: observed.sources,
            ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        seen(&answer);
        graded.push(answer);
    }
    Ok(graded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_graded_by_what_it_holds_and_by_what_it_must_not() {
        let question = AnswerQuestion {
            must: vec![vec!["15일".into(), "보름".into()], vec!["연차".into()]],
            must_not: vec!["병가".into()],
            answerable: true,
            ..AnswerQuestion::default()
        };
        for (answer, grade) in [
            ("\"연차는  15일이다.\" [1]", AnswerGrade::Right),
            ("\"연차는 보름이다.\" [1]", AnswerGrade::Right),
            ("\"15일이다.\" [1]", AnswerGrade::Wrong),
            ("\"연차는 15일, 병가는 60일이다.\" [1]", AnswerGrade::Wrong),
            ("문서에서 찾지 못했습니다.", AnswerGrade::Withheld),
            ("이 부분은 찾지 못했습니다. \"병가는 60일이다.\" [1]", AnswerGrade::Wrong),
        ] {
            assert_eq!(question.grade(answer), grade, "{answer}");
        }
        let nothing = AnswerQuestion { answerable: false, ..question };
        assert_eq!(nothing.grade("문서에서 찾지 못했습니다."), AnswerGrade::Right);
        assert_eq!(
            nothing.grade("찾지 못했습니다. 가장 가까운 문장: \"연차는 15일이다.\" [1]"),
            AnswerGrade::Wrong
        );
    }

    #[test]
    fn a_question_that_could_not_fail_is_refused() {
        let line =
            r#"{"id":"a","ask":"?","language":"ko","style":"plain","kind":"number","answerable":true}"#;
        let error = AnswerQuestion::from_json_lines(line).expect_err("refused").to_string();
        assert_eq!(error, "case `a`: it can be answered, but `must` is empty");
    }
}
