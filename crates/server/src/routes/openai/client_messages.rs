//! The conversation that a client keeps and sends whole: its messages as Doran understands them, in any dialect, and the
//! question in it.

use axum::http::Uri;
use doran_agents::llm::{ImageReference, TextOrigin, ToolCall, ToolResult};
use doran_agents::{AskOptions, EarlierMessage};
use serde_json::Value;

use super::client_calls::ClientCallResult;
use super::request_fields::{FieldObject, unsupported_parameter};
use crate::error::ApiError;
use crate::run_images::{MEDIA_TYPES, image_reference, is_image_data};

/// Fields that Doran adds to a message of its own, and one that OpenAI's client adds to it. Clients send them back with it.
const OWN_MESSAGE_FIELDS: [&str; 4] = ["annotations", "parsed", "reasoning", "reasoning_content"];

/// A message of the client's conversation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClientMessage {
    System(String),
    User { text: String, images: Vec<ImageReference> },
    Assistant { text: String, calls: Vec<ToolCall> },
    ToolResult(ClientCallResult),
}

/// A question with what comes with it.
pub(super) struct ClientQuestion {
    /// Empty where there are only pictures, or only results of tools.
    pub(super) text: String,
    /// Whether there are only results of tools, and nothing is asked.
    pub(super) is_only_results: bool,
    pub(super) options: AskOptions,
    /// Results at the end of the conversation, that a run may wait for.
    pub(super) results: Vec<ClientCallResult>,
    /// Messages of the user after those results.
    pub(super) after_results: Vec<EarlierMessage>,
    /// Whether there are pictures or tool calls in the conversation, by parameter.
    pub(super) has_images: bool,
    pub(super) has_calls: bool,
}

/// Reads `messages` of a chat completion.
pub(super) fn read_chat_messages(messages: Vec<Value>) -> Result<Vec<ClientMessage>, ApiError> {
    let mut read = Vec::new();
    for (at, message) in messages.into_iter().enumerate() {
        read.push(read_chat_message(format!("messages[{at}]"), message, &read)?);
    }
    Ok(read)
}

fn read_chat_message(
    place: String,
    message: Value,
    before: &[ClientMessage],
) -> Result<ClientMessage, ApiError> {
    let mut fields = FieldObject::new(place, message)?;
    let role_place = fields.place_of("role");
    let content_place = fields.place_of("content");
    let role: String = fields.require("role")?;
    let content = fields.take::<Value>("content")?.unwrap_or_default();
    let read = match role.as_str() {
        "system" | "developer" => ClientMessage::System(read_text(&content_place, content)?),
        "user" => {
            let (text, images) = read_content(&content_place, content)?;
            ClientMessage::User { text, images }
        }
        "assistant" => {
            fields = fields.skip_own(&OWN_MESSAGE_FIELDS);
            let text = read_text(&content_place, content)?;
            let calls_place = fields.place_of("tool_calls");
            let calls = fields.take::<Vec<Value>>("tool_calls")?.unwrap_or_default();
            let read = |(at, call)| read_chat_call(format!("{calls_place}[{at}]"), call);
            ClientMessage::Assistant {
                text,
                calls: calls.into_iter().enumerate().map(read).collect::<Result<_, _>>()?,
            }
        }
        "tool" => {
            let output = read_text(&content_place, content)?;
            let result = ClientCallResult { call: fields.require("tool_call_id")?, output };
            let name_place = fields.place_of("name");
            if let Some(name) = fields.take::<String>("name")? {
                check_tool_name(&name_place, &name, &result, before)?;
            }
            ClientMessage::ToolResult(result)
        }
        _ => {
            return Err(ApiError::for_parameter(
                &role_place,
                "it can be `system`, `developer`, `user`, `assistant` or `tool`",
                "`system`, `developer`, `user`, `assistant`, `tool` 가운데 하나여야 합니다",
            ));
        }
    };
    fields.finish()?;
    Ok(read)
}

/// Some clients name the tool in its result too. It is the one that was called under that id.
fn check_tool_name(
    place: &str,
    name: &str,
    result: &ClientCallResult,
    before: &[ClientMessage],
) -> Result<(), ApiError> {
    let calls = before.iter().flat_map(|message| match message {
        ClientMessage::Assistant { calls, .. } => calls.as_slice(),
        _ => &[],
    });
    match calls.into_iter().find(|call| call.id == result.call) {
        Some(call) if call.name != name => Err(ApiError::for_parameter(
            place,
            format!("the call `{}` is of the tool `{}`", call.id, call.name),
            format!("호출 `{}`은(는) 도구 `{}`의 것입니다", call.id, call.name),
        )),
        Some(_) | None => Ok(()),
    }
}

fn read_chat_call(place: String, call: Value) -> Result<ToolCall, ApiError> {
    let mut fields = FieldObject::new(place, call)?;
    let id = fields.require("id")?;
    let kind_place = fields.place_of("type");
    if fields.take::<String>("type")?.is_some_and(|kind| kind != "function") {
        return Err(unsupported_parameter(&kind_place));
    }
    let function = FieldObject::new(fields.place_of("function"), fields.require("function")?)?;
    // OpenAI's client adds the arguments as it read them.
    let mut function = function.skip_own(&["parsed_arguments"]);
    // Clients that read streams add the place of the call.
    fields = fields.skip_own(&["index"]);
    fields.finish()?;
    let name = function.require("name")?;
    let arguments: String = function.require("arguments")?;
    function.finish()?;
    Ok(tool_call(id, name, arguments))
}

/// A call with its arguments as JSON, or as text if they are none.
pub(super) fn tool_call(id: String, name: String, arguments: String) -> ToolCall {
    let arguments = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
    ToolCall { id, name, arguments }
}

/// A text, or a list of parts that are all text.
pub(super) fn read_text(place: &str, content: Value) -> Result<String, ApiError> {
    let (text, images) = read_content(place, content)?;
    match images.is_empty() {
        true => Ok(text),
        false => Err(ApiError::for_parameter(
            place,
            "only messages of the user can have images",
            "이미지는 사용자의 메시지에만 넣을 수 있습니다",
        )),
    }
}

/// The words and the pictures of a message, whether they came as one text or in parts.
pub(super) fn read_content(place: &str, content: Value) -> Result<(String, Vec<ImageReference>), ApiError> {
    let parts = match content {
        Value::String(text) => return Ok((text, Vec::new())),
        Value::Null => return Ok(Default::default()),
        Value::Array(parts) => parts,
        _ => return Err(ApiError::for_parameter(place, "it is not text", "글이 아닙니다")),
    };
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for (at, part) in parts.into_iter().enumerate() {
        let mut fields = FieldObject::new(format!("{place}[{at}]"), part)?;
        let type_place = fields.place_of("type");
        let kind: String = fields.require("type")?;
        match kind.as_str() {
            "text" | "input_text" => texts.push(fields.require::<String>("text")?),
            "output_text" => {
                fields = fields.skip_own(&["annotations", "logprobs"]);
                texts.push(fields.require::<String>("text")?);
            }
            "refusal" => texts.push(fields.require::<String>("refusal")?),
            "image_url" => {
                let image = fields.require("image_url")?;
                let mut image = FieldObject::new(fields.place_of("image_url"), image)?;
                images.push(read_image(&mut image, "url")?);
                image.finish()?;
            }
            "input_image" => images.push(read_image(&mut fields, "image_url")?),
            _ => {
                return Err(ApiError::for_parameter(
                    &type_place,
                    format!("content of the type `{kind}` is not supported; send text or images"),
                    format!("`{kind}` 형식의 내용은 지원하지 않습니다. 글이나 이미지를 보내세요"),
                ));
            }
        }
        fields.finish()?;
    }
    Ok((texts.join("\n"), images))
}

fn read_image(fields: &mut FieldObject, url_field: &str) -> Result<ImageReference, ApiError> {
    let (url_place, detail_place) = (fields.place_of(url_field), fields.place_of("detail"));
    let url: String = fields.require(url_field)?;
    if fields.take::<String>("detail")?.is_some_and(|detail| detail != "auto") {
        return Err(ApiError::for_parameter(
            &detail_place,
            "it can only be `auto`",
            "`auto`만 쓸 수 있습니다",
        ));
    }
    let is_web_address = || {
        let is_web = url.starts_with("https://") || url.starts_with("http://");
        is_web && url.parse::<Uri>().is_ok_and(|uri| uri.host().is_some_and(|host| !host.is_empty()))
    };
    if is_image_data(&url) {
        return Ok(image_reference(&url));
    }
    if is_web_address() {
        return Ok(ImageReference { url, media_type: "image/*".to_owned(), origin: TextOrigin::User });
    }
    let types = MEDIA_TYPES.join(", ");
    Err(ApiError::for_parameter(
        &url_place,
        format!("it is neither a web address nor `data:TYPE;base64,DATA` with one of {types}"),
        format!("웹 주소나 `data:형식;base64,데이터`가 아닙니다. 형식은 {types} 가운데 하나입니다"),
    ))
}

/// Which of the messages of a request the thread has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownMessages {
    /// There is no such thread. The client sends the whole conversation.
    None,
    /// All up to the last answer. The client sends the whole conversation, and so does the thread have it.
    UntilLastAnswer,
    /// None of them, but earlier ones. The client sends only new messages.
    EarlierOnly,
}

/// What is asked, and what comes before it.
pub(super) fn find_question(
    messages: Vec<ClientMessage>,
    thread: KnownMessages,
    parameter: &str,
    max_bytes: usize,
) -> Result<ClientQuestion, ApiError> {
    let bad = |en: &str, ko: &str| ApiError::for_parameter(parameter, en, ko);
    let known = thread != KnownMessages::None;
    let last = messages.iter().rposition(|message| matches!(message, ClientMessage::User { .. }));
    // On a thread of ours the results of tools need nothing beside them.
    let is_only_results =
        known && last.is_none() && matches!(messages.last(), Some(ClientMessage::ToolResult(_)));
    if last.is_none() && !is_only_results {
        return Err(bad("there is no message of the user", "사용자의 메시지가 없습니다"));
    }
    if matches!(messages.last(), Some(ClientMessage::Assistant { .. })) {
        return Err(bad(
            "the last message is of the assistant; nothing is asked",
            "마지막 메시지가 어시스턴트의 것이라 물은 것이 없습니다",
        ));
    }
    let mut conversation = KeptConversation { knows_calls: known, ..KeptConversation::default() };
    let (mut text, mut images, mut before) = (String::new(), Vec::new(), Vec::new());
    let (mut has_images, mut has_calls) = (false, false);
    for (at, message) in messages.into_iter().enumerate() {
        has_images |= matches!(&message, ClientMessage::User { images, .. } if !images.is_empty());
        has_calls |= matches!(&message, ClientMessage::Assistant { calls, .. } if !calls.is_empty());
        match message {
            ClientMessage::User { text: words, images: shown } if Some(at) == last => {
                conversation.note_after_results(&words, &shown);
                (text, images) = (words, shown);
                before = std::mem::take(&mut conversation.messages);
            }
            message => conversation.add(message, &format!("{parameter}[{at}]"))?,
        }
    }
    if text.trim().is_empty() && images.is_empty() && !is_only_results {
        return Err(bad("the last message of the user is empty", "사용자의 마지막 메시지가 비어 있습니다"));
    }
    let system = (!conversation.system.is_empty()).then(|| conversation.system.join("\n\n"));
    let earlier = match thread {
        KnownMessages::UntilLastAnswer => {
            let is_question = |message: &EarlierMessage| {
                matches!(message, EarlierMessage::Asked(_) | EarlierMessage::AskedWithImages { .. })
            };
            let new = before.iter().rposition(|message| !is_question(message)).map_or(0, |last| last + 1);
            before.split_off(new)
        }
        KnownMessages::None | KnownMessages::EarlierOnly => before,
    };
    let options =
        AskOptions { system, earlier, images, following: conversation.messages, ..AskOptions::default() };
    let all = || options.message_texts().chain(options.system.as_deref()).chain([text.as_str()]);
    let image_bytes: usize = options.images.iter().map(|image| image.url.len()).sum();
    if all().map(str::len).sum::<usize>() + image_bytes > max_bytes {
        return Err(bad(
            &format!("there are more than {max_bytes} bytes"),
            &format!("{max_bytes}바이트를 넘습니다"),
        ));
    }
    if all().any(|text| text.contains('\0')) {
        return Err(bad("there is a NUL character", "NUL 문자가 있습니다"));
    }
    let KeptConversation { results, after_results, .. } = conversation;
    Ok(ClientQuestion { text, is_only_results, options, results, after_results, has_images, has_calls })
}

/// A conversation as it is put together from messages.
#[derive(Default)]
struct KeptConversation {
    system: Vec<String>,
    messages: Vec<EarlierMessage>,
    /// All calls.
    calls: Vec<ToolCall>,
    /// Whether the thread knows of calls that the client does not send.
    knows_calls: bool,
    /// The results since the last message of the assistant.
    results: Vec<ClientCallResult>,
    /// Messages of the user since those results.
    after_results: Vec<EarlierMessage>,
}

/// A message of the user. None if there is nothing in it.
fn user_message(text: String, images: Vec<ImageReference>) -> Option<EarlierMessage> {
    match images.is_empty() {
        true if text.trim().is_empty() => None,
        true => Some(EarlierMessage::Asked(text)),
        false => Some(EarlierMessage::AskedWithImages { text, images }),
    }
}

impl KeptConversation {
    /// Keeps a message of the user that follows results of tools.
    fn note_after_results(&mut self, text: &str, images: &[ImageReference]) {
        if !self.results.is_empty() {
            self.after_results.extend(user_message(text.to_owned(), images.to_vec()));
        }
    }

    fn add(&mut self, message: ClientMessage, place: &str) -> Result<(), ApiError> {
        match message {
            ClientMessage::System(text) if text.trim().is_empty() => {}
            ClientMessage::System(text) => self.system.push(text),
            ClientMessage::User { text, images } => {
                self.note_after_results(&text, &images);
                self.messages.extend(user_message(text, images));
            }
            ClientMessage::Assistant { text, calls } => {
                self.results.clear();
                self.after_results.clear();
                match calls.is_empty() {
                    true if text.trim().is_empty() => {}
                    true => self.messages.push(EarlierMessage::Answered(text)),
                    false => {
                        self.calls.extend(calls.iter().cloned());
                        match self.messages.last_mut() {
                            // Responses sends each call of a reply by itself.
                            Some(EarlierMessage::Called { calls: before, .. }) if text.is_empty() => {
                                before.extend(calls);
                            }
                            _ => self.messages.push(EarlierMessage::Called { text, calls }),
                        }
                    }
                }
            }
            ClientMessage::ToolResult(result) => {
                let call = self.calls.iter().find(|call| call.id == result.call);
                if call.is_none() && !self.knows_calls {
                    return Err(ApiError::for_parameter(
                        place,
                        format!("no message before it calls a tool as `{}`", result.call),
                        format!("앞의 메시지에 도구 호출 `{}`이 없습니다", result.call),
                    ));
                }
                let given = call.map(|call| ToolResult {
                    call: result.call.clone(),
                    name: call.name.clone(),
                    text: result.output.clone(),
                    failed: false,
                    origin: TextOrigin::Tool,
                });
                match self.messages.last_mut() {
                    Some(EarlierMessage::Returned(results)) => results.extend(given),
                    _ => self.messages.extend(given.map(|given| EarlierMessage::Returned(vec![given]))),
                }
                if self.results.iter().any(|known| known.call == result.call) {
                    return Err(ApiError::for_parameter(
                        place,
                        format!("the tool call `{}` has a result already", result.call),
                        format!("도구 호출 `{}`의 결과가 이미 있습니다", result.call),
                    ));
                }
                self.results.push(result);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(messages: Value, known: bool) -> Result<ClientQuestion, String> {
        let Value::Array(messages) = messages else { panic!("a list") };
        let thread = if known { KnownMessages::UntilLastAnswer } else { KnownMessages::None };
        let read =
            read_chat_messages(messages).and_then(|read| find_question(read, thread, "messages", 1000));
        read.map_err(|error| error.to_json()["parameter"].as_str().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_conversation_with_tool_calls_is_kept_whole() {
        let call =
            json!({ "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } });
        let asked = question(
            json!([
                { "role": "system", "content": "짧게." },
                { "role": "user", "content": "날씨는?" },
                { "role": "assistant", "content": null, "tool_calls": [call], "annotations": [], "refusal": null },
                { "role": "tool", "tool_call_id": "c1", "name": "f", "content": [{ "type": "text", "text": "맑음" }] },
            ]),
            false,
        )
        .expect("a question");
        assert_eq!((asked.text.as_str(), asked.options.system.as_deref()), ("날씨는?", Some("짧게.")));
        assert_eq!(asked.results, [ClientCallResult { call: "c1".into(), output: "맑음".into() }]);
        assert!(asked.has_calls && asked.options.earlier.is_empty());
        let [EarlierMessage::Called { calls, .. }, EarlierMessage::Returned(results)] =
            &asked.options.following[..]
        else {
            panic!("{:?}", asked.options.following);
        };
        assert_eq!(calls[0].arguments, json!({ "a": 1 }));
        assert_eq!((results[0].name.as_str(), results[0].origin), ("f", TextOrigin::Tool));
    }

    #[test]
    fn on_a_known_thread_all_messages_after_the_last_answer_are_new() {
        let user = |text: &str| json!({ "role": "user", "content": text });
        let earlier = |messages: Value| -> Vec<EarlierMessage> {
            let asked = question(messages, true).expect("a question");
            assert_eq!(asked.text, "넷");
            asked.options.earlier
        };
        let answer = json!({ "role": "assistant", "content": "둘" });
        let asked = |text: &str| EarlierMessage::Asked(text.to_owned());
        assert_eq!(earlier(json!([user("하나"), answer, user("셋"), user("넷")])), [asked("셋")]);
        assert_eq!(earlier(json!([user("하나"), answer, user("넷")])), []);
        assert_eq!(earlier(json!([user("셋"), user("넷")])), [asked("셋")]);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let user = |content: Value| json!([{ "role": "user", "content": content }]);
        for (messages, parameter) in [
            (json!([{ "role": "user", "content": "?", "name": "kim" }]), "messages[0].name"),
            (json!([{ "role": "robot", "content": "?" }]), "messages[0].role"),
            (user(json!([{ "type": "file", "file": {} }])), "messages[0].content[0].type"),
            (user(json!([{ "type": "input_audio", "input_audio": {} }])), "messages[0].content[0].type"),
            (
                user(
                    json!([{ "type": "image_url", "image_url": { "url": "https://a/b.png", "detail": "high" } }]),
                ),
                "messages[0].content[0].image_url.detail",
            ),
            (
                user(json!([{ "type": "image_url", "image_url": { "url": "file:///etc/passwd" } }])),
                "messages[0].content[0].image_url.url",
            ),
            (
                json!([{ "role": "user", "content": "?" }, { "role": "assistant", "content": "!" }]),
                "messages",
            ),
            (
                json!([{ "role": "user", "content": "?" }, { "role": "tool", "tool_call_id": "x", "content": "" }]),
                "messages[1]",
            ),
            (
                json!([{ "role": "user", "content": "?" }, { "role": "tool", "content": "" }]),
                "messages[1].tool_call_id",
            ),
            (
                json!([{ "role": "user", "content": "?" },
                    { "role": "assistant", "content": "", "tool_calls": [{ "id": "c", "type": "function",
                        "function": { "name": "f", "arguments": "{}" } }] },
                    { "role": "tool", "tool_call_id": "c", "name": "g", "content": "" }]),
                "messages[2].name",
            ),
            (user(json!("  ")), "messages"),
        ] {
            assert_eq!(question(messages.clone(), false).err().as_deref(), Some(parameter), "{messages}");
        }
        let image = json!([{ "type": "text", "text": "?" }, { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } }]);
        let asked = question(user(image), false).expect("a question");
        assert_eq!((asked.options.images[0].media_type.as_str(), asked.has_images), ("image/png", true));
    }
}
