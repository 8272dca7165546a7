//! The prompt of the react agent.

use doran_retrieval::Language;
use minijinja::context;

use crate::prompt::{PromptTemplate, Prompts, prompt_template};

pub(super) const PROMPTS: &[PromptTemplate] = &[prompt_template!("react", [])];

impl Prompts {
    pub(super) fn react(&self, language: Language) -> Result<String, minijinja::Error> {
        self.render("react", language, context! {})
    }
}
