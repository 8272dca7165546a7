//! Which sentences hold which formula.

use crate::arithmetic::{formula, miswritten};

fn check(question: &str, expected: &str) {
    assert_eq!(formula(question).as_deref().unwrap_or("-"), expected, "{question}");
}

#[test]
fn signs_are_read() {
    check("123 * 456 계산해줘", "123 * 456");
    check("what is 12*7", "12 * 7");
    check("12 x 7은?", "12 * 7");
    check("2,400,000 ÷ 12", "2400000 / 12");
    check("(1 + 2) * 3 = ?", "(1 + 2) * 3");
    check("2^10 계산", "2 ^ 10");
    check("2**10 계산", "2 ^ 10");
    check("10/4는 얼마야?", "10 / 4");
    check("sqrt(2) + 1", "sqrt(2) + 1");
    check("max(3, 5) 계산해줘", "max(3, 5)");
    check("1/0 계산해줘", "1 / 0");
    check("-3 + 5", "-3 + 5");
    check("10 % 3", "10 % 3");
}

#[test]
fn words_and_korean_numbers_are_read() {
    check("2400000의 15%는?", "2400000 * 15 / 100");
    check("240만원의 3.3%는 얼마야?", "2400000원 * 3.3 / 100");
    check("1억 2천만 원의 20%는 얼마야?", "120000000원 * 20 / 100");
    check("3만 원에 5천 원을 더하면?", "30000원 + 5000원");
    check("3만 5천 곱하기 4", "35000 * 4");
    check("1억 2,000만 나누기 3은 얼마?", "120000000 / 3");
    check("1.5억 더하기 5천만", "150000000 + 50000000");
    check("100에서 30을 빼면?", "100 - 30");
    check("5에 3을 더하고 2를 곱하면?", "(5 + 3) * 2");
    check("10을 4로 나누면 얼마인가요", "10 / 4");
    check("7의 제곱은?", "7 ^ 2");
    check("2의 10제곱은?", "2 ^ 10");
    check("81의 제곱근", "sqrt(81)");
    check("루트 2는?", "sqrt(2)");
    check("5만원의 3배는?", "50000원 * 3");
    check("15% of 80", "15 / 100 * 80");
    check("3만원의 15퍼센트는?", "30000원 * 15 / 100");
    check("What is 15 percent of 30,000 won?", "15 / 100 * 30000원");
    check("5만 원에서 20프로 할인하면 얼마야?", "50000원 * (1 - 20 / 100)");
    check("$80의 5퍼센트", "80 * 5 / 100");
    check("30은 120의 몇 퍼센트야?", "30 / 120 * 100");
    check("7 plus 5", "7 + 5");
    check("10 divided by 4", "10 / 4");
    check("연차휴가가 며칠인지 보고 1 + 1도 계산해줘", "1 + 1");
    check("12 * 7개만 알려줘", "12 * 7");
    check("3만 원에 5천 원까지 더하면?", "30000원 + 5000원");
    check("12 + 7랑 서울 날씨", "12 + 7");
}

#[test]
fn money_keeps_its_unit() {
    check("240만원에서 12.5% 할인하면?", "2400000원 * (1 - 12.5 / 100)");
    check("₩12,000 더하기 3천원", "12000원 + 3000원");
    check("3만원 x 4", "30000원 * 4");
    check("10만원을 4명으로 나누면?", "100000원 / 4");
    check("30만원은 120만원의 몇 퍼센트야?", "300000원 / 1200000원 * 100");
    check("(3만원 + 5천원) * 2", "(30000원 + 5000원) * 2");
    check("1만원 + 2만원은 얼마야?", "10000원 + 20000원");
    check("7만 원의 절반은?", "70000원 / 2");
    check("월 3만원-5만원 요금제가 있나요?", "-");
}

#[test]
fn labels_dates_and_telephone_numbers_are_no_formulas() {
    for question in [
        "제5조 내용이 뭐야?",
        "2026-11-15은 무슨 요일?",
        "010-1234-5678로 전화해",
        "제5조-6조 비교",
        "24/7 지원되나요?",
        "10/12에 뭐 해?",
        "연차는 15일인가요?",
        "계산해줘",
        "3만 5천",
        "3만 원",
        "5 원칙의 20% 이상을 지키나요?",
        "",
        "---",
        "1.5",
        "C++ 문서",
        "COVID-19 규정",
        "A/B 테스트",
    ] {
        check(question, "-");
    }
}

#[test]
fn what_is_no_formula_is_taken_as_it_was_written() {
    let check = |question: &str, expected: &str| {
        assert_eq!(miswritten(question).as_deref().unwrap_or("-"), expected, "{question}");
    };
    check("2 +* 3 계산해줘", "2 +* 3");
    check("abc 계산해줘", "abc");
    check("calculate abc", "abc");
    check("calculate this", "-");
    check("1 + (2 * 3을 계산해줘", "1 + (2 * 3");
    check("안녕! abc + 1 계산해줘", "abc + 1");
    check("please calculate 2 +* 3?", "2 +* 3");
    for question in
        ["계산해줘", "급여 계산해줘", "VAT 계산해줘", "2026 계산해줘", "calculate the total - please"]
    {
        check(question, "-");
    }
}

#[test]
fn hostile_formulas_end() {
    check(&"9".repeat(5000), "-");
    check(&format!("{}조 더하기 1", "9".repeat(60)), "-");
    check(&"1+".repeat(5000), "-");
    check("+*/-", "-");
}
