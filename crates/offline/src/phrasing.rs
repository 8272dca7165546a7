//! Every sentence that the built-in model may say of its own: a closed list. `{}` is a slot that holds words of the
//! person, a document or a tool, as they stand there. Whatever else an answer holds was quoted.

use doran_agents::UserLanguage;

/// A sentence of the program, by what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FixedPhrase {
    /// Quotes a document: sentence, number.
    Quote,
    /// Quotes the contract of the person: sentence, number.
    QuoteContract,
    /// Quotes a standard contract: sentence, number.
    QuoteStandard,
    /// Goes on quoting: sentence, number.
    QuoteMore,
    /// Quotes the result of a searching tool: tool, sentence.
    QuoteTool,
    /// Quotes the text that came with the question: sentence.
    QuoteGiven,
    /// Recalls a fact: value, sentence.
    Recall,
    /// Recalls something said: sentence.
    RecallSaid,
    /// Recalls a line of an older summary: sentence.
    RecallSummary,
    /// Notes facts: list.
    Note,
    /// Notes a statement: sentence.
    NoteSaid,
    /// Was never told: subject.
    NotTold,
    /// Found nothing.
    NotFound,
    /// Found nothing, with headings near by: list.
    NotFoundNear,
    /// Found nothing for a part of the question: part.
    NotFoundPart,
    /// A place that was named is not there: place.
    NotFoundPlace,
    /// What was said about a search: note.
    Noted,
    /// Greets.
    Hello,
    /// Is thanked.
    Welcome,
    /// Says good-bye.
    Bye,
    /// Says what it is.
    Introduce,
    /// Cannot do this.
    Cannot,
    /// Names the command that connects a language model.
    Connect,
    /// Asks for a place.
    AskPlace,
    /// Asks for a formula.
    AskFormula,
    /// A number: result.
    Computed,
    /// A date or time: result.
    Time,
    /// The weather: result.
    Weather,
    /// Quotes an encyclopedia: sentence.
    Encyclopedia,
    /// Quotes a web search: sentence.
    Web,
    /// What a program printed: line.
    Ran,
    /// Quotes a file: sentence.
    File,
    /// The result of any other tool: tool, line.
    Result,
    /// Goes on with the result of a tool: line.
    ResultMore,
    /// A tool gave nothing: tool.
    ResultEmpty,
    /// The result of a tool is longer than what is shown.
    ResultCut,
    /// A tool failed: tool, reason.
    Failed,
    /// A person did not let a tool be run: tool.
    Refused,
    /// What a memory holds: facts.
    Recalled,
    /// What was to be computed is no formula: why.
    NoFormula,
    /// A formula has no value: why.
    NoValue,
    /// What to do after a tool failed.
    FailedAdvice,
    /// Heads sentences of the conversation.
    Digest,
    /// A sentence of the person: sentence.
    DigestUser,
    /// A sentence of an answer: sentence.
    DigestAnswer,
    /// There is nothing to sum up.
    DigestEmpty,
    /// Heads the answer before this one.
    Previous,
    /// A sentence of the answer before: sentence.
    PreviousLine,
    /// Has no more tools to call.
    NoCalls,
}

impl FixedPhrase {
    /// Every sentence.
    #[cfg(test)]
    pub(super) const ALL: [Self; 49] = [
        Self::Quote,
        Self::QuoteContract,
        Self::QuoteStandard,
        Self::QuoteMore,
        Self::QuoteTool,
        Self::QuoteGiven,
        Self::Recall,
        Self::RecallSaid,
        Self::RecallSummary,
        Self::Note,
        Self::NoteSaid,
        Self::NotTold,
        Self::NotFound,
        Self::NotFoundNear,
        Self::NotFoundPart,
        Self::NotFoundPlace,
        Self::Noted,
        Self::Hello,
        Self::Welcome,
        Self::Bye,
        Self::Introduce,
        Self::Cannot,
        Self::Connect,
        Self::AskPlace,
        Self::AskFormula,
        Self::Computed,
        Self::Time,
        Self::Weather,
        Self::Encyclopedia,
        Self::Web,
        Self::Ran,
        Self::File,
        Self::Result,
        Self::ResultMore,
        Self::ResultEmpty,
        Self::ResultCut,
        Self::Failed,
        Self::Refused,
        Self::Recalled,
        Self::NoFormula,
        Self::NoValue,
        Self::FailedAdvice,
        Self::Digest,
        Self::DigestUser,
        Self::DigestAnswer,
        Self::DigestEmpty,
        Self::Previous,
        Self::PreviousLine,
        Self::NoCalls,
    ];

    /// The sentence with its slots filled.
    pub(super) fn filled(self, tongue: UserLanguage, slots: &[&str]) -> String {
        let mut filled = String::new();
        let mut slots = slots.iter();
        let mut pieces = self.template(tongue).split("{}").peekable();
        while let Some(piece) = pieces.next() {
            filled.push_str(piece);
            if pieces.peek().is_some() {
                filled.push_str(slots.next().copied().unwrap_or(""));
            }
        }
        filled
    }

    /// The sentence with `{}` for each slot.
    pub(super) fn template(self, tongue: UserLanguage) -> &'static str {
        let (ko, en) = self.templates();
        match tongue {
            UserLanguage::Ko => ko,
            UserLanguage::En => en,
        }
    }

    fn templates(self) -> (&'static str, &'static str) {
        match self {
            Self::Quote => ("문서에 이렇게 적혀 있습니다: \"{}\" [{}]", "The document says: \"{}\" [{}]"),
            Self::QuoteContract => {
                ("사용자 계약서에 이렇게 적혀 있습니다: \"{}\" [{}]", "Your contract says: \"{}\" [{}]")
            }
            Self::QuoteStandard => {
                ("표준계약서에 이렇게 적혀 있습니다: \"{}\" [{}]", "The standard contract says: \"{}\" [{}]")
            }
            Self::QuoteMore => ("이어서: \"{}\" [{}]", "Further: \"{}\" [{}]"),
            Self::QuoteTool => {
                ("도구 {}의 결과에 이렇게 적혀 있습니다: \"{}\"", "The result of {} says: \"{}\"")
            }
            Self::QuoteGiven => {
                ("함께 주신 글에 이렇게 적혀 있습니다: \"{}\"", "The text you gave says: \"{}\"")
            }
            Self::Recall => (
                "{}입니다. 이 대화에서 \"{}\" 하고 말씀하셨습니다.",
                "{}. You said in this conversation: \"{}\"",
            ),
            Self::RecallSaid => {
                ("이 대화에서 이렇게 말씀하셨습니다: \"{}\"", "You said in this conversation: \"{}\"")
            }
            Self::RecallSummary => (
                "이전 대화의 요약에 이렇게 적혀 있습니다: \"{}\"",
                "The summary of the earlier conversation says: \"{}\"",
            ),
            Self::Note => ("이 대화에 적어 두었습니다: {}.", "Noted in this conversation: {}."),
            Self::NoteSaid => ("이 대화에 적어 두었습니다: \"{}\"", "Noted in this conversation: \"{}\""),
            Self::NotTold => (
                "이 대화에서 말씀하신 적이 없어 모릅니다: {}.",
                "You have not told me in this conversation: {}.",
            ),
            Self::NotFound => ("문서에서 찾지 못했습니다.", "I did not find it in the documents."),
            Self::NotFoundNear => (
                "문서에서 찾지 못했습니다. 가장 가까운 제목: {}",
                "I did not find it in the documents. Nearest headings: {}",
            ),
            Self::NotFoundPart => ("이 부분은 찾지 못했습니다: \"{}\"", "I did not find this part: \"{}\""),
            Self::NotFoundPlace => ("문서에서 찾지 못했습니다: {}", "I did not find it in the documents: {}"),
            Self::Noted => ("찾아본 결과: {}", "Looked up: {}"),
            Self::Hello => ("안녕하세요.", "Hello."),
            Self::Welcome => (
                "천만에요. 더 궁금한 것이 있으면 물어보세요.",
                "You are welcome. Ask whenever you need something.",
            ),
            Self::Bye => {
                ("안녕히 가세요. 이 대화는 저장되어 있습니다.", "Good-bye. This conversation is kept.")
            }
            Self::Introduce => (
                "저는 언어 모델(LLM)이 아니라 정해진 규칙으로 움직이는 오프라인 추출 모드입니다. 문서에 있는 문장을 그대로 \
                 인용해 답하고, 계산·날짜·날씨처럼 식이 분명한 도구를 부르고, 이 대화에서 말씀하신 사실(예: \"내 이름은 \
                 철수야\")을 되짚을 수 있습니다.",
                "I am not a language model (LLM) but the offline extractive mode, which works by fixed rules. I answer \
                 by quoting sentences of your documents word for word, call tools for clear requests such as \
                 arithmetic, dates or weather, and recall facts you state in this conversation (such as \"my name is \
                 Ann\").",
            ),
            Self::Cannot => (
                "저는 언어 모델(LLM)이 아니라 오프라인 추출 모드여서 새 문장을 쓰거나, 번역하거나, 추론해야 하는 요청은 할 수 없습니다.",
                "I am not a language model (LLM) but the offline extractive mode, so I cannot write new text, \
                 translate or reason.",
            ),
            Self::Connect => (
                "언어 모델을 연결하려면 `doran models`로 목록을 보고 `doran models use <제공자:모델>`을 실행하세요.",
                "To connect a language model, list them with `doran models` and run `doran models use \
                 <provider:model>`.",
            ),
            Self::AskPlace => ("어느 도시의 날씨인지 알려 주세요.", "Which city's weather do you want?"),
            Self::AskFormula => {
                ("계산할 식을 숫자로 적어 주세요.", "Write the formula to compute in numbers.")
            }
            Self::Computed => ("계산 결과: {}", "Result: {}"),
            Self::Time => ("날짜와 시각: {}", "Date and time: {}"),
            Self::Weather => ("날씨: {}", "Weather: {}"),
            Self::Encyclopedia => ("위키백과에 이렇게 적혀 있습니다: \"{}\"", "Wikipedia says: \"{}\""),
            Self::Web => ("웹 검색 결과에 이렇게 적혀 있습니다: \"{}\"", "A web page says: \"{}\""),
            Self::Ran => ("실행 결과: {}", "Output: {}"),
            Self::File => ("파일에 이렇게 적혀 있습니다: \"{}\"", "The file says: \"{}\""),
            Self::Result => ("도구 {}의 결과: {}", "Result of {}: {}"),
            Self::ResultMore => ("  {}", "  {}"),
            Self::ResultEmpty => ("도구 {}의 결과가 비어 있습니다.", "The tool {} gave an empty result."),
            Self::ResultCut => {
                ("결과가 길어 앞부분만 보여 드립니다.", "The result is long; only its beginning is shown.")
            }
            Self::Failed => ("도구 {}의 호출이 실패했습니다: {}", "The tool {} failed: {}"),
            Self::Refused => (
                "거절하셔서 도구 {}의 호출을 하지 않았습니다.",
                "The call of the tool {} was not made, because you refused it.",
            ),
            Self::Recalled => ("기억하는 것: {}", "What I remember: {}"),
            Self::NoFormula => (
                "죄송합니다. 계산식이 올바르지 않습니다: {}",
                "Sorry, that is not a formula I can compute: {}",
            ),
            Self::NoValue => ("죄송합니다. 계산할 수 없습니다: {}", "Sorry, that cannot be computed: {}"),
            Self::FailedAdvice => (
                "값이나 표현을 바꾸어 다시 물어보시거나, 위의 오류가 말하는 설정을 확인해 주세요.",
                "Ask again with other values or words, or check the setting that the error names.",
            ),
            Self::Digest => (
                "지금까지의 대화에서 그대로 뽑은 문장입니다.",
                "These sentences were picked from the conversation as they stand.",
            ),
            Self::DigestUser => ("- 사용자: {}", "- User: {}"),
            Self::DigestAnswer => ("- 답변: {}", "- Answer: {}"),
            Self::DigestEmpty => ("아직 요약할 대화가 없습니다.", "There is no conversation to sum up yet."),
            Self::Previous => {
                ("바로 앞의 답변을 그대로 옮깁니다.", "This is the answer before, word for word.")
            }
            Self::PreviousLine => ("> {}", "> {}"),
            Self::NoCalls => ("더 부를 도구가 없습니다.", "There is no further tool to call."),
        }
    }
}
