//! The text that was sent on a stream which cannot take text back.

/// What a client was sent. In this dialect no word can be taken back: an answer that begins anew goes on where it says
/// the same again.
#[derive(Debug, Default)]
pub(super) struct SentText {
    /// All of them.
    pub(super) text: String,
    /// The words since the answer began anew, as long as they only repeat.
    repeated: Option<String>,
}

impl SentText {
    /// The answer begins anew.
    pub(super) fn restart(&mut self) {
        if !self.text.is_empty() {
            self.repeated = Some(String::new());
        }
    }

    /// What of the next words is new; none when they contradict what was sent.
    pub(super) fn append<'a>(&mut self, words: &'a str) -> Option<&'a str> {
        let more = match &mut self.repeated {
            None => words,
            Some(again) => {
                let known = self.text.get(again.len()..).unwrap_or_default();
                again.push_str(words);
                if known.starts_with(words) {
                    if known.len() == words.len() {
                        self.repeated = None;
                    }
                    return Some("");
                }
                let more = words.strip_prefix(known)?;
                self.repeated = None;
                more
            }
        };
        self.text.push_str(more);
        Some(more)
    }

    /// Whether more was sent than the second try repeated.
    pub(super) fn is_behind(&self) -> bool {
        self.repeated.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pieces: &[Option<&str>]) -> Option<String> {
        let mut sent = SentText::default();
        let mut seen = String::new();
        for piece in pieces {
            match piece {
                Some(words) => seen.push_str(sent.append(words)?),
                None => sent.restart(),
            }
        }
        (!sent.is_behind()).then_some(seen)
    }

    #[test]
    fn an_answer_that_begins_anew_goes_on_where_it_says_the_same() {
        let whole = Some("연차는 15일입니다.".to_owned());
        assert_eq!(sent(&[Some("연차는 "), None, Some("연차는 15일입니다.")]), whole);
        assert_eq!(sent(&[Some("연차는 "), None, Some("연"), Some("차는 15일"), Some("입니다.")]), whole);
        assert_eq!(sent(&[Some("연차는 15일입니다."), None, Some("연차는 15일입니다.")]), whole);
        assert_eq!(sent(&[None, Some("연차는 15일입니다.")]), whole);
        assert_eq!(
            sent(&[Some("연차는 "), None, None, Some("연차는 "), None, Some("연차는 15일입니다.")]),
            whole
        );
        assert_eq!(sent(&[Some("연차는 "), None, Some("휴가는 15일입니다.")]), None);
        assert_eq!(sent(&[Some("연차는 15일"), None, Some("연차는 15시간")]), None);
        assert_eq!(
            sent(&[Some("연차는 15일입니다."), None, Some("연차는")]),
            None,
            "it was sent and is not true"
        );
    }
}
