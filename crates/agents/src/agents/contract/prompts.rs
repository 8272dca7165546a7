//! The prompts of the contract agent.

use doran_retrieval::Language;
use minijinja::context;

use crate::prompt::{PromptTemplate, Prompts, prompt_template};

pub(super) const PROMPTS: &[PromptTemplate] = &[
    prompt_template!("scope", ["more"]),
    prompt_template!("previous", []),
    prompt_template!("plan", ["missing_info", "proposed", "done", "explored", "unexplored", "more", "tools"]),
    prompt_template!("evaluate", ["explored", "unexplored"]),
    prompt_template!("contract", ["previous", "more"]),
];

/// The variables of the planner's prompt.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanPromptVariables {
    pub(super) missing_info: String,
    pub(super) proposed: Vec<String>,
    pub(super) done: Vec<String>,
    pub(super) explored: Vec<String>,
    pub(super) unexplored: Vec<String>,
    pub(super) more: Vec<String>,
    pub(super) tools: Vec<String>,
}

impl Prompts {
    pub(super) fn scope(&self, language: Language, more: Vec<String>) -> Result<String, minijinja::Error> {
        self.render("scope", language, context! { more })
    }

    pub(super) fn previous(&self, language: Language) -> Result<String, minijinja::Error> {
        self.render("previous", language, context! {})
    }

    pub(super) fn plan(
        &self,
        language: Language,
        plan: PlanPromptVariables,
    ) -> Result<String, minijinja::Error> {
        let PlanPromptVariables { missing_info, proposed, done, explored, unexplored, more, tools } = plan;
        let slots = context! { missing_info, proposed, done, explored, unexplored, more, tools };
        self.render("plan", language, slots)
    }

    pub(super) fn evaluate(
        &self,
        language: Language,
        explored: &[String],
        unexplored: &[String],
    ) -> Result<String, minijinja::Error> {
        let slots = context! { explored => explored.to_vec(), unexplored => unexplored.to_vec() };
        self.render("evaluate", language, slots)
    }

    pub(super) fn contract(
        &self,
        language: Language,
        previous: bool,
        more: bool,
    ) -> Result<String, minijinja::Error> {
        self.render("contract", language, context! { previous, more })
    }
}
