//! Numbers that say what they are: exact, or rounded.
//!
//! An exact number is a fraction of whole numbers of any size. What cannot be exact (roots, logarithms, angles) is a
//! machine number, shown with [`APPROXIMATE_DIGITS`] digits. There is no infinity and no "not a number".

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{FromPrimitive, One, Pow, Signed, ToPrimitive, Zero};

use super::CalculatorError;

/// Significant digits that are shown of an exact number that does not end.
const EXACT_DIGITS: usize = 20;
/// Significant digits that are shown of a rounded number. The others may be wrong.
const APPROXIMATE_DIGITS: usize = 12;
/// The most bits of an exact number, above or below the line: 4,932 digits.
pub(super) const MAX_EXACT_BITS: u64 = 16_384;
/// The most digits after the point of a number that is shown whole.
const MAX_DECIMALS: usize = 50;
/// A difference of rounded numbers below this share of the larger one is their error.
const APPROXIMATE_ERROR: f64 = 1e-14;

/// A number.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CalculatorNumber {
    Exact(BigRational),
    /// Always finite.
    Approximate(f64),
}

impl CalculatorNumber {
    pub(super) fn exact(value: BigRational) -> Result<Self, CalculatorError> {
        if value.numer().bits().max(value.denom().bits()) > MAX_EXACT_BITS {
            return Err(CalculatorError::Overflow);
        }
        Ok(Self::Exact(value))
    }

    pub(super) fn whole(value: impl Into<BigInt>) -> Result<Self, CalculatorError> {
        Self::exact(BigRational::from_integer(value.into()))
    }

    pub(super) fn approximate(value: f64) -> Result<Self, CalculatorError> {
        if value.is_finite() { Ok(Self::Approximate(value)) } else { Err(CalculatorError::Overflow) }
    }

    /// An exact result. A fraction that is too long to be exact is rounded.
    fn exact_or_rounded(value: BigRational) -> Result<Self, CalculatorError> {
        let long = value.numer().bits().max(value.denom().bits()) > MAX_EXACT_BITS;
        if long && !value.is_integer() { Self::approximate(to_f64(&value)?) } else { Self::exact(value) }
    }

    /// The exact value, if there is one.
    pub(super) fn as_exact(&self) -> Option<&BigRational> {
        match self {
            Self::Exact(value) => Some(value),
            Self::Approximate(_) => None,
        }
    }

    /// The nearest machine number.
    pub(super) fn to_f64(&self) -> Result<f64, CalculatorError> {
        match self {
            Self::Exact(value) => to_f64(value),
            Self::Approximate(value) => Ok(*value),
        }
    }

    /// The whole number that it is exactly, if it is one.
    pub(super) fn to_i64(&self) -> Option<i64> {
        self.as_exact().filter(|value| value.is_integer())?.to_integer().to_i64()
    }

    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Exact(value) => value.is_zero(),
            Self::Approximate(value) => *value == 0.0,
        }
    }

    pub(super) fn is_negative(&self) -> bool {
        match self {
            Self::Exact(value) => value.is_negative(),
            Self::Approximate(value) => *value < 0.0,
        }
    }

    pub(super) fn compare(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Exact(left), Self::Exact(right)) => left.cmp(right),
            _ => {
                let (left, right) = (self.to_rational(), other.to_rational());
                left.cmp(&right)
            }
        }
    }

    /// Bits that arithmetic works on.
    pub(super) fn size_in_bits(&self) -> u64 {
        self.as_exact().map_or(64, |value| value.numer().bits() + value.denom().bits())
    }

    pub(super) fn negated(&self) -> Self {
        match self {
            Self::Exact(value) => Self::Exact(-value),
            Self::Approximate(value) => Self::Approximate(-value),
        }
    }

    pub(super) fn add(&self, other: &Self) -> Result<Self, CalculatorError> {
        if let (Self::Exact(left), Self::Exact(right)) = (self, other) {
            return Self::exact_or_rounded(left + right);
        }
        let (left, right) = (self.to_f64()?, other.to_f64()?);
        let sum = left + right;
        let is_error = sum.abs() < left.abs().max(right.abs()) * APPROXIMATE_ERROR;
        Self::approximate(if is_error { 0.0 } else { sum })
    }

    pub(super) fn sub(&self, other: &Self) -> Result<Self, CalculatorError> {
        self.add(&other.negated())
    }

    pub(super) fn mul(&self, other: &Self) -> Result<Self, CalculatorError> {
        match (self, other) {
            (Self::Exact(left), Self::Exact(right)) => Self::exact_or_rounded(left * right),
            _ => Self::approximate(self.to_f64()? * other.to_f64()?),
        }
    }

    pub(super) fn div(&self, other: &Self) -> Result<Self, CalculatorError> {
        if other.is_zero() {
            return Err(CalculatorError::DividedByZero);
        }
        match (self, other) {
            (Self::Exact(left), Self::Exact(right)) => Self::exact_or_rounded(left / right),
            _ => Self::approximate(self.to_f64()? / other.to_f64()?),
        }
    }

    /// The largest whole number that is not larger than `self / other`.
    pub(super) fn floor_div(&self, other: &Self) -> Result<Self, CalculatorError> {
        self.div(other)?.map_rational(BigRational::floor)
    }

    /// What is left over by [`Self::floor_div`]; it has the sign of `other`.
    pub(super) fn modulo(&self, other: &Self) -> Result<Self, CalculatorError> {
        self.sub(&self.floor_div(other)?.mul(other)?)
    }

    /// Multiplied with itself so many times.
    pub(super) fn power(&self, times: i64) -> Result<Self, CalculatorError> {
        if self.is_zero() && times < 0 {
            return Err(CalculatorError::DividedByZero);
        }
        let Some(value) = self.as_exact() else {
            return nonzero_power(self.to_f64()?, times as f64);
        };
        let bits = value.numer().bits().max(value.denom().bits()).saturating_sub(1);
        if bits.saturating_mul(times.unsigned_abs()) > MAX_EXACT_BITS {
            if value.is_integer() && times > 0 {
                return Err(CalculatorError::Overflow);
            }
            return nonzero_power(to_f64(value)?, times as f64);
        }
        // One, zero and minus one have powers of any size.
        let times = if bits == 0 { times % 2 + 2 * i64::from(times != 0) } else { times };
        let times = i32::try_from(times).map_err(|_| CalculatorError::Overflow)?;
        Self::exact_or_rounded(Pow::pow(value, times))
    }

    /// Rounded to so many digits after the point, halves away from zero.
    pub(super) fn rounded(&self, digits: i64) -> Result<Self, CalculatorError> {
        let scale = BigRational::from_integer(power_of_ten(digits.unsigned_abs())?);
        let scale = if digits < 0 { scale.recip() } else { scale };
        self.map_rational(|value| (value * &scale).round() / &scale)
    }

    /// The exact result of a function of the value. A rounded number becomes the fraction that it shows.
    pub(super) fn map_rational(
        &self,
        function: impl Fn(&BigRational) -> BigRational,
    ) -> Result<Self, CalculatorError> {
        Self::exact(function(&self.to_rational()))
    }

    /// The value as a fraction. A rounded number is taken with the digits that are shown of it.
    fn to_rational(&self) -> BigRational {
        match self {
            Self::Exact(value) => value.clone(),
            Self::Approximate(value) => BigRational::from_f64(shown_digits(*value)).unwrap_or_default(),
        }
    }

    /// How it is written.
    pub(super) fn to_decimal(&self) -> DecimalText {
        let value = match self {
            Self::Exact(value) => value,
            Self::Approximate(value) => {
                let value = BigRational::from_f64(*value).unwrap_or_default();
                let text = round_to_significant(&value, APPROXIMATE_DIGITS);
                return DecimalText { text, digits: Some(APPROXIMATE_DIGITS), fraction: None };
            }
        };
        if let Some(text) = terminating_decimal(value) {
            return DecimalText { text, digits: None, fraction: None };
        }
        let fraction = value.to_string();
        DecimalText {
            text: round_to_significant(value, EXACT_DIGITS),
            digits: Some(EXACT_DIGITS),
            fraction: (fraction.len() <= 24).then_some(fraction),
        }
    }
}

/// A number as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DecimalText {
    pub(super) text: String,
    /// The significant digits that are shown, if some are missing.
    pub(super) digits: Option<usize>,
    /// The fraction it is exactly, if that is short.
    pub(super) fraction: Option<String>,
}

/// A power of a number other than zero. It is never zero: that would be too small to be shown.
pub(super) fn nonzero_power(base: f64, exponent: f64) -> Result<CalculatorNumber, CalculatorError> {
    let value = base.powf(exponent);
    if value == 0.0 && base != 0.0 {
        Err(CalculatorError::Overflow)
    } else {
        CalculatorNumber::approximate(value)
    }
}

fn to_f64(value: &BigRational) -> Result<f64, CalculatorError> {
    let number = value.to_f64().filter(|number| number.is_finite()).ok_or(CalculatorError::Overflow)?;
    if number == 0.0 && !value.is_zero() { Err(CalculatorError::Overflow) } else { Ok(number) }
}

/// The number without the digits that may be wrong.
fn shown_digits(value: f64) -> f64 {
    format!("{value:.precision$e}", precision = APPROXIMATE_DIGITS - 1).parse().unwrap_or(value)
}

pub(super) fn power_of_ten(digits: u64) -> Result<BigInt, CalculatorError> {
    if digits > MAX_EXACT_BITS / 3 {
        return Err(CalculatorError::Overflow);
    }
    Ok(Pow::pow(BigInt::from(10), digits))
}

/// The decimal that `value` is exactly, if it ends soon enough.
fn terminating_decimal(value: &BigRational) -> Option<String> {
    let mut rest = value.denom().clone();
    let mut count = |prime: u32| {
        let mut times = 0usize;
        while (&rest % prime).is_zero() && times <= 400 {
            rest /= prime;
            times += 1;
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

/// So many significant digits, without the zeros at their end.
fn round_to_significant(value: &BigRational, significant: usize) -> String {
    if value.is_zero() {
        return "0".into();
    }
    let size = value.numer().bits().cast_signed() - value.denom().bits().cast_signed();
    // log10(2) is 0.30103; the estimate is at most one off, and the loop below corrects it.
    let mut decimals = significant as i64 - 1 - size * 30_103 / 100_000;
    let digits = loop {
        let ten = BigRational::from_integer(Pow::pow(BigInt::from(10), decimals.unsigned_abs()));
        let scaled = if decimals < 0 { value / ten } else { value * ten };
        let digits = scaled.round().to_integer();
        match digits.magnitude().to_string().len().cmp(&significant) {
            std::cmp::Ordering::Less => decimals += 1,
            std::cmp::Ordering::Equal => break digits,
            std::cmp::Ordering::Greater => decimals -= 1,
        }
    };
    let (sign, text) = (digits.sign(), digits.magnitude().to_string());
    match usize::try_from(decimals) {
        Ok(decimals) if decimals < significant + 6 => plain_decimal(sign, &text, decimals),
        _ => scientific(sign, &text, -decimals),
    }
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

/// The exact root, if there is one.
pub(super) fn exact_root(value: &BigRational, degree: u32) -> Option<BigRational> {
    if value.is_negative() && degree.is_even() {
        return None;
    }
    let (above, below) = (value.numer().nth_root(degree), value.denom().nth_root(degree));
    let is_root = |root: &BigInt, power: &BigInt| Pow::pow(root, degree) == *power;
    (is_root(&above, value.numer()) && is_root(&below, value.denom())).then(|| BigRational::new(above, below))
}
