//! In what a question wants its answer: a number in some unit, or a time.

use super::text::contains_any_cue;

/// What an answer has to hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpectedAnswer {
    /// The units in which a number is asked for.
    units: Vec<&'static str>,
    when: Option<ExpectedTime>,
    /// The question without the words that only ask for a number.
    pub(super) rest: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedTime {
    /// Any time or occasion.
    At,
    /// A limit of time.
    Until,
}

/// What can be counted after 몇, longer words first.
const KOREAN_COUNTERS: &str = "시간|개월|퍼센트|킬로미터|미터|차례|군데|사람|번째|시|분|초|년|월|일|주|달|명|개|층|번|회|자|살|원|장|\
    대|건|곳|권|통|배|평|쪽";

/// What time is counted in.
const TIMES: &str = "영업일|일|개월|월|년|주일|주|시간|시|분|초|달";

/// Numbers as they stand before what is counted.
const NUMERALS: &str = "한|두|세|네|다섯|여섯|일곱|여덟|아홉|열|열한|열두|열세|열네|열다섯|열여섯|열일곱|열여덟|열아홉|스무|\
    스물|서른|마흔|쉰|예순|일흔|여든|아흔|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|\
    twenty|thirty|sixty|ninety";

impl ExpectedAnswer {
    pub(super) fn of_question(question: &str) -> Self {
        let lower = question.to_lowercase();
        let (mut units, rest) = requested_units(question);
        if lower.contains("며칠") {
            units.push("일");
        }
        if lower.contains("얼마") {
            units.push("원");
        }
        if lower.contains("how many days") {
            units.extend([" days", " day"]);
        }
        if lower.contains("how much") {
            units.extend([" won", " dollars"]);
        }
        Self { units, when: expected_time(&lower), rest }
    }

    /// Whether it wants a number or a time, and not to be told about something.
    pub(super) fn is_for_one_thing(&self) -> bool {
        !self.units.is_empty() || self.when.is_some()
    }

    /// Whether a sentence holds a number in the unit that was asked for.
    pub(super) fn is_counted_in(&self, sentence: &str) -> bool {
        self.units.iter().any(|unit| holds_number_of(sentence, unit))
    }

    /// Whether a sentence can be an answer at all: who asks for a time is not told an amount.
    pub(super) fn fits(&self, sentence: &str) -> bool {
        let lower = sentence.to_lowercase();
        match self.when {
            None => true,
            Some(ExpectedTime::Until) => tells_a_time(&lower),
            Some(ExpectedTime::At) => tells_a_time(&lower) || tells_an_occasion(&lower),
        }
    }
}

/// The units that 몇 asks for, and the question without that: "점심시간은 몇 시인가요?" asks for 점심시간.
fn requested_units(question: &str) -> (Vec<&'static str>, String) {
    let (mut units, mut rest, mut left) = (Vec::new(), String::new(), question);
    while let Some((before, after)) = left.split_once('몇') {
        rest.push_str(before);
        let word = after.trim_start();
        let Some(unit) = KOREAN_COUNTERS.split('|').find(|unit| word.starts_with(unit)) else {
            rest.push('몇');
            left = after;
            continue;
        };
        units.push(unit);
        let end = word.find(char::is_whitespace).unwrap_or(word.len());
        left = &word[end..];
    }
    rest.push_str(left);
    (units, rest)
}

fn expected_time(lower: &str) -> Option<ExpectedTime> {
    if contains_any_cue(lower, "언제까지|기한|마감|deadline|by when|due date") {
        return Some(ExpectedTime::Until);
    }
    let asks = "when must|when do|when is|when are|when can|when should|when will|when did";
    let asked = lower.starts_with("when ") || contains_any_cue(lower, asks);
    let korean = lower.contains("언제") && !contains_any_cue(lower, "언제든|언제나|언제라도");
    (korean || asked).then_some(ExpectedTime::At)
}

/// Whether a number stands before a unit: `12시`, `12 시`, `열두 시`, `5만 원`.
fn holds_number_of(text: &str, unit: &str) -> bool {
    text.match_indices(unit).any(|(at, _)| {
        // A fraction such as 3분의 1 counts nothing.
        let fraction = unit == "분" && text[at + unit.len()..].starts_with('의');
        let before = text[..at].trim_end();
        let close = before.len() + 1 >= at;
        let bare = before.trim_end_matches(['십', '백', '천', '만', '억']).trim_end();
        let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        let numeral = NUMERALS.split('|').any(|numeral| numeral == word);
        close && !fraction && (bare.ends_with(|char: char| char.is_ascii_digit()) || numeral)
    })
}

fn tells_a_time(lower: &str) -> bool {
    let words = "매월|매달|매년|매주|매일|월말|연말|말일|분기|요일|즉시|지체 없이|지체없이|곧바로|당일|다음 날|다음날|다음 달|\
        다음 해|이튿날|내일|모레|오늘|어제|오전|오후|정오|자정|이틀|사흘|나흘|닷새|열흘|보름|일주일|하루 전|하루 안|\
        하루 이내|immediately|at once|without delay|monthly|weekly|daily|annually|every month|every year|monday|\
        tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|june|july|august|september|\
        october|november|december|noon|midnight|a month|a week|a day|a year";
    let english = " day| week| month| year| hour| am| pm| business day| calendar day";
    contains_any_cue(lower, words)
        || TIMES.split('|').chain(english.split('|')).any(|unit| holds_number_of(lower, unit))
}

fn tells_an_occasion(lower: &str) -> bool {
    let words = "때|경우|하면|되면|으면|전에|전까지|후에|뒤에|끝나|시작|만료|종료|부터|항상|상시|\
        before|after|until|when|once |if |upon|as soon as|during|at any time|end of|within";
    contains_any_cue(lower, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_asked_for_in_units() {
        for (question, sentence, counted) in [
            ("점심시간은 몇 시인가요?", "점심시간은 12시부터 13시까지이다.", true),
            ("점심시간은 몇시야?", "점심은 열두 시에 먹는다.", true),
            ("점심시간은 몇 시인가요?", "점심시간에는 쉰다.", false),
            ("팀은 몇 명이야?", "팀은 다섯 명이다.", true),
            ("몇 년에 세웠어?", "1998년에 세웠다.", true),
            ("비밀번호는 몇 자 이상이어야 하나요?", "비밀번호는 12자 이상으로 한다.", true),
            ("연차는 며칠인가요?", "연차휴가 15일을 준다.", true),
            ("식비는 얼마야?", "식비는 하루에 4만 원까지 준다.", true),
            ("식비는 얼마야?", "식비는 회사가 낸다.", false),
            ("How many days?", "You have 15 days of leave.", true),
        ] {
            assert_eq!(
                ExpectedAnswer::of_question(question).is_counted_in(sentence),
                counted,
                "{question} {sentence}"
            );
        }
        assert_eq!(ExpectedAnswer::of_question("점심시간은 몇 시인가요?").rest.trim(), "점심시간은");
        assert_eq!(
            ExpectedAnswer::of_question("비밀번호는 몇 자 이상이어야 하나요?").rest,
            "비밀번호는  이상이어야 하나요?"
        );
    }

    #[test]
    fn who_asks_for_a_time_is_not_told_an_amount() {
        let lodging = "숙박비는 하룻밤에 12만 원까지, 식비는 하루에 4만 원까지 돌려준다.";
        for (question, sentence, fits) in [
            ("출장비 정산은 언제까지야?", lodging, false),
            ("출장비 정산은 언제까지야?", "돌아온 날부터 7일 안에 정산한다.", true),
            ("정산 기한은?", "영수증이 없을 때는 돌려주지 않는다.", false),
            ("언제 해지할 수 있어?", "갑이 대금을 내지 않을 때 해지할 수 있다.", true),
            ("언제 해지할 수 있어?", "위약금은 10퍼센트로 한다.", false),
            ("회의는 언제야?", "회의는 금요일에 한다.", true),
            ("지분은 언제 넘겨?", "지분은 3분의 1을 넘긴다.", false),
            ("언제든지 해지할 수 있어?", "위약금은 10퍼센트로 한다.", true),
            ("When are invoices due?", "Invoices are due within thirty days.", true),
            ("When are invoices due?", "Invoices are sent to the office.", false),
            ("What happens when the contract ends?", "All material is returned.", true),
        ] {
            assert_eq!(ExpectedAnswer::of_question(question).fits(sentence), fits, "{question} {sentence}");
        }
    }
}
