//! Prints an answer while it arrives.

use doran_server::api::{RunEvent, RunEventBody};

use crate::output::TerminalOutput;
use crate::streamed_answer::StreamedAnswer;
use crate::terminal_markdown::TerminalMarkdown;

/// Prints an answer as it arrives: text to stdout, finished steps to stderr.
pub(super) struct AnswerPrinter {
    pub(super) answer: StreamedAnswer,
    pub(super) output: TerminalOutput,
    pub(super) quiet: bool,
    /// What renders the words, on a terminal.
    markdown: Option<TerminalMarkdown>,
    /// Whether the last output did not end its line.
    pub(super) is_mid_line: bool,
    /// Whether no words were printed since the start or the line of a step.
    is_after_step: bool,
}

impl AnswerPrinter {
    pub(super) fn new(output: TerminalOutput, quiet: bool) -> Self {
        let markdown = output.renders_markdown.then(TerminalMarkdown::default);
        let answer = StreamedAnswer::default();
        Self { answer, output, quiet, markdown, is_mid_line: false, is_after_step: true }
    }

    pub(super) fn print_event(&mut self, event: &RunEvent) -> anyhow::Result<()> {
        let before = self.answer.steps.len();
        let mut words = self.answer.apply_event(event)?;
        // In a terminal, the line of a step already separates two replies.
        if self.is_after_step && self.output.stdout_and_stderr_share_terminal() {
            words = words.trim_start_matches('\n').to_owned();
        }
        self.is_after_step &= words.is_empty();
        self.print_words(words, &event.body)?;
        let steps = &self.answer.steps[before..];
        if self.quiet || steps.is_empty() {
            return Ok(());
        }
        // In a terminal, a step that ends after text is printed below it. A pipe gets the text only.
        if self.is_mid_line && self.output.stdout_and_stderr_share_terminal() {
            self.output.print_data("\n")?;
            self.is_mid_line = false;
        }
        self.is_after_step = true;
        steps
            .iter()
            .for_each(|step| self.output.print_note(&format!("· {}", step.text(self.output.language))));
        Ok(())
    }

    /// Prints the words of an event. Markdown ends with the words that are void, and with those that no more follow.
    fn print_words(&mut self, words: String, body: &RunEventBody) -> anyhow::Result<()> {
        let shown = match (&mut self.markdown, body) {
            (None, _) => words,
            (Some(markdown), RunEventBody::Delta { restarted: None, .. }) => markdown.push(&words),
            (Some(markdown), RunEventBody::Delta { .. }) => markdown.finish() + &markdown.push(&words),
            (Some(markdown), _) => markdown.push(&words) + &markdown.finish(),
        };
        self.print_shown(&shown)
    }

    fn print_shown(&mut self, shown: &str) -> anyhow::Result<()> {
        self.output.print_data(shown)?;
        if let Some(last) = shown.chars().last() {
            self.is_mid_line = last != '\n';
        }
        Ok(())
    }

    /// Ends an answer of which no more is read: prints what was held back until more of its line came, and ends the line.
    pub(super) fn break_off(&mut self) -> anyhow::Result<()> {
        let words = self.answer.cited.finish_text();
        let shown = match &mut self.markdown {
            None => words,
            Some(markdown) => markdown.push(&words) + &markdown.finish(),
        };
        self.print_shown(&shown)?;
        if std::mem::take(&mut self.is_mid_line) { self.output.print_data("\n") } else { Ok(()) }
    }

    /// Ends the line and prints the sources.
    pub(super) fn finish(&mut self) -> anyhow::Result<()> {
        let lines = self.answer.source_lines(self.output.language);
        let sources: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        let is_open =
            std::mem::take(&mut self.is_mid_line) || !self.output.stdout_and_stderr_share_terminal();
        self.output.print_data(&format!("{}{sources}", if is_open { "\n" } else { "" }))?;
        match self.answer.failure.take() {
            // The agent's own sentence was printed as it came.
            Some(_) if self.answer.text_is_error_reply => Ok(()),
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }
}
