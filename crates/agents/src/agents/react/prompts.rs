//! The prompt of the react agent.

use doran_llm::ToolSpec;
use doran_retrieval::Language;
use minijinja::context;

use crate::prompt::{PromptTemplate, Prompts, prompt_template, tool_names};

pub(super) const PROMPTS: &[PromptTemplate] = &[prompt_template!("react", ["tools"])];

impl Prompts {
    /// The system text. Examples name tools that are offered.
    pub(super) fn react(&self, language: Language, tools: &[ToolSpec]) -> Result<String, minijinja::Error> {
        self.render("react", language, context! { tools => tool_names(tools) })
    }
}
