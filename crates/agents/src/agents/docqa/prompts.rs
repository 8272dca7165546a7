//! The prompts of the document agent.

use doran_retrieval::Language;
use minijinja::context;

use crate::nodes::{RERANK_PROMPT, REWORD_PROMPT};
use crate::prompt::{PromptTemplate, Prompts, prompt_template};

pub(super) const PROMPTS: &[PromptTemplate] = &[
    prompt_template!("classify", []),
    prompt_template!("docqa", ["kind", "summary", "tools"]),
    prompt_template!("condense", ["summary", "most_tokens", "most_letters"]),
    REWORD_PROMPT,
    RERANK_PROMPT,
];

impl Prompts {
    pub(super) fn classify(&self, language: Language) -> Result<String, minijinja::Error> {
        self.render("classify", language, context! {})
    }

    pub(super) fn docqa(
        &self,
        language: Language,
        kind: &str,
        summary: &str,
        tools: bool,
    ) -> Result<String, minijinja::Error> {
        let slots = context! { kind => kind.to_owned(), summary => summary.to_owned(), tools };
        self.render("docqa", language, slots)
    }

    pub(super) fn condense(
        &self,
        language: Language,
        summary: &str,
        most_tokens: usize,
    ) -> Result<String, minijinja::Error> {
        let summary = summary.to_owned();
        // A syllable of Hangul is three bytes, as a token of the estimate is.
        let most_letters = most_tokens;
        self.render("condense", language, context! { summary, most_tokens, most_letters })
    }
}
