//! `calculator`: exact arithmetic for models, which are bad at it.
//!
//! Whole numbers and decimals are exact, whatever their size; what cannot be exact says how many digits it shows. An
//! expression has limits (length, depth, size of numbers, work), so every one ends at once, and in a number or in a
//! sentence that says what is wrong: never in "infinity" or "not a number". 원, 만 and 억 are understood. Dates belong to
//! `get_current_datetime`.

mod evaluate;
mod functions;
mod lexer;
mod number;

use std::time::Duration;

use async_trait::async_trait;
use doran_llm::{TextOrigin, ToolSpec};
use doran_retrieval::Language;
use serde_json::{Value, json};

use super::tool_permit::ERROR_PREFIX;
use super::{Tool, ToolCallContext, ToolError, ToolInfo, ToolOutput, ToolSideEffect, names};

/// The most bytes of an expression.
const MAX_EXPRESSION_BYTES: usize = 1024;

/// The code of an expression that cannot be read.
const SYNTAX_ERROR: &str = "syntax";

/// The tool.
#[derive(Debug)]
pub struct Calculator {
    info: ToolInfo,
}

impl Calculator {
    /// One that is ready.
    pub fn new() -> Self {
        let description = "Computes an arithmetic expression exactly: + - * / // ^ % ! ( ), percent (2400000*15%; 50+10% is 55), \
            sqrt cbrt root abs round(x,digits) floor ceil min max sum avg median gcd lcm mod pow exp ln log(x,base) \
            sin cos tan (radians; 30° for degrees) factorial comb perm pi e, Korean numbers and money (3만5천원, 1억 2천만). \
            Use it for every calculation instead of computing yourself.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "expression": { "type": "string", "minLength": 1, "maxLength": MAX_EXPRESSION_BYTES, "description": "The expression, such as 123 * 456" },
            },
            "required": ["expression"],
            "additionalProperties": false,
        });
        let about = ToolInfo {
            spec: ToolSpec { name: names::CALCULATOR.into(), description: description.into(), parameters },
            ko: "수식을 정확하게 계산합니다. 퍼센트와 만·억 단위의 돈도 계산합니다.".into(),
            en: "Computes expressions exactly, with percent and Korean money.".into(),
            side_effect: ToolSideEffect::ReadOnly,
            outward: false,
            origin: TextOrigin::Tool,
            timeout: Duration::from_secs(2),
            max_output_bytes: 16 * 1024,
        };
        Self { info: about }
    }
}

impl Default for Calculator {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for Calculator {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, arguments: Value, call: ToolCallContext<'_>) -> Result<ToolOutput, ToolError> {
        let expression = arguments.get("expression").and_then(Value::as_str).unwrap_or_default();
        let answer =
            calculate(expression).map_err(|error| ToolError::BadArguments(error.to_text(call.language)))?;
        let data = json!({ "value": answer.value, "unit": answer.unit, "rounded": answer.digits.is_some(), "fraction": answer.fraction });
        Ok(ToolOutput { text: answer.to_text(call.language), data, ..ToolOutput::default() })
    }
}

/// What an expression comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalculatorAnswer {
    /// The number.
    pub value: String,
    /// What it counts: `원`.
    pub unit: Option<&'static str>,
    /// The significant digits that are shown, if some are missing.
    pub digits: Option<usize>,
    /// The fraction that it is exactly, if that is short.
    pub fraction: Option<String>,
    notes: Vec<CalculatorNote>,
}

/// Computes `expression`.
pub fn calculate(expression: &str) -> Result<CalculatorAnswer, CalculatorError> {
    if expression.len() > MAX_EXPRESSION_BYTES {
        return Err(CalculatorError::TooLong);
    }
    if contains_date(expression) {
        return Err(CalculatorError::Date);
    }
    let tokens = lexer::tokenize(expression)?;
    let (value, notes) = evaluate::evaluate(&tokens)?;
    let written = value.number.to_decimal();
    Ok(CalculatorAnswer {
        value: written.text,
        unit: value.won.then_some("원"),
        digits: written.digits,
        fraction: written.fraction,
        notes,
    })
}

/// Whether `2026-01-31` stands in it, which as a difference of numbers is never meant.
fn contains_date(expression: &str) -> bool {
    let is_number = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
    let bytes = expression.as_bytes();
    bytes.windows(10).enumerate().any(|(at, date)| {
        let alone = |beside: Option<&u8>| beside.is_none_or(|byte| !byte.is_ascii_digit() && *byte != b'.');
        is_number(&date[..4])
            && is_number(&date[5..7])
            && is_number(&date[8..])
            && date[4] == b'-'
            && date[7] == b'-'
            && matches!((date[5], date[8]), (b'0' | b'1', b'0'..=b'3'))
            && alone(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && alone(bytes.get(at + 10))
    })
}

impl CalculatorAnswer {
    /// The answer as the model reads it: just the number if that is all there is to say.
    pub fn to_text(&self, language: Language) -> String {
        let mut words = match (self.unit, language) {
            (None, _) => self.value.clone(),
            (Some(unit), Language::Korean) => format!("{}{unit}", with_separators(&self.value)),
            (Some(_), Language::English) => format!("{} won", with_separators(&self.value)),
        };
        let mut notes: Vec<String> = Vec::new();
        if let Some(fraction) = &self.fraction {
            notes.push(language.pick(format!("정확한 값 {fraction}"), format!("exactly {fraction}")));
        }
        if let Some(digits) = self.digits {
            notes.push(language.pick(
                format!("반올림, 유효숫자 {digits}자리"),
                format!("rounded to {digits} significant digits"),
            ));
        }
        notes.extend(self.notes.iter().map(|note| note.to_text(language).to_owned()));
        if !notes.is_empty() {
            words += &format!(" ({})", notes.join("; "));
        }
        words
    }
}

/// A decimal with a comma before every three digits of its whole part, as amounts of money are written.
fn with_separators(decimal: &str) -> String {
    let start = decimal.find(|char: char| char.is_ascii_digit()).unwrap_or(0);
    let end =
        decimal[start..].find(|char: char| !char.is_ascii_digit()).map_or(decimal.len(), |at| start + at);
    let mut text = decimal.to_owned();
    for at in (start + 1..end).rev().filter(|at| (end - at).is_multiple_of(3)) {
        text.insert(at, ',');
    }
    text
}

/// How something was understood that others understand otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CalculatorNote {
    PercentOfLeft,
    LogIsBaseTen,
    AnglesAreRadians,
}

impl CalculatorNote {
    fn to_text(self, language: Language) -> &'static str {
        match self {
            Self::PercentOfLeft => language
                .pick("+/- 뒤의 %는 앞 값의 비율로 계산", "% after + or - is taken of the value before it"),
            Self::LogIsBaseTen => language.pick("log는 밑이 10", "log is base 10"),
            Self::AnglesAreRadians => {
                language.pick("각도는 라디안, 도는 30°처럼", "angles are radians; write 30° for degrees")
            }
        }
    }
}

/// Why an expression has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalculatorError {
    /// It is longer than 1,024 bytes.
    TooLong,
    /// It is nested deeper than 64.
    TooDeep,
    /// It ends where a number should be.
    Unfinished,
    /// A character that means nothing here.
    UnknownCharacter(String),
    /// A name that means nothing here.
    UnknownName(String),
    /// A sign where there should be none.
    Unexpected(char),
    /// Two values without a sign between them.
    MissingSign,
    /// Commas that do not group by three.
    Grouping,
    /// Korean steps that do not descend.
    KoreanUnitOrder(char),
    /// `7 % -3`
    PercentOrModulo,
    /// An amount of money where only a number makes sense.
    UnitMismatch,
    /// A date, which is not counted with here.
    Date,
    /// A function with the wrong number or kind of arguments: its name, what it takes.
    Arguments(String, &'static str),
    /// Outside of what a function is defined for: its name, what it takes.
    OutOfRange(&'static str, &'static str),
    /// A function that has no value at this place.
    NotDefined(&'static str),
    /// By zero.
    DividedByZero,
    /// The answer is not a real number.
    NotReal,
    /// The numbers get too large.
    Overflow,
}

/// Why the calculator gave no value, as its result says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalculatorFailure<'a> {
    /// Whether the expression could not be read.
    pub is_syntax: bool,
    /// What is wrong and what to do about it.
    pub reason: &'a str,
}

impl<'a> CalculatorFailure<'a> {
    /// Reads the first line of a failed result, `Error: syntax: …`; none where it names no code.
    pub fn parse(line: &'a str) -> Option<Self> {
        let (code, reason) = line.strip_prefix(ERROR_PREFIX)?.split_once(": ")?;
        let is_code = code.chars().all(|char| char.is_ascii_lowercase() || char == '_');
        is_code.then_some(Self { is_syntax: code == SYNTAX_ERROR, reason })
    }
}

impl CalculatorError {
    /// What kind of error it is, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::TooDeep => "too_deep",
            Self::Unfinished
            | Self::UnknownCharacter(_)
            | Self::UnknownName(_)
            | Self::Unexpected(_)
            | Self::MissingSign
            | Self::Grouping
            | Self::KoreanUnitOrder(_)
            | Self::Arguments(..) => SYNTAX_ERROR,
            Self::PercentOrModulo => "ambiguous",
            Self::UnitMismatch | Self::Date => "units",
            Self::OutOfRange(..) => "range",
            Self::NotDefined(_) => "undefined",
            Self::DividedByZero => "division_by_zero",
            Self::NotReal => "not_real",
            Self::Overflow => "overflow",
        }
    }

    /// What is wrong and what to do about it, after the [code](Self::code).
    pub fn to_text(&self, language: Language) -> String {
        let (ko, en) = match self {
            Self::TooLong => (
                format!("식이 너무 깁니다 (최대 {MAX_EXPRESSION_BYTES}바이트)"),
                format!("the expression is too long (at most {MAX_EXPRESSION_BYTES} bytes)"),
            ),
            Self::TooDeep => (
                format!("괄호가 너무 깊습니다 (최대 {})", evaluate::MAX_NESTING_DEPTH),
                format!("nested too deep (at most {})", evaluate::MAX_NESTING_DEPTH),
            ),
            Self::Unfinished => ("식이 끝나지 않았습니다".into(), "the expression is not finished".into()),
            Self::UnknownCharacter(what) => {
                (format!("알 수 없는 글자 `{what}`"), format!("unknown character `{what}`"))
            }
            Self::UnknownName(name) => (
                format!("`{name}`은(는) 아는 함수나 상수가 아닙니다"),
                format!("`{name}` is not a known function or constant"),
            ),
            Self::Unexpected(sign) => {
                (format!("여기에 `{sign}`이(가) 올 수 없습니다"), format!("`{sign}` cannot stand here"))
            }
            Self::MissingSign => (
                "두 값 사이에 기호가 없습니다. 곱셈이면 *를 쓰세요".into(),
                "there is no sign between two values; write * to multiply".into(),
            ),
            Self::Grouping => (
                "쉼표는 세 자리마다 씁니다 (1,234,567)".into(),
                "commas group by three digits (1,234,567)".into(),
            ),
            Self::KoreanUnitOrder(step) => (
                format!("`{step}`의 자리가 맞지 않습니다 (3만5천, 1억 2천만처럼)"),
                format!("`{step}` is out of order (as in 3만5천, 1억 2천만)"),
            ),
            Self::PercentOrModulo => (
                "나머지면 mod(7, -3), 퍼센트면 (7%)-3처럼 쓰세요".into(),
                "write mod(7, -3) for the remainder or (7%)-3 for percent".into(),
            ),
            Self::UnitMismatch => (
                "돈을 돈과 곱하거나 거듭제곱할 수 없습니다".into(),
                "money cannot be multiplied with money or raised to powers".into(),
            ),
            Self::Date => (
                "날짜는 여기서 셈하지 않습니다. get_current_datetime의 add_days를 쓰세요".into(),
                "dates are not counted with here; use add_days of get_current_datetime".into(),
            ),
            Self::Arguments(name, takes) => {
                (format!("`{name}`의 인자: {takes}"), format!("`{name}` takes: {takes}"))
            }
            Self::OutOfRange(name, takes) => {
                (format!("`{name}`의 범위: {takes}"), format!("`{name}` takes {takes}"))
            }
            Self::NotDefined(name) => {
                (format!("이 값에서 `{name}`은(는) 정의되지 않습니다"), format!("`{name}` has no value here"))
            }
            Self::DividedByZero => ("0으로 나눌 수 없습니다".into(), "cannot divide by zero".into()),
            Self::NotReal => ("실수 값이 없습니다".into(), "there is no real answer".into()),
            Self::Overflow => (
                "수가 너무 큽니다 (약 4,900자리까지)".into(),
                "the numbers get too large (up to about 4,900 digits)".into(),
            ),
        };
        format!("{}: {}", self.code(), language.pick(ko, en))
    }
}

#[cfg(test)]
mod tests;
