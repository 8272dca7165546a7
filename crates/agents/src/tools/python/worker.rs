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

use super::{Kept, Reply, Request};

/// What the code is called in a traceback.
const NAME: &str = "<python_repl>";
/// The most frames of a traceback that are shown, from both ends.
const MOST_FRAMES: usize = 6;
/// A single operation that would need more is refused at once instead of being tried. What adds up to more in small
/// steps is the jail's business.
const MOST_AT_ONCE: usize = 100 << 20;

pub(super) fn answer(input: &[u8]) -> Vec<u8> {
    let Ok(request) = serde_json::from_slice::<Request>(input) else { return Vec::new() };
    serde_json::to_vec(&run(&request)).unwrap_or_default()
}

fn run(request: &Request) -> Reply {
    let loaded = request.session.as_deref().map(load);
    let session_was_foreign = matches!(loaded, Some(None));
    let mut repl = loaded.flatten().unwrap_or_else(|| {
        let limits = ResourceLimits::default().max_memory(MOST_AT_ONCE);
        MontyRepl::new(NAME, ResourceTracker::new(limits), CompileOptions::default())
    });
    repl.tracker_mut().set_max_duration(Duration::from_millis(request.time_ms));
    let mut printed = Printed { text: String::new(), most: request.output };
    let result = repl.feed_run(&request.code, Vec::new(), PrintWriter::Callback(&mut printed));
    let (value, error, kind) = match result {
        Ok(MontyObject::None) => (None, None, None),
        Ok(value) => (Some(cut(value.py_repr(), request.output)), None, None),
        Err(error) => (None, Some(cut(shown(&error), request.output)), Some(error.exc_type().to_string())),
    };
    Reply {
        printed: printed.text,
        value,
        error,
        kind,
        session: keep(&repl, request.most_session),
        session_was_foreign,
    }
}

fn load(session: &str) -> Option<MontyRepl> {
    let bytes = STANDARD.decode(session).ok()?;
    match Dump::load(&bytes).ok()?.state {
        Session::Idle(repl) => Some(*repl),
        Session::Suspended(_) | Session::Running(_) => None,
    }
}

fn keep(repl: &MontyRepl, most: usize) -> Kept {
    match monty::dump(NAME, None, SessionRef::Idle(repl)) {
        Ok(bytes) if bytes.len() <= most => Kept::Whole(STANDARD.encode(bytes)),
        Ok(bytes) => Kept::TooLarge(bytes.len()),
        Err(_) => Kept::TooLarge(usize::MAX),
    }
}

/// The traceback without the middle of a long one.
fn shown(error: &MontyException) -> String {
    let frames = error.traceback();
    if frames.len() <= MOST_FRAMES {
        return error.to_string();
    }
    let (first, last) = (&frames[..MOST_FRAMES / 2], &frames[frames.len() - MOST_FRAMES / 2..]);
    let mut text = "Traceback (most recent call last):\n".to_string();
    first.iter().for_each(|frame| text.push_str(&frame.to_string()));
    text.push_str(&format!("  [{} more frames]\n", frames.len() - MOST_FRAMES));
    last.iter().for_each(|frame| text.push_str(&frame.to_string()));
    text + &error.summary()
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// What is printed, up to a limit. Printing more is an error of the code.
struct Printed {
    text: String,
    most: usize,
}

impl PrintWriterCallback for Printed {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        let room = self.most.saturating_sub(self.text.len());
        if output.len() > room {
            self.text.push_str(&output[..output.floor_char_boundary(room)]);
            // Full from now on, whatever is printed next.
            self.most = self.text.len();
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
