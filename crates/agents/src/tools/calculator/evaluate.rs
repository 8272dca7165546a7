//! From tokens to a value: a Pratt parser that computes as it reads.
//!
//! Tightest first: `!` `%` `²` units after a value; `^` (to the right, and before a sign: `-2^2` is −4); signs and `√`;
//! `* / // mod`; `+ -`. A percent directly after `+` or `-` is of what stands before: `50+10%` is 55.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::One;

use super::calls::call;
use super::functions as f;
use super::lex::{Kind, Token};
use super::number::Number;
use super::{Note, Trouble};

/// How deep an expression may be nested.
pub(super) const MOST_DEPTH: usize = 64;
/// How much work an expression may be: products of sizes in 64-bit words, summed over its operations.
const MOST_WORK: u64 = 20_000_000;

/// A number with what it counts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) number: Number,
    pub(super) unit: Unit,
    /// It was written as a percentage, so `+` and `-` take it of their other side.
    pub(super) percent: bool,
}

/// What a number counts, as powers of 원 and of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) won: i8,
    pub(super) days: i8,
}

impl Unit {
    pub(super) const NONE: Self = Self { won: 0, days: 0 };

    fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// What a sum of both counts; a bare number takes the unit of the other.
    pub(super) fn joined(self, other: Self) -> Result<Self, Trouble> {
        match (self.is_none(), other.is_none()) {
            (true, _) => Ok(other),
            (_, true) => Ok(self),
            _ if self == other => Ok(self),
            _ => Err(Trouble::Units),
        }
    }
}

/// The value of an expression.
pub(super) fn evaluate(tokens: &[Token]) -> Result<(Value, Vec<Note>), Trouble> {
    let mut parser = Parser { tokens, at: 0, depth: 0, work: 0, notes: Vec::new() };
    let value = parser.expression(0)?;
    match parser.peek() {
        None => Ok((value, parser.notes)),
        Some(Kind::Number(_) | Kind::Name(_) | Kind::Sign('(' | '√')) => Err(Trouble::MissingSign),
        Some(Kind::Sign(sign)) => Err(Trouble::Unexpected(*sign)),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    work: u64,
    notes: Vec<Note>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn sign(&self) -> Option<char> {
        match self.peek() {
            Some(Kind::Sign(sign)) => Some(*sign),
            Some(Kind::Name(name)) if name == "mod" => Some('m'),
            _ => None,
        }
    }

    fn expect(&mut self, sign: char) -> Result<(), Trouble> {
        match self.peek() {
            Some(Kind::Sign(found)) if *found == sign => {
                self.at += 1;
                Ok(())
            }
            Some(Kind::Sign(found)) => Err(Trouble::Unexpected(*found)),
            Some(_) => Err(Trouble::MissingSign),
            None => Err(Trouble::Unfinished),
        }
    }

    fn expression(&mut self, binding: u8) -> Result<Value, Trouble> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(Trouble::TooDeep);
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
            self.at += 1;
            left = match (sign, under) {
                ('%', 0) => {
                    self.charge(&left.number, &left.number)?;
                    Value { number: left.number.div(&Number::whole(100)?)?, percent: true, ..left }
                }
                ('!', _) => bare(f::factorial(&left.number)?),
                ('°', _) => bare(left.number.mul(&f::pi()?)?.div(&Number::whole(180)?)?),
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
    fn percent_is_modulo(&self) -> Result<bool, Trouble> {
        match self.tokens.get(self.at + 1) {
            Some(Token { kind: Kind::Sign('+' | '-'), apart: true }) => {
                let glued = self.tokens.get(self.at + 2).is_some_and(|token| !token.apart);
                let percent_apart = self.tokens.get(self.at).is_some_and(|token| token.apart);
                if glued && percent_apart { Err(Trouble::PercentOrModulo) } else { Ok(false) }
            }
            Some(Token { kind: Kind::Number(_) | Kind::Sign('(' | '√'), .. }) => Ok(true),
            Some(Token { kind: Kind::Name(name), .. }) => Ok(name != "mod" && unit(name).is_none()),
            _ => Ok(false),
        }
    }

    fn operand(&mut self) -> Result<Value, Trouble> {
        let token = self.tokens.get(self.at).ok_or(Trouble::Unfinished)?;
        self.at += 1;
        let value = match &token.kind {
            Kind::Number(number) => bare(Number::exact(number.clone())?),
            Kind::Sign('(') => {
                let inner = self.expression(0)?;
                self.expect(')')?;
                Value { percent: false, ..inner }
            }
            Kind::Sign('-') => {
                let inner = self.expression(5)?;
                Value { number: inner.number.negated(), ..inner }
            }
            Kind::Sign('+') => self.expression(5)?,
            Kind::Sign('√') => bare(f::sqrt(&self.expression(5)?.number)?),
            Kind::Sign(sign) => return Err(Trouble::Unexpected(*sign)),
            Kind::Name(name) => self.named(name)?,
        };
        self.with_unit(value)
    }

    /// `value` and the unit that follows it, if one does. `3시간 30분` is one value.
    fn with_unit(&mut self, value: Value) -> Result<Value, Trouble> {
        let Some(Kind::Name(name)) = self.peek() else { return Ok(value) };
        let Some((unit, size)) = unit(name) else { return Ok(value) };
        self.at += 1;
        if !value.unit.is_none() {
            return Err(Trouble::Units);
        }
        let number = value.number.mul(&Number::exact(size)?)?;
        let value = Value { number, unit, percent: false };
        if unit.days == 0 {
            return Ok(value);
        }
        let next = match (self.tokens.get(self.at), self.tokens.get(self.at + 1)) {
            (Some(Token { kind: Kind::Number(number), .. }), Some(Token { kind: Kind::Name(name), .. })) => {
                self::unit(name).filter(|(unit, _)| unit.days == 1).map(|(_, size)| number * size)
            }
            _ => None,
        };
        match next {
            Some(more) => {
                self.at += 2;
                Ok(Value { number: value.number.add(&Number::exact(more)?)?, ..value })
            }
            None => Ok(value),
        }
    }

    fn named(&mut self, name: &str) -> Result<Value, Trouble> {
        match name {
            "pi" | "π" | "파이" | "원주율" => return Ok(bare(f::pi()?)),
            "tau" => return Ok(bare(f::pi()?.mul(&Number::whole(2)?)?)),
            "e" => return Ok(bare(f::e()?)),
            _ => {}
        }
        if self.sign() != Some('(') {
            return Err(Trouble::UnknownName(name.chars().take(40).collect()));
        }
        self.at += 1;
        let mut arguments = Vec::new();
        if self.sign() != Some(')') {
            loop {
                arguments.push(self.expression(0)?);
                if self.sign() != Some(',') {
                    break;
                }
                self.at += 1;
            }
        }
        self.expect(')')?;
        for argument in &arguments {
            self.charge(&argument.number, &argument.number)?;
        }
        call(name, &arguments, &mut self.notes)
    }

    fn combine(&mut self, sign: char, left: &Value, right: &Value) -> Result<Value, Trouble> {
        self.charge(&left.number, &right.number)?;
        let (a, b) = (&left.number, &right.number);
        let times = |way: i8| Unit {
            won: left.unit.won + way * right.unit.won,
            days: left.unit.days + way * right.unit.days,
        };
        let (number, unit) = match sign {
            '+' | '-' if right.percent && !left.percent => {
                self.note(Note::PercentOfLeft);
                let share = a.mul(b)?;
                (if sign == '+' { a.add(&share)? } else { a.sub(&share)? }, left.unit)
            }
            '+' | '-' => {
                let number = if sign == '+' { a.add(b)? } else { a.sub(b)? };
                let percent = left.percent && right.percent;
                return Ok(Value { number, unit: left.unit.joined(right.unit)?, percent });
            }
            '*' => (a.mul(b)?, times(1)),
            '/' => (a.div(b)?, times(-1)),
            '\\' => (a.floor_div(b)?, times(-1)),
            '^' => {
                if !right.unit.is_none() || !left.unit.is_none() {
                    return Err(Trouble::Units);
                }
                (f::power(a, b)?, Unit::NONE)
            }
            _ => (a.modulo(b)?, left.unit.joined(right.unit)?),
        };
        if unit.won.abs() > 4 || unit.days.abs() > 4 {
            return Err(Trouble::Units);
        }
        Ok(Value { number, unit, percent: false })
    }

    fn note(&mut self, note: Note) {
        add_note(&mut self.notes, note);
    }

    fn charge(&mut self, a: &Number, b: &Number) -> Result<(), Trouble> {
        let words = |number: &Number| (number.value.numer().bits() + number.value.denom().bits()) / 64 + 1;
        // Fractions are reduced, which takes a step for every bit.
        let reduced = if a.is_whole() && b.is_whole() { 1 } else { 64 };
        self.work = self.work.saturating_add(words(a) * words(b) * reduced);
        if self.work > MOST_WORK { Err(Trouble::Overflow) } else { Ok(()) }
    }
}

pub(super) fn add_note(notes: &mut Vec<Note>, note: Note) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

pub(super) fn bare(number: Number) -> Value {
    Value { number, unit: Unit::NONE, percent: false }
}

/// A unit and how many of the basic one (원, days) it is.
fn unit(name: &str) -> Option<(Unit, BigRational)> {
    let (won, days) = (Unit { won: 1, days: 0 }, Unit { won: 0, days: 1 });
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
