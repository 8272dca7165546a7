//! The functions that an expression can call, by their English and Korean names.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, Zero};

use super::evaluate::{CalculatorValue, ValueUnit, add_note, unitless};
use super::functions as f;
use super::number::{CalculatorNumber, MAX_EXACT_BITS};
use super::{CalculatorError, CalculatorNote};

/// The value of a function.
pub(super) fn call_function(
    name: &str,
    arguments: &[CalculatorValue],
    notes: &mut Vec<CalculatorNote>,
) -> Result<CalculatorValue, CalculatorError> {
    let numbers: Vec<&CalculatorNumber> = arguments.iter().map(|one| &one.number).collect();
    let unit = arguments.iter().try_fold(ValueUnit::NONE, |unit, one| unit.combined_with(one.unit))?;
    let keeps = |number: CalculatorNumber| CalculatorValue { number, unit, percent: false };
    let wrong = |takes: &'static str| CalculatorError::Arguments(name.to_owned(), takes);
    Ok(match (name, numbers.as_slice()) {
        ("sqrt" | "제곱근", [x]) => unitless(f::sqrt(x)?),
        ("cbrt" | "세제곱근", [x]) => unitless(f::root(x, 3)?),
        ("root", [x, n]) => {
            unitless(f::root(x, n.to_i64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0))?)
        }
        ("abs" | "절댓값" | "절대값", [x]) => {
            keeps(CalculatorNumber { value: x.value.abs(), exact: x.exact })
        }
        ("sign", [x]) => unitless(CalculatorNumber::exact(x.value.signum())?),
        ("floor" | "내림" | "버림", [x]) => keeps(CalculatorNumber::exact(x.value.floor())?),
        ("ceil" | "올림", [x]) => keeps(CalculatorNumber::exact(x.value.ceil())?),
        ("trunc", [x]) => keeps(CalculatorNumber::exact(x.value.trunc())?),
        ("round" | "반올림", [x]) => keeps(x.rounded(0)?),
        ("round" | "반올림", [x, digits]) => {
            let digits = digits.to_i64().filter(|digits| digits.unsigned_abs() <= 1000);
            keeps(x.rounded(digits.ok_or(CalculatorError::OutOfRange("round", "-1000 … 1000"))?)?)
        }
        ("min" | "최소" | "최솟값", [_, ..]) => keeps(
            numbers
                .iter()
                .min_by(|a, b| a.value.cmp(&b.value))
                .copied()
                .ok_or(CalculatorError::Unfinished)?
                .clone(),
        ),
        ("max" | "최대" | "최댓값", [_, ..]) => keeps(
            numbers
                .iter()
                .max_by(|a, b| a.value.cmp(&b.value))
                .copied()
                .ok_or(CalculatorError::Unfinished)?
                .clone(),
        ),
        ("sum" | "합" | "합계", [_, ..]) => keeps(sum(&numbers)?),
        ("avg" | "mean" | "average" | "평균", [_, ..]) => {
            keeps(sum(&numbers)?.div(&CalculatorNumber::whole(numbers.len() as u64)?)?)
        }
        ("median" | "중앙값", [_, ..]) => {
            let mut sorted = numbers.clone();
            sorted.sort_by(|a, b| a.value.cmp(&b.value));
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
        ("pow" | "제곱", [a, b]) => unitless(f::power(a, b)?),
        ("exp", [x]) => unitless(f::exp(x)?),
        ("ln", [x]) => unitless(f::ln(x)?),
        ("log" | "로그", [x]) => {
            add_note(notes, CalculatorNote::LogIsBaseTen);
            unitless(f::log(x, &CalculatorNumber::whole(10)?)?)
        }
        ("log10", [x]) => unitless(f::log(x, &CalculatorNumber::whole(10)?)?),
        ("log2", [x]) => unitless(f::log(x, &CalculatorNumber::whole(2)?)?),
        ("log" | "로그", [x, base]) => unitless(f::log(x, base)?),
        ("sin" | "cos" | "tan", [x]) => {
            add_note(notes, CalculatorNote::AnglesAreRadians);
            unitless(match name {
                "sin" => f::sin(x)?,
                "cos" => f::cos(x)?,
                _ => f::tan(x)?,
            })
        }
        ("asin" | "acos" | "atan", [x]) => {
            add_note(notes, CalculatorNote::AnglesAreRadians);
            unitless(match name {
                "asin" => f::asin(x)?,
                "acos" => f::acos(x)?,
                _ => f::atan(x)?,
            })
        }
        ("rad" | "radians", [x]) => unitless(x.mul(&f::pi()?)?.div(&CalculatorNumber::whole(180)?)?),
        ("deg" | "degrees", [x]) => unitless(x.mul(&CalculatorNumber::whole(180)?)?.div(&f::pi()?)?),
        ("fact" | "factorial" | "팩토리얼", [x]) => unitless(f::factorial(x)?),
        ("comb" | "ncr" | "조합", [n, k]) => unitless(f::combinations(n, k)?),
        ("perm" | "npr" | "순열", [n, k]) => unitless(f::permutations(n, k)?),
        (known, _) => match argument_count(known) {
            Some(takes) => return Err(wrong(takes)),
            None => return Err(CalculatorError::UnknownName(name.chars().take(40).collect())),
        },
    })
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
        if !number.is_whole() || !number.exact {
            return Err(CalculatorError::Arguments(name.to_owned(), "whole numbers"));
        }
        result = fold(&result, number.value.numer());
        if result.bits() > MAX_EXACT_BITS {
            return Err(CalculatorError::Overflow);
        }
    }
    CalculatorNumber::whole(result)
}

/// How many arguments a function takes.
fn argument_count(name: &str) -> Option<&'static str> {
    Some(match name {
        "sqrt" | "제곱근" | "cbrt" | "세제곱근" | "abs" | "절댓값" | "절대값" | "sign" | "floor" | "내림"
        | "버림" | "ceil" | "올림" | "trunc" | "exp" | "ln" | "log10" | "log2" | "sin" | "cos" | "tan"
        | "asin" | "acos" | "atan" | "rad" | "radians" | "deg" | "degrees" | "fact" | "factorial"
        | "팩토리얼" => "1",
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
