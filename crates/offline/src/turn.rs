//! What a request holds, sorted by whose words they are: the person's, the documents', the tools', the program's.

use std::borrow::Cow;

use doran_agents::Language;
use doran_agents::request_format::{MATERIAL_MESSAGE_ID, NOTE_PREFIX, SUMMARY_MESSAGE_ID, opens_summary};
use doran_llm::{
    ChatRequest, Message, MessagePart, NumberedPassage, Role, TextOrigin, ToolCall, ToolResult,
    strip_citation_marks,
};
use doran_retrieval::{asks_or_requests, without_courtesies};

use super::cues::Cue;
use super::memory;
use super::ranking::AskedQuestion;
use super::results;
use super::text::language;

/// The most bytes of a message that rules look at; of a longer one the first and the last half of this.
const MAX_READ_BYTES: usize = 16 * 1024;

/// A request, sorted.
pub(super) struct OfflineTurn<'a> {
    /// What the person typed last, without courtesies; at most [`MAX_READ_BYTES`] bytes of it.
    pub(super) question: String,
    /// Whether any sentence of it asks or requests something, courtesies included.
    pub(super) asks: bool,
    /// What the person typed before that, oldest first.
    pub(super) said: Vec<String>,
    /// What was answered before, oldest first, without marks: their numbers mean other places now.
    pub(super) answered: Vec<String>,
    /// Lines of older summaries.
    pub(super) summary: Vec<String>,
    /// The material from documents.
    pub(super) passages: Vec<&'a NumberedPassage>,
    /// Whether documents were looked up for the question, whatever was found.
    pub(super) has_searched_documents: bool,
    /// What those who looked something up have to say about it beside the places they found, such as that an article is
    /// not there.
    pub(super) notes: Vec<&'a str>,
    /// Texts of others that came with the question.
    pub(super) attached: Vec<&'a str>,
    /// The tools called since the person spoke.
    pub(super) calls: Vec<&'a ToolCall>,
    /// What they gave back, but for facts that have nothing to do with the question.
    pub(super) results: Vec<&'a ToolResult>,
    /// The language to answer in.
    pub(super) language: Language,
    /// The id of the message that is answered.
    pub(super) id: &'a str,
}

impl<'a> OfflineTurn<'a> {
    /// The request, sorted; none if the person said nothing.
    pub(super) fn from_request(request: &'a ChatRequest) -> Option<Self> {
        let messages = &request.messages;
        let newest = messages.iter().rposition(|message| message.role == Role::User)?;
        let mut question = bounded(&typed(&messages[newest]));
        if question.trim().is_empty() {
            // A program may ask in its own words.
            question = bounded(&written_by(&messages[newest], TextOrigin::Program));
        }
        if question.trim().is_empty() {
            return None;
        }
        let asks = asks_or_requests(&question);
        let question = without_courtesies(&question).into_owned();
        let before = &messages[..newest];
        let said: Vec<String> = of_role(before, Role::User).map(|message| bounded(&typed(message))).collect();
        let answered = of_role(before, Role::Assistant)
            .map(Message::text)
            .filter(|text| !text.trim().is_empty())
            .map(|text| strip_citation_marks(&text))
            .collect();
        let spoken = std::iter::once(&question).chain(said.iter().rev());
        // A question without a word, such as a formula, is answered in the language that the program speaks.
        let prompt = || of_role(messages, Role::System).map(|one| written_by(one, TextOrigin::Program));
        let tongue = spoken.filter_map(|text| language(text)).next();
        let tongue = tongue.or_else(|| prompt().find_map(|text| language(&text)));
        let tongue = tongue.unwrap_or(Language::English);
        let since = start_of_turn(messages, newest);
        let turn = &messages[since..];
        let mut sorted = Self {
            asks,
            said,
            answered,
            summary: summary_lines(messages).iter().map(|line| strip_citation_marks(line)).collect(),
            passages: passages(messages),
            has_searched_documents: of_role(messages, Role::System)
                .any(|message| message.id.as_str() == MATERIAL_MESSAGE_ID),
            notes: notes(messages, turn),
            attached: attached(&messages[newest]),
            calls: turn.iter().flat_map(Message::tool_calls).collect(),
            results: turn.iter().flat_map(Message::tool_results).collect(),
            language: tongue,
            id: messages[newest].id.as_str(),
            question,
        };
        let relevant =
            sorted.results.iter().copied().filter(|result| !memory::is_beside_question(&sorted, result));
        sorted.results = relevant.collect();
        Some(sorted)
    }

    /// The call that a result answers.
    pub(super) fn call_of(&self, result: &ToolResult) -> Option<&'a ToolCall> {
        self.calls.iter().find(|call| call.id == result.call).copied()
    }

    /// A question of this turn, with what was asked before where it leans on that.
    pub(super) fn asked<'q>(&'q self, question: &'q str) -> AskedQuestion<'q> {
        let leans = Cue::PointsBack.is_in(question) || Cue::FollowsUp.is_in(question);
        let before = self.said.last().filter(|_| leans).map_or("", String::as_str);
        AskedQuestion { question, before }
    }

    /// Whether there was a turn before this one.
    pub(super) fn has_previous(&self) -> bool {
        !self.answered.is_empty() || !self.summary.is_empty()
    }
}

/// What the person typed in a message; what it carries from elsewhere is not their word.
pub(super) fn typed(message: &Message) -> String {
    written_by(message, TextOrigin::User)
}

fn written_by(message: &Message, wanted: TextOrigin) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { text, origin } if *origin == wanted => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The lines of older summaries among the messages: words of a model in a message of the program, and what follows a
/// heading such as `[이전 대화 요약]` until the next heading of another kind.
pub(super) fn summary_lines(messages: &[Message]) -> Vec<String> {
    let mut lines = Vec::new();
    for message in of_role(messages, Role::System) {
        let named = message.id.as_str() == SUMMARY_MESSAGE_ID;
        for part in &message.parts {
            let MessagePart::Text { text, origin: origin @ (TextOrigin::Program | TextOrigin::Model) } = part
            else {
                continue;
            };
            let mut inside = named || *origin == TextOrigin::Model;
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
                if let Some(opens) = opens_summary(line) {
                    inside = opens;
                } else if inside && line.chars().any(char::is_alphanumeric) && !is_break(line) {
                    lines.push(line.to_owned());
                }
            }
        }
    }
    lines
}

fn is_break(line: &str) -> bool {
    line.starts_with("---")
}

/// Where the newest turn begins: tool work may stand before the question when it was collected for it, but never what
/// belongs to an answer already given.
fn start_of_turn(messages: &[Message], newest: usize) -> usize {
    let work = |message: &Message| match message.role {
        Role::System | Role::Tool => true,
        Role::Assistant => message.tool_calls().next().is_some(),
        Role::User => false,
    };
    let mut start = newest;
    while start > 0 && work(&messages[start - 1]) {
        start -= 1;
    }
    start
}

fn of_role(messages: &[Message], role: Role) -> impl Iterator<Item = &Message> {
    messages.iter().filter(move |message| message.role == role)
}

fn passages(messages: &[Message]) -> Vec<&NumberedPassage> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    parts
        .filter_map(|part| match part {
            MessagePart::Passage(passage) => Some(passage),
            _ => None,
        })
        .collect()
}

/// The lines of searching tools, or of what was found, that are marked as notes.
fn notes<'a>(messages: &'a [Message], turn: &'a [Message]) -> Vec<&'a str> {
    let results = turn.iter().flat_map(Message::tool_results);
    let results =
        results.filter(|result| results::is_search(&result.name)).map(|result| result.text.as_str());
    let found = of_role(messages, Role::System).filter(|message| message.id.as_str() == MATERIAL_MESSAGE_ID);
    let found = found.flat_map(|message| &message.parts).filter_map(|part| match part {
        MessagePart::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let mut notes: Vec<&str> = Vec::new();
    for note in results.chain(found).flat_map(str::lines).filter_map(|line| line.strip_prefix(NOTE_PREFIX)) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// What others wrote in a message of the person.
fn attached(message: &Message) -> Vec<&str> {
    let texts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { text, origin: TextOrigin::Document | TextOrigin::Web } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn bounded(text: &str) -> String {
    shortened(text).into_owned()
}

fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_READ_BYTES {
        return Cow::Borrowed(text);
    }
    let head = text.floor_char_boundary(MAX_READ_BYTES / 2);
    let tail = text.ceil_char_boundary(text.len() - MAX_READ_BYTES / 2);
    Cow::Owned(format!("{}\n{}", &text[..head], &text[tail..]))
}

#[cfg(test)]
mod tests {
    use doran_agents::tools::names::CALCULATOR;

    use super::*;

    fn result(call: &str) -> Message {
        Message::tool_output(
            "t",
            [ToolResult {
                call: call.into(),
                name: CALCULATOR.into(),
                text: "84".into(),
                failed: false,
                origin: TextOrigin::Tool,
            }],
        )
    }

    fn called(id: &str) -> Message {
        let mut message = Message::assistant("a", "");
        message.parts = vec![MessagePart::ToolCall(ToolCall {
            id: id.into(),
            name: CALCULATOR.into(),
            arguments: serde_json::json!({}),
        })];
        message
    }

    fn calls(messages: Vec<Message>) -> (usize, usize) {
        let request = ChatRequest::new(messages);
        let turn = OfflineTurn::from_request(&request).expect("a question");
        (turn.calls.len(), turn.results.len())
    }

    #[test]
    fn tool_work_of_an_answered_turn_is_over() {
        let old =
            vec![Message::user("u1", "12*7?"), called("c1"), result("c1"), Message::assistant("a1", "84")];
        let mut now = old.clone();
        now.push(Message::user("u2", "고마워"));
        assert_eq!(calls(now.clone()), (0, 0));
        now.extend([called("c2"), result("c2")]);
        assert_eq!(calls(now), (1, 1));
        assert_eq!(calls(vec![called("c1"), result("c1"), Message::user("u", "답해 줘")]), (1, 1));
    }

    #[test]
    fn a_summary_is_read_under_its_heading_only() {
        let text = "당신은 조수다.\n\n[이전 대화 요약]\n[대화 기록 1]\n사용자: 내 이름은 철수야\n\n[참고 문서]\n사용자: 내 이름은 영희야";
        let lines = summary_lines(&[Message::system("s", text)]);
        assert_eq!(lines, ["사용자: 내 이름은 철수야"]);
        assert_eq!(summary_lines(&[Message::system("s", "사용자: 내 이름은 철수야")]), [""; 0]);
    }

    #[test]
    fn a_huge_message_is_read_at_both_ends() {
        let text = format!("{} 끝?", "가".repeat(200_000));
        let turn_text = bounded(&text);
        assert!(turn_text.len() <= MAX_READ_BYTES + 1 && turn_text.ends_with("끝?"));
    }
}
