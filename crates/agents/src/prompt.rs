//! Prompts: one Markdown file each, in both languages, in the folder of the agent that uses it. The `prompts.rs` there
//! lists them and has a typed function to fill each.
//!
//! What people, documents and tools write goes into a prompt as a value. It is never read as a template.

use std::collections::BTreeMap;

use doran_llm::ToolSpec;
use doran_retrieval::Language;
use minijinja::value::Value;
use minijinja::{Environment, UndefinedBehavior};

/// A prompt: its name, its text in both languages, and the slots it may use.
pub(crate) struct PromptTemplate {
    pub(crate) name: &'static str,
    pub(crate) ko: &'static str,
    pub(crate) en: &'static str,
    pub(crate) slots: &'static [&'static str],
}

/// A [`PromptTemplate`] whose texts are `prompts/ko/NAME.md` and `prompts/en/NAME.md` beside the file that names it.
macro_rules! prompt_template {
    ($name:literal, [$($slot:literal),*]) => {
        $crate::prompt::PromptTemplate {
            name: $name,
            ko: include_str!(concat!("prompts/ko/", $name, ".md")),
            en: include_str!(concat!("prompts/en/", $name, ".md")),
            slots: &[$($slot),*],
        }
    };
}
pub(crate) use prompt_template;

/// Why a prompt in the settings cannot be used.
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
    UnknownSlot {
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
    /// The prompts of `known`, some of them replaced by `overrides`: `assistant` in both languages, or `ko/assistant` in
    /// one.
    pub(crate) fn with_overrides(
        known: &[PromptTemplate],
        overrides: &BTreeMap<String, String>,
    ) -> Result<Self, PromptError> {
        let mut templates = Environment::new();
        templates.set_undefined_behavior(UndefinedBehavior::Strict);
        for template in known {
            add_template(&mut templates, template, Language::Korean, template.ko)?;
            add_template(&mut templates, template, Language::English, template.en)?;
        }
        for (name, text) in overrides {
            let (languages, bare): (&[Language], &str) = match name.split_once('/') {
                Some(("ko", bare)) => (&[Language::Korean], bare),
                Some(("en", bare)) => (&[Language::English], bare),
                _ => (&Language::ALL, name),
            };
            let Some(template) = known.iter().find(|template| template.name == bare) else {
                let known: Vec<&str> = known.iter().map(|template| template.name).collect();
                return Err(PromptError::Unknown { name: name.clone(), known: known.join(", ") });
            };
            for language in languages {
                add_template(&mut templates, template, *language, text)?;
            }
        }
        Ok(Self { templates })
    }

    pub(crate) fn render(
        &self,
        name: &str,
        language: Language,
        slots: Value,
    ) -> Result<String, minijinja::Error> {
        let text = self.templates.get_template(&template_path(name, language))?.render(slots)?;
        Ok(text.trim().to_owned())
    }
}

/// The names of tools, for a prompt whose examples name only those that are offered.
pub(crate) fn tool_names(tools: &[ToolSpec]) -> Vec<String> {
    tools.iter().map(|tool| tool.name.clone()).collect()
}

fn template_path(name: &str, language: Language) -> String {
    format!("{}/{name}.md", language.code())
}

fn add_template(
    templates: &mut Environment<'static>,
    known: &PromptTemplate,
    language: Language,
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
        Some(slot) => Err(PromptError::UnknownSlot { name: path, slot, slots: known.slots.join(", ") }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;
    use crate::agents::DEFINITIONS;

    fn prompts_with(name: &str, text: &str) -> Result<Prompts, PromptError> {
        let templates = [PromptTemplate { name: "a", ko: "가 {{ x }}", en: "A {{ x }}", slots: &["x"] }];
        Prompts::with_overrides(&templates, &BTreeMap::from([(name.to_owned(), text.to_owned())]))
    }

    #[test]
    fn every_prompt_is_there_in_both_languages_and_can_be_filled() {
        for definition in DEFINITIONS {
            let prompts = Prompts::with_overrides(definition.prompts, &BTreeMap::new()).expect("sound");
            for template in definition.prompts {
                for language in Language::ALL {
                    let empty = template.slots.iter().map(|slot| (*slot, Value::from(Vec::<String>::new())));
                    let text = prompts.render(template.name, language, Value::from_pairs(empty));
                    let text = text.expect("filled");
                    assert!(!text.is_empty() && !text.contains("{{"), "{text}");
                    assert_eq!(Language::detect(&text), Some(language), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_replaced_prompt_is_checked() {
        let prompts = prompts_with("ko/a", "짧게 답하라.").expect("sound");
        let render = |language| prompts.render("a", language, context! { x => 1 }).expect("filled");
        assert_eq!(
            (render(Language::Korean).as_str(), render(Language::English).as_str()),
            ("짧게 답하라.", "A 1")
        );
        let refused = |name: &str, text: &str| prompts_with(name, text).expect_err("refused").to_string();
        assert_eq!(refused("b", "x"), "there is no prompt `b`; there are: a");
        assert!(refused("a", "{{ x").starts_with("prompt `ko/a.md` is not a template"));
        assert_eq!(
            refused("en/a", "{{ secret }}"),
            "prompt `en/a.md` uses `secret`, which it is not given; it may use: x"
        );
    }
}
