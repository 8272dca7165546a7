//! The prompts of the assistant.

use doran_llm::ToolSpec;
use doran_retrieval::Language;
use minijinja::context;

use crate::nodes::{RERANK_PROMPT, REWORD_PROMPT};
use crate::prompt::{PromptTemplate, Prompts, prompt_template, tool_names};

pub(super) const PROMPTS: &[PromptTemplate] = &[
    prompt_template!("router", []),
    prompt_template!("assistant", ["summaries", "tools"]),
    prompt_template!("summary", []),
    REWORD_PROMPT,
    RERANK_PROMPT,
];

impl Prompts {
    pub(super) fn router(&self, language: Language) -> Result<String, minijinja::Error> {
        self.render("router", language, context! {})
    }

    /// The system text of the assistant, with the summaries of earlier turns. Examples name tools that are offered.
    pub(super) fn assistant(
        &self,
        language: Language,
        summaries: &[String],
        tools: &[ToolSpec],
    ) -> Result<String, minijinja::Error> {
        let slots = context! { summaries => summaries.to_vec(), tools => tool_names(tools) };
        self.render("assistant", language, slots)
    }

    pub(super) fn summary(&self, language: Language) -> Result<String, minijinja::Error> {
        self.render("summary", language, context! {})
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::request_format::opens_summary;

    #[test]
    fn user_text_is_never_read_as_a_template() {
        let prompts = Prompts::with_overrides(PROMPTS, &BTreeMap::new()).expect("sound");
        let summary = "{{ 7 * 7 }} {% include 'ko/router.md' %} <b>";
        let text = prompts.assistant(Language::Korean, &[summary.to_owned()], &[]).expect("filled");
        assert!(text.contains(summary), "{text}");
    }

    #[test]
    fn summaries_stand_under_a_heading() {
        let prompts = Prompts::with_overrides(PROMPTS, &BTreeMap::new()).expect("sound");
        for language in Language::ALL {
            let text = prompts.assistant(language, &["one".into(), "two".into()], &[]).expect("filled");
            let headings: Vec<bool> = text.lines().filter_map(|line| opens_summary(line.trim())).collect();
            assert_eq!(headings, [true; 3], "{text}");
        }
    }
}
