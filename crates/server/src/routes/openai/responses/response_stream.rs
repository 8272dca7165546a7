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

/// Streams a run, from the event on after which its answer comes.
pub(super) async fn response_stream(
    app: &ServerApp,
    caller: ApiCaller,
    head: ResponseHead,
    AnsweringRun { run, after }: &AnsweringRun,
    language: doran_agents::Language,
) -> Result<Response, ApiError> {
    let thread = run.thread().thread.to_string();
    let mut transcript = TranscriptStream::open_after(app, &head.model, run, *after).await?;
    sse::stream_frames(app, caller, move |frames| async move {
        let mut events = ResponseEvents::new(head);
        let mut listens = frames.send_all(events.start()).await;
        while listens && let Some(event) = transcript.next().await {
            let mut goes_on = false;
            let pieces = match event {
                TranscriptEvent::Activity(_) => continue,
                TranscriptEvent::Reset => {
                    events.sent.restart();
                    continue;
                }
                TranscriptEvent::Text(words) => {
                    goes_on = true;
                    match events.text(&words) {
                        Some(frames) => frames,
                        None => {
                            goes_on = false;
                            events.error("restarted", "the answer begins anew; ask again")
                        }
                    }
                }
                TranscriptEvent::Questions(questions) => {
                    events.questions(&questions, &thread, language, &transcript)
                }
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
            listens = frames.send_all(pieces).await && goes_on;
        }
    })
}

/// The events of a response, numbered.
struct ResponseEvents {
    head: ResponseHead,
    sent: SentText,
    number: u64,
    /// Whether the item with the text was begun.
    has_message: bool,
    output: Vec<OpenAiOutputItem>,
    frames: Vec<SseFrame>,
}

impl ResponseEvents {
    fn new(head: ResponseHead) -> Self {
        let (sent, output, frames) = (SentText::default(), Vec::new(), Vec::new());
        Self { head, sent, number: 0, has_message: false, output, frames }
    }

    fn push(&mut self, kind: &'static str, mut event: Value) {
        event["type"] = kind.into();
        event["sequence_number"] = self.number.into();
        self.number += 1;
        self.frames.push(SseFrame::new(kind, &event));
    }

    fn take(&mut self) -> Vec<SseFrame> {
        std::mem::take(&mut self.frames)
    }

    fn start(&mut self) -> Vec<SseFrame> {
        let response = self.head.without_output(OpenAiResponseStatus::InProgress);
        self.push("response.created", json!({ "response": response }));
        self.push("response.in_progress", json!({ "response": response }));
        self.take()
    }

    /// The next words; none when they contradict what was sent.
    fn text(&mut self, words: &str) -> Option<Vec<SseFrame>> {
        let more = self.sent.append(words)?.to_owned();
        self.add_text(&more);
        Some(self.take())
    }

    fn add_text(&mut self, words: &str) {
        if words.is_empty() {
            return;
        }
        self.begin_message();
        let event = self.message_event(json!({ "delta": words, "logprobs": [] }));
        self.push("response.output_text.delta", event);
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
        language: doran_agents::Language,
        transcript: &TranscriptStream,
    ) -> Vec<SseFrame> {
        let calls = client_calls(questions);
        if calls.is_empty() {
            let gap = if self.sent.text.is_empty() { "" } else { "\n\n" };
            let words = format!("{gap}{}", waiting_text(questions, &self.head.origin, thread, language));
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
        self.take()
    }

    fn fail(&mut self, code: &str, message: &str) -> Vec<SseFrame> {
        let response = self.head.failed(response_error(code, message));
        self.push("response.failed", json!({ "response": response }));
        self.take()
    }

    /// The stream cannot go on; the run may.
    fn error(&mut self, code: &str, message: &str) -> Vec<SseFrame> {
        self.push("error", json!({ "code": code, "message": message, "param": null }));
        self.take()
    }
}
