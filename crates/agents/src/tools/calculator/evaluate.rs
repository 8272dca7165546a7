//! From tokens to a value: a Pratt parser that computes as it reads.
//!
//! Tightest first: `!` `%` `²` units after a value; `^` (to the right, and before a sign: `-2^2` is −4); signs and `√`;
//! `* / // mod`; `+ -`. A percent directly after `+` or `-` is of what stands before: `50+10%` is 55.

use super::functions::{self, call_function};
use super::lexer::{CalculatorToken, CalculatorTokenKind};
use super::number::CalculatorNumber;
use super::{CalculatorError, CalculatorNote};

/// How deep an expression may be nested.
pub(super) const MAX_NESTING_DEPTH: usize = 64;
/// How much work an expression may be: products of sizes in 64-bit words, summed over its operations.
const MAX_WORK_UNITS: u64 = 20_000_000;

/// A number with what it counts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CalculatorValue {
    pub(super) number: CalculatorNumber,
    /// Whether it is an amount of 원.
    pub(super) won: bool,
    /// It was written as a percentage, so `+` and `-` take it of their other side.
    pub(super) percent: bool,
}

/// Whether a sum of these is an amount of 원; a bare number takes the unit of the others.
pub(super) fn combined_unit(values: &[CalculatorValue]) -> bool {
    values.iter().any(|value| value.won)
}

/// The value of an expression.
pub(super) fn evaluate(
    tokens: &[CalculatorToken],
) -> Result<(CalculatorValue, Vec<CalculatorNote>), CalculatorError> {
    let mut parser = ExpressionParser { tokens, position: 0, depth: 0, work: 0, notes: Vec::new() };
    let value = parser.expression(0)?;
    match parser.peek() {
        None => Ok((value, parser.notes)),
        Some(
            CalculatorTokenKind::Number(_)
            | CalculatorTokenKind::Name(_)
            | CalculatorTokenKind::Sign('(' | '√'),
        ) => Err(CalculatorError::MissingSign),
        Some(CalculatorTokenKind::Sign(sign)) => Err(CalculatorError::Unexpected(*sign)),
    }
}

struct ExpressionParser<'a> {
    tokens: &'a [CalculatorToken],
    position: usize,
    depth: usize,
    work: u64,
    notes: Vec<CalculatorNote>,
}

impl ExpressionParser<'_> {
    fn peek(&self) -> Option<&CalculatorTokenKind> {
        self.tokens.get(self.position).map(|token| &token.kind)
    }

    fn sign(&self) -> Option<char> {
        match self.peek() {
            Some(CalculatorTokenKind::Sign(sign)) => Some(*sign),
            Some(CalculatorTokenKind::Name(name)) if name == "mod" => Some('m'),
            _ => None,
        }
    }

    fn expect(&mut self, sign: char) -> Result<(), CalculatorError> {
        match self.peek() {
            Some(CalculatorTokenKind::Sign(found)) if *found == sign => {
                self.position += 1;
                Ok(())
            }
            Some(CalculatorTokenKind::Sign(found)) => Err(CalculatorError::Unexpected(*found)),
            Some(_) => Err(CalculatorError::MissingSign),
            None => Err(CalculatorError::Unfinished),
        }
    }

    fn expression(&mut self, binding: u8) -> Result<CalculatorValue, CalculatorError> {
        self.depth += 1;
        if self.depth > MAX_NESTING_DEPTH {
            return Err(CalculatorError::TooDeep);
        }
        let mut left = self.operand()?;
        while let Some(sign) = self.sign() {
            let (over, under) = match sign {
                '+' | '-' => (1, 2),
                '*' | '/' | '\\' | 'm' => (3, 4),
                '%' if self.percent_is_modulo()? => (3, 4),
                '^' => (8, 7),
                '%' | '!' | '°' => (9, 0),
                _ => break,
            };
            if over < binding {
                break;
            }
            self.position += 1;
            left = match (sign, under) {
                ('%', 0) => {
                    self.charge_work(&left.number, &left.number)?;
                    CalculatorValue {
                        number: left.number.div(&CalculatorNumber::whole(100)?)?,
                        percent: true,
                        ..left
                    }
                }
                ('!', _) => unitless(functions::factorial(&left.number)?),
                ('°', _) => {
                    unitless(left.number.mul(&functions::pi()?)?.div(&CalculatorNumber::whole(180)?)?)
                }
                _ => {
                    let right = self.expression(under)?;
                    self.combine(sign, &left, &right)?
                }
            };
        }
        self.depth -= 1;
        Ok(left)
    }

    /// `7 % 3` is what is left over; `7%` and `7% + 3` are percentages. `7 % -3` could be either and is refused.
    fn percent_is_modulo(&self) -> Result<bool, CalculatorError> {
        match self.tokens.get(self.position + 1) {
            Some(CalculatorToken { kind: CalculatorTokenKind::Sign('+' | '-'), after_space: true }) => {
                let glued = self.tokens.get(self.position + 2).is_some_and(|token| !token.after_space);
                let percent_apart = self.tokens.get(self.position).is_some_and(|token| token.after_space);
                if glued && percent_apart { Err(CalculatorError::PercentOrModulo) } else { Ok(false) }
            }
            Some(CalculatorToken {
                kind: CalculatorTokenKind::Number(_) | CalculatorTokenKind::Sign('(' | '√'),
                ..
            }) => Ok(true),
            Some(CalculatorToken { kind: CalculatorTokenKind::Name(name), .. }) => {
                Ok(name != "mod" && !is_won(name))
            }
            _ => Ok(false),
        }
    }

    fn operand(&mut self) -> Result<CalculatorValue, CalculatorError> {
        let token = self.tokens.get(self.position).ok_or(CalculatorError::Unfinished)?;
        self.position += 1;
        let value = match &token.kind {
            CalculatorTokenKind::Number(number) => unitless(CalculatorNumber::exact(number.clone())?),
            CalculatorTokenKind::Sign('(') => {
                let inner = self.expression(0)?;
                self.expect(')')?;
                CalculatorValue { percent: false, ..inner }
            }
            CalculatorTokenKind::Sign('-') => {
                let inner = self.expression(5)?;
                CalculatorValue { number: inner.number.negated(), ..inner }
            }
            CalculatorTokenKind::Sign('+') => self.expression(5)?,
            CalculatorTokenKind::Sign('√') => unitless(functions::root(&self.expression(5)?.number, 2)?),
            CalculatorTokenKind::Sign(sign) => return Err(CalculatorError::Unexpected(*sign)),
            CalculatorTokenKind::Name(name) => self.constant_or_call(name)?,
        };
        self.with_unit(value)
    }

    /// `value` and the unit that follows it, if one does.
    fn with_unit(&mut self, value: CalculatorValue) -> Result<CalculatorValue, CalculatorError> {
        match self.peek() {
            Some(CalculatorTokenKind::Name(name)) if is_won(name) => {}
            _ => return Ok(value),
        }
        self.position += 1;
        if value.won {
            Err(CalculatorError::UnitMismatch)
        } else {
            Ok(CalculatorValue { won: true, ..value })
        }
    }

    fn constant_or_call(&mut self, name: &str) -> Result<CalculatorValue, CalculatorError> {
        match name {
            "pi" | "π" | "파이" | "원주율" => return Ok(unitless(functions::pi()?)),
            "tau" => return Ok(unitless(functions::pi()?.mul(&CalculatorNumber::whole(2)?)?)),
            "e" => return Ok(unitless(functions::e()?)),
            _ => {}
        }
        if self.sign() != Some('(') {
            return Err(CalculatorError::UnknownName(name.chars().take(40).collect()));
        }
        self.position += 1;
        let mut arguments = Vec::new();
        if self.sign() != Some(')') {
            loop {
                arguments.push(self.expression(0)?);
                if self.sign() != Some(',') {
                    break;
                }
                self.position += 1;
            }
        }
        self.expect(')')?;
        for argument in &arguments {
            self.charge_work(&argument.number, &argument.number)?;
        }
        call_function(name, &arguments, &mut self.notes)
    }

    fn combine(
        &mut self,
        sign: char,
        left: &CalculatorValue,
        right: &CalculatorValue,
    ) -> Result<CalculatorValue, CalculatorError> {
        self.charge_work(&left.number, &right.number)?;
        let (a, b) = (&left.number, &right.number);
        let (number, won) = match sign {
            '+' | '-' if right.percent && !left.percent => {
                self.note(CalculatorNote::PercentOfLeft);
                let share = a.mul(b)?;
                (if sign == '+' { a.add(&share)? } else { a.sub(&share)? }, left.won)
            }
            '+' | '-' => {
                let number = if sign == '+' { a.add(b)? } else { a.sub(b)? };
                let percent = left.percent && right.percent;
                return Ok(CalculatorValue { number, won: left.won || right.won, percent });
            }
            '*' if left.won && right.won => return Err(CalculatorError::UnitMismatch),
            '*' => (a.mul(b)?, left.won || right.won),
            '/' | '\\' if right.won && !left.won => return Err(CalculatorError::UnitMismatch),
            '/' => (a.div(b)?, left.won && !right.won),
            '\\' => (a.floor_div(b)?, left.won && !right.won),
            '^' if left.won || right.won => return Err(CalculatorError::UnitMismatch),
            '^' => (functions::power(a, b)?, false),
            _ => (a.modulo(b)?, left.won || right.won),
        };
        Ok(CalculatorValue { number, won, percent: false })
    }

    fn note(&mut self, note: CalculatorNote) {
        add_note(&mut self.notes, note);
    }

    fn charge_work(&mut self, a: &CalculatorNumber, b: &CalculatorNumber) -> Result<(), CalculatorError> {
        let words = |number: &CalculatorNumber| number.size_in_bits() / 64 + 1;
        // Fractions are reduced, which takes a step for every bit.
        let is_whole = |number: &CalculatorNumber| number.as_exact().is_none_or(|value| value.is_integer());
        let reduced = if is_whole(a) && is_whole(b) { 1 } else { 64 };
        self.work = self.work.saturating_add(words(a) * words(b) * reduced);
        if self.work > MAX_WORK_UNITS { Err(CalculatorError::Overflow) } else { Ok(()) }
    }
}

pub(super) fn add_note(notes: &mut Vec<CalculatorNote>, note: CalculatorNote) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

pub(super) fn unitless(number: CalculatorNumber) -> CalculatorValue {
    CalculatorValue { number, won: false, percent: false }
}

fn is_won(name: &str) -> bool {
    matches!(name, "원" | "won" | "krw")
}
