//! From the keywords of one part of a schema to its rules.

use regex::Regex;
use serde_json::{Map, Number, Value};

use super::references::{SchemaReader, escaped, invalid};
use super::{InvalidSchema, JSON_TYPES, NumberBound, SchemaNode, SchemaNodeId, SchemaRule, canonical};

/// The keywords of one part.
pub(super) struct SchemaKeywords<'r, 'a> {
    pub(super) place: &'r str,
    pub(super) schema: &'a Map<String, Value>,
    pub(super) reader: &'r mut SchemaReader<'a>,
    pub(super) rules: SchemaNode,
}

impl<'a> SchemaKeywords<'_, 'a> {
    fn invalid(&self, key: &str, reason: impl Into<String>) -> InvalidSchema {
        invalid(&format!("{}/{}", self.place, escaped(key)), reason)
    }

    pub(super) fn reference(&mut self) -> Result<(), InvalidSchema> {
        let Some(reference) = self.schema.get("$ref").and_then(Value::as_str) else {
            return Err(self.invalid("$ref", "it is not a string"));
        };
        let (place, value) = self.reader.target(self.place, reference)?;
        let id = self.reader.node_at(place, value);
        self.rules.push(SchemaRule::Also(id));
        Ok(())
    }

    /// The part that a keyword holds.
    fn node(&mut self, key: &str) -> Option<SchemaNodeId> {
        let value = self.schema.get(key)?;
        Some(self.reader.node_at(format!("{}/{}", self.place, escaped(key)), value))
    }

    fn list(&mut self, key: &str) -> Result<Option<Vec<SchemaNodeId>>, InvalidSchema> {
        let Some(value) = self.schema.get(key) else { return Ok(None) };
        let Some(values) = value.as_array() else { return Err(self.invalid(key, "it is not a list")) };
        let place = format!("{}/{key}", self.place);
        let node = |(at, value)| self.reader.node_at(format!("{place}/{at}"), value);
        Ok(Some(values.iter().enumerate().map(node).collect()))
    }

    fn named(&mut self, key: &str) -> Result<Vec<(&'a String, SchemaNodeId)>, InvalidSchema> {
        let Some(value) = self.schema.get(key) else { return Ok(Vec::new()) };
        let Some(values) = value.as_object() else { return Err(self.invalid(key, "it is not an object")) };
        let place = format!("{}/{key}", self.place);
        let node = |(name, value): (&'a String, &'a Value)| {
            (name, self.reader.node_at(format!("{place}/{}", escaped(name)), value))
        };
        Ok(values.iter().map(node).collect())
    }

    fn pattern(&mut self, key: &str, text: &str) -> Result<Regex, InvalidSchema> {
        self.reader.patterns.compile(text).map_err(|reason| self.invalid(key, reason))
    }

    fn count(&self, key: &str) -> Result<Option<u64>, InvalidSchema> {
        let Some(value) = self.schema.get(key) else { return Ok(None) };
        let whole = value.as_f64().filter(|float| *float >= 0.0 && float.fract() == 0.0);
        let count = value.as_u64().or(whole.map(|float| float as u64));
        count.map(Some).ok_or_else(|| self.invalid(key, "it is not a whole number from 0 on"))
    }

    fn number(&self, key: &str) -> Result<Option<&'a Number>, InvalidSchema> {
        match self.schema.get(key) {
            None | Some(Value::Bool(_)) => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(_) => Err(self.invalid(key, "it is not a number")),
        }
    }

    fn strings(&self, key: &str, value: &Value) -> Result<Vec<String>, InvalidSchema> {
        let strings = value.as_array().and_then(|values| {
            values.iter().map(|value| value.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        strings.ok_or_else(|| self.invalid(key, "it is not a list of strings"))
    }

    pub(super) fn values(&mut self) -> Result<(), InvalidSchema> {
        if let Some(value) = self.schema.get("type") {
            let single = value.as_str().map(|name| vec![name.to_owned()]);
            let names = single.map_or_else(|| self.strings("type", value), Ok)?;
            let mut types = Vec::new();
            for name in names {
                let known = JSON_TYPES.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind);
                types.push(known.ok_or_else(|| self.invalid("type", format!("there is no type `{name}`")))?);
            }
            self.rules.push(SchemaRule::Types(types));
        }
        let constant = self.schema.get("const").map(std::slice::from_ref);
        let several = match self.schema.get("enum") {
            None => None,
            Some(Value::Array(values)) => Some(values.as_slice()),
            Some(_) => return Err(self.invalid("enum", "it is not a list")),
        };
        for values in [constant, several].into_iter().flatten() {
            self.rules.push(SchemaRule::OneOf(values.iter().map(canonical).collect(), format_values(values)));
        }
        Ok(())
    }

    pub(super) fn numbers(&mut self) -> Result<(), InvalidSchema> {
        for (key, exclusive, make) in [
            ("minimum", "exclusiveMinimum", SchemaRule::Least as fn(Number, NumberBound) -> SchemaRule),
            ("maximum", "exclusiveMaximum", SchemaRule::Most),
        ] {
            // Draft 4 says with `true` that the bound itself does not count.
            let beyond = self.schema.get(exclusive) == Some(&Value::Bool(true));
            let bound = if beyond { NumberBound::Exclusive } else { NumberBound::Inclusive };
            self.rules.extend(self.number(key)?.map(|number| make(number.clone(), bound)));
            let limit = self.number(exclusive)?;
            self.rules.extend(limit.map(|number| make(number.clone(), NumberBound::Exclusive)));
        }
        if let Some(factor) = self.number("multipleOf")? {
            if factor.as_f64().is_none_or(|factor| factor <= 0.0) {
                return Err(self.invalid("multipleOf", "it is not greater than 0"));
            }
            self.rules.push(SchemaRule::MultipleOf(factor.clone()));
        }
        Ok(())
    }

    pub(super) fn sizes(&mut self) -> Result<(), InvalidSchema> {
        for (key, make) in [
            ("minLength", SchemaRule::MinLength as fn(u64) -> SchemaRule),
            ("maxLength", SchemaRule::MaxLength),
            ("minItems", SchemaRule::MinItems),
            ("maxItems", SchemaRule::MaxItems),
            ("minProperties", SchemaRule::MinProperties),
            ("maxProperties", SchemaRule::MaxProperties),
        ] {
            let count = self.count(key)?;
            self.rules.extend(count.map(make));
        }
        match self.schema.get("pattern") {
            None => {}
            Some(Value::String(text)) => {
                let regex = self.pattern("pattern", text)?;
                self.rules.push(SchemaRule::Pattern(regex, text.clone()));
            }
            Some(_) => return Err(self.invalid("pattern", "it is not a string")),
        }
        Ok(())
    }

    pub(super) fn arrays(&mut self) -> Result<(), InvalidSchema> {
        // Until 2019-09 a list in `items` was what `prefixItems` is now, and `additionalItems` what `items` is.
        let listed = self.schema.get("items").is_some_and(Value::is_array);
        let first = self.list(if listed { "items" } else { "prefixItems" })?.unwrap_or_default();
        let rest = self.node(if listed { "additionalItems" } else { "items" });
        if !first.is_empty() || rest.is_some() {
            self.rules.push(SchemaRule::Items { first, rest });
        }
        if self.schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            self.rules.push(SchemaRule::UniqueItems);
        }
        if let Some(node) = self.node("contains") {
            let min = self.count("minContains")?.unwrap_or(1);
            self.rules.push(SchemaRule::Contains { node, min, max: self.count("maxContains")? });
        }
        Ok(())
    }

    pub(super) fn objects(&mut self) -> Result<(), InvalidSchema> {
        match self.schema.get("required") {
            // A property of draft 3 says so itself.
            None | Some(Value::Bool(_)) => {}
            Some(value) => self.rules.push(SchemaRule::Required(self.strings("required", value)?)),
        }
        let named = self.named("properties")?.into_iter().map(|(name, node)| (name.clone(), node)).collect();
        let mut patterns = Vec::new();
        for (text, node) in self.named("patternProperties")? {
            let regex = self.pattern("patternProperties", text)?;
            patterns.push((regex, node));
        }
        let rest = self.node("additionalProperties");
        self.rules.push(SchemaRule::Properties { named, patterns, rest });
        let names = self.node("propertyNames");
        self.rules.extend(names.map(SchemaRule::PropertyNames));
        for key in ["dependentRequired", "dependencies"] {
            let Some(Value::Object(several)) = self.schema.get(key) else { continue };
            for (name, value) in several.iter().filter(|(_, value)| value.is_array()) {
                self.rules.push(SchemaRule::Requires(name.clone(), self.strings(key, value)?));
            }
        }
        for key in ["dependentSchemas", "dependencies"] {
            let place = format!("{}/{key}", self.place);
            let Some(Value::Object(several)) = self.schema.get(key) else { continue };
            for (name, value) in several.iter().filter(|(_, value)| !value.is_array()) {
                let node = self.reader.node_at(format!("{place}/{}", escaped(name)), value);
                self.rules.push(SchemaRule::Implies(name.clone(), node));
            }
        }
        Ok(())
    }

    pub(super) fn combinations(&mut self) -> Result<(), InvalidSchema> {
        let all = self.list("allOf")?.unwrap_or_default();
        self.rules.extend(all.into_iter().map(SchemaRule::Also));
        let any = self.list("anyOf")?;
        self.rules.extend(any.map(SchemaRule::AnyOf));
        let one = self.list("oneOf")?;
        self.rules.extend(one.map(SchemaRule::ExactlyOne));
        let not = self.node("not");
        self.rules.extend(not.map(SchemaRule::Not));
        if let Some(condition) = self.node("if") {
            let (then, otherwise) = (self.node("then"), self.node("else"));
            self.rules.push(SchemaRule::If { condition, then, otherwise });
        }
        Ok(())
    }
}

/// The values as they are shown: a few, and how many more there are.
fn format_values(values: &[Value]) -> String {
    const SHOWN: usize = 20;
    let mut shown: Vec<String> = values.iter().take(SHOWN).map(Value::to_string).collect();
    if values.len() > SHOWN {
        shown.push(format!("{} others", values.len() - SHOWN));
    }
    let last = shown.pop().unwrap_or_default();
    if shown.is_empty() { last } else { format!("{} or {last}", shown.join(", ")) }
}
