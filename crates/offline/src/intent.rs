//! What a question wishes to be done, read by fixed patterns: a formula, the weather of a place, the time, an article
//! of a contract. A pattern with an empty slot is told as such and never filled by a guess.

use doran_retrieval::contract::ArticleReference;

use super::arithmetic;
use super::calendar::{CalendarArguments, calendar_question};
use super::cues::Cue;
use super::memory;
use super::places::{article_titles, named_articles};
use super::weather;

/// Something a question wants to be done, with what is needed to do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QuestionIntent {
    /// Compute this formula.
    Compute(String),
    /// Compute something that is not said.
    ComputeWhat,
    /// Tell date, time, weekday or holidays, here or elsewhere, now or at another time.
    Time(CalendarArguments),
    /// Tell the weather of this place.
    Weather(String),
    /// Tell the weather of a place that is not said.
    WeatherWhere,
    /// Look this up in an encyclopedia.
    Encyclopedia(String),
    /// Tell who this is: from documents, or else from an encyclopedia.
    Person(String),
    /// Search the web for this.
    Web(String),
    /// Read this file.
    File(String),
    /// Run this program.
    Run(String),
    /// Show this article of a contract, or the articles of this range.
    Article(ArticleReference),
    /// Show the article with this title.
    Title(String),
    /// Look at the standard contract.
    Standard,
    /// Keep this fact beyond the conversation.
    Remember(String),
    /// Find what was kept about this; everything where it is empty.
    Recall(String),
    /// Forget what was kept about this, or under this `[id]`.
    Forget(String),
}

/// The wishes of a question, in a fixed order, each once.
pub(super) fn intents_of(question: &str) -> Vec<QuestionIntent> {
    let (prose, blocks) = without_code(question);
    // What is to be remembered is not also done.
    if let Some(wish) = memory::memory_intent(&prose) {
        return vec![wish];
    }
    let mut wishes: Vec<QuestionIntent> = Vec::new();
    let mut add = |wish: QuestionIntent| {
        if !wishes.contains(&wish) {
            wishes.push(wish);
        }
    };
    let lower = prose.to_lowercase();
    let prose_is_empty = !prose.chars().any(char::is_alphanumeric);
    if prose_is_empty || Cue::AsksToRun.is_in(&prose) {
        blocks.into_iter().for_each(|block| add(QuestionIntent::Run(block)));
    }
    files(&prose).into_iter().for_each(|file| add(QuestionIntent::File(file)));
    let articles = named_articles(&prose);
    articles.iter().for_each(|article| add(QuestionIntent::Article(article.clone())));
    article_titles(&prose).into_iter().for_each(|title| add(QuestionIntent::Title(title)));
    if Cue::AboutStandard.is_in(&lower) {
        add(QuestionIntent::Standard);
    }
    if articles.is_empty() {
        match arithmetic::formula(&prose) {
            Some(formula) => add(QuestionIntent::Compute(formula)),
            None if Cue::AsksToCompute.is_in(&prose) && !lower.contains("어떻게") => {
                add(arithmetic::miswritten(&prose)
                    .map_or(QuestionIntent::ComputeWhat, QuestionIntent::Compute));
            }
            None => arithmetic::called_a_formula(&prose)
                .map(QuestionIntent::Compute)
                .into_iter()
                .for_each(&mut add),
        }
    }
    weather::weather_intents(&prose).into_iter().for_each(&mut add);
    if let Some(arguments) = calendar_question(&prose) {
        add(QuestionIntent::Time(arguments));
    }
    if let Some(lookup) = lookup_intent(&prose) {
        add(lookup);
    }
    wishes
}

/// The text outside of code, and the code: fenced blocks, and `spans` that look like a call.
fn without_code(question: &str) -> (String, Vec<String>) {
    let mut prose = String::new();
    let mut blocks = Vec::new();
    for (at, piece) in question.split("```").enumerate() {
        if at % 2 == 0 {
            prose.push_str(piece);
            prose.push(' ');
            continue;
        }
        let (first, rest) = piece.split_once('\n').unwrap_or(("", piece));
        let language = first.trim().to_lowercase();
        let python = matches!(language.as_str(), "" | "py" | "python" | "python3");
        if python && !rest.trim().is_empty() {
            blocks.push(rest.trim_end().to_owned());
        }
    }
    let mut outside = String::new();
    for (at, piece) in prose.split('`').enumerate() {
        if at % 2 == 1 && piece.contains('(') && piece.contains(')') {
            blocks.push(piece.trim().to_owned());
        } else {
            outside.push_str(piece);
        }
    }
    (outside, blocks)
}

/// Names of files: words or quoted names with a known ending.
fn files(prose: &str) -> Vec<String> {
    let quoted = quoted(prose);
    let whole = quoted
        .iter()
        .filter(|name| Cue::FileName.captures(name).is_some_and(|found| found[1].len() == name.len()));
    let mut names: Vec<String> = whole.cloned().collect();
    for word in prose.split_whitespace().filter(|word| !word.contains("://")) {
        let word = word.trim_matches(['"', '\'', '“', '”', '「', '」', ',', '?']);
        // "readme.mdx" is another ending; "보고서.pdf를" carries a particle.
        let Some(found) = Cue::FileName.captures(word) else { continue };
        if !names.iter().any(|name| name.ends_with(&found[1])) {
            names.push(found[1].to_owned());
        }
    }
    names
}

/// What stands in quotation marks.
pub(super) fn quoted(text: &str) -> Vec<String> {
    let inner = Cue::Quoted.all(text).filter_map(|found| found.iter().skip(1).flatten().next());
    inner.map(|inner| inner.as_str().trim().to_owned()).filter(|inner| !inner.is_empty()).collect()
}

/// Wishes to look something up outside: an encyclopedia or the web.
fn lookup_intent(prose: &str) -> Option<QuestionIntent> {
    if Cue::LooksInDocuments.is_in(prose) {
        return None;
    }
    let lower = prose.to_lowercase();
    if lower.contains("위키") || lower.contains("wikipedia") {
        return Some(search_terms(prose)).filter(|rest| !rest.is_empty()).map(QuestionIntent::Encyclopedia);
    }
    if Cue::SearchesWeb.is_in(prose) {
        return Some(search_terms(prose)).filter(|rest| !rest.is_empty()).map(QuestionIntent::Web);
    }
    person_asked_for(prose).map(QuestionIntent::Person)
}

/// The person whom "… 누구야?" or "who is …?" asks for; none for roles, which documents know better.
fn person_asked_for(prose: &str) -> Option<String> {
    let sentence = prose.trim().trim_end_matches(['?', '.', '!', ' ']);
    let words: Vec<&str> = sentence.split_whitespace().collect();
    if let Some(at) = words.iter().position(|word| Cue::AsksWho.is_in(word)) {
        let [name @ .., last] = &words[..at] else { return None };
        let marked = last.strip_suffix(['은', '는', '이', '가']).filter(|bare| !bare.is_empty())?;
        let name = [name, &[marked]].concat().join(" ");
        return (!Cue::IsRole.is_in(&name) && name.split(' ').count() <= 3).then_some(name);
    }
    let lower = sentence.to_lowercase();
    let start = ["who is ", "who was ", "who's "].iter().find(|start| lower.starts_with(*start))?;
    let name = sentence.get(start.len()..)?.trim();
    let proper = name.chars().next().is_some_and(char::is_uppercase);
    (proper && name.split(' ').count() <= 4).then(|| name.to_owned())
}

/// The question without the words that only say where and how to search.
fn search_terms(prose: &str) -> String {
    let kept: Vec<&str> = prose
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|word| !word.is_empty() && !Cue::SaysHowToSearch.is_in(word))
        .collect();
    let Some((last, front)) = kept.split_last() else { return String::new() };
    let last =
        last.strip_suffix(['을', '를', '은', '는']).filter(|bare| bare.chars().count() > 1).unwrap_or(last);
    [front, &[last]].concat().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, expected: &[&str]) {
        let found: Vec<String> = intents_of(question).iter().map(intent_text).collect();
        assert_eq!(found, expected, "{question}");
    }

    fn intent_text(wish: &QuestionIntent) -> String {
        match wish {
            QuestionIntent::Compute(formula) => format!("compute {formula}"),
            QuestionIntent::ComputeWhat => "compute ?".into(),
            QuestionIntent::Time(arguments) => {
                let shown = arguments.iter().map(|(name, value)| format!(" {name}={value}").replace('"', ""));
                format!("time{}", shown.collect::<String>())
            }
            QuestionIntent::Weather(place) => format!("weather {place}"),
            QuestionIntent::WeatherWhere => "weather ?".into(),
            QuestionIntent::Encyclopedia(query) => format!("wiki {query}"),
            QuestionIntent::Person(name) => format!("person {name}"),
            QuestionIntent::Web(query) => format!("web {query}"),
            QuestionIntent::File(path) => format!("file {path}"),
            QuestionIntent::Run(code) => format!("run {code}"),
            QuestionIntent::Article(article) => format!("article {article}"),
            QuestionIntent::Title(title) => format!("title {title}"),
            QuestionIntent::Standard => "standard".into(),
            QuestionIntent::Remember(fact) | QuestionIntent::Recall(fact) | QuestionIntent::Forget(fact) => {
                format!("memory {fact}")
            }
        }
    }

    #[test]
    fn weather_needs_a_place() {
        check("서울 날씨", &["weather 서울"]);
        check("오늘 부산 날씨 어때?", &["weather 부산"]);
        check("서울하고 부산 날씨 알려줘", &["weather 서울", "weather 부산"]);
        check("양평의 날씨는?", &["weather 양평"]);
        check("What's the weather in Paris?", &["weather Paris"]);
        check("weather in New Orleans", &["weather New Orleans"]);
        check("오늘 날씨 어때?", &["weather ?"]);
        check("what is the weather like", &["weather ?"]);
    }

    #[test]
    fn the_calendar_is_asked_in_many_ways() {
        check("오늘 며칠이야?", &["time"]);
        check("지금 몇 시야?", &["time"]);
        check("오늘 무슨 요일이야?", &["time"]);
        check("내일은 무슨 요일인가요?", &["time add_days=1"]);
        check("뉴욕은 지금 몇 시야?", &["time timezone=America/New_York"]);
        check("What time is it in London?", &["time timezone=Europe/London"]);
        check("2026-10-03은 무슨 요일이야?", &["time date=2026-10-03"]);
        check("2026년 12월 25일은 공휴일인가요?", &["time date=2026-12-25"]);
        check("다음 공휴일은 언제야?", &["time"]);
        check("When is the next public holiday?", &["time"]);
        check("2027년 공휴일 알려 줘", &["time holidays_of=2027"]);
        check("2026년 12월 25일까지 며칠 남았어?", &["time until=2026-12-25"]);
        check("How many days are left until 2026-12-25?", &["time until=2026-12-25"]);
        check("회의는 몇 시야?", &[]);
        check("연차는 며칠이야?", &[]);
        check("공휴일에도 출근하나요?", &[]);
        check("언제야?", &[]);
    }

    #[test]
    fn a_weekday_or_a_holiday_is_found_by_its_name() {
        check("다음 주 금요일은 며칠이야?", &["time week=1 weekday=friday"]);
        check("이번 주 토요일 날짜 알려줘", &["time week=0 weekday=saturday"]);
        check("다다음주 월요일은 언제예요?", &["time week=2 weekday=monday"]);
        check("지난주 수요일은 며칠이었어?", &["time week=-1 weekday=wednesday"]);
        check("what date is next Friday?", &["time week=1 weekday=friday"]);
        check("금요일이 며칠이지?", &["time weekday=friday"]);
        check("이번 달 마지막 월요일은 언제야?", &["time nth_in_month=-1 weekday=monday"]);
        check(
            "When is the first Tuesday of next month?",
            &["time add_months=1 nth_in_month=1 weekday=tuesday"],
        );
        check("추석이 언제야?", &["time holiday=추석"]);
        check("When is Chuseok?", &["time holiday=Chuseok"]);
        check("2028년 설날은 며칠이에요?", &["time holiday=설날 holidays_of=2028"]);
        check("내년 설 연휴는 언제야?", &["time add_years=1 holiday=설 연휴"]);
        check("크리스마스까지 며칠 남았어?", &["time holiday=크리스마스"]);
        check("12월 25일은 무슨 요일이야?", &["time date=12-25"]);
        check("What day of the week is December 25?", &["time date=12-25"]);
        check("3월 1일까지 며칠 남았어?", &["time until=03-01"]);
        check("내일은 금요일이야?", &["time add_days=1"]);
        check("월요일부터 금요일까지 며칠이야?", &[]);
        check("다음 주 금요일 회의는 몇 시야?", &[]);
        check("추석 선물은 언제 나와?", &[]);
        check("11월 16일 회의는 몇 시야?", &[]);
        check("송년회는 금요일이야?", &[]);
    }

    #[test]
    fn a_number_a_unit_and_a_direction_move_from_a_day() {
        check("오늘부터 100일 뒤는 며칠인가요?", &["time add_days=100"]);
        check("100 days from today", &["time add_days=100"]);
        check("내일부터 10일 뒤는 며칠인가요?", &["time add_days=11"]);
        check("어제부터 3주 뒤는 무슨 요일이야?", &["time add_days=-1 add_weeks=3"]);
        check("지금부터 90일 후 날짜 알려줘", &["time add_days=90"]);
        check("What date was it three weeks ago?", &["time add_weeks=-3"]);
        check("What day will it be in 45 days?", &["time add_days=45"]);
        check("두 달 전은 무슨 요일이었어?", &["time add_months=-2"]);
        check("오늘부터 열흘 뒤", &["time add_days=10"]);
        check("오늘부터 10영업일 뒤는 언제예요?", &["time add_business_days=10"]);
        check("10 business days from today?", &["time add_business_days=10"]);
        check("2026-01-05부터 6개월 뒤는 며칠이야?", &["time add_months=6 date=2026-01-05"]);
        check("검수 완료 후 14일 뒤에 무엇을 하나요?", &[]);
        check("퇴사 30일 전에 알려야 하나요?", &[]);
        check("3개월 후에는요?", &[]);
    }

    #[test]
    fn lookups_keep_only_what_is_looked_for() {
        check("위키백과에서 세종대왕 찾아줘", &["wiki 세종대왕"]);
        check("이순신은 누구야?", &["person 이순신"]);
        check("Who was Ada Lovelace?", &["person Ada Lovelace"]);
        check("보안 담당자는 누구야?", &[]);
        check("인터넷에서 최신 AI 뉴스 검색해줘", &["web 최신 AI 뉴스"]);
        check("문서에서 연차 검색해줘", &[]);
        check("search the web for rust 2026", &["web rust 2026"]);
    }

    #[test]
    fn files_and_programs_are_taken_as_they_stand() {
        check("\"분기 보고서.pdf\" 읽어줘", &["file 분기 보고서.pdf"]);
        check("notes.txt를 요약해줘", &["file notes.txt"]);
        check("실행해줘\n```python\nprint(1 + 1)\n```", &["run print(1 + 1)"]);
        check("`print(2)` 실행해줘", &["run print(2)"]);
        check("이 코드 설명해줘\n```python\nprint(1 + 1)\n```", &[]);
        check("```rust\nfn main() {}\n``` run", &[]);
    }

    #[test]
    fn several_wishes_stand_side_by_side() {
        check("서울 날씨랑 12*7 알려줘", &["compute 12 * 7", "weather 서울"]);
        check("제5조와 제7조를 표준계약서와 비교해줘", &["article 제5조", "article 제7조", "standard"]);
        check("계산해줘", &["compute ?"]);
        check("회의비는 12 * 7이라고 기억해줘", &["memory 회의비는 12 * 7"]);
        check("안녕하세요", &[]);
    }
}
