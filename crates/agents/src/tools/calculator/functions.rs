//! The functions that have no exact answer, in fixed point: series on whole numbers scaled by `2^SCALE`.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::Trouble;
use super::number::{MOST_BITS, Number, scaled, unscaled};

/// Bits behind the point. The last 48 of them absorb the error of the series; [`Number`] keeps 272.
const SCALE: i64 = 320;

/// The largest angle in radians: beyond it the turns eat up the digits.
const LARGEST_ANGLE: i64 = 1_000_000_000_000;

pub(super) fn pi() -> Result<Number, Trouble> {
    Number::approximate(&unscaled(&fixed_pi(), SCALE))
}

pub(super) fn e() -> Result<Number, Trouble> {
    exp(&Number::whole(1)?)
}

/// The square root; exact if there is one.
pub(super) fn sqrt(x: &Number) -> Result<Number, Trouble> {
    root(x, 2)
}

/// The `degree`th root; exact if there is one.
pub(super) fn root(x: &Number, degree: u32) -> Result<Number, Trouble> {
    if degree == 0 || degree > 64 {
        return Err(Trouble::Range("root", "1 … 64"));
    }
    if x.value.is_negative() && degree.is_even() {
        return Err(Trouble::NotReal);
    }
    let (above, below) = (x.value.numer().nth_root(degree), x.value.denom().nth_root(degree));
    if &above.pow(degree) == x.value.numer() && &below.pow(degree) == x.value.denom() {
        let value = BigRational::new(above, below);
        return if x.exact { Number::exact(value) } else { Number::approximate(&value) };
    }
    let missing = x.value.denom().bits().saturating_sub(x.value.numer().bits());
    let scale = SCALE + (missing / u64::from(degree)).cast_signed();
    let inner = scaled(&x.value.abs(), scale * i64::from(degree));
    let value = unscaled(&inner.nth_root(degree), scale);
    Number::approximate(&if x.value.is_negative() { -value } else { value })
}

pub(super) fn exp(x: &Number) -> Result<Number, Trouble> {
    if x.value.is_zero() {
        return if x.exact { Number::whole(1) } else { Number::approximate(&BigRational::one()) };
    }
    if x.value.abs() > BigRational::from_integer(BigInt::from(MOST_BITS)) {
        return Err(Trouble::Overflow);
    }
    let (turns, rest) = scaled(&x.value, SCALE).div_mod_floor(&ln2());
    let (mut term, mut sum, mut n) = (one(), one(), 1u32);
    while !term.is_zero() {
        term = ((term * &rest) >> SCALE) / n;
        sum += &term;
        n += 1;
    }
    let turns = turns.to_i64().ok_or(Trouble::Overflow)?;
    Number::approximate(&unscaled(&sum, SCALE - turns))
}

pub(super) fn ln(x: &Number) -> Result<Number, Trouble> {
    if !x.value.is_positive() {
        return Err(Trouble::NotReal);
    }
    if x.value.is_one() {
        return if x.exact { Number::whole(0) } else { Number::approximate(&BigRational::zero()) };
    }
    let turns = x.value.numer().bits().cast_signed() - x.value.denom().bits().cast_signed();
    let near_one = scaled(&x.value, SCALE - turns);
    // Near one the answer is small, and only the exact difference from one keeps its digits.
    let exact_difference = &x.value - BigRational::one();
    let small = exact_difference.abs() < unscaled(&BigInt::one(), 40);
    if small {
        let y = &exact_difference / (&x.value + BigRational::one());
        let size = (y.denom().bits().saturating_sub(y.numer().bits())).cast_signed();
        let value = atanh_series(&scaled(&y, SCALE + size), SCALE + size) * 2;
        return Number::approximate(&unscaled(&value, SCALE + size));
    }
    let y = ((&near_one - one()) << SCALE).div_floor(&(&near_one + one()));
    let value = atanh_series(&y, SCALE) * 2 + ln2() * turns;
    Number::approximate(&unscaled(&value, SCALE))
}

/// The logarithm to a base; exact if it is a whole number.
pub(super) fn log(x: &Number, base: &Number) -> Result<Number, Trouble> {
    if !base.value.is_positive() || base.value.is_one() {
        return Err(Trouble::Range("log", "base > 0, base ≠ 1"));
    }
    let quotient = ln(x)?.div(&ln(base)?)?;
    let near = quotient.rounded(0)?;
    let whole = near.to_i64().filter(|times| times.unsigned_abs() <= MOST_BITS);
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
pub(super) fn power(x: &Number, y: &Number) -> Result<Number, Trouble> {
    if y.exact && y.is_whole() {
        let Some(times) = y.to_i64() else {
            let steady = x.value.is_zero() && y.value.is_positive() || x.value.is_one();
            return if steady { Ok(x.clone()) } else { Err(Trouble::Overflow) };
        };
        return x.power(times);
    }
    if x.value.is_zero() {
        return if y.value.is_positive() { Ok(x.clone()) } else { Err(Trouble::DividedByZero) };
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
        return Err(Trouble::NotReal);
    }
    exp(&y.mul(&ln(x)?)?)
}

pub(super) fn sin(x: &Number) -> Result<Number, Trouble> {
    if x.exact && x.value.is_zero() {
        return Number::whole(0);
    }
    circle(&sin_fixed(&turned(x)?))
}

pub(super) fn cos(x: &Number) -> Result<Number, Trouble> {
    if x.exact && x.value.is_zero() {
        return Number::whole(1);
    }
    circle(&sin_fixed(&(turned(x)? + (fixed_pi() >> 1u32))))
}

pub(super) fn tan(x: &Number) -> Result<Number, Trouble> {
    let below = cos(x)?;
    if below.value.is_zero() {
        return Err(Trouble::NotDefined("tan"));
    }
    sin(x)?.div(&below)
}

pub(super) fn atan(x: &Number) -> Result<Number, Trouble> {
    if x.exact && x.value.is_zero() {
        return Number::whole(0);
    }
    let size = x.value.abs();
    let large = size > BigRational::one();
    let inner = scaled(&if large { size.recip() } else { size }, SCALE);
    let angle = atan_fixed(inner);
    let angle = if large { (fixed_pi() >> 1u32) - angle } else { angle };
    Number::approximate(&unscaled(&if x.value.is_negative() { -angle } else { angle }, SCALE))
}

pub(super) fn asin(x: &Number) -> Result<Number, Trouble> {
    let one = Number::whole(1)?;
    if x.value.abs() > one.value {
        return Err(Trouble::Range("asin/acos", "-1 … 1"));
    }
    if x.value.abs() == one.value {
        let half = pi()?.div(&Number::whole(2)?)?;
        return Ok(if x.value.is_negative() { half.negated() } else { half });
    }
    atan(&x.div(&sqrt(&one.sub(&x.mul(x)?)?)?)?)
}

pub(super) fn acos(x: &Number) -> Result<Number, Trouble> {
    pi()?.div(&Number::whole(2)?)?.sub(&asin(x)?)
}

/// `n!`
pub(super) fn factorial(x: &Number) -> Result<Number, Trouble> {
    let n = x.to_i64().filter(|n| *n >= 0 && x.exact).ok_or(Trouble::Range("factorial", "0, 1, 2, …"))?;
    product(1, n)
}

/// `n · (n-1) · … · (n-k+1)`
pub(super) fn permutations(n: &Number, k: &Number) -> Result<Number, Trouble> {
    let (n, k) = pair(n, k)?;
    match k {
        0 => Number::whole(1),
        _ if k > n => Number::whole(0),
        _ => product(n - k + 1, n),
    }
}

/// How many ways there are to take `k` out of `n`.
pub(super) fn combinations(n: &Number, k: &Number) -> Result<Number, Trouble> {
    let (n, k) = pair(n, k)?;
    if k > n {
        return Number::whole(0);
    }
    let k = k.min(n - k);
    if k == 0 {
        return Number::whole(1);
    }
    product(n - k + 1, n)?.div(&product(1, k)?)
}

fn pair(n: &Number, k: &Number) -> Result<(i64, i64), Trouble> {
    let count = |x: &Number| x.to_i64().filter(|n| *n >= 0 && x.exact);
    count(n).zip(count(k)).ok_or(Trouble::Range("comb/perm", "0, 1, 2, …"))
}

fn product(first: i64, last: i64) -> Result<Number, Trouble> {
    let mut product = BigInt::one();
    for factor in first..=last {
        product *= factor;
        if product.bits() > MOST_BITS {
            return Err(Trouble::Overflow);
        }
    }
    Number::whole(product)
}

fn one() -> BigInt {
    BigInt::one() << SCALE
}

/// `x` without its whole turns.
fn turned(x: &Number) -> Result<BigInt, Trouble> {
    if x.value.abs() > BigRational::from_integer(LARGEST_ANGLE.into()) {
        return Err(Trouble::Range("sin/cos/tan", "-10^12 … 10^12"));
    }
    Ok(scaled(&x.value, SCALE).mod_floor(&(fixed_pi() * 2)))
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
    let square = (&angle * &angle) >> SCALE;
    let (mut term, mut sum, mut n) = (angle.clone(), angle, 1u32);
    while !term.is_zero() {
        term = -(((term * &square) >> SCALE) / ((n + 1) * (n + 2)));
        sum += &term;
        n += 2;
        if n > 400 {
            break;
        }
    }
    if below { -sum } else { sum }
}

/// A sine as a number; what is smaller than the error of the series is zero.
fn circle(value: &BigInt) -> Result<Number, Trouble> {
    if value.bits() < 80 {
        return Number::approximate(&BigRational::zero());
    }
    Number::approximate(&unscaled(value, SCALE))
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
        let root = (((&x * &x) >> SCALE) + one()) << SCALE;
        x = (x << SCALE) / (one() + root.sqrt());
    }
    let square = (&x * &x) >> SCALE;
    let (mut power, mut sum, mut n) = (x.clone(), x, 1u32);
    for _ in 0..400 {
        power = -((power * &square) >> SCALE);
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
    atanh_series(&(one() / 3), SCALE) * 2
}

/// π by Machin's formula: 16 atan(1/5) − 4 atan(1/239).
fn fixed_pi() -> BigInt {
    let atan_of = |denominator: u32| {
        let square = denominator * denominator;
        let (mut power, mut sum, mut n) = (one() / denominator, one() / denominator, 1u32);
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
