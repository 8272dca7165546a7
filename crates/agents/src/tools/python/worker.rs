//! The side of the child: one interpreter, one piece of code, and what it knows afterwards.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use monty::{Dump, MontyRepl, Session, SessionRef};
use monty_types::{
    CompileOptions, ExcType, MontyException, MontyObject, PrintWriter, PrintWriterCallback, ResourceLimits,
    ResourceTracker,
};

use super::{PythonSessionDump, PythonWorkerReply, PythonWorkerRequest};

/// What the code is called in a traceback.
const SCRIPT_NAME: &str = "<python_repl>";
/// The most frames of a traceback that are shown, from both ends.
const MAX_TRACEBACK_FRAMES: usize = 6;
/// A single operation that would need more is refused at once instead of being tried. What adds up to more in small
/// steps is the jail's business.
const MAX_ALLOCATION_BYTES: usize = 100 << 20;

pub(super) fn answer_request(input: &[u8]) -> Vec<u8> {
    let Ok(request) = serde_json::from_slice::<PythonWorkerRequest>(input) else { return Vec::new() };
    serde_json::to_vec(&run_code(&request)).unwrap_or_default()
}

fn run_code(request: &PythonWorkerRequest) -> PythonWorkerReply {
    let loaded = request.session.as_deref().map(load_session);
    let session_was_foreign = matches!(loaded, Some(None));
    let mut repl = loaded.flatten().unwrap_or_else(|| {
        let limits = ResourceLimits::default().max_memory(MAX_ALLOCATION_BYTES);
        MontyRepl::new(SCRIPT_NAME, ResourceTracker::new(limits), CompileOptions::default())
    });
    repl.tracker_mut().set_max_duration(Duration::from_millis(request.time_ms));
    let mut printed = PrintedOutput { text: String::new(), max_bytes: request.output };
    let result = repl.feed_run(&request.code, Vec::new(), PrintWriter::Callback(&mut printed));
    let (value, error, kind) = match result {
        Ok(MontyObject::None) => (None, None, None),
        Ok(value) => (Some(truncate_text(value.py_repr(), request.output)), None, None),
        Err(error) => (
            None,
            Some(truncate_text(traceback_text(&error), request.output)),
            Some(error.exc_type().to_string()),
        ),
    };
    PythonWorkerReply {
        printed: printed.text,
        value,
        error,
        kind,
        session: dump_session(&repl, request.most_session),
        session_was_foreign,
    }
}

fn load_session(session: &str) -> Option<MontyRepl> {
    let bytes = STANDARD.decode(session).ok()?;
    match Dump::load(&bytes).ok()?.state {
        Session::Idle(repl) => Some(*repl),
        Session::Suspended(_) | Session::Running(_) => None,
    }
}

fn dump_session(repl: &MontyRepl, max_bytes: usize) -> PythonSessionDump {
    match monty::dump(SCRIPT_NAME, None, SessionRef::Idle(repl)) {
        Ok(bytes) if bytes.len() <= max_bytes => PythonSessionDump::Whole(STANDARD.encode(bytes)),
        Ok(bytes) => PythonSessionDump::TooLarge(bytes.len()),
        Err(_) => PythonSessionDump::TooLarge(usize::MAX),
    }
}

/// The traceback without the middle of a long one.
fn traceback_text(error: &MontyException) -> String {
    let frames = error.traceback();
    if frames.len() <= MAX_TRACEBACK_FRAMES {
        return error.to_string();
    }
    let (first, last) =
        (&frames[..MAX_TRACEBACK_FRAMES / 2], &frames[frames.len() - MAX_TRACEBACK_FRAMES / 2..]);
    let mut text = "Traceback (most recent call last):\n".to_string();
    first.iter().for_each(|frame| text.push_str(&frame.to_string()));
    text.push_str(&format!("  [{} more frames]\n", frames.len() - MAX_TRACEBACK_FRAMES));
    last.iter().for_each(|frame| text.push_str(&frame.to_string()));
    text + &error.summary()
}

fn truncate_text(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes));
        text.push('…');
    }
    text
}

/// What is printed, up to a limit. Printing more is an error of the code.
struct PrintedOutput {
    text: String,
    max_bytes: usize,
}

impl PrintWriterCallback for PrintedOutput {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        let room = self.max_bytes.saturating_sub(self.text.len());
        if output.len() > room {
            self.text.push_str(&output[..output.floor_char_boundary(room)]);
            // Full from now on, whatever is printed next.
            self.max_bytes = self.text.len();
            let why = "output limit exceeded: print less".to_string();
            return Err(MontyException::new(ExcType::MemoryError, Some(why)));
        }
        self.text.push_str(&output);
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.stdout_write(Cow::Borrowed(end.encode_utf8(&mut [0; 4])))
    }
}
