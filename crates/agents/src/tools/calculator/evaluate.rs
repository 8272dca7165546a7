//! From tokens to a value: a Pratt parser that computes as it reads.
//!
//! Tightest first: `!` `%` `²` units after a value; `^` (to the right, and before a sign: `-2^2` is −4); signs and `√`;
//! `* / // mod`; `+ -`. A percent directly after `+` or `-` is of what stands before: `50+10%` is 55.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::One;

use super::function_calls::call_function;
use super::functions as f;
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
    pub(super) unit: ValueUnit,
    /// It was written as a percentage, so `+` and `-` take it of their other side.
    pub(super) percent: bool,
}

/// What a number counts, as powers of 원 and of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ValueUnit {
    pub(super) won: i8,
    pub(super) days: i8,
}

impl ValueUnit {
    pub(super) const NONE: Self = Self { won: 0, days: 0 };

    fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// What a sum of both counts; a bare number takes the unit of the other.
    pub(super) fn combined_with(self, other: Self) -> Result<Self, CalculatorError> {
        match (self.is_none(), other.is_none()) {
            (true, _) => Ok(other),
            (_, true) => Ok(self),
            _ if self == other => Ok(self),
            _ => Err(CalculatorError::UnitMismatch),
        }
    }
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
                ('!', _) => unitless(f::factorial(&left.number)?),
                ('°', _) => unitless(left.number.mul(&f::pi()?)?.div(&CalculatorNumber::whole(180)?)?),
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
                Ok(name != "mod" && parse_unit(name).is_none())
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
            CalculatorTokenKind::Sign('√') => unitless(f::sqrt(&self.expression(5)?.number)?),
            CalculatorTokenKind::Sign(sign) => return Err(CalculatorError::Unexpected(*sign)),
            CalculatorTokenKind::Name(name) => self.constant_or_call(name)?,
        };
        self.with_unit(value)
    }

    /// `value` and the unit that follows it, if one does. `3시간 30분` is one value.
    fn with_unit(&mut self, value: CalculatorValue) -> Result<CalculatorValue, CalculatorError> {
        let Some(CalculatorTokenKind::Name(name)) = self.peek() else { return Ok(value) };
        let Some((unit, size)) = parse_unit(name) else { return Ok(value) };
        self.position += 1;
        if !value.unit.is_none() {
            return Err(CalculatorError::UnitMismatch);
        }
        let number = value.number.mul(&CalculatorNumber::exact(size)?)?;
        let value = CalculatorValue { number, unit, percent: false };
        if unit.days == 0 {
            return Ok(value);
        }
        let next = match (self.tokens.get(self.position), self.tokens.get(self.position + 1)) {
            (
                Some(CalculatorToken { kind: CalculatorTokenKind::Number(number), .. }),
                Some(CalculatorToken { kind: CalculatorTokenKind::Name(name), .. }),
            ) => self::parse_unit(name).filter(|(unit, _)| unit.days == 1).map(|(_, size)| number * size),
            _ => None,
        };
        match next {
            Some(more) => {
                self.position += 2;
                Ok(CalculatorValue { number: value.number.add(&CalculatorNumber::exact(more)?)?, ..value })
            }
            None => Ok(value),
        }
    }

    fn constant_or_call(&mut self, name: &str) -> Result<CalculatorValue, CalculatorError> {
        match name {
            "pi" | "π" | "파이" | "원주율" => return Ok(unitless(f::pi()?)),
            "tau" => return Ok(unitless(f::pi()?.mul(&CalculatorNumber::whole(2)?)?)),
            "e" => return Ok(unitless(f::e()?)),
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
        let times = |way: i8| ValueUnit {
            won: left.unit.won + way * right.unit.won,
            days: left.unit.days + way * right.unit.days,
        };
        let (number, unit) = match sign {
            '+' | '-' if right.percent && !left.percent => {
                self.note(CalculatorNote::PercentOfLeft);
                let share = a.mul(b)?;
                (if sign == '+' { a.add(&share)? } else { a.sub(&share)? }, left.unit)
            }
            '+' | '-' => {
                let number = if sign == '+' { a.add(b)? } else { a.sub(b)? };
                let percent = left.percent && right.percent;
                return Ok(CalculatorValue { number, unit: left.unit.combined_with(right.unit)?, percent });
            }
            '*' => (a.mul(b)?, times(1)),
            '/' => (a.div(b)?, times(-1)),
            '\\' => (a.floor_div(b)?, times(-1)),
            '^' => {
                if !right.unit.is_none() || !left.unit.is_none() {
                    return Err(CalculatorError::UnitMismatch);
                }
                (f::power(a, b)?, ValueUnit::NONE)
            }
            _ => (a.modulo(b)?, left.unit.combined_with(right.unit)?),
        };
        if unit.won.abs() > 4 || unit.days.abs() > 4 {
            return Err(CalculatorError::UnitMismatch);
        }
        Ok(CalculatorValue { number, unit, percent: false })
    }

    fn note(&mut self, note: CalculatorNote) {
        add_note(&mut self.notes, note);
    }

    fn charge_work(&mut self, a: &CalculatorNumber, b: &CalculatorNumber) -> Result<(), CalculatorError> {
        let words =
            |number: &CalculatorNumber| (number.value.numer().bits() + number.value.denom().bits()) / 64 + 1;
        // Fractions are reduced, which takes a step for every bit.
        let reduced = if a.is_whole() && b.is_whole() { 1 } else { 64 };
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
    CalculatorValue { number, unit: ValueUnit::NONE, percent: false }
}

/// A unit and how many of the basic one (원, days) it is.
fn parse_unit(name: &str) -> Option<(ValueUnit, BigRational)> {
    let (won, days) = (ValueUnit { won: 1, days: 0 }, ValueUnit { won: 0, days: 1 });
    let part = |below: i64| BigRational::new(BigInt::one(), below.into());
    Some(match name {
        "원" | "won" | "krw" => (won, BigRational::one()),
        "일" | "day" | "days" => (days, BigRational::one()),
        "주" | "주일" | "week" | "weeks" => (days, BigRational::from_integer(7.into())),
        "시간" | "hour" | "hours" => (days, part(24)),
        "분" | "minute" | "minutes" => (days, part(24 * 60)),
        "초" | "second" | "seconds" => (days, part(24 * 60 * 60)),
        _ => return None,
    })
}
