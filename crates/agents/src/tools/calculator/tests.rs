//! What the calculator answers, as tables.

use super::*;

fn korean_answer(expression: &str) -> String {
    match calculate(expression) {
        Ok(answer) => answer.to_text(Language::Korean),
        Err(error) => {
            format!("! {}", error.to_text(Language::English).split(':').next().unwrap_or_default())
        }
    }
}

fn check(cases: &[(&str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(expression, expected)| {
            let found = korean_answer(expression);
            (found != *expected).then(|| format!("{expression}\n   expected {expected}\n   found    {found}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn whole_numbers_and_decimals_are_exact() {
    check(&[
        ("123 * 456", "56088"),
        ("0.1+0.2", "0.3"),
        ("9007199254740993+0", "9007199254740993"),
        ("2^200", "1606938044258990275541962092341162602522202993782792835301376"),
        ("1/8", "0.125"),
        ("-7/2", "-3.5"),
        ("1/3", "0.33333333333333333333 (정확한 값 1/3; 반올림, 유효숫자 20자리)"),
        ("2/3*3", "2"),
        ("1.10 - 1.00", "0.1"),
        ("0.1^60", "1e-60"),
        ("1e3 + 2.5E-1", "1000.25"),
        ("7//2", "3"),
        ("-7//2", "-4"),
        ("mod(7, -3)", "-2"),
        ("7 mod 3", "1"),
        ("7 % 3", "1"),
        ("170!/169!", "170"),
    ]);
}

#[test]
fn signs_bind_as_in_mathematics() {
    check(&[
        ("2+3*4", "14"),
        ("(2+3)*4", "20"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^3^2", "512"),
        ("2**10", "1024"),
        ("2^-2", "0.25"),
        ("10-3-2", "5"),
        ("100/10/2", "5"),
        ("--5", "5"),
        ("3!!", "720"),
        ("-3!", "-6"),
        ("5²+2³", "33"),
        ("√16+√(9)", "7"),
        ("12*3=", "36"),
    ]);
}

#[test]
fn people_write_numbers_in_many_ways() {
    check(&[
        ("1,234,567+1", "1234568"),
        ("1_000_000", "1000000"),
        ("12,34", "! syntax"),
        ("３＋４", "7"),
        ("６×７÷２−１", "20"),
        ("3 x 4", "12"),
        ("3만5천", "35000"),
        ("3만5천원 * 2", "70,000원"),
        ("천만 원", "10,000,000원"),
        ("1억 2천만원", "120,000,000원"),
        ("2.5억", "250000000"),
        ("1억2345만6789", "123456789"),
        ("이천", "! syntax"),
        ("백만 + 십만", "1100000"),
        ("3천5백", "3500"),
        ("만", "10000"),
        ("1만 2억", "! syntax"),
        ("₩12,000 + 3천원", "15,000원"),
        ("max(100,200)", "200"),
        ("max(1,234)", "234"),
        ("(1,234)", "1234"),
    ]);
}

#[test]
fn percent_is_what_a_pocket_calculator_means() {
    check(&[
        ("2400000*15%", "360000"),
        ("240만원*15%", "360,000원"),
        ("15%", "0.15"),
        ("50+10%", "55 (+/- 뒤의 %는 앞 값의 비율로 계산)"),
        ("100-30%", "70 (+/- 뒤의 %는 앞 값의 비율로 계산)"),
        ("50+(10%)", "50.1"),
        ("10%+5%", "0.15"),
        ("200*10%-5", "15"),
        ("7 % -3", "! ambiguous"),
        ("10% - 3", "-2.9"),
    ]);
}

#[test]
fn money_is_a_unit() {
    check(&[
        ("5만원/4", "12,500원"),
        ("10만원/2만원", "5"),
        ("240만원*(1-12.5/100)", "2,100,000원"),
        ("0 - 1234.5원", "-1,234.5원"),
        ("999원 + 0", "999원"),
        ("3만원 * 5", "150,000원"),
        ("30000원/30*30", "30,000원"),
        ("3만원 * 2만원", "! units"),
        ("10/2원", "! units"),
        ("1000원^2", "! units"),
        ("2026-01-01 + 30", "! units"),
        ("2026-12-31", "! units"),
        ("2026-1-1", "2024"),
        ("2026-45-45", "1936"),
        ("3일+2주", "! syntax"),
    ]);
    assert_eq!(calculate("3만원").expect("answer").to_text(Language::English), "30,000 won");
}

#[test]
fn functions_are_exact_where_they_can_be() {
    check(&[
        ("sqrt(144)", "12"),
        ("sqrt(2.25)", "1.5"),
        ("4^0.5", "2"),
        ("(-8)^(1/3)", "-2"),
        ("cbrt(27)", "3"),
        ("log(1000)", "3 (log는 밑이 10)"),
        ("log(8, 2)", "3"),
        ("log2(1/1024)", "-10"),
        ("ln(1)", "0"),
        ("exp(0)", "1"),
        ("gcd(12,18)", "6"),
        ("lcm(4, 6, 10)", "60"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(3.14159, 2)", "3.14"),
        ("반올림(1234567, -3)", "1235000"),
        ("floor(-1.5)", "-2"),
        ("올림(1.2)", "2"),
        ("min(3, 1/2, 2)", "0.5"),
        ("평균(1, 2, 3, 4)", "2.5"),
        ("median(3, 1, 2)", "2"),
        ("합계(1만원, 5천원)", "15,000원"),
        ("comb(10, 3)", "120"),
        ("perm(5, 2)", "20"),
        ("5!", "120"),
        ("abs(-3)", "3"),
    ]);
}

#[test]
fn what_cannot_be_exact_says_how_many_digits_it_shows() {
    const ROUNDED: &str = "반올림, 유효숫자 12자리";
    const ANGLE: &str = "각도는 라디안, 도는 30°처럼";
    let cases = [
        ("sqrt(2)", format!("1.41421356237 ({ROUNDED})")),
        ("2^0.5", format!("1.41421356237 ({ROUNDED})")),
        ("sqrt(2)^2", format!("2 ({ROUNDED})")),
        ("pi", format!("3.14159265359 ({ROUNDED})")),
        ("e", format!("2.71828182846 ({ROUNDED})")),
        ("exp(100)", format!("2.68811714182e43 ({ROUNDED})")),
        ("exp(-1)", format!("0.367879441171 ({ROUNDED})")),
        ("ln(2)", format!("0.69314718056 ({ROUNDED})")),
        ("ln(10)", format!("2.30258509299 ({ROUNDED})")),
        ("ln(1+1e-50)", format!("1e-50 ({ROUNDED})")),
        ("sin(1)", format!("0.841470984808 ({ROUNDED}; {ANGLE})")),
        ("cos(1)", format!("0.540302305868 ({ROUNDED}; {ANGLE})")),
        ("sin(30°)", format!("0.5 ({ROUNDED}; {ANGLE})")),
        ("sin(pi)", format!("0 ({ROUNDED}; {ANGLE})")),
        ("tan(45°)", format!("1 ({ROUNDED}; {ANGLE})")),
        ("sin(1e6)", format!("-0.349993502171 ({ROUNDED}; {ANGLE})")),
        ("atan(1)*4", format!("3.14159265359 ({ROUNDED}; {ANGLE})")),
        ("acos(-1)", format!("3.14159265359 ({ROUNDED}; {ANGLE})")),
        ("sqrt(8)-2*sqrt(2)", format!("0 ({ROUNDED})")),
        ("1.05^0.5*100", format!("102.469507660 ({ROUNDED})").replace("660 ", "66 ")),
        ("1.000137^3650", format!("1.64874723778 ({ROUNDED})")),
        ("(1/3)^20000", "! overflow".to_owned()),
        ("1e-200^0.31", format!("1e-62 ({ROUNDED})")),
        ("floor(sqrt(2)*10^6)", "1414213".to_owned()),
        ("max(sqrt(2), 1.5)", "1.5".to_owned()),
    ];
    let cases: Vec<(&str, &str)> =
        cases.iter().map(|(expression, expected)| (*expression, expected.as_str())).collect();
    check(&cases);
}

#[test]
fn hostile_expressions_get_a_sentence() {
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let deep_but_short = format!("{}1{}", "(".repeat(500), ")".repeat(500));
    let signs = "-".repeat(1000) + "1";
    let powers = "2^".repeat(400) + "2";
    let long = "1".repeat(5 << 20);
    check(&[
        ("9^9^9^9", "! overflow"),
        ("9**9**9", "! overflow"),
        ("9^9^9^-9", "9.00000011215 (반올림, 유효숫자 12자리)"),
        (&deep, "! too_long"),
        (&deep_but_short, "! too_deep"),
        (&signs, "! too_deep"),
        (&powers, "! too_deep"),
        ("1/0", "! division_by_zero"),
        ("0/0", "! division_by_zero"),
        ("0^-1", "! division_by_zero"),
        ("(-1)^0.5", "! not_real"),
        ("sqrt(-1)", "! not_real"),
        ("ln(0)", "! not_real"),
        ("tan(90°)", "! undefined"),
        ("5 mod 0", "! division_by_zero"),
        ("2**31", "2147483648"),
        ("fact(1000000000)", "! overflow"),
        ("1e9!", "! overflow"),
        ("(-1)!", "! range"),
        ("comb(1000000000000, 500000000000)", "! overflow"),
        ("comb(9223372036854775807, 0) + perm(9223372036854775807, 0)", "2"),
        ("comb(9223372036854775807, 9223372036854775807)", "1"),
        // only the digits that everybody reads
        ("٣+٤", "! syntax"),
        ("__import__('os').system('id')", "! syntax"),
        ("{{7*7}}", "! syntax"),
        ("process.exit()", "! syntax"),
        ("1+1; DROP TABLE threads", "! syntax"),
        ("abc", "! syntax"),
        ("", "! syntax"),
        (" ", "! syntax"),
        (&long, "! too_long"),
        ("1+", "! syntax"),
        (")", "! syntax"),
        ("(1", "! syntax"),
        ("2(3)", "! syntax"),
        ("1 2", "! syntax"),
        ("1..2", "! syntax"),
        ("inf", "! syntax"),
        ("nan", "! syntax"),
        ("gcd(1.5, 2)", "! syntax"),
        ("sqrt()", "! syntax"),
        ("1e99999", "! overflow"),
        ("1e999999999999999999999", "! overflow"),
        ("sin(1e300)", "! range"),
        ("exp(1e300)", "! overflow"),
    ]);
    assert_eq!(korean_answer("1e308*10"), format!("1{}", "0".repeat(309)));
    assert_eq!(korean_answer("170!").len(), 307);
}

/// A generator of numbers that need only look random, from a seed that names a failure.
struct CalculatorTestRng(u64);

impl CalculatorTestRng {
    fn next_below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap_or(0)
    }
}

#[test]
fn any_text_gets_an_answer_or_a_sentence_and_never_infinity() {
    const PIECES: &[&str] = &[
        "1",
        "0",
        "9",
        "2.5",
        "1e9",
        "1e-300",
        "999999999999",
        "만",
        "억",
        "천",
        "원",
        "일",
        "주",
        "시간",
        "%",
        "!",
        "^",
        "**",
        "*",
        "/",
        "//",
        "+",
        "-",
        "(",
        ")",
        ",",
        "sqrt(",
        "ln(",
        "exp(",
        "sin(",
        "tan(",
        "fact(",
        "log(",
        "root(",
        "round(",
        "gcd(",
        "comb(",
        "pow(",
        "pi",
        "e",
        "mod",
        "√",
        "²",
        "°",
        " ",
        "=",
        "x",
        "가",
        "\u{0}",
        "𝟙",
        "max(",
        "median(",
        "avg(",
    ];
    for seed in 1..4000u64 {
        let mut dice = CalculatorTestRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let count = 1 + dice.next_below(24);
        let text: String = (0..count).map(|_| PIECES[dice.next_below(PIECES.len())]).collect();
        let words = korean_answer(&text).to_lowercase();
        assert!(
            !words.is_empty() && !words.contains("inf") && !words.contains("nan"),
            "seed {seed}: {text} → {words}"
        );
    }
}

#[test]
fn sums_and_products_agree_with_machine_numbers() {
    for seed in 1..1000u64 {
        let mut dice = CalculatorTestRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut text = String::new();
        let (mut total, mut term) = (0i128, 0i128);
        for place in 0..1 + dice.next_below(12) {
            let number = i128::try_from(dice.next_below(1000)).expect("small");
            match (place, dice.next_below(3)) {
                (0, _) => term = number,
                (_, 0) => {
                    text.push('*');
                    term = term.wrapping_mul(number);
                }
                (_, sign) => {
                    text.push(if sign == 1 { '+' } else { '-' });
                    total += term;
                    term = if sign == 1 { number } else { -number };
                }
            }
            text += &number.to_string();
        }
        assert_eq!(korean_answer(&text), (total + term).to_string(), "seed {seed}: {text}");
    }
}
