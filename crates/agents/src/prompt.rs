//! Prompts: one Markdown file each, in both languages, filled by one typed function each.
//!
//! Words of people, documents and tools go into a prompt as values only; nothing they write is read as a template.

use std::collections::BTreeMap;

use minijinja::value::Value;
use minijinja::{Environment, UndefinedBehavior, context};

use crate::language::UserLanguage;

/// A prompt: its name, its text in both languages, and the slots it may use.
struct PromptTemplate {
    name: &'static str,
    ko: &'static str,
    en: &'static str,
    slots: &'static [&'static str],
}

macro_rules! known {
    ($($name:literal: [$($slot:literal),*];)*) => {
        &[$(PromptTemplate {
            name: $name,
            ko: include_str!(concat!("../prompts/ko/", $name, ".md")),
            en: include_str!(concat!("../prompts/en/", $name, ".md")),
            slots: &[$($slot),*],
        }),*]
    };
}

const PROMPT_TEMPLATES: &[PromptTemplate] = known! {
    "router": [];
    "assistant": ["summaries"];
    "summary": [];
    "react": [];
    "classify": [];
    "docqa": ["kind", "summary", "tools"];
    "condense": ["summary", "most_tokens", "most_letters"];
    "scope": ["more"];
    "previous": [];
    "plan": ["missing_info", "proposed", "done", "explored", "unexplored", "more"];
    "evaluate": ["explored", "unexplored"];
    "contract": ["previous", "more"];
    "reword": [];
};

/// A prompt that somebody wrote anew does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// There is no such prompt.
    #[error("there is no prompt `{name}`; there are: {known}")]
    Unknown {
        /// What was named.
        name: String,
        /// What there is.
        known: String,
    },
    /// It cannot be read.
    #[error("prompt `{name}` is not a template: {reason}")]
    Broken {
        /// The prompt.
        name: String,
        /// Where and why.
        reason: String,
    },
    /// It uses a slot that it is not given.
    #[error("prompt `{name}` uses `{slot}`, which it is not given; it may use: {slots}")]
    Slot {
        /// The prompt.
        name: String,
        /// What it uses.
        slot: String,
        /// What it may use.
        slots: String,
    },
}

/// All prompts of an agent.
#[derive(Debug)]
pub(crate) struct Prompts {
    templates: Environment<'static>,
}

impl Prompts {
    /// The prompts that come with the program, with some of them written anew: `assistant` in both languages, or
    /// `ko/assistant` in one.
    pub(crate) fn with_overrides(written: &BTreeMap<String, String>) -> Result<Self, PromptError> {
        let mut templates = Environment::new();
        templates.set_undefined_behavior(UndefinedBehavior::Strict);
        for known in PROMPT_TEMPLATES {
            add_template(&mut templates, known, UserLanguage::Ko, known.ko)?;
            add_template(&mut templates, known, UserLanguage::En, known.en)?;
        }
        for (name, text) in written {
            let (languages, bare): (&[UserLanguage], &str) = match name.split_once('/') {
                Some(("ko", bare)) => (&[UserLanguage::Ko], bare),
                Some(("en", bare)) => (&[UserLanguage::En], bare),
                _ => (&[UserLanguage::Ko, UserLanguage::En], name),
            };
            let Some(known) = PROMPT_TEMPLATES.iter().find(|known| known.name == bare) else {
                let known: Vec<&str> = PROMPT_TEMPLATES.iter().map(|known| known.name).collect();
                return Err(PromptError::Unknown { name: name.clone(), known: known.join(", ") });
            };
            for language in languages {
                add_template(&mut templates, known, *language, text)?;
            }
        }
        Ok(Self { templates })
    }

    pub(crate) fn router(&self, language: UserLanguage) -> Result<String, minijinja::Error> {
        self.render("router", language, context! {})
    }

    /// The system text of the assistant with what was said before: the first two of the parts of its prompt.
    pub(crate) fn assistant(
        &self,
        language: UserLanguage,
        summaries: &[String],
    ) -> Result<String, minijinja::Error> {
        self.render("assistant", language, context! { summaries => summaries.to_vec() })
    }

    pub(crate) fn summary(&self, language: UserLanguage) -> Result<String, minijinja::Error> {
        self.render("summary", language, context! {})
    }

    pub(crate) fn react(&self, language: UserLanguage) -> Result<String, minijinja::Error> {
        self.render("react", language, context! {})
    }

    pub(crate) fn classify(&self, language: UserLanguage) -> Result<String, minijinja::Error> {
        self.render("classify", language, context! {})
    }

    pub(crate) fn docqa(
        &self,
        language: UserLanguage,
        kind: &str,
        summary: &str,
        tools: bool,
    ) -> Result<String, minijinja::Error> {
        let slots = context! { kind => kind.to_owned(), summary => summary.to_owned(), tools };
        self.render("docqa", language, slots)
    }

    pub(crate) fn condense(
        &self,
        language: UserLanguage,
        summary: &str,
        most_tokens: usize,
    ) -> Result<String, minijinja::Error> {
        let summary = summary.to_owned();
        // A syllable of Hangul is three bytes, as a token of the estimate is.
        let most_letters = most_tokens;
        self.render("condense", language, context! { summary, most_tokens, most_letters })
    }

    pub(crate) fn scope(
        &self,
        language: UserLanguage,
        more: Vec<String>,
    ) -> Result<String, minijinja::Error> {
        self.render("scope", language, context! { more })
    }

    pub(crate) fn previous(&self, language: UserLanguage) -> Result<String, minijinja::Error> {
        self.render("previous", language, context! {})
    }

    pub(crate) fn plan(
        &self,
        language: UserLanguage,
        plan: PlanPromptVariables,
    ) -> Result<String, minijinja::Error> {
        let PlanPromptVariables { missing_info, proposed, done, explored, unexplored, more } = plan;
        let slots = context! { missing_info, proposed, done, explored, unexplored, more };
        self.render("plan", language, slots)
    }

    pub(crate) fn evaluate(
        &self,
        language: UserLanguage,
        explored: &[String],
        unexplored: &[String],
    ) -> Result<String, minijinja::Error> {
        let slots = context! { explored => explored.to_vec(), unexplored => unexplored.to_vec() };
        self.render("evaluate", language, slots)
    }

    pub(crate) fn contract(
        &self,
        language: UserLanguage,
        previous: bool,
        more: bool,
    ) -> Result<String, minijinja::Error> {
        self.render("contract", language, context! { previous, more })
    }

    pub(crate) fn reword(&self, language: UserLanguage) -> Result<String, minijinja::Error> {
        self.render("reword", language, context! {})
    }

    fn render(&self, name: &str, language: UserLanguage, slots: Value) -> Result<String, minijinja::Error> {
        let text = self.templates.get_template(&template_path(name, language))?.render(slots)?;
        Ok(text.trim().to_owned())
    }
}

/// What the planner is told besides the question.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanPromptVariables {
    pub(crate) missing_info: String,
    pub(crate) proposed: Vec<String>,
    pub(crate) done: Vec<String>,
    pub(crate) explored: Vec<String>,
    pub(crate) unexplored: Vec<String>,
    pub(crate) more: Vec<String>,
}

fn template_path(name: &str, language: UserLanguage) -> String {
    format!("{}/{name}.md", language.code())
}

fn add_template(
    templates: &mut Environment<'static>,
    known: &PromptTemplate,
    language: UserLanguage,
    text: &str,
) -> Result<(), PromptError> {
    let path = template_path(known.name, language);
    let broken =
        |error: minijinja::Error| PromptError::Broken { name: path.clone(), reason: error.to_string() };
    templates.add_template_owned(path.clone(), text.to_owned()).map_err(broken)?;
    let template = templates.get_template(&path).map_err(broken)?;
    let mut used: Vec<String> = template.undeclared_variables(false).into_iter().collect();
    used.sort();
    match used.into_iter().find(|slot| !known.slots.contains(&slot.as_str())) {
        Some(slot) => Err(PromptError::Slot { name: path, slot, slots: known.slots.join(", ") }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts_with(name: &str, text: &str) -> Result<Prompts, PromptError> {
        Prompts::with_overrides(&BTreeMap::from([(name.to_owned(), text.to_owned())]))
    }

    #[test]
    fn every_prompt_is_there_in_both_languages_and_fills() {
        let prompts = Prompts::with_overrides(&BTreeMap::new()).expect("sound");
        for language in [UserLanguage::Ko, UserLanguage::En] {
            for text in [
                prompts.router(language),
                prompts.assistant(language, &["하나".into()]),
                prompts.summary(language),
                prompts.react(language),
                prompts.classify(language),
                prompts.docqa(language, "question", "", true),
                prompts.condense(language, "", 10),
                prompts.scope(language, vec!["recall".into()]),
                prompts.previous(language),
                prompts.plan(language, PlanPromptVariables::default()),
                prompts.evaluate(language, &[], &[]),
                prompts.contract(language, true, true),
                prompts.reword(language),
            ] {
                let text = text.expect("filled");
                assert!(!text.is_empty() && !text.contains("{{"), "{text}");
                assert_eq!(UserLanguage::detect(&text), Some(language), "{text}");
            }
        }
    }

    #[test]
    fn words_of_people_are_values_and_never_templates() {
        let prompts = Prompts::with_overrides(&BTreeMap::new()).expect("sound");
        let summary = "{{ 7 * 7 }} {% include 'ko/router.md' %} <b>";
        let text = prompts.assistant(UserLanguage::Ko, &[summary.to_owned()]).expect("filled");
        assert!(text.contains(summary), "{text}");
    }

    #[test]
    fn a_prompt_written_anew_is_checked() {
        let prompts = prompts_with("ko/assistant", "짧게 답하라.").expect("sound");
        assert_eq!(prompts.assistant(UserLanguage::Ko, &[]).expect("filled"), "짧게 답하라.");
        assert!(prompts.assistant(UserLanguage::En, &[]).expect("filled").contains("assistant"));
        let told = |name: &str, text: &str| prompts_with(name, text).expect_err("refused").to_string();
        assert!(told("assistent", "x").starts_with("there is no prompt `assistent`; there are: router, "));
        assert!(told("assistant", "{{ summaries").starts_with("prompt `ko/assistant.md` is not a template"));
        assert_eq!(
            told("en/assistant", "{{ secret }}"),
            "prompt `en/assistant.md` uses `secret`, which it is not given; it may use: summaries"
        );
    }
}
