//! The functions that an expression can call, by their English and Korean names.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::evaluate::{CalculatorValue, add_note, combined_unit, unitless};
use super::number::{CalculatorNumber, MAX_EXACT_BITS, exact_root, nonzero_power};
use super::{CalculatorError, CalculatorNote};

/// The largest angle in radians. Beyond it the turns use up the digits.
const MAX_ANGLE_RADIANS: f64 = 1e6;

/// The value of a function.
pub(super) fn call_function(
    name: &str,
    arguments: &[CalculatorValue],
    notes: &mut Vec<CalculatorNote>,
) -> Result<CalculatorValue, CalculatorError> {
    let numbers: Vec<&CalculatorNumber> = arguments.iter().map(|one| &one.number).collect();
    let won = combined_unit(arguments);
    let keeps = |number: CalculatorNumber| CalculatorValue { number, won, percent: false };
    Ok(match (name, numbers.as_slice()) {
        ("sqrt" | "제곱근", [x]) => unitless(root(x, 2)?),
        ("cbrt" | "세제곱근", [x]) => unitless(root(x, 3)?),
        ("root", [x, n]) => unitless(root(x, n.to_i64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0))?),
        ("abs" | "절댓값" | "절대값", [x]) => {
            keeps(if x.is_negative() { x.negated() } else { (*x).clone() })
        }
        ("floor" | "내림" | "버림", [x]) => keeps(x.map_rational(BigRational::floor)?),
        ("ceil" | "올림", [x]) => keeps(x.map_rational(BigRational::ceil)?),
        ("trunc", [x]) => keeps(x.map_rational(BigRational::trunc)?),
        ("round" | "반올림", [x]) => keeps(x.rounded(0)?),
        ("round" | "반올림", [x, digits]) => {
            let digits = digits.to_i64().filter(|digits| digits.unsigned_abs() <= 1000);
            keeps(x.rounded(digits.ok_or(CalculatorError::OutOfRange("round", "-1000 … 1000"))?)?)
        }
        ("min" | "최소" | "최솟값", [first, rest @ ..]) => keeps(
            rest.iter()
                .fold(*first, |least, one| if one.compare(least).is_lt() { one } else { least })
                .clone(),
        ),
        ("max" | "최대" | "최댓값", [first, rest @ ..]) => keeps(
            rest.iter()
                .fold(*first, |largest, one| if one.compare(largest).is_gt() { one } else { largest })
                .clone(),
        ),
        ("sum" | "합" | "합계", [_, ..]) => keeps(sum(&numbers)?),
        ("avg" | "mean" | "average" | "평균", [_, ..]) => {
            keeps(sum(&numbers)?.div(&CalculatorNumber::whole(numbers.len() as u64)?)?)
        }
        ("median" | "중앙값", [_, ..]) => {
            let mut sorted = numbers.clone();
            sorted.sort_by(|a, b| a.compare(b));
            let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            keeps(low.add(high)?.div(&CalculatorNumber::whole(2)?)?)
        }
        ("gcd" | "최대공약수", [_, _, ..]) => {
            unitless(fold_whole(name, &numbers, BigInt::zero(), |a, b| a.gcd(b))?)
        }
        ("lcm" | "최소공배수", [_, _, ..]) => {
            unitless(fold_whole(name, &numbers, BigInt::one(), |a, b| a.lcm(b))?)
        }
        ("mod" | "나머지", [a, b]) => keeps(a.modulo(b)?),
        ("pow" | "제곱", [a, b]) => unitless(power(a, b)?),
        ("exp", [x]) => unitless(if x.is_zero() {
            CalculatorNumber::whole(1)?
        } else {
            nonzero_power(std::f64::consts::E, x.to_f64()?)?
        }),
        ("ln", [x]) => unitless(ln(x)?),
        ("log" | "로그", [x]) => {
            add_note(notes, CalculatorNote::LogIsBaseTen);
            unitless(log(x, &CalculatorNumber::whole(10)?)?)
        }
        ("log10", [x]) => unitless(log(x, &CalculatorNumber::whole(10)?)?),
        ("log2", [x]) => unitless(log(x, &CalculatorNumber::whole(2)?)?),
        ("log" | "로그", [x, base]) => unitless(log(x, base)?),
        ("sin" | "cos" | "tan" | "asin" | "acos" | "atan", [x]) => {
            add_note(notes, CalculatorNote::AnglesAreRadians);
            unitless(trigonometry(name, x)?)
        }
        ("fact" | "factorial" | "팩토리얼", [x]) => unitless(factorial(x)?),
        ("comb" | "ncr" | "조합", [n, k]) => unitless(combinations(n, k)?),
        ("perm" | "npr" | "순열", [n, k]) => unitless(permutations(n, k)?),
        (known, _) => match argument_count(known) {
            Some(takes) => return Err(CalculatorError::Arguments(name.to_owned(), takes)),
            None => return Err(CalculatorError::UnknownName(name.chars().take(40).collect())),
        },
    })
}

pub(super) fn pi() -> Result<CalculatorNumber, CalculatorError> {
    CalculatorNumber::approximate(std::f64::consts::PI)
}

pub(super) fn e() -> Result<CalculatorNumber, CalculatorError> {
    CalculatorNumber::approximate(std::f64::consts::E)
}

/// The `degree`th root; exact if there is one.
pub(super) fn root(x: &CalculatorNumber, degree: u32) -> Result<CalculatorNumber, CalculatorError> {
    if degree == 0 || degree > 64 {
        return Err(CalculatorError::OutOfRange("root", "1 … 64"));
    }
    if x.is_negative() && degree.is_even() {
        return Err(CalculatorError::NotReal);
    }
    if let Some(root) = x.as_exact().and_then(|value| exact_root(value, degree)) {
        return CalculatorNumber::exact(root);
    }
    let value = x.to_f64()?;
    let size = match degree {
        2 => value.abs().sqrt(),
        3 => value.abs().cbrt(),
        _ => value.abs().powf(f64::from(degree).recip()),
    };
    CalculatorNumber::approximate(size.copysign(value))
}

/// The natural logarithm.
fn ln(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    if x.is_zero() || x.is_negative() {
        return Err(CalculatorError::NotReal);
    }
    if x.as_exact().is_some_and(One::is_one) {
        return CalculatorNumber::whole(0);
    }
    // Near one only the exact difference from one has the digits.
    let above_one = x.sub(&CalculatorNumber::whole(1)?)?.to_f64();
    CalculatorNumber::approximate(match above_one {
        Ok(above_one) if above_one.abs() < 0.5 => above_one.ln_1p(),
        _ => x.to_f64()?.ln(),
    })
}

/// The logarithm to a base; exact if it is a whole number.
fn log(x: &CalculatorNumber, base: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    if base.is_zero() || base.is_negative() || base.as_exact().is_some_and(One::is_one) {
        return Err(CalculatorError::OutOfRange("log", "base > 0, base ≠ 1"));
    }
    let quotient = ln(x)?.div(&ln(base)?)?;
    let near = quotient.rounded(0)?;
    let is_exact = |times: i64| {
        times.unsigned_abs() <= MAX_EXACT_BITS
            && x.as_exact().is_some()
            && base.power(times).is_ok_and(|power| power == *x)
    };
    Ok(if near.to_i64().is_some_and(is_exact) { near } else { quotient })
}

/// A power with any exponent; exact if it can be.
pub(super) fn power(x: &CalculatorNumber, y: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    if let Some(exponent) = y.as_exact() {
        if exponent.is_integer() {
            let steady = || x.is_zero() && exponent.is_positive() || x.as_exact().is_some_and(One::is_one);
            return match exponent.to_integer().to_i64() {
                Some(times) => x.power(times),
                None if steady() => Ok(x.clone()),
                None => Err(CalculatorError::Overflow),
            };
        }
        if let (Some(degree @ 2..=64), Some(times)) = (exponent.denom().to_u32(), exponent.numer().to_i64())
            && (!x.is_negative() || degree.is_odd())
            && !(x.is_zero() && times < 0)
        {
            let root = root(x, degree)?;
            if root.as_exact().is_some() || x.is_negative() {
                return root.power(times);
            }
        }
    }
    match (x.is_zero(), x.is_negative(), y.is_negative()) {
        (true, _, true) => Err(CalculatorError::DividedByZero),
        (true, ..) => Ok(x.clone()),
        (_, true, _) => Err(CalculatorError::NotReal),
        _ => nonzero_power(x.to_f64()?, y.to_f64()?),
    }
}

fn trigonometry(name: &str, x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    let value = x.to_f64().map_err(|_| CalculatorError::OutOfRange("sin/cos/tan", "-10^6 … 10^6"))?;
    let inverse = name.starts_with('a');
    if !inverse && value.abs() > MAX_ANGLE_RADIANS {
        return Err(CalculatorError::OutOfRange("sin/cos/tan", "-10^6 … 10^6"));
    }
    if matches!(name, "asin" | "acos") && value.abs() > 1.0 {
        return Err(CalculatorError::OutOfRange("asin/acos", "-1 … 1"));
    }
    // A sine below the error of the angle is zero.
    let snapped = |sine: f64| if sine.abs() < value.abs().max(1.0) * f64::EPSILON { 0.0 } else { sine };
    CalculatorNumber::approximate(match name {
        "sin" => snapped(value.sin()),
        "cos" => snapped(value.cos()),
        "tan" if snapped(value.cos()) == 0.0 => return Err(CalculatorError::NotDefined("tan")),
        "tan" => snapped(value.sin()) / value.cos(),
        "asin" => value.asin(),
        "acos" => value.acos(),
        _ => value.atan(),
    })
}

/// `n!`
pub(super) fn factorial(x: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    let n = x.to_i64().filter(|n| *n >= 0).ok_or(CalculatorError::OutOfRange("factorial", "0, 1, 2, …"))?;
    product_of_range(1, n)
}

/// `n · (n-1) · … · (n-k+1)`
fn permutations(n: &CalculatorNumber, k: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    match non_negative_pair(n, k)? {
        (_, 0) => CalculatorNumber::whole(1),
        (n, k) if k > n => CalculatorNumber::whole(0),
        (n, k) => product_of_range(n - k + 1, n),
    }
}

/// How many ways there are to take `k` out of `n`.
fn combinations(n: &CalculatorNumber, k: &CalculatorNumber) -> Result<CalculatorNumber, CalculatorError> {
    let (n, k) = non_negative_pair(n, k)?;
    match k.min(n - k) {
        ..0 => CalculatorNumber::whole(0),
        0 => CalculatorNumber::whole(1),
        k => product_of_range(n - k + 1, n)?.div(&product_of_range(1, k)?),
    }
}

fn non_negative_pair(n: &CalculatorNumber, k: &CalculatorNumber) -> Result<(i64, i64), CalculatorError> {
    let count = |x: &CalculatorNumber| x.to_i64().filter(|n| *n >= 0);
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

fn sum(numbers: &[&CalculatorNumber]) -> Result<CalculatorNumber, CalculatorError> {
    numbers.iter().try_fold(CalculatorNumber::whole(0)?, |sum, one| sum.add(one))
}

fn fold_whole(
    name: &str,
    numbers: &[&CalculatorNumber],
    start: BigInt,
    fold: impl Fn(&BigInt, &BigInt) -> BigInt,
) -> Result<CalculatorNumber, CalculatorError> {
    let mut result = start;
    for number in numbers {
        let whole = number.as_exact().filter(|value| value.is_integer());
        let whole = whole.ok_or_else(|| CalculatorError::Arguments(name.to_owned(), "whole numbers"))?;
        result = fold(&result, whole.numer());
        if result.bits() > MAX_EXACT_BITS {
            return Err(CalculatorError::Overflow);
        }
    }
    CalculatorNumber::whole(result)
}

/// How many arguments a function takes.
fn argument_count(name: &str) -> Option<&'static str> {
    Some(match name {
        "sqrt" | "제곱근" | "cbrt" | "세제곱근" | "abs" | "절댓값" | "절대값" | "floor" | "내림" | "버림"
        | "ceil" | "올림" | "trunc" | "exp" | "ln" | "log10" | "log2" | "sin" | "cos" | "tan" | "asin"
        | "acos" | "atan" | "fact" | "factorial" | "팩토리얼" => "1",
        "round" | "반올림" | "log" | "로그" => "1–2",
        "root" | "mod" | "나머지" | "pow" | "제곱" | "comb" | "ncr" | "조합" | "perm" | "npr" | "순열" => {
            "2"
        }
        "min" | "최소" | "최솟값" | "max" | "최대" | "최댓값" | "sum" | "합" | "합계" | "avg" | "mean"
        | "average" | "평균" | "median" | "중앙값" => "1 …",
        "gcd" | "최대공약수" | "lcm" | "최소공배수" => "2 …",
        _ => return None,
    })
}
