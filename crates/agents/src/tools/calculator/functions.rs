//! The functions that have no exact answer, in fixed point: series on whole numbers scaled by `2^SCALE`.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::CalculatorError;
use super::number::{CalculatorNumber, MAX_EXACT_BITS, scaled, unscaled};

/// Bits behind the point. The last 48 of them absorb the error of the series; [`Number`] keeps 272.
const FIXED_POINT_BITS: i64 = 320;

/// The largest angle in radians: beyond it the turns eat up the digits.
const MAX_ANGLE_RADIANS: i64 = 1_000_000_000_000;

pub(super) fn pi() -> Result<CalculatorNumber, CalculatorError> {
    CalculatorNumber::approximate(&unscaled(&fixed_pi(), FIXED_POINT_BITS))
}

pub(super) fn e() -> Result<CalculatorNumber, CalculatorError> {
    exp(&CalculatorNumber::whole(1)?)
}

/// The square root; exact if there is one.
pub(super) fn sqrt(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    root(x, 2)
}

/// The `degree`th root; exact if there is one.
pub(super) fn root(x: &CalculatorNumber, degree: u32) -> Result<CalculatorNumber, CalculatorError> {
    if degree == 0 || degree > 64 {
        return Err(CalculatorError::OutOfRange("root", "1 … 64"));
    }
    if x.value.is_negative() && degree.is_even() {
        return Err(CalculatorError::NotReal);
    }
    let (above, below) = (x.value.numer().nth_root(degree), x.value.denom().nth_root(degree));
    if &above.pow(degree) == x.value.numer() && &below.pow(degree) == x.value.denom() {
        let value = BigRational::new(above, below);
        return if x.exact { CalculatorNumber::exact(value) } else { CalculatorNumber::approximate(&value) };
    }
    let missing = x.value.denom().bits().saturating_sub(x.value.numer().bits());
    let scale = FIXED_POINT_BITS + (missing / u64::from(degree)).cast_signed();
    let inner = scaled(&x.value.abs(), scale * i64::from(degree));
    let value = unscaled(&inner.nth_root(degree), scale);
    CalculatorNumber::approximate(&if x.value.is_negative() { -value } else { value })
}

pub(super) fn exp(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    if x.value.is_zero() {
        return if x.exact {
            CalculatorNumber::whole(1)
        } else {
            CalculatorNumber::approximate(&BigRational::one())
        };
    }
    if x.value.abs() > BigRational::from_integer(BigInt::from(MAX_EXACT_BITS)) {
        return Err(CalculatorError::Overflow);
    }
    let (turns, rest) = scaled(&x.value, FIXED_POINT_BITS).div_mod_floor(&ln2());
    let (mut term, mut sum, mut n) = (fixed_one(), fixed_one(), 1u32);
    while !term.is_zero() {
        term = ((term * &rest) >> FIXED_POINT_BITS) / n;
        sum += &term;
        n += 1;
    }
    let turns = turns.to_i64().ok_or(CalculatorError::Overflow)?;
    CalculatorNumber::approximate(&unscaled(&sum, FIXED_POINT_BITS - turns))
}

pub(super) fn ln(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    if !x.value.is_positive() {
        return Err(CalculatorError::NotReal);
    }
    if x.value.is_one() {
        return if x.exact {
            CalculatorNumber::whole(0)
        } else {
            CalculatorNumber::approximate(&BigRational::zero())
        };
    }
    let turns = x.value.numer().bits().cast_signed() - x.value.denom().bits().cast_signed();
    let near_one = scaled(&x.value, FIXED_POINT_BITS - turns);
    // Near one the answer is small, and only the exact difference from one keeps its digits.
    let exact_difference = &x.value - BigRational::one();
    let small = exact_difference.abs() < unscaled(&BigInt::one(), 40);
    if small {
        let y = &exact_difference / (&x.value + BigRational::one());
        let size = (y.denom().bits().saturating_sub(y.numer().bits())).cast_signed();
        let value = atanh_series(&scaled(&y, FIXED_POINT_BITS + size), FIXED_POINT_BITS + size) * 2;
        return CalculatorNumber::approximate(&unscaled(&value, FIXED_POINT_BITS + size));
    }
    let y = ((&near_one - fixed_one()) << FIXED_POINT_BITS).div_floor(&(&near_one + fixed_one()));
    let value = atanh_series(&y, FIXED_POINT_BITS) * 2 + ln2() * turns;
    CalculatorNumber::approximate(&unscaled(&value, FIXED_POINT_BITS))
}

/// The logarithm to a base; exact if it is a whole number.
pub(super) fn log(
    x: &CalculatorNumber,
    base: &CalculatorNumber,
) -> Result<CalculatorNumber, CalculatorError> {
    if !base.value.is_positive() || base.value.is_one() {
        return Err(CalculatorError::OutOfRange("log", "base > 0, base ≠ 1"));
    }
    let quotient = ln(x)?.div(&ln(base)?)?;
    let near = quotient.rounded(0)?;
    let whole = near.to_i64().filter(|times| times.unsigned_abs() <= MAX_EXACT_BITS);
    if let Some(times) = whole
        && x.exact
        && base.exact
        && base.power(times).is_ok_and(|power| power.value == x.value)
    {
        return Ok(near);
    }
    Ok(quotient)
}

/// A power with any exponent; exact if it can be.
pub(super) fn power(x: &CalculatorNumber, y: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    if y.exact && y.is_whole() {
        let Some(times) = y.to_i64() else {
            let steady = x.value.is_zero() && y.value.is_positive() || x.value.is_one();
            return if steady { Ok(x.clone()) } else { Err(CalculatorError::Overflow) };
        };
        return x.power(times);
    }
    if x.value.is_zero() {
        return if y.value.is_positive() { Ok(x.clone()) } else { Err(CalculatorError::DividedByZero) };
    }
    if let (true, Some(degree), Some(times)) = (y.exact, y.value.denom().to_u32(), y.value.numer().to_i64())
        && degree <= 64
        && (x.value.is_positive() || degree.is_odd())
    {
        let root = root(x, degree)?;
        if root.exact {
            return root.power(times);
        }
        if x.value.is_negative() {
            return root.power(times);
        }
    }
    if x.value.is_negative() {
        return Err(CalculatorError::NotReal);
    }
    exp(&y.mul(&ln(x)?)?)
}

pub(super) fn sin(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    if x.exact && x.value.is_zero() {
        return CalculatorNumber::whole(0);
    }
    sine_to_number(&sin_fixed(&reduce_angle(x)?))
}

pub(super) fn cos(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    if x.exact && x.value.is_zero() {
        return CalculatorNumber::whole(1);
    }
    sine_to_number(&sin_fixed(&(reduce_angle(x)? + (fixed_pi() >> 1u32))))
}

pub(super) fn tan(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    let below = cos(x)?;
    if below.value.is_zero() {
        return Err(CalculatorError::NotDefined("tan"));
    }
    sin(x)?.div(&below)
}

pub(super) fn atan(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    if x.exact && x.value.is_zero() {
        return CalculatorNumber::whole(0);
    }
    let size = x.value.abs();
    let large = size > BigRational::one();
    let inner = scaled(&if large { size.recip() } else { size }, FIXED_POINT_BITS);
    let angle = atan_fixed(inner);
    let angle = if large { (fixed_pi() >> 1u32) - angle } else { angle };
    CalculatorNumber::approximate(&unscaled(
        &if x.value.is_negative() { -angle } else { angle },
        FIXED_POINT_BITS,
    ))
}

pub(super) fn asin(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    let one = CalculatorNumber::whole(1)?;
    if x.value.abs() > one.value {
        return Err(CalculatorError::OutOfRange("asin/acos", "-1 … 1"));
    }
    if x.value.abs() == one.value {
        let half = pi()?.div(&CalculatorNumber::whole(2)?)?;
        return Ok(if x.value.is_negative() { half.negated() } else { half });
    }
    atan(&x.div(&sqrt(&one.sub(&x.mul(x)?)?)?)?)
}

pub(super) fn acos(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    pi()?.div(&CalculatorNumber::whole(2)?)?.sub(&asin(x)?)
}

/// `n!`
pub(super) fn factorial(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    let n = x
        .to_i64()
        .filter(|n| *n >= 0 && x.exact)
        .ok_or(CalculatorError::OutOfRange("factorial", "0, 1, 2, …"))?;
    product_of_range(1, n)
}

/// `n · (n-1) · … · (n-k+1)`
pub(super) fn permutations(
    n: &CalculatorNumber,
    k: &CalculatorNumber,
) -> Result<CalculatorNumber, CalculatorError> {
    let (n, k) = non_negative_pair(n, k)?;
    match k {
        0 => CalculatorNumber::whole(1),
        _ if k > n => CalculatorNumber::whole(0),
        _ => product_of_range(n - k + 1, n),
    }
}

/// How many ways there are to take `k` out of `n`.
pub(super) fn combinations(
    n: &CalculatorNumber,
    k: &CalculatorNumber,
) -> Result<CalculatorNumber, CalculatorError> {
    let (n, k) = non_negative_pair(n, k)?;
    if k > n {
        return CalculatorNumber::whole(0);
    }
    let k = k.min(n - k);
    if k == 0 {
        return CalculatorNumber::whole(1);
    }
    product_of_range(n - k + 1, n)?.div(&product_of_range(1, k)?)
}

fn non_negative_pair(n: &CalculatorNumber, k: &CalculatorNumber) -> Result<(i64, i64), CalculatorError> {
    let count = |x: &CalculatorNumber| x.to_i64().filter(|n| *n >= 0 && x.exact);
    count(n).zip(count(k)).ok_or(CalculatorError::OutOfRange("comb/perm", "0, 1, 2, …"))
}

fn product_of_range(first: i64, last: i64) -> Result<CalculatorNumber, CalculatorError> {
    let mut product = BigInt::one();
    for factor in first..=last {
        product *= factor;
        if product.bits() > MAX_EXACT_BITS {
            return Err(CalculatorError::Overflow);
        }
    }
    CalculatorNumber::whole(product)
}

fn fixed_one() -> BigInt {
    BigInt::one() << FIXED_POINT_BITS
}

/// `x` without its whole turns.
fn reduce_angle(x: &CalculatorNumber) -> Result<BigInt, CalculatorError> {
    if x.value.abs() > BigRational::from_integer(MAX_ANGLE_RADIANS.into()) {
        return Err(CalculatorError::OutOfRange("sin/cos/tan", "-10^12 … 10^12"));
    }
    Ok(scaled(&x.value, FIXED_POINT_BITS).mod_floor(&(fixed_pi() * 2)))
}

/// The sine of an angle in fixed point, brought to a small angle first.
fn sin_fixed(angle: &BigInt) -> BigInt {
    let pi = fixed_pi();
    let mut angle = angle.mod_floor(&(&pi * 2));
    let below = angle > pi;
    if below {
        angle -= &pi;
    }
    if angle > &pi >> 1u32 {
        angle = pi - angle;
    }
    let square = (&angle * &angle) >> FIXED_POINT_BITS;
    let (mut term, mut sum, mut n) = (angle.clone(), angle, 1u32);
    while !term.is_zero() {
        term = -(((term * &square) >> FIXED_POINT_BITS) / ((n + 1) * (n + 2)));
        sum += &term;
        n += 2;
        if n > 400 {
            break;
        }
    }
    if below { -sum } else { sum }
}

/// A sine as a number; what is smaller than the error of the series is zero.
fn sine_to_number(value: &BigInt) -> Result<CalculatorNumber, CalculatorError> {
    if value.bits() < 80 {
        return CalculatorNumber::approximate(&BigRational::zero());
    }
    CalculatorNumber::approximate(&unscaled(value, FIXED_POINT_BITS))
}

/// Half the logarithm of `(1+y)/(1-y)`, for small `y` in fixed point.
fn atanh_series(y: &BigInt, scale: i64) -> BigInt {
    let square = (y * y) >> scale;
    let (mut power, mut sum, mut n) = (y.clone(), y.clone(), 1u32);
    for _ in 0..400 {
        power = (power * &square) >> scale;
        n += 2;
        let term = &power / n;
        if term.is_zero() {
            break;
        }
        sum += term;
    }
    sum
}

fn atan_fixed(mut x: BigInt) -> BigInt {
    const HALVINGS: u32 = 3;
    for _ in 0..HALVINGS {
        let root = (((&x * &x) >> FIXED_POINT_BITS) + fixed_one()) << FIXED_POINT_BITS;
        x = (x << FIXED_POINT_BITS) / (fixed_one() + root.sqrt());
    }
    let square = (&x * &x) >> FIXED_POINT_BITS;
    let (mut power, mut sum, mut n) = (x.clone(), x, 1u32);
    for _ in 0..400 {
        power = -((power * &square) >> FIXED_POINT_BITS);
        n += 2;
        let term = &power / n;
        if term.is_zero() {
            break;
        }
        sum += term;
    }
    sum << HALVINGS
}

fn ln2() -> BigInt {
    atanh_series(&(fixed_one() / 3), FIXED_POINT_BITS) * 2
}

/// π by Machin's formula: 16 atan(1/5) − 4 atan(1/239).
fn fixed_pi() -> BigInt {
    let atan_of = |denominator: u32| {
        let square = denominator * denominator;
        let (mut power, mut sum, mut n) = (fixed_one() / denominator, fixed_one() / denominator, 1u32);
        while !power.is_zero() {
            power /= square;
            n += 2;
            let term = &power / n;
            if n % 4 == 3 { sum -= term } else { sum += term }
        }
        sum
    };
    atan_of(5) * 16 - atan_of(239) * 4
}
