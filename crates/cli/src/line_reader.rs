//! Reads lines that a person types: with line editing and history in a terminal, plain lines otherwise.

use std::io::{BufRead, IsTerminal};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Editor, Helper};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::output::TerminalOutput;

/// What was typed.
#[derive(Debug)]
pub(crate) enum TypedLine {
    /// A line, or several.
    Text(String),
    /// The input ended.
    End,
    /// Ctrl-C, while the terminal does not send a signal for it.
    Interrupted,
}

/// Reads standard input in a separate thread, because a blocking read cannot be cancelled.
pub(crate) struct LineReader {
    /// The prompts for the line editor. Without one, lines are read as they come.
    prompts: Option<Sender<String>>,
    lines: Receiver<std::io::Result<TypedLine>>,
    output: TerminalOutput,
    is_terminal: bool,
}

impl LineReader {
    /// Edits lines if input and output are a terminal.
    pub(crate) fn open(output: TerminalOutput) -> Self {
        let is_terminal = std::io::stdin().is_terminal();
        let (sender, lines) = channel(1);
        let mut reader = Self { prompts: None, lines, output, is_terminal };
        if is_terminal && std::io::stdout().is_terminal() {
            let (prompts, asked) = channel(1);
            reader.prompts = Some(prompts);
            std::thread::spawn(move || edit_lines(asked, &sender));
        } else {
            std::thread::spawn(move || read_plain_lines(&sender));
        }
        reader
    }

    /// Whether a person types.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Asks for the next line.
    pub(crate) async fn next(&mut self, prompt: &str) -> std::io::Result<TypedLine> {
        match &self.prompts {
            Some(prompts) => {
                // The editor is gone only after it could not be opened, which the next line tells.
                if let Err(error) = prompts.send(prompt.to_owned()).await {
                    tracing::debug!(%error, "the line editor is gone");
                }
            }
            None if self.is_terminal => self.output.print_prompt(prompt),
            None => {}
        }
        self.lines.recv().await.unwrap_or(Ok(TypedLine::End))
    }
}

fn read_plain_lines(lines: &Sender<std::io::Result<TypedLine>>) {
    for line in std::io::stdin().lock().lines() {
        if lines.blocking_send(line.map(TypedLine::Text)).is_err() {
            return;
        }
    }
}

/// Reads a line for each prompt. What was typed before can be called up with the arrow keys. It is not stored, because the
/// threads of an agent may not be stored either.
fn edit_lines(mut prompts: Receiver<String>, lines: &Sender<std::io::Result<TypedLine>>) {
    let mut editor = match Editor::<ContinuedLines, DefaultHistory>::new() {
        Ok(editor) => editor,
        Err(error) => {
            // The receiver may be gone, and then nobody waits for it.
            lines.blocking_send(Err(std::io::Error::other(error))).ok();
            return;
        }
    };
    editor.set_helper(Some(ContinuedLines));
    while let Some(prompt) = prompts.blocking_recv() {
        let typed = match editor.readline(&prompt) {
            Ok(line) => {
                if let Err(error) = editor.add_history_entry(&line) {
                    tracing::debug!(%error, "a line is not in the history");
                }
                Ok(TypedLine::Text(join_continued(&line)))
            }
            Err(ReadlineError::Eof) => Ok(TypedLine::End),
            Err(ReadlineError::Interrupted) => Ok(TypedLine::Interrupted),
            Err(error) => Err(std::io::Error::other(error)),
        };
        if lines.blocking_send(typed).is_err() {
            return;
        }
    }
}

/// The text without the marks that continue a line.
fn join_continued(text: &str) -> String {
    text.replace("\\\n", "\n")
}

/// A backslash at the end of a line continues it on the next one.
struct ContinuedLines;

impl Validator for ContinuedLines {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let is_continued = context.input().ends_with('\\');
        Ok(if is_continued { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Completer for ContinuedLines {
    type Candidate = String;
}

impl Hinter for ContinuedLines {
    type Hint = String;
}

impl Highlighter for ContinuedLines {}

impl Helper for ContinuedLines {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_backslash_at_the_end_of_a_line_continues_it() {
        assert_eq!(join_continued("첫 줄\\\n둘째 줄"), "첫 줄\n둘째 줄");
        assert_eq!(join_continued("C:\\새 폴더"), "C:\\새 폴더");
    }
}
