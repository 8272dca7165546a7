//! Numbers that say what they are: exact, or known to so many digits.
//!
//! An exact number is a fraction of whole numbers of any size. What cannot be exact (roots, logarithms, angles) is
//! kept to [`BITS`] bits and shown with [`DIGITS`] digits. There is no infinity and no "not a number".

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use super::CalculatorError;

/// Significant bits of a number that is not exact.
pub(super) const APPROXIMATE_BITS: u64 = 272;
/// Significant digits that are shown of a number that is not exact or does not end.
pub(super) const SIGNIFICANT_DIGITS: usize = 20;
/// The most bits of an exact number, above or below the line: 4,932 digits.
pub(super) const MAX_EXACT_BITS: u64 = 16_384;
/// A number that does not end is rounded; one that ends is shown whole up to so many digits after the point.
const MAX_DECIMALS: usize = 50;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CalculatorNumber {
    pub(super) value: BigRational,
    pub(super) exact: bool,
}

impl CalculatorNumber {
    pub(super) fn exact(value: BigRational) -> Result<Self, CalculatorError> {
        if value.numer().bits() > MAX_EXACT_BITS || value.denom().bits() > MAX_EXACT_BITS {
            return Err(CalculatorError::Overflow);
        }
        Ok(Self { value, exact: true })
    }

    pub(super) fn whole(value: impl Into<BigInt>) -> Result<Self, CalculatorError> {
        Self::exact(BigRational::from_integer(value.into()))
    }

    /// A number known to [`BITS`] bits.
    pub(super) fn approximate(value: &BigRational) -> Result<Self, CalculatorError> {
        if value.is_zero() {
            return Ok(Self { value: BigRational::zero(), exact: false });
        }
        let size = i64::try_from(value.numer().bits()).map_err(|_| CalculatorError::Overflow)?
            - i64::try_from(value.denom().bits()).map_err(|_| CalculatorError::Overflow)?;
        if size.unsigned_abs() > MAX_EXACT_BITS {
            return Err(CalculatorError::Overflow);
        }
        let shift = APPROXIMATE_BITS.cast_signed() - size;
        let value = unscaled(&scaled(value, shift), shift);
        Ok(Self { value, exact: false })
    }

    /// A result; a fraction that gets too long to be exact goes on with [`BITS`] bits.
    fn from_result(value: BigRational, exact: bool) -> Result<Self, CalculatorError> {
        let long = value.numer().bits().max(value.denom().bits()) > MAX_EXACT_BITS;
        if exact && (value.is_integer() || !long) { Self::exact(value) } else { Self::approximate(&value) }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.value.is_integer()
    }

    pub(super) fn to_i64(&self) -> Option<i64> {
        if self.is_whole() { self.value.to_integer().to_i64() } else { None }
    }

    pub(super) fn add(&self, other: &Self) -> Result<Self, CalculatorError> {
        let exact = self.exact && other.exact;
        let sum = if self.is_whole() && other.is_whole() {
            BigRational::from_integer(self.value.numer() + other.value.numer())
        } else {
            &self.value + &other.value
        };
        // What is left when two nearly equal numbers are taken from each other is their error, not a number.
        let larger = self.value.abs().max(other.value.abs());
        if !exact && sum.abs() < unscaled(&BigInt::one(), APPROXIMATE_BITS.cast_signed() - 40) * larger {
            return Self::from_result(BigRational::zero(), false);
        }
        Self::from_result(sum, exact)
    }

    pub(super) fn negated(&self) -> Self {
        Self { value: -&self.value, exact: self.exact }
    }

    pub(super) fn sub(&self, other: &Self) -> Result<Self, CalculatorError> {
        self.add(&other.negated())
    }

    pub(super) fn mul(&self, other: &Self) -> Result<Self, CalculatorError> {
        let product = if self.is_whole() && other.is_whole() {
            BigRational::from_integer(self.value.numer() * other.value.numer())
        } else {
            &self.value * &other.value
        };
        Self::from_result(product, self.exact && other.exact)
    }

    pub(super) fn div(&self, other: &Self) -> Result<Self, CalculatorError> {
        if other.value.is_zero() {
            return Err(CalculatorError::DividedByZero);
        }
        Self::from_result(&self.value / &other.value, self.exact && other.exact)
    }

    /// The largest whole number that is not larger than `self / other`.
    pub(super) fn floor_div(&self, other: &Self) -> Result<Self, CalculatorError> {
        let quotient = self.div(other)?;
        Self::from_result(quotient.value.floor(), quotient.exact)
    }

    /// What is left over by [`Self::floor_div`]; it has the sign of `other`.
    pub(super) fn modulo(&self, other: &Self) -> Result<Self, CalculatorError> {
        self.sub(&self.floor_div(other)?.mul(other)?)
    }

    /// Multiplied with itself so many times.
    pub(super) fn power(&self, times: i64) -> Result<Self, CalculatorError> {
        let base = self.value.numer().bits().max(self.value.denom().bits());
        if self.value.is_zero() && times < 0 {
            return Err(CalculatorError::DividedByZero);
        }
        let simple = self.value.is_zero() || self.value.abs().is_one();
        let steps = times.unsigned_abs();
        if simple {
            let odd = steps % 2 == 1;
            let value = if odd || self.value.is_zero() && steps > 0 {
                self.value.clone()
            } else {
                BigRational::one()
            };
            return Self::from_result(value, self.exact);
        }
        // An exact power has that many bits; of a fraction that is too long, the digits that matter are kept instead.
        let long = (base - 1).saturating_mul(steps) > MAX_EXACT_BITS;
        if self.exact && long && self.is_whole() {
            return Err(CalculatorError::Overflow);
        }
        if self.exact && long {
            return Self::approximate(&self.value)?.power(times);
        }
        let mut result = Self { value: BigRational::one(), exact: self.exact };
        let mut square = self.clone();
        let mut left = steps;
        while left > 0 {
            if left % 2 == 1 {
                result = result.mul(&square)?;
            }
            left /= 2;
            if left > 0 {
                square = square.mul(&square)?;
            }
        }
        if times < 0 { Self { value: BigRational::one(), exact: true }.div(&result) } else { Ok(result) }
    }

    /// Rounded to so many digits after the point, halves away from zero.
    pub(super) fn rounded(&self, digits: i64) -> Result<Self, CalculatorError> {
        let scale = BigRational::from_integer(power_of_ten(digits.unsigned_abs())?);
        let scaled = if digits < 0 { &self.value / &scale } else { &self.value * &scale };
        let round = round_half_away(&scaled);
        let value = BigRational::from_integer(round);
        Self::exact(if digits < 0 { value * scale } else { value / scale })
    }

    /// How it is written.
    pub(super) fn to_decimal(&self) -> DecimalText {
        if !self.exact {
            return DecimalText { text: round_to_significant(&self.value), rounded: true, fraction: None };
        }
        if self.is_whole() {
            return DecimalText { text: self.value.numer().to_string(), rounded: false, fraction: None };
        }
        if let Some(text) = terminating_decimal(&self.value) {
            return DecimalText { text, rounded: false, fraction: None };
        }
        let fraction = self.value.to_string();
        DecimalText {
            text: round_to_significant(&self.value),
            rounded: true,
            fraction: (fraction.len() <= 24).then_some(fraction),
        }
    }
}

/// A number as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DecimalText {
    pub(super) text: String,
    /// Whether digits are missing.
    pub(super) rounded: bool,
    /// The fraction it is exactly, if that is short.
    pub(super) fraction: Option<String>,
}

/// `value · 2^bits`, without what is behind the point.
pub(super) fn scaled(value: &BigRational, bits: i64) -> BigInt {
    let shift = bits.unsigned_abs();
    if bits >= 0 {
        (value.numer() << shift).div_floor(value.denom())
    } else {
        value.numer().div_floor(&(value.denom() << shift))
    }
}

/// `value / 2^bits`.
pub(super) fn unscaled(value: &BigInt, bits: i64) -> BigRational {
    let power = BigInt::one() << bits.unsigned_abs();
    if bits >= 0 { BigRational::new(value.clone(), power) } else { BigRational::from_integer(value * power) }
}

pub(super) fn power_of_ten(digits: u64) -> Result<BigInt, CalculatorError> {
    if digits > MAX_EXACT_BITS / 3 {
        return Err(CalculatorError::Overflow);
    }
    Ok(Pow::pow(BigInt::from(10), digits))
}

fn round_half_away(value: &BigRational) -> BigInt {
    let half = BigRational::new(BigInt::one(), BigInt::from(2));
    let size = (value.abs() + half).floor().to_integer();
    if value.is_negative() { -size } else { size }
}

/// The decimal that `value` is exactly, if it ends soon enough.
fn terminating_decimal(value: &BigRational) -> Option<String> {
    let mut rest = value.denom().clone();
    let mut count = |prime: u32| {
        let mut times = 0usize;
        while (&rest % prime).is_zero() {
            rest /= prime;
            times += 1;
            if times > 400 {
                return times;
            }
        }
        times
    };
    let decimals = count(2).max(count(5));
    if !rest.is_one() || decimals > 400 {
        return None;
    }
    let digits = (value * BigRational::from_integer(Pow::pow(BigInt::from(10), decimals))).to_integer();
    let (sign, digits) = (digits.sign(), digits.magnitude().to_string());
    if decimals > MAX_DECIMALS {
        return (digits.len() <= MAX_DECIMALS)
            .then(|| scientific(sign, &digits, 0i64.saturating_sub_unsigned(decimals as u64)));
    }
    Some(plain_decimal(sign, &digits, decimals))
}

/// [`DIGITS`] significant digits, without the zeros at their end.
fn round_to_significant(value: &BigRational) -> String {
    if value.is_zero() {
        return "0".into();
    }
    let size = value.numer().bits().cast_signed() - value.denom().bits().cast_signed();
    // log10(2) is 0.30103; the estimate is at most one off, and the loop below corrects it.
    let mut decimals = SIGNIFICANT_DIGITS as i64 - 1 - size * 30_103 / 100_000;
    let digits = loop {
        let ten = BigRational::from_integer(Pow::pow(BigInt::from(10), decimals.unsigned_abs()));
        let scaled = if decimals < 0 { value / ten } else { value * ten };
        let digits = round_half_away(&scaled);
        match digits.magnitude().to_string().len().cmp(&SIGNIFICANT_DIGITS) {
            std::cmp::Ordering::Less => decimals += 1,
            std::cmp::Ordering::Equal => break digits,
            std::cmp::Ordering::Greater => decimals -= 1,
        }
    };
    let (sign, text) = (digits.sign(), digits.magnitude().to_string());
    if decimals >= 0 && decimals < SIGNIFICANT_DIGITS as i64 + 6 {
        return plain_decimal(sign, &text, usize::try_from(decimals).unwrap_or(0));
    }
    scientific(sign, &text, -decimals)
}

fn plain_decimal(sign: Sign, digits: &str, decimals: usize) -> String {
    let padded = format!("{digits:0>width$}", width = decimals + 1);
    let (whole, behind) = padded.split_at(padded.len() - decimals);
    let behind = behind.trim_end_matches('0');
    let sign = if sign == Sign::Minus { "-" } else { "" };
    if behind.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{behind}") }
}

fn scientific(sign: Sign, digits: &str, exponent: i64) -> String {
    let exponent = exponent + digits.len() as i64 - 1;
    let (first, behind) = digits.split_at(1);
    let behind = behind.trim_end_matches('0');
    let (sign, point) =
        (if sign == Sign::Minus { "-" } else { "" }, if behind.is_empty() { "" } else { "." });
    format!("{sign}{first}{point}{behind}e{exponent}")
}
