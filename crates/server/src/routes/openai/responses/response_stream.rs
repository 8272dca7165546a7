//! A response as a stream of events.

use axum::response::Response;
use doran_agents::AnswerSource;
use serde_json::{Value, json};

use super::super::ask::AnsweringRun;
use super::super::client_calls::{ClientCall, client_calls};
use super::super::sent_text::SentText;
use super::super::waiting_text::waiting_text;
use super::response_object::{ResponseHead, function_call_item, response_error};
use crate::ServerApp;
use crate::api::{OpenAiOutputItem, OpenAiResponse, OpenAiResponseStatus, QuestionInfo};
use crate::authentication::ApiCaller;
use crate::error::ApiError;
use crate::sse::{self, SseFrame};
use crate::transcript_stream::{TranscriptEnd, TranscriptEvent, TranscriptStream};

/// The most bytes of text whose events wait to be sent. Each character may be an event.
const MAX_TEXT_BYTES_AT_ONCE: usize = 4096;

/// Which part of a stream a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamPart {
    /// All of it, for the first time.
    New,
    /// All of it once more. OpenAI's clients themselves leave out what they have, by the numbers of the events. So the text comes
    /// by characters: the first time it was cut at some of them.
    Again,
    /// What follows the event with this number.
    After(u64),
}

/// Streams a run, from the event on after which its answer comes.
pub(super) async fn response_stream(
    app: &ServerApp,
    caller: ApiCaller,
    head: ResponseHead,
    AnsweringRun { run, after }: &AnsweringRun,
    part: StreamPart,
) -> Result<Response, ApiError> {
    let thread = run.thread().thread.to_string();
    let mut transcript = TranscriptStream::open_after(app, &head.model, run, *after).await?;
    sse::stream_frames(app, caller, move |frames| async move {
        let mut events = ResponseEvents::new(head, part);
        let mut listens = frames.send_all(events.start()).await && !events.is_lost;
        while listens && let Some(event) = transcript.next().await {
            let mut goes_on = false;
            let pieces = match event {
                TranscriptEvent::Activity(_) => continue,
                TranscriptEvent::Reset => {
                    events.sent.restart();
                    continue;
                }
                TranscriptEvent::Text(words) => {
                    let mut rest = words.as_str();
                    loop {
                        let (next, more) = rest.split_at(rest.floor_char_boundary(MAX_TEXT_BYTES_AT_ONCE));
                        if !events.text(next) {
                            break events.error("restarted", "the answer begins anew; ask again");
                        }
                        if more.is_empty() || events.is_lost {
                            goes_on = true;
                            break events.take();
                        }
                        rest = more;
                        if !frames.send_all(events.take()).await {
                            return;
                        }
                    }
                }
                TranscriptEvent::Questions(questions) => events.questions(&questions, &thread, &transcript),
                TranscriptEvent::End(TranscriptEnd::Finished) if events.sent.is_behind() => {
                    events.error("restarted", "the answer begins anew; ask again")
                }
                TranscriptEvent::End(TranscriptEnd::Finished) => {
                    events.finish_message(transcript.cited_sources());
                    events.complete(&transcript)
                }
                TranscriptEvent::End(
                    TranscriptEnd::Failed { code, message }
                    | TranscriptEnd::Unanswered { code, text: message },
                ) => events.fail(&code, &message),
                TranscriptEvent::End(TranscriptEnd::Cancelled) => {
                    events.error("cancelled", "the run was cancelled")
                }
                TranscriptEvent::End(TranscriptEnd::Disconnected) => {
                    events.error("stopping", "the server stops; the run goes on in its thread")
                }
            };
            listens = frames.send_all(pieces).await && goes_on && !events.is_lost;
        }
    })
}

/// Where the stream of a response stands: how many events and bytes of text it has had, and a checksum of that text. The same
/// response gives the same places, into whatever pieces its text is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StreamPlace {
    units: u64,
    checksum: u8,
}

impl StreamPlace {
    fn after_text(self, text: &str) -> Self {
        let add = |sum: u8, byte: u8| sum.rotate_left(3).wrapping_mul(5).wrapping_add(byte);
        Self { units: self.units + text.len() as u64, checksum: text.bytes().fold(self.checksum, add) }
    }

    fn after_event(self) -> Self {
        Self { units: self.units + 1, ..self }
    }

    /// The number of the event that ends here; the first has 0. With 8 MiB of text it still has 31 bits.
    fn sequence_number(self) -> u64 {
        (self.units.saturating_sub(1) << 8) | u64::from(self.checksum)
    }

    fn from_sequence_number(number: u64) -> Self {
        Self { units: (number >> 8) + 1, checksum: number.to_le_bytes()[0] }
    }
}

/// The events of a response, numbered.
struct ResponseEvents {
    head: ResponseHead,
    sent: SentText,
    place: StreamPlace,
    /// The place up to which the client has the stream, until it is reached.
    known: Option<StreamPlace>,
    /// Whether what the client has is not part of this stream.
    is_lost: bool,
    /// Whether text is sent by characters.
    by_characters: bool,
    /// Whether the item with the text was begun.
    has_message: bool,
    output: Vec<OpenAiOutputItem>,
    frames: Vec<SseFrame>,
}

impl ResponseEvents {
    fn new(head: ResponseHead, part: StreamPart) -> Self {
        let known = match part {
            StreamPart::After(number) => Some(StreamPlace::from_sequence_number(number)),
            StreamPart::New | StreamPart::Again => None,
        };
        Self {
            head,
            sent: SentText::default(),
            place: StreamPlace::default(),
            known,
            is_lost: false,
            by_characters: part == StreamPart::Again,
            has_message: false,
            output: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// The next event, unless the client has it.
    fn push(&mut self, kind: &'static str, event: Value) {
        self.place = self.place.after_event();
        if self.is_new() {
            self.push_frame(kind, event);
        }
    }

    fn push_frame(&mut self, kind: &'static str, mut event: Value) {
        event["type"] = kind.into();
        event["sequence_number"] = self.place.sequence_number().into();
        self.frames.push(SseFrame::new(kind, &event));
    }

    /// Whether the client does not have what ends here.
    fn is_new(&mut self) -> bool {
        match self.known {
            None => !self.is_lost,
            Some(known) if self.place.units < known.units => false,
            Some(known) => {
                self.known = None;
                self.is_lost = self.place != known;
                false
            }
        }
    }

    /// What is to be sent. A stream that is not the one the client has ends with an error.
    fn take(&mut self) -> Vec<SseFrame> {
        if self.is_lost {
            self.push_error(
                "unknown_event",
                "no event of this response has the number of `starting_after`; read it from its beginning",
            );
        }
        std::mem::take(&mut self.frames)
    }

    /// The same at the end of the stream.
    fn take_last(&mut self) -> Vec<SseFrame> {
        self.is_lost |= self.known.is_some();
        self.take()
    }

    fn start(&mut self) -> Vec<SseFrame> {
        let response = self.head.without_output(OpenAiResponseStatus::InProgress);
        self.push("response.created", json!({ "response": response }));
        self.push("response.in_progress", json!({ "response": response }));
        self.take()
    }

    /// Adds the next words, unless they contradict what was sent. Tells whether they were added.
    fn text(&mut self, words: &str) -> bool {
        match self.sent.append(words).map(str::to_owned) {
            Some(more) => {
                self.add_text(&more);
                true
            }
            None => false,
        }
    }

    fn add_text(&mut self, words: &str) {
        if words.is_empty() {
            return;
        }
        self.begin_message();
        let known_bytes = self.known.map_or(0, |known| known.units.saturating_sub(self.place.units));
        let known_bytes = usize::try_from(known_bytes).unwrap_or(usize::MAX);
        let (known, more) = words.split_at(words.floor_char_boundary(known_bytes));
        let by_characters = self.by_characters;
        let pieces = more.split_inclusive(|_: char| by_characters);
        for words in [known].into_iter().filter(|known| !known.is_empty()).chain(pieces) {
            self.place = self.place.after_text(words);
            if self.is_new() {
                let event = self.message_event(json!({ "delta": words, "logprobs": [] }));
                self.push_frame("response.output_text.delta", event);
            }
        }
    }

    fn begin_message(&mut self) {
        if self.has_message {
            return;
        }
        self.has_message = true;
        let item = OpenAiOutputItem::Message {
            id: self.head.message_id(),
            role: "assistant",
            status: "in_progress",
            content: Vec::new(),
        };
        self.push("response.output_item.added", json!({ "output_index": 0, "item": item }));
        let part = json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
        let event = self.message_event(json!({ "part": part }));
        self.push("response.content_part.added", event);
    }

    /// An event about the text.
    fn message_event(&self, mut event: Value) -> Value {
        event["item_id"] = self.head.message_id().into();
        event["output_index"] = 0.into();
        event["content_index"] = 0.into();
        event
    }

    /// Ends the text, with what it rests on.
    fn finish_message(&mut self, sources: &[AnswerSource]) {
        self.begin_message();
        let text = self.sent.text.clone();
        let item = self.head.message_item(&text, sources);
        let json = json!(item);
        let part = &json["content"][0];
        for (index, annotation) in part["annotations"].as_array().into_iter().flatten().enumerate() {
            let event = json!({ "annotation": annotation, "annotation_index": index });
            let event = self.message_event(event);
            self.push("response.output_text.annotation.added", event);
        }
        let event = self.message_event(json!({ "text": text, "logprobs": [] }));
        self.push("response.output_text.done", event);
        let event = self.message_event(json!({ "part": part }));
        self.push("response.content_part.done", event);
        self.push("response.output_item.done", json!({ "output_index": 0, "item": json }));
        self.output.push(item);
    }

    /// The end of a part of a run: tools that the client is to run, or what is asked of a person.
    fn questions(
        &mut self,
        questions: &[QuestionInfo],
        thread: &str,
        transcript: &TranscriptStream,
    ) -> Vec<SseFrame> {
        let calls = client_calls(questions);
        if calls.is_empty() {
            let gap = if self.sent.text.is_empty() { "" } else { "\n\n" };
            let words =
                format!("{gap}{}", waiting_text(questions, &self.head.origin, thread, self.head.language));
            self.add_text(&words);
            self.sent.text.push_str(&words);
        }
        if self.has_message {
            self.finish_message(&[]);
        }
        for call in calls {
            self.function_call(&call);
        }
        self.complete(transcript)
    }

    fn function_call(&mut self, call: &ClientCall) {
        let index = self.output.len();
        let begun = ClientCall { arguments: String::new(), ..call.clone() };
        let item = function_call_item(begun, "in_progress");
        self.push("response.output_item.added", json!({ "output_index": index, "item": item }));
        let item = function_call_item(call.clone(), "completed");
        let id = json!(item)["id"].clone();
        let event = json!({ "item_id": id, "output_index": index, "delta": call.arguments });
        self.push("response.function_call_arguments.delta", event);
        let event = json!({
            "item_id": id, "output_index": index, "name": call.name, "arguments": call.arguments,
        });
        self.push("response.function_call_arguments.done", event);
        self.push("response.output_item.done", json!({ "output_index": index, "item": item }));
        self.output.push(item);
    }

    fn complete(&mut self, transcript: &TranscriptStream) -> Vec<SseFrame> {
        let output = std::mem::take(&mut self.output);
        let is_cut_off = transcript.is_cut_off();
        let response: OpenAiResponse = self.head.answered(output, &transcript.usage(), is_cut_off);
        let name = if is_cut_off { "response.incomplete" } else { "response.completed" };
        self.push(name, json!({ "response": response }));
        self.take_last()
    }

    fn fail(&mut self, code: &str, message: &str) -> Vec<SseFrame> {
        let response = self.head.failed(response_error(code, message));
        self.push("response.failed", json!({ "response": response }));
        self.take_last()
    }

    /// The stream cannot go on; the run may.
    fn error(&mut self, code: &str, message: &str) -> Vec<SseFrame> {
        self.push_error(code, message);
        std::mem::take(&mut self.frames)
    }

    fn push_error(&mut self, code: &str, message: &str) {
        self.place = self.place.after_event();
        self.push_frame("error", json!({ "code": code, "message": message, "param": null }));
    }
}
