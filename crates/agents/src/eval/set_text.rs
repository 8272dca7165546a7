//! The text of a set, case by case. A change of one case leaves the others, and the comments around them, as they were written.

use serde_json::Value;

use super::{AgentEvalCase, AgentEvalSet, AgentEvalSetError};

/// The header of a case.
const CASE_HEADER: &str = "[[case]]";

/// The fields of a case in the order in which they are written. Others come last.
const FIELD_ORDER: [&str; 7] = ["id", "agent", "before", "ask", "options", "fails", "expect"];

/// A set together with the text that it was read from.
#[derive(Clone, Debug)]
pub struct EvalSetText {
    /// What comes before the first case.
    head: String,
    /// The texts of the cases, in the order of the set. Comments directly above a case belong to it.
    cases: Vec<String>,
    set: AgentEvalSet,
}

impl EvalSetText {
    /// Reads a set. Fails if a case does not begin with a line `[[case]]`.
    pub fn read(text: &str) -> Result<Self, AgentEvalSetError> {
        let set = AgentEvalSet::from_toml(text)?;
        let (head, cases) = split_cases(text);
        let is_alike = |(part, case): (&String, &AgentEvalCase)| {
            AgentEvalSet::from_toml(part).is_ok_and(|one| one.cases.as_slice() == std::slice::from_ref(case))
        };
        if cases.len() != set.cases.len() || !cases.iter().zip(&set.cases).all(is_alike) {
            return Err(AgentEvalSetError::Unreadable(
                "every case has to begin with a line `[[case]]`; this file can only be changed by hand"
                    .to_owned(),
            ));
        }
        Ok(Self { head, cases, set })
    }

    /// A set of one case about the documents that were handed in.
    pub fn with_case(case: &AgentEvalCase) -> Result<Self, AgentEvalSetError> {
        Self::read(&format!("documents = \"library\"\n\n{}", case_text(case)?))
    }

    /// The set.
    pub fn set(&self) -> &AgentEvalSet {
        &self.set
    }

    /// The text, to be written to a file.
    pub fn text(&self) -> String {
        self.head.clone() + &self.cases.concat()
    }

    /// Puts a case in the place of the one called `id`, or at the end if there is none.
    pub fn put_case(&self, id: &str, case: &AgentEvalCase) -> Result<Self, AgentEvalSetError> {
        let (mut head, mut cases, text) = (self.head.clone(), self.cases.clone(), case_text(case)?);
        match self.set.cases.iter().position(|one| one.id == id) {
            Some(at) => cases[at] = comments_above(&cases[at]) + &text + "\n",
            None => {
                let last = cases.last_mut().unwrap_or(&mut head);
                last.truncate(last.trim_end().len());
                last.push_str("\n\n");
                cases.push(text);
            }
        }
        Self::read(&(head + &cases.concat()))
    }

    /// The set without this case. `None` if nothing would be left.
    pub fn without_case(&self, id: &str) -> Result<Option<Self>, AgentEvalSetError> {
        let kept = self.cases.iter().zip(&self.set.cases).filter(|(_, case)| case.id != id);
        let kept: Vec<&str> = kept.map(|(text, _)| text.as_str()).collect();
        if kept.is_empty() {
            return Ok(None);
        }
        Self::read(&(self.head.clone() + &kept.concat())).map(Some)
    }
}

/// A case in TOML. Every value is on one line, so that no line of a text looks like a header.
fn case_text(case: &AgentEvalCase) -> Result<String, AgentEvalSetError> {
    let wrong = |reason: String| AgentEvalSetError::Case { id: case.id.clone(), reason };
    let fields = match serde_json::to_value(case) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Err(wrong("it has no fields".to_owned())),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let mut fields: Vec<(&String, &Value)> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
    // As people write them: who is asked what, and then what is expected.
    let place = |key: &str| FIELD_ORDER.iter().position(|one| *one == key).unwrap_or(FIELD_ORDER.len());
    fields.sort_by_key(|(key, _)| place(key));
    let lines = fields.iter().map(|(key, value)| format!("{} = {}\n", toml_key(key), toml_value(value)));
    Ok(format!("{CASE_HEADER}\n{}", lines.collect::<String>()))
}

fn toml_key(key: &str) -> String {
    let is_bare =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { key.to_owned() } else { toml_text(key) }
}

/// TOML knows no `null`: a field without a value is left out.
fn toml_value(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(key, value)| format!("{} = {}", toml_key(key), toml_value(value)));
            let fields: Vec<String> = fields.collect();
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter(|item| !item.is_null()).map(toml_value).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(text) => toml_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// JSON escapes what TOML wants to be escaped, but for one character.
fn toml_text(text: &str) -> String {
    Value::String(text.to_owned()).to_string().replace('\u{7f}', "\\u007f")
}

/// The comment lines at the beginning of the text of a case.
fn comments_above(text: &str) -> String {
    text.split_inclusive('\n').take_while(|line| line.trim_start().starts_with('#')).collect()
}

fn split_cases(text: &str) -> (String, Vec<String>) {
    let (mut head, mut cases): (String, Vec<String>) = (String::new(), Vec::new());
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with(CASE_HEADER) {
            // Comments directly above a header are about its case.
            let before = cases.last_mut().unwrap_or(&mut head);
            let end = before.len() - trailing_comments(before).len();
            let comments = before.split_off(end);
            cases.push(comments);
        }
        cases.last_mut().unwrap_or(&mut head).push_str(line);
    }
    (head, cases)
}

fn trailing_comments(text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_comment = |line: &&&str| line.trim_start().starts_with('#');
    let count = lines.iter().rev().take_while(is_comment).count();
    lines[lines.len() - count..].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# About leave.\ndocuments = \"samples\"\n\n# The usual question.\n[[case]]\nid = \"a\" # first\nagent = \"assistant\"\nask = \"연차?\"\nexpect = { contains = [\"15일\"] }\n\n[[case]]\nid = \"b\"\nagent = \"react\"\nask = \"2+2\"\n[case.expect]\ntools = [\"calculator\"]\n";

    fn case(id: &str, ask: &str) -> AgentEvalCase {
        let expect = super::super::EvalExpectation { contains: vec!["x".into()], ..Default::default() };
        AgentEvalCase { id: id.into(), agent: "react".into(), ask: ask.into(), expect, ..Default::default() }
    }

    #[test]
    fn a_text_that_was_not_changed_is_the_same() {
        assert_eq!(EvalSetText::read(TEXT).expect("a set").text(), TEXT);
    }

    #[test]
    fn a_change_of_one_case_leaves_the_rest_as_it_was_written() {
        let read = EvalSetText::read(TEXT).expect("a set");
        let changed = read.put_case("a", &case("a", "\"따옴표\"와\n줄바꿈")).expect("a set");
        assert!(changed.text().starts_with(
            "# About leave.\ndocuments = \"samples\"\n\n# The usual question.\n[[case]]\nid = \"a\"\n"
        ));
        assert!(changed.text().ends_with(&TEXT[TEXT.rfind("[[case]]").expect("a case")..]));
        assert_eq!(changed.set().cases[0].ask, "\"따옴표\"와\n줄바꿈");
        let renamed = changed.put_case("b", &case("c", "3+3")).expect("a set");
        assert_eq!(renamed.set().cases.iter().map(|case| case.id.as_str()).collect::<Vec<_>>(), ["a", "c"]);
        let hostile = case("d", "[[case]]\n# \u{7f}\"\\\t\u{1}'''");
        let added = renamed.put_case("d", &hostile).expect("a set");
        assert_eq!(added.set().cases.last(), Some(&hostile));
        let error = added.put_case("e", &case("a", "?")).expect_err("the id is taken").to_string();
        assert!(error.contains("no other has"), "{error}");
    }

    #[test]
    fn a_case_is_removed_with_its_comments_and_the_last_one_takes_the_set_with_it() {
        let read = EvalSetText::read(TEXT).expect("a set");
        let left = read.without_case("a").expect("a set").expect("a case");
        assert!(!left.text().contains("usual") && left.text().contains("About leave"));
        assert!(left.without_case("b").expect("a set").is_none());
        assert_eq!(left.without_case("gone").expect("a set").expect("a case").text(), left.text());
    }

    #[test]
    fn a_header_inside_a_string_is_not_cut() {
        let text = "[[case]]\nid = \"a\"\nagent = \"react\"\nask = '''\n[[case]]\n'''\nexpect = { contains = [\"x\"] }\n";
        let error = EvalSetText::read(text).expect_err("not to be told apart").to_string();
        assert!(error.contains("by hand"), "{error}");
    }
}
