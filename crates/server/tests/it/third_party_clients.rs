//! Existing clients of OpenAI's API: OpenAI's own, libraries that are built on it, and a program that tries whatever the
//! OpenAPI document allows. `./x test` fetches them from their registries; without them the tests say so.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use doran_llm::{
    ChatModel, ChatRequest, Delta, DeltaStream, FinishReason, ModelInfo, ModelKind, ToolCall, Usage,
};
use doran_retrieval::BuiltInEncoder;
use doran_server::{
    CHAT_COMPLETION_FIELDS, EMBEDDING_FIELDS, OpenAiRequestField, RESPONSE_FIELDS, RateLimit, ServerApp,
    ServerLimits,
};
use expect_test::expect;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::process::Command;

use crate::retry_after_start::{UnansweredRunCase, list_thread_runs};
use crate::socket::start_server_with;
use crate::{app_for_tenant, two_keys, two_tenant_app};

/// A part that may be missing, or a loud word about it.
pub(crate) fn optional_program(variable: &str, made: &str, en: &str, ko: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.parts").join(made);
    let found = named.or_else(|| made.exists().then_some(made));
    if found.is_none() {
        report_missing(en, ko);
    }
    found
}

/// Says that a part is missing. Where all parts are required that is a failure.
pub(crate) fn report_missing(en: &str, ko: &str) {
    assert!(std::env::var("DORAN_REQUIRE_PARTS").as_deref() != Ok("1"), "required and not there: {en}");
    println!("SKIPPED: {en}; run ./x test clients / {ko}, ./x test clients로 실행하세요");
}

/// Runs a client against a server of two tenants and gives what it printed.
async fn run_client(name: &str, client: impl FnOnce(&str) -> Command) -> String {
    let rate = RateLimit { per_minute: 1e9, burst: 1e9 };
    run_client_against(
        two_tenant_app(name).await.limits(ServerLimits { rate_limit: rate, ..ServerLimits::default() }),
        client,
    )
    .await
}

/// Runs a client against this server and gives what it printed.
async fn run_client_against(app: ServerApp, client: impl FnOnce(&str) -> Command) -> String {
    let (address, _stop, _serving) = start_server_with(app).await;
    let mut command = client(&format!("http://{address}"));
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.expect("the client starts");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{error}");
    out.into_owned()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// No answer is an error of the server, and each has a status, a type and JSON that the document has.
const SCHEMATHESIS_CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

pub(crate) const PYTHON: (&str, &str) = ("DORAN_TEST_CLIENTS_PYTHON", "clients-venv/bin/python");

/// OpenAI's client for Python with one of the scripts.
fn python(name: &str) -> Option<impl Fn(&[&str]) -> Command + use<>> {
    let python = optional_program(PYTHON.0, PYTHON.1, "no `openai` for Python", "Python용 `openai`가 없음")?;
    let script = script(name);
    Some(move |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.arg(&script).args(arguments);
        command
    })
}

/// A model that calls the tools of its client: `get_weather` when it is asked for the weather, and any other to answer with.
struct ClientToolModel;

impl ClientToolModel {
    fn reply(request: &ChatRequest) -> Delta {
        let forecast = json!({ "city": "Seoul", "days": 3 });
        let question = request.question().unwrap_or_default();
        let result = request.messages.last().and_then(|message| message.tool_results().next());
        if let Some(result) = result {
            return Delta::Text { text: format!("The weather: {}", result.text) };
        }
        let call = |name: &str, arguments| {
            Delta::ToolCall(ToolCall { id: format!("call-{name}"), name: name.to_owned(), arguments })
        };
        let wanted = if question.contains("weather") { "get_weather" } else { "" };
        let own = ["calculator", "get_weather"];
        match request.tools.iter().find(|tool| tool.name == wanted || !own.contains(&tool.name.as_str())) {
            Some(tool) if tool.name == wanted => call(&tool.name, json!({ "city": "Seoul" })),
            Some(tool) => call(&tool.name, forecast),
            // Spring AI writes the schema into the question.
            None if request.schema.is_some() || question.contains("JSON Schema") => {
                Delta::Text { text: forecast.to_string() }
            }
            None => Delta::Text { text: format!("You said: {question}") },
        }
    }
}

impl ChatModel for ClientToolModel {
    fn info(&self) -> ModelInfo {
        let text = || "a model for tests".to_owned();
        let (ko, en, unsupported_settings) = (text(), text(), Vec::new());
        ModelInfo { name: "test".into(), kind: ModelKind::Language, ko, en, unsupported_settings }
    }

    fn stream(&self, request: ChatRequest) -> DeltaStream {
        let reply = Self::reply(&request);
        let finish = match reply {
            Delta::ToolCall(_) => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        };
        let usage = Usage { input_tokens: 7, output_tokens: 3, ..Usage::default() };
        stream::iter([Ok(reply), Ok(Delta::Done { usage, finish })]).boxed()
    }
}

/// Runs a client against a server whose model calls tools, and gives what it printed.
async fn run_tool_client(client: impl FnOnce(&[&str]) -> Command) -> String {
    let rate = RateLimit { per_minute: 1e9, burst: 1e9 };
    let (app, _) = app_for_tenant(Arc::new(ClientToolModel), "a");
    let app = app
        .keys(two_keys())
        .embedder(Arc::new(BuiltInEncoder::open().expect("an encoder")))
        .limits(ServerLimits { rate_limit: rate, ..ServerLimits::default() });
    run_client_against(app, |base| client(&[base, "key-a"])).await
}

/// The same, and checks that the client was content.
async fn check_tool_client(client: impl FnOnce(&[&str]) -> Command) {
    let response_text = run_tool_client(client).await;
    assert!(response_text.starts_with("ok "), "{response_text}");
}

/// The same for Node.js.
fn node(name: &str) -> Option<impl Fn(&[&str]) -> Command + use<>> {
    let made = "clients-node/node_modules/openai";
    let (en, ko) = ("no `openai` for Node.js", "Node.js용 `openai`가 없음");
    let package = optional_program("DORAN_TEST_CLIENTS_NODE", made, en, ko)?;
    // A script finds packages beside itself.
    let here = package.ancestors().nth(2).expect("a directory").join(name);
    std::fs::copy(script(name), &here).expect("copied");
    Some(move |arguments: &[&str]| {
        let mut command = Command::new("node");
        command.arg(&here).args(arguments);
        command
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_python_client_is_served() {
    let Some(client) = python("openai_client.py") else { return };
    let response_text = run_client("openai-python", |base| client(&[base, "key-a"])).await;
    assert!(response_text.starts_with("ok openai "), "{response_text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_node_client_is_served() {
    let Some(client) = node("openai_client.mjs") else { return };
    let response_text = run_client("openai-node", |base| client(&[base, "key-a"])).await;
    assert!(response_text.starts_with("ok openai "), "{response_text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_python_client_gets_tools_typed_answers_responses_and_embeddings() {
    if let Some(client) = python("openai_features.py") {
        check_tool_client(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_node_client_gets_tools_typed_answers_responses_and_embeddings() {
    if let Some(client) = node("openai_features.mjs") {
        check_tool_client(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ai_sdk_is_served() {
    if let Some(client) = node("ai_sdk.mjs") {
        check_tool_client(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openai_agents_sdk_is_served() {
    if let Some(client) = python("openai_agents.py") {
        check_tool_client(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn langchain_is_served() {
    if let Some(client) = python("langchain_client.py") {
        check_tool_client(client).await;
    }
}

/// A client with Spring AI, built by `spring.sh`.
async fn check_spring_ai(version: &str, base_path: &str) {
    let (en, ko) = ("no client with Spring AI", "Spring AI 클라이언트가 없음");
    let jar = format!("spring/spring-ai-{version}.jar");
    let Some(jar) = optional_program("DORAN_TEST_SPRING_AI", &jar, en, ko) else { return };
    check_tool_client(|arguments| {
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar"]).arg(jar).args([
            &format!("--spring.ai.openai.base-url={}{base_path}", arguments[0]),
            &format!("--spring.ai.openai.api-key={}", arguments[1]),
            "--spring.ai.openai.chat.options.model=react",
            "--spring.ai.model.embedding=none",
            "--spring.ai.model.image=none",
            "--spring.ai.model.audio.speech=none",
            "--spring.ai.model.audio.transcription=none",
            "--spring.ai.model.moderation=none",
            "--spring.main.banner-mode=off",
            "--spring.main.web-application-type=none",
            "--logging.level.root=warn",
        ]);
        command
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spring_ai_1_is_served() {
    check_spring_ai("1.1.6", "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn spring_ai_2_is_served() {
    check_spring_ai("2.0.0", "/v1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pydantic_ai_is_served() {
    if let Some(client) = python("pydantic_ai_client.py") {
        check_tool_client(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_that_openais_client_knows_is_in_the_tables() {
    let Some(client) = python("documented_fields.py") else { return };
    let output = client(&[]).output().await.expect("the client starts");
    let lines = String::from_utf8(output.stdout).expect("text");
    let check = |request: &str, table: &[OpenAiRequestField]| {
        let line = lines.lines().find(|line| line.starts_with(request)).expect("a line");
        let fields: Vec<&str> = line.split(' ').skip(1).collect();
        let known: Vec<&str> = table.iter().map(|field| field.name).collect();
        assert_eq!(known, fields, "{request}");
    };
    check("chat", CHAT_COMPLETION_FIELDS);
    check("responses", RESPONSE_FIELDS);
    check("embeddings", EMBEDDING_FIELDS);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_inside_of_a_field_is_used_or_rejected() {
    let Some(client) = python("nested_fields.py") else { return };
    // Those that are accepted; the others were rejected by name.
    expect![[r#"
        chat/completions messages[] ChatCompletionAssistantMessageParam
        chat/completions messages[] ChatCompletionDeveloperMessageParam
        chat/completions messages[] ChatCompletionSystemMessageParam
        chat/completions messages[] ChatCompletionToolMessageParam
        chat/completions messages[] ChatCompletionUserMessageParam
        chat/completions messages[].content str
        chat/completions messages[].content[] ChatCompletionContentPartImageParam
        chat/completions messages[].content[] ChatCompletionContentPartRefusalParam
        chat/completions messages[].content[] ChatCompletionContentPartTextParam
        chat/completions messages[].content[].image_url ImageURL
        chat/completions messages[].content[].image_url.detail typing.Literal
        chat/completions messages[].content[].image_url.url str
        chat/completions messages[].content[].refusal str
        chat/completions messages[].content[].text str
        chat/completions messages[].content[].type typing.Literal
        chat/completions messages[].role typing.Literal
        chat/completions messages[].tool_call_id str
        chat/completions messages[].tool_calls[] ChatCompletionMessageFunctionToolCallParam
        chat/completions messages[].tool_calls[].function Function
        chat/completions messages[].tool_calls[].function.arguments str
        chat/completions messages[].tool_calls[].function.name str
        chat/completions messages[].tool_calls[].id str
        chat/completions messages[].tool_calls[].type typing.Literal
        chat/completions modalities[] typing.Literal
        chat/completions response_format ResponseFormatJSONObject
        chat/completions response_format ResponseFormatJSONSchema
        chat/completions response_format ResponseFormatText
        chat/completions response_format.json_schema JSONSchema
        chat/completions response_format.json_schema.description str
        chat/completions response_format.json_schema.name str
        chat/completions response_format.json_schema.schema <class 'dict'>
        chat/completions response_format.json_schema.strict bool
        chat/completions response_format.type typing.Literal
        chat/completions stop str
        chat/completions stop[] str
        chat/completions stream_options ChatCompletionStreamOptionsParam
        chat/completions stream_options.include_obfuscation bool
        chat/completions stream_options.include_usage bool
        chat/completions tool_choice ChatCompletionNamedToolChoiceParam
        chat/completions tool_choice typing.Literal
        chat/completions tool_choice.function Function
        chat/completions tool_choice.function.name str
        chat/completions tool_choice.type typing.Literal
        chat/completions tools[] ChatCompletionFunctionToolParam
        chat/completions tools[].function FunctionDefinition
        chat/completions tools[].function.description str
        chat/completions tools[].function.name str
        chat/completions tools[].function.parameters <class 'dict'>
        chat/completions tools[].function.strict bool
        chat/completions tools[].type typing.Literal
        responses conversation ResponseConversationParamParam
        responses conversation str
        responses conversation.id str
        responses input str
        responses input[] EasyInputMessageParam
        responses input[] FunctionCallOutput
        responses input[] Message
        responses input[] ResponseFunctionToolCallParam
        responses input[] ResponseOutputMessageParam
        responses input[].arguments str
        responses input[].call_id str
        responses input[].content str
        responses input[].content[] ResponseInputImageParam
        responses input[].content[] ResponseInputTextParam
        responses input[].content[] ResponseOutputRefusalParam
        responses input[].content[] ResponseOutputTextParam
        responses input[].content[].annotations[] AnnotationContainerFileCitation
        responses input[].content[].annotations[] AnnotationFileCitation
        responses input[].content[].annotations[] AnnotationFilePath
        responses input[].content[].annotations[] AnnotationURLCitation
        responses input[].content[].annotations[].container_id str
        responses input[].content[].annotations[].end_index int
        responses input[].content[].annotations[].file_id str
        responses input[].content[].annotations[].filename str
        responses input[].content[].annotations[].index int
        responses input[].content[].annotations[].start_index int
        responses input[].content[].annotations[].title str
        responses input[].content[].annotations[].type typing.Literal
        responses input[].content[].annotations[].url str
        responses input[].content[].detail typing.Literal
        responses input[].content[].image_url str
        responses input[].content[].logprobs[] Logprob
        responses input[].content[].logprobs[].bytes[] int
        responses input[].content[].logprobs[].logprob float
        responses input[].content[].logprobs[].token str
        responses input[].content[].logprobs[].top_logprobs[] LogprobTopLogprob
        responses input[].content[].logprobs[].top_logprobs[].bytes[] int
        responses input[].content[].logprobs[].top_logprobs[].logprob float
        responses input[].content[].logprobs[].top_logprobs[].token str
        responses input[].content[].refusal str
        responses input[].content[].text str
        responses input[].content[].type typing.Literal
        responses input[].id str
        responses input[].name str
        responses input[].output str
        responses input[].output[] ResponseInputTextContentParam
        responses input[].output[].text str
        responses input[].output[].type typing.Literal
        responses input[].role typing.Literal
        responses input[].status typing.Literal
        responses input[].type typing.Literal
        responses reasoning Reasoning
        responses stream_options StreamOptions
        responses stream_options.include_obfuscation bool
        responses text ResponseTextConfigParam
        responses text.format ResponseFormatJSONObject
        responses text.format ResponseFormatText
        responses text.format ResponseFormatTextJSONSchemaConfigParam
        responses text.format.description str
        responses text.format.name str
        responses text.format.schema <class 'dict'>
        responses text.format.strict bool
        responses text.format.type typing.Literal
        responses text.verbosity typing.Literal
        responses tool_choice ToolChoiceFunctionParam
        responses tool_choice typing.Literal
        responses tool_choice.name str
        responses tool_choice.type typing.Literal
        responses tools[] FunctionToolParam
        responses tools[].description str
        responses tools[].name str
        responses tools[].parameters <class 'dict'>
        responses tools[].strict bool
        responses tools[].type typing.Literal
        ok
    "#]]
    .assert_eq(&run_tool_client(client).await);
}

/// Asks with a client that asks again by itself, by every way in which a run gives no answer: it is begun once.
async fn check_one_run_is_started(client: impl Fn(&[&str]) -> Command) {
    for trouble in UnansweredRunCase::ALL {
        let app = trouble.app();
        let asking = run_client_against(app.clone(), |base| client(&[base, "t"]));
        let (response_text, ()) = tokio::join!(asking, trouble.cause(&app, "t"));
        assert_eq!(response_text.trim(), trouble.expected_error(), "{trouble:?}");
        assert_eq!(list_thread_runs(&app, "t").await.len(), 1, "{trouble:?}: {response_text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_python_client_begins_a_run_once_whatever_becomes_of_it() {
    if let Some(client) = python("openai_again.py") {
        check_one_run_is_started(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openais_node_client_begins_a_run_once_whatever_becomes_of_it() {
    if let Some(client) = node("openai_again.mjs") {
        check_one_run_is_started(client).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_document_allows_is_answered_as_the_document_says() {
    let Some(python) = optional_program(PYTHON.0, PYTHON.1, "no `schemathesis`", "`schemathesis`가 없음")
    else {
        return;
    };
    // Each more is another body or address for every route.
    let examples = std::env::var("DORAN_TEST_EXAMPLES").unwrap_or_else(|_| "25".into());
    let program = python.parent().expect("a directory").join("schemathesis");
    let text = run_client("schemathesis", |base| {
        let mut command = Command::new(program);
        command.args(["run", &format!("{base}/openapi.json"), "--header", "Authorization: Bearer key-a"]);
        command.args(["--checks", SCHEMATHESIS_CHECKS, "--max-examples", &examples, "--seed", "20261115"]);
        command.args(["--phases", "examples,coverage,fuzzing", "--request-timeout", "60", "--no-color"]);
        // This stream tells one run after the other and has no end.
        command.args(["--exclude-operation-id", "langgraph_stream_events"]);
        // How fast it makes its requests up depends on the machine and says nothing about the server.
        command.args(["--suppress-health-check", "all"]);
        command
    })
    .await;
    assert!(text.contains(" generated, ") && !text.contains("Server error"), "{text}");
}
