//! What a person sees: data on stdout, everything else on stderr, each sentence in Korean and in English.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io::{self, IsTerminal, Write};

use doran_retrieval::Language;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::terminal_markdown::{MARKDOWN_SEQUENCES, TerminalMarkdown};

/// A sentence in both languages. It is also the error type of this crate; as such it keeps its cause.
#[derive(Debug, Default)]
pub(crate) struct BilingualMessage {
    pub(crate) ko: String,
    pub(crate) en: String,
    code: Option<String>,
    cause: Option<Box<dyn Error + Send + Sync>>,
    /// Whether the sentence says all that a person needs of its cause.
    says_cause: bool,
}

/// Makes a [`BilingualMessage`]: Korean first, English second, both with the usual `{}` of `format!`.
macro_rules! bilingual {
    ($ko:literal, $en:literal $(,)?) => {
        $crate::output::BilingualMessage::new(format!($ko), format!($en))
    };
}
pub(crate) use bilingual;

impl BilingualMessage {
    pub(crate) fn new(ko: String, en: String) -> Self {
        Self { ko, en, code: None, cause: None, says_cause: false }
    }

    /// The same sentence as an error with its cause.
    pub(crate) fn with_cause(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    /// The same sentence as an error that says its cause itself. Programs find the cause, people are not shown it.
    pub(crate) fn saying_cause(self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { cause: Some(cause.into()), says_cause: true, ..self }
    }

    /// The same sentence with a name for programs: the one that the server has for it too.
    pub(crate) fn with_code(self, code: &str) -> Self {
        Self { code: (!code.is_empty()).then(|| code.to_owned()), ..self }
    }

    /// The sentence without its cause.
    pub(crate) fn sentence(&self) -> Self {
        Self::new(self.ko.clone(), self.en.clone())
    }

    /// The sentence in one language.
    pub(crate) fn text(&self, language: Language) -> &str {
        language.pick(&self.ko, &self.en)
    }
}

impl fmt::Display for BilingualMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.en)
    }
}

impl Error for BilingualMessage {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &(dyn Error + 'static))
    }
}

/// The terminal, with the choices that hold for the whole program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminalOutput {
    pub(crate) language: Language,
    pub(crate) colour: bool,
    /// Whether Markdown is shown as it is meant, and not as it is written.
    pub(crate) renders_markdown: bool,
}

impl TerminalOutput {
    /// Colour is used only where stderr is a terminal and `NO_COLOR` is unset or empty. Markdown is rendered where stdout
    /// is such a terminal and `TERM` is not `dumb`.
    pub(crate) fn new(language: Language, no_color: Option<&str>, term: Option<&str>) -> Self {
        let is_wanted = no_color.is_none_or(str::is_empty);
        let colour = is_wanted && io::stderr().is_terminal();
        let renders_markdown = is_wanted && term != Some("dumb") && io::stdout().is_terminal();
        Self { language, colour, renders_markdown }
    }

    /// Writes Markdown to stdout: rendered on a terminal, as it is otherwise.
    pub(crate) fn print_markdown(&self, text: &str) -> anyhow::Result<()> {
        self.print_data(&self.render_markdown(text))
    }

    /// Markdown as it is shown on stdout: rendered on a terminal, as it is otherwise.
    pub(crate) fn render_markdown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.renders_markdown {
            return Cow::Borrowed(text);
        }
        let mut markdown = TerminalMarkdown::default();
        Cow::Owned(markdown.push(text) + &markdown.finish())
    }

    /// Writes data to stdout. A reader that went away early, as `head` does, is no error.
    pub(crate) fn print_data(&self, text: &str) -> anyhow::Result<()> {
        let mut stdout = io::stdout().lock();
        let text = if stdout.is_terminal() { strip_control_characters(text) } else { Cow::Borrowed(text) };
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(bilingual!("표준 출력에 쓸 수 없습니다", "cannot write to standard output")
                    .with_cause(error)
                    .into())
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Whether data and the rest come out on the same screen, one below the other.
    pub(crate) fn stdout_and_stderr_share_terminal(&self) -> bool {
        io::stdout().is_terminal() && io::stderr().is_terminal()
    }

    /// Tells the person something beside the data.
    pub(crate) fn print_message(&self, sentence: &BilingualMessage) {
        self.write_stderr_line(sentence.text(self.language));
    }

    /// Tells the person something already in their language.
    pub(crate) fn print_note(&self, text: &str) {
        self.write_stderr_line(text);
    }

    /// Tells the person why the command failed, causes included.
    pub(crate) fn print_error(&self, error: &anyhow::Error) {
        let (before, after) = if self.colour { (RED, "\u{1b}[0m") } else { ("", "") };
        let label = bilingual!("오류", "error");
        let causes = join_error_causes(error.as_ref(), self.language);
        self.write_stderr_line(&format!("{before}{}:{after} {causes}", label.text(self.language)));
    }

    /// Invites the person to type.
    pub(crate) fn print_prompt(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let text = if stderr.is_terminal() { strip_control_characters(text) } else { Cow::Borrowed(text) };
        // With stderr gone there is nobody to invite.
        stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
    }

    fn write_stderr_line(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        let text = if stderr.is_terminal() { strip_control_characters(text) } else { Cow::Borrowed(text) };
        // With stderr gone there is nobody left to tell.
        writeln!(stderr, "{text}").ok();
    }
}

/// How the program itself colours errors. The end of it, and bold, are those of Markdown.
const RED: &str = "\u{1b}[31m";

/// A text that a terminal only shows. Names, documents and models bring words of strangers, and a terminal obeys
/// control characters: they move the cursor, fill the clipboard, or turn a line around.
pub(crate) fn strip_control_characters(text: &str) -> Cow<'_, str> {
    let acts = |char: char| {
        (char.is_control() && !matches!(char, '\n' | '\t'))
            || matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(acts) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let own = std::iter::once(&RED).chain(&MARKDOWN_SEQUENCES).find(|sign| rest.starts_with(**sign));
        out.push_str(own.copied().unwrap_or_default());
        let length = own.map_or_else(|| rest.chars().next().map_or(0, char::len_utf8), |sign| sign.len());
        rest = &rest[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The name for programs of the first error in the chain that has one.
pub(crate) fn error_code(error: &anyhow::Error) -> Option<&str> {
    error.chain().find_map(|cause| cause.downcast_ref::<BilingualMessage>()?.code.as_deref())
}

/// An error with its causes, in one language.
pub(crate) fn error_message(error: &anyhow::Error, language: Language) -> String {
    join_error_causes(error.as_ref(), language)
}

fn join_error_causes(error: &(dyn Error + 'static), language: Language) -> String {
    let mut texts = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        next = error.source();
        texts.push(match error.downcast_ref::<BilingualMessage>() {
            Some(both) => {
                if both.says_cause {
                    next = None;
                }
                both.text(language).to_owned()
            }
            None => match error.downcast_ref::<io::Error>().and_then(file_error_advice) {
                Some(advice) => format!("{} ({error})", advice.text(language)),
                None => error.to_string(),
            },
        });
    }
    texts.join(": ")
}

/// What to do about an error of the system that people meet often.
fn file_error_advice(error: &io::Error) -> Option<BilingualMessage> {
    Some(match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => bilingual!(
            "디스크가 가득 찼습니다. 공간을 비우고 다시 하세요",
            "the disk is full; make room and try again"
        ),
        io::ErrorKind::PermissionDenied => {
            bilingual!(
                "권한이 없습니다. 소유자와 권한을 확인하세요",
                "no permission; check its owner and mode"
            )
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            bilingual!("디스크를 읽을 수만 있습니다", "the disk can only be read")
        }
        _ => return None,
    })
}

/// A number of things in English, which counts one of them apart.
pub(crate) fn pluralize(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The columns a text takes on a terminal: Hangul and other wide characters take two.
pub(crate) fn display_width(text: &str) -> usize {
    let wide = |char: char| matches!(char as u32, 0x1100..=0x115F | 0x2E80..=0xA4CF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFE30..=0xFE6F | 0xFF00..=0xFF60 | 0xFFE0..=0xFFE6);
    text.chars().map(|char| if wide(char) { 2 } else { 1 }).sum()
}

/// The most columns that the texts take.
pub(crate) fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(display_width).max().unwrap_or(0)
}

/// A time of a list, in milliseconds since 1970, by the clock of this place: `2026-11-17 21:05`.
pub(crate) fn format_local_time(milliseconds: i64, zone: &TimeZone) -> String {
    // What no calendar has is shown as the number that it is.
    Timestamp::from_millisecond(milliseconds).map_or_else(
        |_| milliseconds.to_string(),
        |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// The text with spaces up to this many columns.
pub(crate) fn pad_to_width(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(display_width(text))))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn source_files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("sources").map(|entry| entry.expect("entry").path());
        let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        files.into_iter().chain(folders.iter().flat_map(|folder| source_files(folder))).collect()
    }

    /// The string literals that follow `open`, up to the bracket that closes it.
    fn string_literals(mut text: &str) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(start) = text.find(['"', ')']).filter(|at| text[*at..].starts_with('"')) {
            let mut literal = String::new();
            let mut chars = text[start + 1..].char_indices();
            let end = loop {
                match chars.next().expect("a closed literal") {
                    (_, '\\') => drop(chars.next()),
                    (at, '"') => break start + 1 + at,
                    (_, char) => literal.push(char),
                }
            };
            found.push(literal);
            text = &text[end + 1..];
        }
        found
    }

    fn contains_hangul(text: &str) -> bool {
        text.contains(doran_retrieval::is_hangul_syllable)
    }

    #[test]
    fn every_sentence_for_a_person_is_in_both_languages() {
        let mut seen = 0;
        for path in source_files(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))) {
            let source = fs::read_to_string(&path).expect("source");
            let code = source.split("#[cfg(test)]").next().expect("code");
            for call in code.split("bilingual!(").skip(1) {
                let pair = string_literals(call);
                assert_eq!(pair.len(), 2, "{}: {pair:?}", path.display());
                assert!(
                    contains_hangul(&pair[0]) && !contains_hangul(&pair[1]),
                    "{}: {pair:?}",
                    path.display()
                );
                seen += 1;
            }
            let prints = ["println!", "print!(", "eprint!(", "dbg!"].iter().any(|word| code.contains(word));
            assert!(!prints, "{} prints past `Output`", path.display());
        }
        assert!(seen > 10, "only {seen} sentences were found: the search is broken");
    }

    #[test]
    fn an_error_is_printed_with_its_causes_in_one_language() {
        let inner = bilingual!("안쪽", "inner").with_cause(io::Error::other("disk"));
        let error = anyhow::Error::from(bilingual!("바깥", "outer").with_cause(inner));
        assert_eq!(join_error_causes(error.as_ref(), Language::Korean), "바깥: 안쪽: disk");
        assert_eq!(join_error_causes(error.as_ref(), Language::English), "outer: inner: disk");
    }

    #[test]
    fn a_sentence_that_says_its_cause_stands_alone() {
        let inner = bilingual!("할 일", "what to do").saying_cause(io::Error::other("disk"));
        let error = anyhow::Error::from(bilingual!("바깥", "outer").with_cause(inner));
        assert_eq!(join_error_causes(error.as_ref(), Language::Korean), "바깥: 할 일");
        assert!(error.chain().any(|cause| cause.is::<io::Error>()));
    }

    #[test]
    fn a_full_disk_is_told_in_the_language_of_the_person() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = anyhow::Error::from(bilingual!("바깥", "outer").with_cause(full));
        let text = join_error_causes(error.as_ref(), Language::Korean);
        assert!(text.starts_with("바깥: 디스크가 가득 찼습니다. 공간을"), "{text}");
    }

    #[test]
    fn no_word_of_a_stranger_commands_a_terminal() {
        assert_eq!(strip_control_characters("규정.md\n\t가"), "규정.md\n\t가");
        assert_eq!(
            strip_control_characters("\u{1b}[31m빨강\u{1b}[0m"),
            "\u{1b}[31m빨강\u{1b}[0m",
            "colours are ours"
        );
        assert_eq!(strip_control_characters("a\u{1b}]52;c;aGk=\u{7}b"), "a]52;c;aGk=b");
        assert_eq!(strip_control_characters("\u{1b}[2J\u{9b}H\u{7f}\r\u{202e}dm.x"), "[2JHdm.x");
        assert_eq!(strip_control_characters("끝\u{1b}"), "끝");
    }

    #[test]
    fn an_error_keeps_its_name_for_programs_wherever_it_stands() {
        let inner = bilingual!("안쪽", "inner").with_code("unknown_agent");
        let error = anyhow::Error::from(bilingual!("바깥", "outer").with_cause(inner));
        assert_eq!(error_code(&error), Some("unknown_agent"));
        assert_eq!(error_code(&anyhow::Error::from(bilingual!("이름 없음", "nameless").with_code(""))), None);
    }

    #[test]
    fn columns_stay_straight_with_hangul() {
        assert_eq!(pad_to_width("설정", 6), "설정  ");
        assert_eq!(pad_to_width("long", 2), "long");
        assert_eq!(widest(["main", "휴가 질문", ""].into_iter()), 9);
    }

    #[test]
    fn times_are_those_of_the_place() {
        let seoul = TimeZone::get("Asia/Seoul").expect("a zone");
        assert_eq!(format_local_time(1_767_193_500_000, &TimeZone::UTC), "2025-12-31 15:05");
        assert_eq!(format_local_time(1_767_193_500_000, &seoul), "2026-01-01 00:05");
        assert_eq!(format_local_time(i64::MAX, &seoul), i64::MAX.to_string());
    }
}
