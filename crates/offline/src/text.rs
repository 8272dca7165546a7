//! Sentences, words and features of Korean and English text, without a dictionary.

use std::collections::BTreeSet;

use doran_agents::UserLanguage;
use doran_agents::language::is_hangul;

/// The language of a text: Korean if any Hangul stands in it, English if any other letter, else unknown.
pub(super) fn language(text: &str) -> Option<UserLanguage> {
    if text.chars().any(is_hangul) {
        return Some(UserLanguage::Ko);
    }
    text.chars().any(char::is_alphabetic).then_some(UserLanguage::En)
}

/// The sentences of a text, each a slice of it, without surrounding spaces. A line break or any other control
/// character, and `.`, `!`, `?` or `。` before a space or the end, closes one; so `1.5` and `a.b` stay whole, and no
/// sentence carries control characters on to a terminal.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let stop = matches!(char, '.' | '!' | '?' | '。');
        // A numbered item such as "1. text" is one sentence with its number.
        let number = char == '.' && text[start..at].trim().chars().all(|c| c.is_ascii_digit());
        let closes = stop && !number && next.is_none_or(|next| next.is_whitespace() || is_closing(next));
        let control = char.is_control() && char != '\t';
        if control || closes {
            let mut end = at + if control { 0 } else { char.len_utf8() };
            while let Some((_, quote)) = chars.next_if(|(_, next)| closes && is_closing(*next)) {
                end += quote.len_utf8();
            }
            found.push(text[start..end].trim());
            start = end + if control { char.len_utf8() } else { 0 };
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    found
}

/// Whether a text holds any of the cues, which are written `one|another`.
pub(super) fn contains_any_cue(text: &str, cues: &str) -> bool {
    cues.split('|').any(|cue| text.contains(cue))
}

/// The words of a text: letters and digits; an apostrophe stays within a word.
pub(super) fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '\''))
        .map(|word| word.trim_matches('\''))
        .filter(|word| !word.is_empty())
        .collect()
}

/// What a question asks with: English words without their plural `s`, Korean words without particles as pairs of
/// syllables. Words that only ask or connect are left out.
pub(super) fn question_features(question: &str) -> BTreeSet<String> {
    features(question, |word| vec![without_ending(word)])
}

/// What a sentence holds, by the same measure. A noun such as `휴가` may end like a particle, so words count both with
/// and without their end.
pub(super) fn sentence_features(sentence: &str) -> BTreeSet<String> {
    features(sentence, |word| vec![word, without_particle(word)])
}

/// The words of a question that say what it is about, without particles, in order, each once.
pub(super) fn content_words(question: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in words(question) {
        let lower = word.to_lowercase();
        let bare = without_ending(&lower);
        let bare = if bare.chars().count() < 2 { lower.as_str() } else { bare };
        if !is_empty_word(&lower) && !is_empty_word(bare) && found.iter().all(|known| known != bare) {
            found.push(bare.to_owned());
        }
    }
    found
}

fn features(text: &str, forms: impl Fn(&str) -> Vec<&str>) -> BTreeSet<String> {
    let mut features = BTreeSet::new();
    for word in words(text) {
        let word = word.to_lowercase();
        if is_empty_word(&word) || is_empty_word(without_particle(&word)) {
            continue;
        }
        if !word.chars().any(is_hangul) {
            features.insert(stem(&word).to_owned());
            continue;
        }
        for form in forms(&word) {
            let chars: Vec<char> = form.chars().collect();
            if chars.len() == 1 {
                features.insert(form.to_owned());
            }
            features.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        }
    }
    features
}

/// Whether a Hangul syllable ends in a consonant.
pub(super) fn ends_in_consonant(text: &str) -> bool {
    text.chars()
        .next_back()
        .is_some_and(|last| is_syllable(last) && !(last as u32 - 0xAC00).is_multiple_of(28))
}

/// The word without the longest particle at its end, if at least one syllable stays.
pub(super) fn without_particle(word: &str) -> &str {
    const PARTICLES: [&str; 24] = [
        "으로부터",
        "에게서",
        "이라고",
        "까지는",
        "에서는",
        "으로",
        "에서",
        "에게",
        "까지",
        "부터",
        "이나",
        "라고",
        "처럼",
        "마다",
        "은",
        "는",
        "이",
        "가",
        "을",
        "를",
        "의",
        "에",
        "도",
        "로",
    ];
    PARTICLES
        .iter()
        .find_map(|particle| word.strip_suffix(particle).filter(|rest| !rest.is_empty()))
        .unwrap_or(word)
}

/// The word without an ending that asks or joins ("지급하나요" is "지급"), else without its particle.
fn without_ending(word: &str) -> &str {
    const ENDINGS: [&str; 36] = [
        "이어야",
        "여야",
        "하였나요",
        "했습니까",
        "하는가요",
        "하십니까",
        "해야하나요",
        "하나요",
        "되나요",
        "합니까",
        "됩니까",
        "인가요",
        "한가요",
        "할까요",
        "될까요",
        "하는지",
        "되는지",
        "했나요",
        "됐나요",
        "입니까",
        "습니까",
        "하려면",
        "이에요",
        "이었지",
        "나요",
        "까요",
        "하면",
        "되면",
        "해야",
        "하는",
        "되는",
        "하기",
        "되기",
        "이야",
        "예요",
        "인지",
    ];
    let stripped = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending));
    stripped.filter(|stem| stem.chars().count() >= 2).unwrap_or_else(|| without_particle(word))
}

fn stem(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem,
        Some(_) | None => word,
    }
}

fn is_empty_word(word: &str) -> bool {
    const EMPTY: &str = " a an the is are was were be been am do does did can could may might must shall should will \
        would of to in on at for from by with and or if it its this that these those i you we he she they my your \
        our me us how what when where which who whom why many much long there have has had get \
        그 이 저 것 수 등 및 또는 그리고 나는 저는 내 제 우리 뭐 뭐야 뭔가요 무엇 무엇인가요 누구 누구인가요 어디 언제 언제까지 왜 \
        언제야 언제예요 언제인가요 언제지 언제까지야 언제까지예요 언제까지인가요 누구야 어디야 얼마야 얼마예요 얼마지 \
        어떻게 어떤 얼마 얼마나 얼마인가요 얼마까지 며칠 며칠까지 며칠인가요 며칠이나 며칠이야 며칠이에요 몇 몇일 몇시 있나요 있어 있어요 있습니까 \
        있는지 있는 되나요 돼 돼요 됩니까 되는지 하나요 해 해요 합니까 하는지 하는 해야 한다 된다 있다 알려줘 알려 \
        알려주세요 줘 주세요 말해줘 인가요 입니까 쓸 할 될 대해 대한 관한 궁금해 궁금합니다 가능한가요 ";
    EMPTY.contains(&format!(" {word} "))
}

fn is_closing(char: char) -> bool {
    matches!(char, '"' | '\'' | ')' | ']' | '”' | '’' | '」')
}

fn is_syllable(char: char) -> bool {
    ('\u{AC00}'..='\u{D7A3}').contains(&char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_slices_and_numbers_stay_whole() {
        let text = "연차는 15일이다. 할증은 1.5배다!\n1. 첫째 항목\n그는 \"예.\" 라고 했다. end";
        assert_eq!(
            sentences(text),
            ["연차는 15일이다.", "할증은 1.5배다!", "1. 첫째 항목", "그는 \"예.\"", "라고 했다.", "end"]
        );
        assert!(sentences(" \n -- \n").is_empty());
    }

    #[test]
    fn particles_and_plurals_do_not_part_words() {
        assert_eq!(question_features("연차휴가는"), question_features("연차휴가를"));
        assert_eq!(question_features("이상이어야 하나요?"), question_features("이상"));
        assert_eq!(question_features("receipts"), question_features("Receipt"));
        assert!(question_features("연차휴가는").is_subset(&sentence_features("연차휴가 15일")));
        assert!(question_features("이것은 뭐야? what is it").len() <= 1);
    }

    #[test]
    fn the_language_is_what_is_written() {
        assert_eq!(language("VPN은?"), Some(UserLanguage::Ko));
        assert_eq!(language("VPN?"), Some(UserLanguage::En));
        assert_eq!(language("1 + 2"), None);
    }
}
