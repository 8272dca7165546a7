//! Numbers and signs as one formula.

use super::super::text::contains_any_cue;
use super::{AfterNumberWord, FormulaToken, SignCertainty};

/// The longest run of numbers and signs that is a formula.
pub(super) fn signs(tokens: &[FormulaToken], question: &str) -> Option<String> {
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
fn run(tokens: &[FormulaToken], from: usize) -> (Vec<FormulaToken>, usize) {
    let mut run = Vec::new();
    let mut at = from;
    while let Some(token) = tokens.get(at) {
        match (token, tokens.get(at + 1), tokens.get(at + 2)) {
            (
                FormulaToken::Of,
                Some(FormulaToken::Number(_)),
                Some(FormulaToken::Percent | FormulaToken::After(AfterNumberWord::Times)),
            ) => {
                run.push(FormulaToken::Sign('*', SignCertainty::Sure));
            }
            (
                FormulaToken::Of,
                Some(FormulaToken::Number(_)),
                Some(FormulaToken::After(AfterNumberWord::Power)),
            ) => {
                run.push(FormulaToken::Sign('^', SignCertainty::Sure));
            }
            (FormulaToken::Of, Some(FormulaToken::After(_)), _) => {}
            (FormulaToken::Of, _, _) if matches!(run.last(), Some(FormulaToken::Sign(..))) => {}
            (FormulaToken::Of | FormulaToken::Verb(_) | FormulaToken::Word, _, _) => break,
            (token, _, _) => run.push(token.clone()),
        }
        at += 1;
    }
    (run, at)
}

/// The formula that a run is, if it is one.
fn whole(run: &[FormulaToken], question: &str) -> Option<String> {
    let joins = run.windows(3).any(|three| {
        let left = matches!(
            three[0],
            FormulaToken::Number(_) | FormulaToken::Close | FormulaToken::Percent | FormulaToken::After(_)
        );
        let right = matches!(
            three[2],
            FormulaToken::Number(_)
                | FormulaToken::Open
                | FormulaToken::Function(_)
                | FormulaToken::Sign('-', _)
        );
        let sign = matches!(three[1], FormulaToken::Sign(sign, _) if sign != ',')
            || matches!(three[1], FormulaToken::Percent);
        left && sign && right
    });
    let applies = run.windows(2).any(|two| {
        matches!(
            two,
            [FormulaToken::Function(_), FormulaToken::Number(_) | FormulaToken::Open]
                | [
                    FormulaToken::Number(_),
                    FormulaToken::After(
                        AfterNumberWord::Square | AfterNumberWord::Root | AfterNumberWord::Half
                    )
                ]
        )
    });
    if !(joins || applies) || run.contains(&FormulaToken::Label) {
        return None;
    }
    let numbers = run.iter().filter(|token| matches!(token, FormulaToken::Number(_))).count();
    let tight =
        run.iter().filter(|token| matches!(token, FormulaToken::Sign(_, SignCertainty::Tight))).count();
    let signs = run.iter().filter(|token| matches!(token, FormulaToken::Sign(..))).count();
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
fn has_cue(question: &str, run: &[FormulaToken]) -> bool {
    let lower = question.to_lowercase();
    let cues = "계산|얼마|몇이|값|결과|=|calculate|compute|what is|what's|답";
    let letters = lower.chars().filter(|char| char.is_alphabetic()).count();
    contains_any_cue(&lower, cues) || (letters <= 2 && !run.is_empty())
}

fn written(run: &[FormulaToken]) -> String {
    let mut text = String::new();
    let mut tokens = run.iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            FormulaToken::Number(number) => {
                let after = tokens.peek();
                if matches!(after, Some(FormulaToken::After(AfterNumberWord::Root))) {
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
            FormulaToken::Sign(',', _) => text.push_str(", "),
            FormulaToken::Sign('^', _) => text.push_str(" ^ "),
            FormulaToken::Sign('-', _) if text.is_empty() || text.ends_with(['(', ' ']) => text.push('-'),
            FormulaToken::Sign(sign, _) => {
                text.push(' ');
                text.push(*sign);
                text.push(' ');
            }
            // "10 % 3" is a remainder; "15%" alone is a share.
            FormulaToken::Percent => match tokens.peek() {
                Some(FormulaToken::Number(_) | FormulaToken::Open) => text.push_str(" % "),
                _ => text.push_str(" / 100"),
            },
            FormulaToken::Open => text.push('('),
            FormulaToken::Close => text.push(')'),
            FormulaToken::Function(name) => text.push_str(name),
            FormulaToken::After(AfterNumberWord::Square) => text.push_str(" ^ 2"),
            FormulaToken::After(AfterNumberWord::Half) => text.push_str(" / 2"),
            FormulaToken::After(AfterNumberWord::Root | AfterNumberWord::Power | AfterNumberWord::Times) => {}
            FormulaToken::Verb(_) | FormulaToken::Of | FormulaToken::Label | FormulaToken::Word => {}
        }
    }
    text.trim_end_matches([' ', '+', '*', '/', '-', ',']).to_owned()
}

/// The Korean order: numbers first, the verb last, from left to right.
pub(super) fn verbs(tokens: &[FormulaToken]) -> Option<String> {
    let mut waiting: Vec<String> = Vec::new();
    let mut joined = false;
    for token in tokens {
        match token {
            FormulaToken::Number(number) => waiting.push(number.clone()),
            FormulaToken::Percent => {
                if let Some(number) = waiting.pop() {
                    waiting.push(format!("({number} / 100)"));
                }
            }
            FormulaToken::Verb(sign) => {
                let (Some(right), Some(left)) = (waiting.pop(), waiting.pop()) else { return None };
                let left = if joined { format!("({left})") } else { left };
                waiting.push(format!("{left} {sign} {right}"));
                joined = true;
            }
            FormulaToken::Label => return None,
            _ => {}
        }
    }
    let formula = waiting.pop()?;
    (joined && waiting.is_empty()).then_some(formula)
}
