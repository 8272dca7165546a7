//! The functions that an expression can call, by their English and Korean names.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, Zero};

use super::evaluate::{Unit, Value, add_note, bare};
use super::functions as f;
use super::number::{MOST_BITS, Number};
use super::{Note, Trouble};

/// The value of a function.
pub(super) fn call(name: &str, arguments: &[Value], notes: &mut Vec<Note>) -> Result<Value, Trouble> {
    let numbers: Vec<&Number> = arguments.iter().map(|one| &one.number).collect();
    let unit = arguments.iter().try_fold(Unit::NONE, |unit, one| unit.joined(one.unit))?;
    let keeps = |number: Number| Value { number, unit, percent: false };
    let wrong = |takes: &'static str| Trouble::Arguments(name.to_owned(), takes);
    Ok(match (name, numbers.as_slice()) {
        ("sqrt" | "제곱근", [x]) => bare(f::sqrt(x)?),
        ("cbrt" | "세제곱근", [x]) => bare(f::root(x, 3)?),
        ("root", [x, n]) => bare(f::root(x, n.to_i64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0))?),
        ("abs" | "절댓값" | "절대값", [x]) => keeps(Number { value: x.value.abs(), exact: x.exact }),
        ("sign", [x]) => bare(Number::exact(x.value.signum())?),
        ("floor" | "내림" | "버림", [x]) => keeps(Number::exact(x.value.floor())?),
        ("ceil" | "올림", [x]) => keeps(Number::exact(x.value.ceil())?),
        ("trunc", [x]) => keeps(Number::exact(x.value.trunc())?),
        ("round" | "반올림", [x]) => keeps(x.rounded(0)?),
        ("round" | "반올림", [x, digits]) => {
            let digits = digits.to_i64().filter(|digits| digits.unsigned_abs() <= 1000);
            keeps(x.rounded(digits.ok_or(Trouble::Range("round", "-1000 … 1000"))?)?)
        }
        ("min" | "최소" | "최솟값", [_, ..]) => keeps(
            numbers.iter().min_by(|a, b| a.value.cmp(&b.value)).copied().ok_or(Trouble::Unfinished)?.clone(),
        ),
        ("max" | "최대" | "최댓값", [_, ..]) => keeps(
            numbers.iter().max_by(|a, b| a.value.cmp(&b.value)).copied().ok_or(Trouble::Unfinished)?.clone(),
        ),
        ("sum" | "합" | "합계", [_, ..]) => keeps(sum(&numbers)?),
        ("avg" | "mean" | "average" | "평균", [_, ..]) => {
            keeps(sum(&numbers)?.div(&Number::whole(numbers.len() as u64)?)?)
        }
        ("median" | "중앙값", [_, ..]) => {
            let mut sorted = numbers.clone();
            sorted.sort_by(|a, b| a.value.cmp(&b.value));
            let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            keeps(low.add(high)?.div(&Number::whole(2)?)?)
        }
        ("gcd" | "최대공약수", [_, _, ..]) => {
            bare(fold_whole(name, &numbers, BigInt::zero(), |a, b| a.gcd(b))?)
        }
        ("lcm" | "최소공배수", [_, _, ..]) => {
            bare(fold_whole(name, &numbers, BigInt::one(), |a, b| a.lcm(b))?)
        }
        ("mod" | "나머지", [a, b]) => keeps(a.modulo(b)?),
        ("pow" | "제곱", [a, b]) => bare(f::power(a, b)?),
        ("exp", [x]) => bare(f::exp(x)?),
        ("ln", [x]) => bare(f::ln(x)?),
        ("log" | "로그", [x]) => {
            add_note(notes, Note::LogIsBaseTen);
            bare(f::log(x, &Number::whole(10)?)?)
        }
        ("log10", [x]) => bare(f::log(x, &Number::whole(10)?)?),
        ("log2", [x]) => bare(f::log(x, &Number::whole(2)?)?),
        ("log" | "로그", [x, base]) => bare(f::log(x, base)?),
        ("sin" | "cos" | "tan", [x]) => {
            add_note(notes, Note::AnglesAreRadians);
            bare(match name {
                "sin" => f::sin(x)?,
                "cos" => f::cos(x)?,
                _ => f::tan(x)?,
            })
        }
        ("asin" | "acos" | "atan", [x]) => {
            add_note(notes, Note::AnglesAreRadians);
            bare(match name {
                "asin" => f::asin(x)?,
                "acos" => f::acos(x)?,
                _ => f::atan(x)?,
            })
        }
        ("rad" | "radians", [x]) => bare(x.mul(&f::pi()?)?.div(&Number::whole(180)?)?),
        ("deg" | "degrees", [x]) => bare(x.mul(&Number::whole(180)?)?.div(&f::pi()?)?),
        ("fact" | "factorial" | "팩토리얼", [x]) => bare(f::factorial(x)?),
        ("comb" | "ncr" | "조합", [n, k]) => bare(f::combinations(n, k)?),
        ("perm" | "npr" | "순열", [n, k]) => bare(f::permutations(n, k)?),
        (known, _) => match takes(known) {
            Some(takes) => return Err(wrong(takes)),
            None => return Err(Trouble::UnknownName(name.chars().take(40).collect())),
        },
    })
}

fn sum(numbers: &[&Number]) -> Result<Number, Trouble> {
    numbers.iter().try_fold(Number::whole(0)?, |sum, one| sum.add(one))
}

fn fold_whole(
    name: &str,
    numbers: &[&Number],
    start: BigInt,
    fold: impl Fn(&BigInt, &BigInt) -> BigInt,
) -> Result<Number, Trouble> {
    let mut result = start;
    for number in numbers {
        if !number.is_whole() || !number.exact {
            return Err(Trouble::Arguments(name.to_owned(), "whole numbers"));
        }
        result = fold(&result, number.value.numer());
        if result.bits() > MOST_BITS {
            return Err(Trouble::Overflow);
        }
    }
    Number::whole(result)
}

/// How many arguments a function takes.
fn takes(name: &str) -> Option<&'static str> {
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
