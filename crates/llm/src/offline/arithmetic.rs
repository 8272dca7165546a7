//! Finds a formula in a sentence: written in signs ("12*7"), in words ("3만 5천 곱하기 4", "six" is not read), or in
//! the Korean order ("100에서 30을 빼면"). Finding is all: whoever computes is somewhere else.

use super::text::holds;

/// The longest formula that is read.
const MOST: usize = 1000;

/// The formula of a question, if it holds one: numbers without separators, the signs `+ - * / ^ ( )`, functions by
/// name.
pub(super) fn formula(question: &str) -> Option<String> {
    let tokens = tokens(question)?;
    signs(&tokens, question).or_else(|| verbs(&tokens)).filter(|formula| formula.len() <= MOST)
}

/// Whether a sentence asks to compute something, formula or not.
pub(super) fn asks_to_compute(question: &str) -> bool {
    let lower = question.to_lowercase();
    ["계산해", "계산 좀", "계산하", "계산을", "calculate", "compute "].iter().any(|cue| lower.contains(cue))
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(String),
    /// A sign between two numbers, and whether it could also be a hyphen or slash inside a name or date.
    Sign(char, Surety),
    Percent,
    Open,
    Close,
    Function(&'static str),
    /// `제곱`, `제곱근` and the like after a number.
    After(After),
    /// "더하면": joins the two numbers before it.
    Verb(char),
    /// The word "의" or "of" between a number and a share of it.
    Of,
    /// Ends in words that tell an operand apart from a label: `조`, `항`, `월`.
    Label,
    Word,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Surety {
    Sure,
    Tight,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    Square,
    Root,
    Power,
    Half,
    Times,
}

const FUNCTIONS: [&str; 14] = [
    "sqrt",
    "sin",
    "cos",
    "tan",
    "log",
    "ln",
    "exp",
    "abs",
    "round",
    "floor",
    "ceil",
    "min",
    "max",
    "factorial",
];

/// Korean words for signs, and endings that join the two numbers before them.
const INFIX: [(&str, char); 12] = [
    ("더하기", '+'),
    ("플러스", '+'),
    ("plus", '+'),
    ("빼기", '-'),
    ("마이너스", '-'),
    ("minus", '-'),
    ("곱하기", '*'),
    ("times", '*'),
    ("multiplied", '*'),
    ("나누기", '/'),
    ("divided", '/'),
    ("over", '/'),
];

const VERBS: [(&str, char); 10] = [
    ("더하", '+'),
    ("더한", '+'),
    ("더해", '+'),
    ("빼", '-'),
    ("뺀", '-'),
    ("곱하", '*'),
    ("곱한", '*'),
    ("곱해", '*'),
    ("나누", '/'),
    ("나눈", '/'),
];

fn tokens(question: &str) -> Option<Vec<Token>> {
    let chars: Vec<char> = question.chars().collect();
    let mut tokens: Vec<Token> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let char = chars[at];
        if char.is_whitespace() {
            at += 1;
        } else if char.is_ascii_digit() {
            let (number, next) = number(&chars, at)?;
            tokens.push(Token::Number(number));
            at = unit(&chars, next, &mut tokens);
        } else if let Some((sign, sure)) = sign(&chars, at) {
            tokens.push(Token::Sign(sign, sure));
            // `**` is a power in some languages.
            at += if char == '*' && chars.get(at + 1) == Some(&'*') { 2 } else { 1 };
            if char == '*' && chars.get(at - 1) == Some(&'*') && at >= 2 && chars.get(at - 2) == Some(&'*') {
                tokens.pop();
                tokens.push(Token::Sign('^', Surety::Sure));
            }
        } else if char == '%' || char == '％' {
            tokens.push(Token::Percent);
            at += 1;
        } else if char == '(' {
            tokens.push(Token::Open);
            at += 1;
        } else if char == ')' {
            tokens.push(Token::Close);
            at += 1;
        } else if char == '√' {
            tokens.push(Token::Function("sqrt"));
            at += 1;
        } else if char.is_alphabetic() {
            let end = (at..chars.len()).find(|end| !chars[*end].is_alphabetic()).unwrap_or(chars.len());
            let word: String = chars[at..end].iter().collect::<String>().to_lowercase();
            tokens.push(word_token(&word, &tokens, chars.get(end)));
            at = end;
        } else if char == ',' && tokens.iter().any(|token| matches!(token, Token::Function(_))) {
            tokens.push(Token::Sign(',', Surety::Sure));
            at += 1;
        } else {
            if !matches!(char, '=' | '?' | '.' | '!') {
                tokens.push(Token::Word);
            }
            at += 1;
        }
    }
    Some(tokens)
}

fn sign(chars: &[char], at: usize) -> Option<(char, Surety)> {
    let sign = match chars[at] {
        '+' | '＋' => '+',
        '-' | '−' | '–' => '-',
        '*' | '×' | '✕' | '∗' => '*',
        '/' | '÷' => '/',
        '^' => '^',
        // "12 x 7": the letter stands for the sign only between digits.
        'x' | 'X' => {
            let before = chars[..at].iter().rev().find(|char| !char.is_whitespace());
            let after = chars[at + 1..].iter().find(|char| !char.is_whitespace());
            let digits = before.is_some_and(char::is_ascii_digit) && after.is_some_and(char::is_ascii_digit);
            if !digits {
                return None;
            }
            '*'
        }
        _ => return None,
    };
    let spaced =
        at > 0 && chars[at - 1].is_whitespace() && chars.get(at + 1).is_some_and(|c| c.is_whitespace());
    let doubtful = matches!(chars[at], '-' | '–' | '/') && !spaced;
    Some((sign, if doubtful { Surety::Tight } else { Surety::Sure }))
}

fn word_token(word: &str, before: &[Token], next: Option<&char>) -> Token {
    if let Some(name) = FUNCTIONS.iter().find(|name| **name == word && next == Some(&'(')) {
        return Token::Function(name);
    }
    if matches!(word, "루트" | "제곱근") && !matches!(before.last(), Some(Token::Of)) {
        return Token::Function("sqrt");
    }
    if let Some((_, sign)) = INFIX.iter().find(|(infix, _)| *infix == word) {
        return Token::Sign(*sign, Surety::Sure);
    }
    // "divided by", "multiplied by": the sign was said already.
    if word == "by" && matches!(before.last(), Some(Token::Sign(..))) {
        return Token::Of;
    }
    if word == "of" && matches!(before.last(), Some(Token::Percent)) {
        return Token::Sign('*', Surety::Sure);
    }
    if let Some((_, sign)) = VERBS.iter().find(|(verb, _)| word.starts_with(verb)) {
        return Token::Verb(*sign);
    }
    match word {
        word if word.starts_with("제곱근") => Token::After(After::Root),
        word if word.starts_with("제곱") || word == "squared" => Token::After(After::Square),
        word if word.starts_with("절반") => Token::After(After::Half),
        _ => Token::Word,
    }
}

/// A number with its Korean units ("1억 2,000만", "3만 5천"); none if it is too large to write out.
fn number(chars: &[char], from: usize) -> Option<(String, usize)> {
    let (plain, mut at) = digits(chars, from);
    let Some(unit) = chars.get(at).copied().and_then(unit_value) else {
        return Some((plain, at));
    };
    let mut total: u128 = 0;
    let mut section = scaled(&plain, unit)?;
    at += 1;
    let mut least = unit;
    loop {
        // 5천만: a thousand of ten thousands.
        if let Some(next) = chars.get(at).copied().and_then(unit_value).filter(|next| *next > least) {
            section = section.checked_mul(next)?;
            least = next;
            at += 1;
            continue;
        }
        total = total.checked_add(section)?;
        let start = (at..chars.len()).find(|next| chars[*next] != ' ').unwrap_or(chars.len());
        let follows = chars.get(start).is_some_and(char::is_ascii_digit) && start - at <= 1;
        if !follows {
            return Some((total.to_string(), at));
        }
        let (plain, end) = digits(chars, start);
        let Some(unit) = chars.get(end).copied().and_then(unit_value).filter(|unit| *unit < least) else {
            // "3만 5": two numbers, unless no space stands between them as in "3만5000".
            if start == at {
                return Some((total.checked_add(scaled(&plain, 1)?)?.to_string(), end));
            }
            return Some((total.to_string(), at));
        };
        section = scaled(&plain, unit)?;
        least = unit;
        at = end + 1;
    }
}

fn digits(chars: &[char], from: usize) -> (String, usize) {
    let mut text = String::new();
    let mut at = from;
    while let Some(char) = chars.get(at) {
        let digit_next = chars.get(at + 1).is_some_and(char::is_ascii_digit);
        let group = *char == ','
            && digit_next
            && chars[at + 1..].iter().take_while(|c| c.is_ascii_digit()).count() == 3;
        match char {
            '0'..='9' => text.push(*char),
            '.' if digit_next && !text.contains('.') => text.push('.'),
            ',' if group => {}
            _ => break,
        }
        at += 1;
    }
    (text, at)
}

fn scaled(digits: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
    let product = mantissa.checked_mul(unit)?;
    product.is_multiple_of(scale).then(|| product / scale)
}

fn unit_value(unit: char) -> Option<u128> {
    match unit {
        '십' => Some(10),
        '백' => Some(100),
        '천' => Some(1000),
        '만' => Some(10_000),
        '억' => Some(100_000_000),
        '조' => Some(1_000_000_000_000),
        _ => None,
    }
}

/// Steps over what is written onto a number: counters and particles are left out, "의" and labels are told.
fn unit(chars: &[char], from: usize, tokens: &mut Vec<Token>) -> usize {
    const COUNTERS: [&str; 11] = ["원", "개", "명", "달러", "won", "시간", "킬로", "kg", "km", "배", "번"];
    const PARTICLES: [&str; 13] =
        ["에서", "으로", "에다", "하고", "에", "을", "를", "로", "과", "와", "은", "는", "이"];
    let end = (from..chars.len()).find(|end| !chars[*end].is_alphabetic()).unwrap_or(chars.len());
    let written: String = chars[from..end].iter().collect();
    if written.is_empty() || sign(chars, from).is_some() {
        return from;
    }
    let rest = COUNTERS.iter().find_map(|counter| written.strip_prefix(counter)).unwrap_or(&written);
    if written.starts_with('배') {
        tokens.push(Token::After(After::Times));
    }
    if let Some(after) = ["제곱", "승"].iter().find_map(|power| rest.strip_prefix(power)) {
        tokens.push(Token::After(After::Power));
        return end - after.chars().count();
    }
    if rest.starts_with('의') {
        tokens.push(Token::Of);
    } else if !rest.is_empty() && !PARTICLES.iter().any(|particle| rest.starts_with(particle)) {
        tokens.push(if INFIX.iter().chain(&VERBS).any(|(word, _)| rest.starts_with(word)) {
            return from + written.chars().count() - rest.chars().count();
        } else {
            Token::Label
        });
    }
    end
}

/// The longest run of numbers and signs that is a formula.
fn signs(tokens: &[Token], question: &str) -> Option<String> {
    let mut best: Option<String> = None;
    let mut at = 0;
    while at < tokens.len() {
        let (run, next) = run(tokens, at);
        if let Some(formula) = whole(&run, question)
            && best.as_ref().is_none_or(|best| formula.len() > best.len())
        {
            best = Some(formula);
        }
        at = next.max(at + 1);
    }
    best
}

/// The tokens from here on that may stand in one formula, with shares ("의 15%") spelled out.
fn run(tokens: &[Token], from: usize) -> (Vec<Token>, usize) {
    let mut run = Vec::new();
    let mut at = from;
    while let Some(token) = tokens.get(at) {
        match (token, tokens.get(at + 1), tokens.get(at + 2)) {
            (Token::Of, Some(Token::Number(_)), Some(Token::Percent | Token::After(After::Times))) => {
                run.push(Token::Sign('*', Surety::Sure));
            }
            (Token::Of, Some(Token::Number(_)), Some(Token::After(After::Power))) => {
                run.push(Token::Sign('^', Surety::Sure));
            }
            (Token::Of, Some(Token::After(_)), _) => {}
            (Token::Of, _, _) if matches!(run.last(), Some(Token::Sign(..))) => {}
            (Token::Of | Token::Verb(_) | Token::Word, _, _) => break,
            (token, _, _) => run.push(token.clone()),
        }
        at += 1;
    }
    (run, at)
}

/// The formula that a run is, if it is one.
fn whole(run: &[Token], question: &str) -> Option<String> {
    let joins = run.windows(3).any(|three| {
        let left = matches!(three[0], Token::Number(_) | Token::Close | Token::Percent | Token::After(_));
        let right =
            matches!(three[2], Token::Number(_) | Token::Open | Token::Function(_) | Token::Sign('-', _));
        let sign =
            matches!(three[1], Token::Sign(sign, _) if sign != ',') || matches!(three[1], Token::Percent);
        left && sign && right
    });
    let applies = run.windows(2).any(|two| {
        matches!(
            two,
            [Token::Function(_), Token::Number(_) | Token::Open]
                | [Token::Number(_), Token::After(After::Square | After::Root | After::Half)]
        )
    });
    if !(joins || applies) || run.contains(&Token::Label) {
        return None;
    }
    let numbers = run.iter().filter(|token| matches!(token, Token::Number(_))).count();
    let tight = run.iter().filter(|token| matches!(token, Token::Sign(_, Surety::Tight))).count();
    let signs = run.iter().filter(|token| matches!(token, Token::Sign(..))).count();
    if tight > 0 && tight == signs && (is_date_or_number(question, numbers) || !has_cue(question, run)) {
        return None;
    }
    Some(written(run))
}

/// "2026-11-15", "11/15/2026" and "010-1234-5678" are dates and telephone numbers.
fn is_date_or_number(question: &str, numbers: usize) -> bool {
    let bare = question.split_whitespace().any(|word| {
        let parts: Vec<&str> = word.split(['-', '/']).collect();
        let digits = |part: &&str| part.chars().next().is_some_and(|char| char.is_ascii_digit());
        parts.len() == 3
            && parts.iter().all(digits)
            && (parts[0].starts_with('0') || parts.iter().any(|p| p.len() >= 4))
    });
    bare || numbers > 12
}

/// Whether a sentence with a doubtful sign wants it computed, or is nothing but the formula.
fn has_cue(question: &str, run: &[Token]) -> bool {
    let lower = question.to_lowercase();
    let cues = "계산|얼마|몇이|값|결과|=|calculate|compute|what is|what's|답";
    let letters = lower.chars().filter(|char| char.is_alphabetic()).count();
    holds(&lower, cues) || (letters <= 2 && !run.is_empty())
}

fn written(run: &[Token]) -> String {
    let mut text = String::new();
    let mut tokens = run.iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            Token::Number(number) => {
                let after = tokens.peek();
                if matches!(after, Some(Token::After(After::Root))) {
                    text.push_str("sqrt(");
                    text.push_str(number);
                    text.push(')');
                } else if text.ends_with("sqrt") {
                    text.push('(');
                    text.push_str(number);
                    text.push(')');
                } else {
                    text.push_str(number);
                }
            }
            Token::Sign(',', _) => text.push_str(", "),
            Token::Sign('^', _) => text.push_str(" ^ "),
            Token::Sign('-', _) if text.is_empty() || text.ends_with(['(', ' ']) => text.push('-'),
            Token::Sign(sign, _) => {
                text.push(' ');
                text.push(*sign);
                text.push(' ');
            }
            // "10 % 3" is a remainder; "15%" alone is a share.
            Token::Percent => match tokens.peek() {
                Some(Token::Number(_) | Token::Open) => text.push_str(" % "),
                _ => text.push_str(" / 100"),
            },
            Token::Open => text.push('('),
            Token::Close => text.push(')'),
            Token::Function(name) => text.push_str(name),
            Token::After(After::Square) => text.push_str(" ^ 2"),
            Token::After(After::Half) => text.push_str(" / 2"),
            Token::After(After::Root | After::Power | After::Times) => {}
            Token::Verb(_) | Token::Of | Token::Label | Token::Word => {}
        }
    }
    text.trim_end_matches([' ', '+', '*', '/', '-', ',']).to_owned()
}

/// The Korean order: numbers first, the verb last, from left to right.
fn verbs(tokens: &[Token]) -> Option<String> {
    let mut waiting: Vec<String> = Vec::new();
    let mut joined = false;
    for token in tokens {
        match token {
            Token::Number(number) => waiting.push(number.clone()),
            Token::Percent => {
                if let Some(number) = waiting.pop() {
                    waiting.push(format!("({number} / 100)"));
                }
            }
            Token::Verb(sign) => {
                let (Some(right), Some(left)) = (waiting.pop(), waiting.pop()) else { return None };
                let left = if joined { format!("({left})") } else { left };
                waiting.push(format!("{left} {sign} {right}"));
                joined = true;
            }
            Token::Label => return None,
            _ => {}
        }
    }
    let formula = waiting.pop()?;
    (joined && waiting.is_empty()).then_some(formula)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        check("240만원의 3.3%는 얼마야?", "2400000 * 3.3 / 100");
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
        check("5만원의 3배는?", "50000 * 3");
        check("15% of 80", "15 / 100 * 80");
        check("7 plus 5", "7 + 5");
        check("10 divided by 4", "10 / 4");
    }

    #[test]
    fn labels_dates_and_telephone_numbers_are_no_formulas() {
        for question in [
            "제5조 내용이 뭐야?",
            "2026-11-15은 무슨 요일?",
            "010-1234-5678로 전화해",
            "제5조-6조 비교",
            "24/7 지원되나요?",
            "연차는 15일인가요?",
            "계산해줘",
            "3만 5천",
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
    fn hostile_formulas_end() {
        check(&"9".repeat(5000), "-");
        check(&format!("{}조 더하기 1", "9".repeat(60)), "-");
        check(&"1+".repeat(5000), "-");
        check("+*/-", "-");
    }
}
