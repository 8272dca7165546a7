//! Templates of described agents: text, URLs and JSON with places that are filled.

use std::collections::BTreeMap;

use minijinja::value::ValueKind;
use minijinja::{Environment, Output, State, UndefinedBehavior};
use serde_json::Value;

/// A text with its places filled. What is not there is empty.
pub(super) fn render_text(template: &str, variables: &Value) -> Result<String, minijinja::Error> {
    Environment::new().render_str(template, to_template_value(variables))
}

/// A URL with its places filled, each value percent-encoded.
pub(super) fn render_url(template: &str, variables: &Value) -> Result<String, String> {
    let mut environment = Environment::new();
    environment.set_formatter(|output: &mut Output<'_>, _: &mut State<'_, '_>, value: &minijinja::Value| {
        if !value.is_undefined() && !value.is_none() {
            output.write_str(&percent_encoded(&value.to_string()))?;
        }
        Ok(())
    });
    environment.render_str(template, to_template_value(variables)).map_err(|error| format!("`url`: {error}"))
}

/// JSON with the places in its texts filled. A text that is one expression, `{{ values.list }}`, becomes its value.
pub(super) fn render_json(template: &Value, variables: &Value) -> Result<Value, String> {
    Ok(match template {
        Value::String(text) => match single_expression(text) {
            Some(expression) => evaluate(expression, variables)?,
            None => Value::String(render_text(text, variables).map_err(|error| error.to_string())?),
        },
        Value::Array(items) => {
            items.iter().map(|item| render_json(item, variables)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| Ok((name.clone(), render_json(field, variables)?)))
            .collect::<Result<serde_json::Map<_, _>, String>>()?
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    })
}

/// The value of an expression.
fn evaluate(expression: &str, variables: &Value) -> Result<Value, String> {
    let environment = Environment::new();
    let compiled = environment.compile_expression(expression).map_err(|error| error.to_string())?;
    let value = compiled.eval(to_template_value(variables)).map_err(|error| error.to_string())?;
    to_json(&value).map_err(|error| error.to_string())
}

fn to_template_value(value: &Value) -> minijinja::Value {
    match value {
        Value::Null => minijinja::Value::from(()),
        Value::Bool(truth) => minijinja::Value::from(*truth),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), _, _) => minijinja::Value::from(whole),
            (None, Some(whole), _) => minijinja::Value::from(whole),
            (None, None, Some(fraction)) => minijinja::Value::from(fraction),
            (None, None, None) => minijinja::Value::from(number.to_string()),
        },
        Value::String(text) => minijinja::Value::from(text.clone()),
        Value::Array(items) => {
            minijinja::Value::from(items.iter().map(to_template_value).collect::<Vec<_>>())
        }
        Value::Object(fields) => minijinja::Value::from(
            fields
                .iter()
                .map(|(name, value)| (name.clone(), to_template_value(value)))
                .collect::<BTreeMap<_, _>>(),
        ),
    }
}

fn to_json(value: &minijinja::Value) -> Result<Value, minijinja::Error> {
    Ok(match value.kind() {
        ValueKind::Undefined | ValueKind::None => Value::Null,
        ValueKind::Bool => Value::Bool(value.is_true()),
        ValueKind::Number => match (value.as_i64(), u64::try_from(value.clone())) {
            (Some(whole), _) if value.is_integer() => whole.into(),
            (None, Ok(whole)) if value.is_integer() => whole.into(),
            _ => f64::try_from(value.clone())?.into(),
        },
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.map(|item| to_json(&item)).collect::<Result<Vec<_>, _>>()?.into()
        }
        ValueKind::Map => {
            let mut fields = serde_json::Map::new();
            for key in value.try_iter()? {
                fields.insert(key.to_string(), to_json(&value.get_item(&key)?)?);
            }
            fields.into()
        }
        _ => Value::String(value.to_string()),
    })
}

/// The inside of a text that is nothing but one `{{ … }}`.
fn single_expression(text: &str) -> Option<&str> {
    let inside = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inside.contains("{{") && !inside.contains("}}") && !inside.contains("{%")).then_some(inside.trim())
}

/// The variables that the texts of a template use and that are not among `known`, or why it is not a template.
pub(super) fn unknown_variable(template: &Value, known: &[&str]) -> Result<Option<String>, String> {
    match template {
        Value::String(text) => unknown_text_variable(text, known),
        Value::Array(items) => first_unknown(items.iter(), known),
        Value::Object(fields) => first_unknown(fields.values(), known),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(None),
    }
}

fn first_unknown<'a>(
    mut templates: impl Iterator<Item = &'a Value>,
    known: &[&str],
) -> Result<Option<String>, String> {
    templates.find_map(|one| unknown_variable(one, known).transpose()).transpose()
}

fn unknown_text_variable(text: &str, known: &[&str]) -> Result<Option<String>, String> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Lenient);
    templates.add_template("template", text).map_err(|error| error.to_string())?;
    let template = templates.get_template("template").map_err(|error| error.to_string())?;
    let mut unknown: Vec<String> = template
        .undeclared_variables(false)
        .into_iter()
        .filter(|name| !known.contains(&name.as_str()))
        .collect();
    unknown.sort();
    Ok(unknown.into_iter().next())
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "a table reads better without borrows")]
    fn check(template: Value, expected: Value) {
        let variables = json!({ "question": "그 \"말\"", "values": { "list": [1, { "a": null }], "n": 3 } });
        assert_eq!(render_json(&template, &variables).expect("rendered"), expected, "{template}");
    }

    #[test]
    fn one_expression_keeps_its_type_and_text_is_never_json() {
        check(json!("{{ values.list }}"), json!([1, { "a": null }]));
        check(json!({ "q": "{{ question }}", "n": "{{ values.n }}" }), json!({ "q": "그 \"말\"", "n": 3 }));
        check(json!("n is {{ values.n }}"), json!("n is 3"));
        check(json!("{{ question }} {{ values.n }}"), json!("그 \"말\" 3"));
        check(json!(["{{ values.missing }}", true, null]), json!([null, true, null]));
    }

    #[test]
    fn a_variable_that_is_not_there_is_found_anywhere() {
        let known = ["question", "values"];
        let unknown = |template: Value| unknown_variable(&template, &known);
        assert_eq!(
            unknown(json!({ "a": ["{{ question }}", { "b": "{{ item.id }}" }] })),
            Ok(Some("item".into()))
        );
        assert_eq!(unknown(json!("{{ values.a }} {{ question }}")), Ok(None));
        assert!(unknown(json!("{{ values.")).is_err());
    }
}
