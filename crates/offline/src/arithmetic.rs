//! Finds a formula in a sentence: written in signs ("12*7"), in words ("3만 5천 곱하기 4"), or in the Korean order
//! ("100에서 30을 빼면"). The rules in `data/formulas.tsv` turn words into signs. Finding is all: tools compute.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::cues::Cue;

/// The longest formula that is read, and the most of a sentence that is looked through.
const MAX_FORMULA_CHARS: usize = 1000;
const MAX_READ_BYTES: usize = 4000;

/// Numbers with Korean units: `2,400,000`, `1억 2천만`, `3만5000`.
const NUMBER: &str =
    r"\d[\d,]*(?:\.\d+)?(?:[십백천만억조]+(?: ?\d[\d,]*(?:\.\d+)?[십백천만억조]+)*(?:\d+)?)?";
const OPERAND: &str = r"(\d+(?:\.\d+)?원?|\((?:[^()]|\([^()]*\))*\))";
const PARTICLE: &str = "(?:에서|으로|에다|까지|하고|에|을|를|로|과|와|은|는|이|도|만|랑)";
const FUNCTIONS: &str = "sqrt|sin|cos|tan|log|ln|exp|abs|round|floor|ceil|min|max|factorial";

struct FormulaRules {
    number: Regex,
    section: Regex,
    run: Regex,
    item: Regex,
    tight: Regex,
    date: Regex,
    words: Vec<(Regex, &'static str)>,
    verbs: Vec<(Regex, &'static str)>,
}

#[allow(clippy::expect_used, reason = "the file is compiled in, and every test reads it")]
static RULES: LazyLock<FormulaRules> = LazyLock::new(|| {
    let pattern = |text: &str| Regex::new(text).expect("a pattern");
    let rows = || include_str!("data/formulas.tsv").lines().filter(|row| !row.starts_with('#'));
    let word = |row: &'static str| {
        let (from, to) = row.split_once('\t').filter(|(from, _)| *from != "verb")?;
        Some((pattern(&from.replace("{N}", OPERAND).replace("{P}", PARTICLE)), to))
    };
    let verb = |row: &'static str| {
        let (sign, stems) = row.strip_prefix("verb\t")?.split_once('\t')?;
        Some((pattern(&format!(r"{OPERAND},? {OPERAND}%? ?(?:{stems})\w*")), sign))
    };
    FormulaRules {
        number: pattern(NUMBER),
        section: pattern(r"(\d[\d,]*(?:\.\d+)?)([십백천만억조]*)"),
        run: pattern(&format!(r"(?:(?:{FUNCTIONS})\(|\d원\b|[\d.+\-*/^%(), ])+")),
        item: pattern(&format!(r"\d+(?:\.\d+)?원?|{FUNCTIONS}|[-+*/^%(),]")),
        tight: pattern(r"\d원?[-/]\d"),
        date: pattern(r"\d+[-/]\d+[-/]\d+"),
        words: rows().filter_map(word).collect(),
        verbs: rows().filter_map(verb).collect(),
    }
});

/// The formula of a question, if it holds one: numbers without separators, 원 after those that are money, the signs
/// `+ - * / ^ % ( )`, functions by name.
pub(super) fn formula(question: &str) -> Option<String> {
    let question = &question[..question.floor_char_boundary(MAX_READ_BYTES)];
    if !question.contains(|char: char| char.is_ascii_digit()) {
        return None;
    }
    let mut text = RULES.number.replace_all(question, plain_number).into_owned();
    for (words, signs) in &RULES.words {
        text = words.replace_all(&text, *signs).into_owned();
    }
    let verb = |text: &str| {
        let found = RULES.verbs.iter().filter_map(|(verb, sign)| {
            let found = verb.captures(text)?;
            Some((found.get(0)?.range(), format!("({} {sign} {})", &found[1], &found[2])))
        });
        found.min_by_key(|(range, _)| range.start)
    };
    while let Some((range, joined)) = verb(&text) {
        text.replace_range(range, &joined);
    }
    let found = RULES.run.find_iter(&text).filter_map(|run| written(run.as_str(), question));
    found.filter(|formula| formula.len() <= MAX_FORMULA_CHARS).max_by_key(String::len)
}

/// A number in digits alone; one that is no whole number of its units stays as it is.
fn plain_number(found: &Captures<'_>) -> String {
    let text = found[0].trim_end_matches(',');
    let rest = &found[0][text.len()..];
    let mut total: u128 = 0;
    for section in RULES.section.captures_iter(text) {
        let (digits, units) = (section[1].replace(',', ""), &section[2]);
        if units.is_empty() && digits.len() == text.replace(',', "").len() {
            let grouped =
                text.split(',').skip(1).all(|group| group.split('.').next().is_some_and(|g| g.len() == 3));
            return if grouped { format!("{digits}{rest}") } else { found[0].to_owned() };
        }
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits.as_str(), ""));
        let power = |unit: char| "_십백천만___억___조".chars().position(|one| one == unit).unwrap_or(0);
        let zeros: usize = units.chars().map(power).sum();
        let value = zeros
            .checked_sub(fraction.len())
            .filter(|zeros| *zeros < 30)
            .and_then(|zeros| format!("{whole}{fraction}{}", "0".repeat(zeros)).parse::<u128>().ok());
        let Some(sum) = value.and_then(|value| total.checked_add(value)) else { return found[0].to_owned() };
        total = sum;
    }
    format!("{total}{rest}")
}

/// A run of numbers and signs as a formula, if it is one.
fn written(run: &str, text: &str) -> Option<String> {
    let mut items: Vec<&str> =
        RULES.item.find_iter(run.trim_matches([' ', ',', '.'])).map(|item| item.as_str()).collect();
    while items.last().is_some_and(|last| "+-*/^,".contains(last)) {
        items.pop();
    }
    let (mut formula, mut depth, mut joins, mut numbers) = (String::new(), 0_i32, false, false);
    let mut before = "";
    for (at, item) in items.iter().enumerate() {
        let opens = before.is_empty() || "(+-*/^,".contains(before);
        let is_number = |item: &str| item.starts_with(|char: char| char.is_ascii_digit());
        match *item {
            "(" => depth += 1,
            ")" if depth == 0 => return None,
            ")" => depth -= 1,
            "," | "%" if opens => return None,
            "+" | "*" | "/" | "^" if opens => return None,
            number if is_number(number) && (is_number(before) || before == ")") => return None,
            _ => {}
        }
        match *item {
            "," => formula.push_str(", "),
            // "10 % 3" is a remainder; "15%" alone is a share.
            "%" if !items.get(at + 1).is_some_and(|next| is_number(next) || *next == "(") => {
                formula.push_str(" / 100");
            }
            "-" if opens => formula.push('-'),
            sign @ ("+" | "-" | "*" | "/" | "^" | "%") => formula.push_str(&format!(" {sign} ")),
            other => formula.push_str(other),
        }
        let is_share = *item == "%" && formula.ends_with("/ 100");
        let is_part = is_number(item) || matches!(*item, "(" | ")" | ",") || *item == "-" && opens;
        joins |= !is_part && !is_share;
        numbers |= is_number(item);
        before = *item;
    }
    if depth != 0 || !joins || !numbers || is_name_or_date(run, text) {
        return None;
    }
    let inner = formula.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
    let inner = inner
        .filter(|inner| inner.find(')').is_none_or(|close| inner.find('(').is_some_and(|open| open < close)));
    Some(inner.map(str::to_owned).unwrap_or(formula))
}

/// Whether the signs of a run may be hyphens and slashes of a date, a telephone number or a name such as 24/7.
fn is_name_or_date(run: &str, text: &str) -> bool {
    let surely =
        [" - ", " / "].iter().any(|sign| run.contains(sign)) || run.contains(['*', '+', '^', '(', '%']);
    let letters = text.chars().filter(|char| char.is_alphabetic()).count();
    RULES.tight.is_match(run)
        && !surely
        && (RULES.date.is_match(run) || letters > 2 && !Cue::AsksForValue.is_in(text))
}

/// What a sentence wants computed though it is no formula, such as `2 +* 3` or `abc`, as it was written: whoever computes
/// says what is wrong with it. Several words are not taken for one.
pub(super) fn miswritten(question: &str) -> Option<String> {
    let found = Cue::Miswritten.captures(question)?;
    let written = found.iter().skip(1).flatten().next()?.as_str().trim();
    let written = written.rsplit(['?', '!', ':']).next().unwrap_or(written).trim();
    let digit = written.contains(|char: char| char.is_ascii_digit());
    let sign = written.contains(['+', '*', '/', '^', '%', '(', ')', '-']);
    // What stands for a number is written small; capitals, as in VAT, are a word for something else.
    let name = written.starts_with(|char: char| char.is_ascii_lowercase())
        && written.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit())
        && !Cue::PointsAtThing.is_in(written);
    ((digit && sign || name) && written.len() <= MAX_FORMULA_CHARS).then(|| written.to_owned())
}

/// A few words that call themselves a formula and are none, such as "잘못된 계산식": the calculator says what is wrong.
pub(super) fn called_a_formula(question: &str) -> Option<String> {
    let text = question.trim().trim_end_matches(['.', '!']);
    (Cue::CalledFormula.is_in(text) && text.split_whitespace().count() <= 3).then(|| text.to_owned())
}
