//! A value against the rules, within a budget.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::references::escaped;
use super::{
    JSON_TYPES, JsonType, NumberBound, SchemaNode, SchemaNodeId, SchemaRule, SchemaViolation, canonical,
};

/// The most steps of one check: a rule is one, and so is a property of an object.
const MAX_STEPS: usize = 1_000_000;

/// What a pattern costs. The worst patterns within the limit of their size take ten microseconds a byte.
const PATTERN_STEPS_PER_BYTE: usize = 4;

/// The most rules within rules. A value is at most 128 levels deep, and each may lead through a few references.
const MAX_DEPTH: usize = 640;

/// What is wrong with a value, the first `most` findings.
pub(super) fn violations(nodes: &[SchemaNode], value: &Value, max: usize) -> Vec<SchemaViolation> {
    let mut check = SchemaCheck { nodes, steps: 0, depth: 0, at: Vec::new(), found: Vec::new(), max };
    if check.node(0, value).is_err() {
        check.found.truncate(max.saturating_sub(1));
        let what = "it cannot be checked: the schema asks for too much work".to_owned();
        check.found.push(SchemaViolation { place: String::new(), what });
    }
    check.found
}

/// The budget is spent.
struct BudgetSpent;

type FitsWithinBudget = Result<bool, BudgetSpent>;

struct SchemaCheck<'a> {
    nodes: &'a [SchemaNode],
    steps: usize,
    depth: usize,
    /// The way to the value at hand.
    at: Vec<PathStep<'a>>,
    found: Vec<SchemaViolation>,
    max: usize,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Property(&'a str),
    Item(usize),
}

impl<'a> SchemaCheck<'a> {
    /// Whether all rules of a node hold; what is wrong is noted.
    fn node(&mut self, id: SchemaNodeId, value: &'a Value) -> FitsWithinBudget {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(BudgetSpent);
        }
        self.spend(1)?;
        let mut fits = true;
        for rule in &self.nodes[id] {
            self.spend(1)?;
            fits &= self.rule(rule, value)?;
            // Enough is known.
            if !fits && self.found.len() >= self.max {
                break;
            }
        }
        self.depth -= 1;
        Ok(fits)
    }

    /// Whether a node holds; nothing is noted.
    fn holds(&mut self, id: SchemaNodeId, value: &'a Value) -> FitsWithinBudget {
        Ok(self.quietly(id, value, 0)?.0)
    }

    /// Whether a node holds, and the first findings if not.
    fn quietly(
        &mut self,
        id: SchemaNodeId,
        value: &'a Value,
        limit: usize,
    ) -> Result<(bool, Vec<SchemaViolation>), BudgetSpent> {
        let (found, before) = (std::mem::take(&mut self.found), std::mem::replace(&mut self.max, limit));
        let fits = self.node(id, value)?;
        self.max = before;
        Ok((fits, std::mem::replace(&mut self.found, found)))
    }

    fn deeper(&mut self, step: PathStep<'a>, id: SchemaNodeId, value: &'a Value) -> FitsWithinBudget {
        self.at.push(step);
        let fits = self.node(id, value)?;
        self.at.pop();
        Ok(fits)
    }

    fn spend(&mut self, steps: usize) -> Result<(), BudgetSpent> {
        self.steps += steps;
        if self.steps > MAX_STEPS { Err(BudgetSpent) } else { Ok(()) }
    }

    fn note(&mut self, what: impl FnOnce() -> String) -> FitsWithinBudget {
        if self.found.len() < self.max {
            let step = |step: &PathStep<'_>| match step {
                PathStep::Property(name) => format!("/{}", escaped(name)),
                PathStep::Item(at) => format!("/{at}"),
            };
            let place: String = self.at.iter().map(step).collect();
            self.found.push(SchemaViolation { place, what: what() });
        }
        Ok(false)
    }

    fn rule(&mut self, rule: &'a SchemaRule, value: &'a Value) -> FitsWithinBudget {
        match rule {
            SchemaRule::Never => self.note(|| "nothing is allowed here".into()),
            SchemaRule::Types(types) if !types.iter().any(|kind| is_of(value, *kind)) => {
                let name = |kind: &JsonType| {
                    JSON_TYPES.iter().find(|(known, _)| known == kind).map(|(_, name)| *name)
                };
                let names: Vec<String> =
                    types.iter().filter_map(name).map(|name| format!("\"{name}\"")).collect();
                self.note(|| format!("it is not of type {}", names.join(" or ")))
            }
            SchemaRule::OneOf(values, listed) => {
                let text = canonical(value);
                self.spend(text.len() / 16)?;
                if values.contains(&text) {
                    Ok(true)
                } else {
                    self.note(|| format!("it is not one of {listed}"))
                }
            }
            SchemaRule::Also(id) => self.node(*id, value),
            SchemaRule::AnyOf(several) => self.any(several, value),
            SchemaRule::ExactlyOne(several) => self.exactly_one(several, value),
            SchemaRule::Not(id) => match self.holds(*id, value)? {
                true => self.note(|| "it is what `not` excludes".into()),
                false => Ok(true),
            },
            SchemaRule::If { condition, then, otherwise } => {
                let next = if self.holds(*condition, value)? { then } else { otherwise };
                next.map_or(Ok(true), |id| self.node(id, value))
            }
            _ => match value {
                Value::Number(number) => self.number(rule, number),
                Value::String(text) => self.text(rule, text),
                Value::Array(items) => self.array(rule, items),
                Value::Object(fields) => self.object(rule, value, fields),
                Value::Null | Value::Bool(_) => Ok(true),
            },
        }
    }

    fn any(&mut self, several: &'a [SchemaNodeId], value: &'a Value) -> FitsWithinBudget {
        let mut reasons = Vec::new();
        for id in several {
            let (fits, found) = self.quietly(*id, value, 1)?;
            if fits {
                return Ok(true);
            }
            reasons.extend(found);
        }
        self.none_of(&reasons)
    }

    fn exactly_one(&mut self, several: &'a [SchemaNodeId], value: &'a Value) -> FitsWithinBudget {
        let (mut fitting, mut reasons) = (0, Vec::new());
        for id in several {
            let (fits, found) = self.quietly(*id, value, 1)?;
            fitting += usize::from(fits);
            reasons.extend(found);
        }
        match fitting {
            0 => self.none_of(&reasons),
            1 => Ok(true),
            _ => self.note(|| format!("it fits {fitting} alternatives, and only one may fit")),
        }
    }

    fn none_of(&mut self, reasons: &[SchemaViolation]) -> FitsWithinBudget {
        let reasons: Vec<String> = reasons.iter().take(4).map(ToString::to_string).collect();
        self.note(|| format!("it fits none of the alternatives ({})", reasons.join(", ")))
    }

    fn number(&mut self, rule: &SchemaRule, number: &Number) -> FitsWithinBudget {
        match rule {
            SchemaRule::Least(limit, bound) if !beyond(compare(number, limit), Ordering::Greater, *bound) => {
                self.note(|| match bound {
                    NumberBound::Inclusive => format!("it is less than the minimum of {limit}"),
                    NumberBound::Exclusive => format!("it is not greater than {limit}"),
                })
            }
            SchemaRule::Most(limit, bound) if !beyond(compare(number, limit), Ordering::Less, *bound) => self
                .note(|| match bound {
                    NumberBound::Inclusive => format!("it is greater than the maximum of {limit}"),
                    NumberBound::Exclusive => format!("it is not less than {limit}"),
                }),
            SchemaRule::MultipleOf(factor) if !is_multiple(number, factor) => {
                self.note(|| format!("it is not a multiple of {factor}"))
            }
            _ => Ok(true),
        }
    }

    fn text(&mut self, rule: &SchemaRule, text: &str) -> FitsWithinBudget {
        self.spend(text.len() / 64)?;
        let length = || text.chars().count() as u64;
        match rule {
            SchemaRule::MinLength(min) if length() < *min => {
                self.note(|| format!("it is shorter than {min} characters"))
            }
            SchemaRule::MaxLength(max) if length() > *max => {
                self.note(|| format!("it is longer than {max} characters"))
            }
            SchemaRule::Pattern(regex, pattern) => {
                self.spend(PATTERN_STEPS_PER_BYTE * text.len())?;
                if regex.is_match(text) {
                    Ok(true)
                } else {
                    self.note(|| format!("it does not match `{pattern}`"))
                }
            }
            _ => Ok(true),
        }
    }

    fn array(&mut self, rule: &'a SchemaRule, items: &'a [Value]) -> FitsWithinBudget {
        let count = items.len() as u64;
        match rule {
            SchemaRule::MinItems(min) if count < *min => {
                self.note(|| format!("it has fewer than {min} items"))
            }
            SchemaRule::MaxItems(max) if count > *max => {
                self.note(|| format!("it has more than {max} items"))
            }
            SchemaRule::UniqueItems => {
                let mut seen = HashSet::new();
                let mut unique = true;
                for item in items {
                    let text = canonical(item);
                    self.spend(1 + text.len() / 16)?;
                    unique &= seen.insert(text);
                }
                if unique { Ok(true) } else { self.note(|| "it has an item twice".into()) }
            }
            SchemaRule::Items { first, rest } => {
                let mut fits = true;
                for (at, item) in items.iter().enumerate() {
                    if let Some(id) = first.get(at).or(rest.as_ref()) {
                        fits &= self.deeper(PathStep::Item(at), *id, item)?;
                    }
                    if !fits && self.found.len() >= self.max {
                        break;
                    }
                }
                Ok(fits)
            }
            SchemaRule::Contains { node, min, max } => {
                let mut fitting = 0;
                for item in items {
                    fitting += u64::from(self.holds(*node, item)?);
                }
                if fitting < *min {
                    return self.note(|| format!("fewer than {min} of its items are as `contains` asks"));
                }
                match max {
                    Some(max) if fitting > *max => {
                        self.note(|| format!("more than {max} of its items are as `contains` asks"))
                    }
                    _ => Ok(true),
                }
            }
            _ => Ok(true),
        }
    }

    fn object(
        &mut self,
        rule: &'a SchemaRule,
        value: &'a Value,
        fields: &'a Map<String, Value>,
    ) -> FitsWithinBudget {
        self.spend(fields.len())?;
        let count = fields.len() as u64;
        match rule {
            SchemaRule::MinProperties(min) if count < *min => {
                self.note(|| format!("it has fewer than {min} properties"))
            }
            SchemaRule::MaxProperties(max) if count > *max => {
                self.note(|| format!("it has more than {max} properties"))
            }
            SchemaRule::Required(names) => self.requires(names, fields),
            SchemaRule::Requires(name, names) if fields.contains_key(name) => self.requires(names, fields),
            SchemaRule::Implies(name, id) if fields.contains_key(name) => self.node(*id, value),
            SchemaRule::PropertyNames(id) => {
                for name in fields.keys() {
                    // The name is a value of its own here.
                    let text = Value::from(name.as_str());
                    let SchemaCheck { nodes, steps, depth, .. } = *self;
                    let mut inner =
                        SchemaCheck { nodes, steps, depth, at: Vec::new(), found: Vec::new(), max: 1 };
                    let fits = inner.node(*id, &text)?;
                    let reason = inner.found.pop();
                    self.steps = inner.steps;
                    if !fits {
                        let reason = reason.map_or_else(String::new, |reason| format!(": {}", reason.what));
                        return self.note(|| {
                            format!("a property cannot have the name '{}'{reason}", shortened(name))
                        });
                    }
                }
                Ok(true)
            }
            SchemaRule::Properties { named, patterns, rest } => {
                let mut fits = true;
                for (name, value) in fields {
                    let step = PathStep::Property(name);
                    let mut known = false;
                    if let Some(id) = named.get(name) {
                        known = true;
                        fits &= self.deeper(step, *id, value)?;
                    }
                    for (regex, id) in patterns {
                        self.spend(1 + PATTERN_STEPS_PER_BYTE * name.len())?;
                        if regex.is_match(name) {
                            known = true;
                            fits &= self.deeper(step, *id, value)?;
                        }
                    }
                    match rest.filter(|_| !known) {
                        Some(id) if matches!(self.nodes[id][..], [SchemaRule::Never]) => {
                            fits = self.note(|| {
                                format!(
                                    "Additional properties are not allowed ('{}' was unexpected)",
                                    shortened(name)
                                )
                            })?;
                        }
                        Some(id) => fits &= self.deeper(step, id, value)?,
                        None => {}
                    }
                    if !fits && self.found.len() >= self.max {
                        break;
                    }
                }
                Ok(fits)
            }
            _ => Ok(true),
        }
    }

    fn requires(&mut self, names: &[String], fields: &Map<String, Value>) -> FitsWithinBudget {
        self.spend(names.len())?;
        let mut fits = true;
        for name in names {
            if !fields.contains_key(name) {
                fits = self.note(|| format!("\"{name}\" is a required property"))?;
            }
        }
        Ok(fits)
    }
}

/// The beginning of a name that a model made up.
fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(100)]
}

fn is_of(value: &Value, kind: JsonType) -> bool {
    match (value, kind) {
        (Value::Null, JsonType::Null)
        | (Value::Bool(_), JsonType::Boolean)
        | (Value::Number(_), JsonType::Number)
        | (Value::String(_), JsonType::String)
        | (Value::Array(_), JsonType::Array)
        | (Value::Object(_), JsonType::Object) => true,
        (Value::Number(number), JsonType::Integer) => {
            !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
        }
        _ => false,
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Whole numbers are compared as such: a float has no place for all their digits.
fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

fn beyond(found: Option<Ordering>, wanted: Ordering, bound: NumberBound) -> bool {
    found == Some(wanted) || (bound == NumberBound::Inclusive && found == Some(Ordering::Equal))
}

/// 4.35 is a multiple of 0.01, although their floats do not divide.
fn is_multiple(number: &Number, factor: &Number) -> bool {
    if let (Some(number), Some(factor)) = (whole(number), whole(factor)) {
        return number % factor == 0;
    }
    let (Some(number), Some(factor)) = (number.as_f64(), factor.as_f64()) else { return false };
    let times = number / factor;
    times.is_finite() && (times - times.round()).abs() <= 1e-9 * times.abs().max(1e-3)
}
