//! Reads what a client says about how its question is to be answered: tools, the choice among them, the format of the
//! answer. The same in chat completions and in Responses, but for how deep the fields are nested.

use doran_agents::llm::{ModelKind, ResponseSchema, SamplingSetting, SchemaValidator, ToolChoice, ToolSpec};
use doran_agents::{Agent, ClientTool, TurnRequest};
use serde_json::{Value, json};

use super::request_fields::FieldObject;
use crate::error::ApiError;

/// The most tools of one request.
const MAX_CLIENT_TOOLS: usize = 128;

/// How deep the fields of tools and formats are nested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldNesting {
    /// Chat completions: `{"type": "function", "function": {"name": …}}`.
    Nested,
    /// Responses: `{"type": "function", "name": …}`.
    Flat,
}

/// Reads `tools`.
pub(super) fn read_tools(tools: Vec<Value>, nesting: FieldNesting) -> Result<Vec<ClientTool>, ApiError> {
    if tools.len() > MAX_CLIENT_TOOLS {
        return Err(ApiError::for_parameter(
            "tools",
            format!("there are more than {MAX_CLIENT_TOOLS}"),
            format!("{MAX_CLIENT_TOOLS}개를 넘습니다"),
        ));
    }
    let mut read: Vec<ClientTool> = Vec::new();
    for (at, tool) in tools.into_iter().enumerate() {
        let tool = read_tool(format!("tools[{at}]"), tool, nesting)?;
        if read.iter().any(|before| before.spec.name == tool.spec.name) {
            return Err(ApiError::for_parameter(
                &format!("tools[{at}]"),
                "another tool has the same name",
                "같은 이름의 도구가 있습니다",
            ));
        }
        read.push(tool);
    }
    Ok(read)
}

fn read_tool(place: String, tool: Value, nesting: FieldNesting) -> Result<ClientTool, ApiError> {
    let mut fields = typed_object(place, tool, nesting, "function")?;
    let name_place = fields.place_of("name");
    let name: String = fields.require("name")?;
    check_name(&name_place, &name)?;
    let description = fields.take::<String>("description")?.unwrap_or_default();
    let parameters_place = fields.place_of("parameters");
    let parameters = fields.take::<Value>("parameters")?;
    let parameters = parameters.unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
    if !parameters.is_object() {
        return Err(ApiError::for_parameter(
            &parameters_place,
            "it is not a JSON Schema",
            "JSON Schema가 아닙니다",
        ));
    }
    let strict = fields.take::<bool>("strict")?.unwrap_or(false);
    fields.finish()?;
    if strict {
        check_schema(&parameters_place, &parameters)?;
    }
    Ok(ClientTool { spec: ToolSpec { name, description, parameters }, strict })
}

/// Reads `tool_choice`.
pub(super) fn read_tool_choice(
    choice: Value,
    tools: &[ClientTool],
    nesting: FieldNesting,
) -> Result<ToolChoice, ApiError> {
    let no_tools = |choice: ToolChoice| match tools.is_empty() {
        true => Err(ApiError::for_parameter(
            "tool_choice",
            "there are no `tools` to call",
            "부를 `tools`가 없습니다",
        )),
        false => Ok(choice),
    };
    match choice.as_str() {
        Some("auto") => return Ok(ToolChoice::Auto),
        Some("none") => return Ok(ToolChoice::None),
        Some("required") => return no_tools(ToolChoice::Required),
        Some(_) => {
            return Err(ApiError::for_parameter(
                "tool_choice",
                "it can be `auto`, `none`, `required` or a function",
                "`auto`, `none`, `required`나 함수만 쓸 수 있습니다",
            ));
        }
        None => {}
    }
    let mut fields = typed_object("tool_choice".to_owned(), choice, nesting, "function")?;
    let place = fields.place_of("name");
    let name: String = fields.require("name")?;
    fields.finish()?;
    if !tools.iter().any(|tool| tool.spec.name == name) {
        return Err(ApiError::for_parameter(
            &place,
            "`tools` has no such function",
            "`tools`에 그런 함수가 없습니다",
        ));
    }
    Ok(ToolChoice::Named(name))
}

/// Reads `response_format` of chat completions or `text.format` of Responses. None is plain text.
pub(super) fn read_response_format(
    place: &str,
    format: Value,
    nesting: FieldNesting,
) -> Result<Option<ResponseSchema>, ApiError> {
    match format["type"].as_str() {
        Some("text") => {
            let mut fields = FieldObject::new(place, format)?;
            fields.require::<String>("type")?;
            fields.finish()?;
            Ok(None)
        }
        Some("json_object") => {
            let mut fields = FieldObject::new(place, format)?;
            fields.require::<String>("type")?;
            fields.finish()?;
            Ok(Some(ResponseSchema { name: "json".to_owned(), schema: json!({ "type": "object" }) }))
        }
        Some(other) if other != "json_schema" => Err(ApiError::for_parameter(
            &format!("{place}.type"),
            "it can only be `text`, `json_object` or `json_schema` here",
            "여기서는 `text`, `json_object`, `json_schema`만 쓸 수 있습니다",
        )),
        _ => {
            let mut fields = typed_object(place.to_owned(), format, nesting, "json_schema")?;
            let (name_place, schema_place) = (fields.place_of("name"), fields.place_of("schema"));
            let name: String = fields.require("name")?;
            check_name(&name_place, &name)?;
            let mut schema = fields.take::<Value>("schema")?.unwrap_or_else(|| json!({ "type": "object" }));
            let description = fields.take::<String>("description")?;
            // An answer is checked either way.
            fields.take::<bool>("strict")?;
            fields.finish()?;
            check_schema(&schema_place, &schema)?;
            if let (Some(description), Some(schema)) = (description, schema.as_object_mut()) {
                schema.entry("description").or_insert(description.into());
            }
            Ok(Some(ResponseSchema { name, schema }))
        }
    }
}

/// Rejects what an agent cannot do with a request, by the names of the parameters that ask for it.
pub(super) fn check_agent(agent: &Agent, parameters: &[(&str, bool)]) -> Result<(), ApiError> {
    let Some((parameter, _)) = parameters.iter().find(|(_, is_set)| *is_set) else { return Ok(()) };
    if !agent.accepts_turn_requests {
        return Err(not_taken_by_agent(agent, parameter));
    }
    if agent.model().is_none_or(|model| model.kind == ModelKind::Extractive) {
        return Err(ApiError::for_parameter(
            parameter,
            "the built-in model quotes documents and cannot do this; set `model` to a language model",
            "내장 모델은 문서를 인용할 뿐이어서 할 수 없습니다. `model`을 언어 모델로 설정하세요",
        ));
    }
    Ok(())
}

/// Rejects settings of a model that would have no effect, by the names of their parameters. A value that asks for what happens
/// anyway is no setting.
pub(super) fn check_model_settings(
    agent: &Agent,
    request: &TurnRequest,
    limit_parameter: &str,
) -> Result<(), ApiError> {
    let is_given = |setting: SamplingSetting| match setting {
        SamplingSetting::Temperature => request.temperature.is_some_and(|temperature| temperature != 1.0),
        SamplingSetting::TopP => request.top_p.is_some_and(|top_p| top_p < 1.0),
        SamplingSetting::Seed => request.seed.is_some(),
        SamplingSetting::Stop => !request.stop.is_empty(),
    };
    let model = agent.model();
    if !agent.accepts_turn_requests {
        // Every agent with a model knows a temperature.
        let ignored: &[SamplingSetting] = match model {
            Some(_) => &[SamplingSetting::TopP, SamplingSetting::Seed, SamplingSetting::Stop],
            None => &ALL_SETTINGS,
        };
        let limit = request.max_output_tokens.is_some().then_some(limit_parameter);
        let given = ignored.iter().find(|setting| is_given(**setting)).map(|setting| setting.name());
        if let Some(parameter) = limit.or(given) {
            return Err(not_taken_by_agent(agent, parameter));
        }
    }
    let Some(model) = model.filter(|model| model.kind == ModelKind::Language) else { return Ok(()) };
    match model.unsupported_settings.iter().find(|setting| is_given(**setting)) {
        Some(setting) => Err(ApiError::for_parameter(
            setting.name(),
            format!("the model `{}` does not take it; leave it out", model.name),
            format!("모델 `{}`은(는) 받지 않습니다. 빼고 보내세요", model.name),
        )),
        None => Ok(()),
    }
}

const ALL_SETTINGS: [SamplingSetting; 4] =
    [SamplingSetting::Temperature, SamplingSetting::TopP, SamplingSetting::Seed, SamplingSetting::Stop];

fn not_taken_by_agent(agent: &Agent, parameter: &str) -> ApiError {
    ApiError::for_parameter(
        parameter,
        format!("the agent `{}` does not take it; `assistant` and `react` do", agent.name),
        format!("에이전트 `{}`는 받지 않습니다. `assistant`와 `react`는 받습니다", agent.name),
    )
}

/// The fields of an object of this type.
fn typed_object(
    place: String,
    value: Value,
    nesting: FieldNesting,
    kind: &str,
) -> Result<FieldObject, ApiError> {
    let mut outer = FieldObject::new(place, value)?;
    let type_place = outer.place_of("type");
    let given: String = outer.require("type")?;
    if given != kind {
        return Err(ApiError::for_parameter(
            &type_place,
            format!("it can only be `{kind}` here"),
            format!("여기서는 `{kind}`만 쓸 수 있습니다"),
        ));
    }
    match nesting {
        FieldNesting::Flat => Ok(outer),
        FieldNesting::Nested => {
            let inner = FieldObject::new(outer.place_of(kind), outer.require(kind)?)?;
            outer.finish()?;
            Ok(inner)
        }
    }
}

/// Names are ASCII letters, digits, `_` and `-`, at most 64, as vendors take them.
fn check_name(place: &str, name: &str) -> Result<(), ApiError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=64).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    Err(ApiError::for_parameter(
        place,
        "a name has 1 to 64 ASCII letters, digits, `_` and `-`",
        "이름은 영문자, 숫자, `_`, `-` 1~64자입니다",
    ))
}

fn check_schema(place: &str, schema: &Value) -> Result<(), ApiError> {
    let invalid = |why: String| {
        let ko = format!("쓸 수 없는 JSON Schema입니다 ({why})");
        ApiError::for_parameter(place, format!("the JSON Schema cannot be used: {why}"), ko)
    };
    if !schema.is_object() {
        return Err(invalid("it is not an object".to_owned()));
    }
    SchemaValidator::new(schema).map(drop).map_err(|error| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(error: &ApiError) -> String {
        error.to_json()["parameter"].as_str().unwrap_or_default().to_owned()
    }

    fn check_tools(tools: Value, nesting: FieldNesting, expected: Result<&str, &str>) {
        let Value::Array(tools) = tools else { panic!("a list") };
        let read = read_tools(tools, nesting).map_err(|error| parameter(&error));
        let names =
            read.map(|tools| tools.into_iter().map(|tool| tool.spec.name).collect::<Vec<_>>().join(" "));
        assert_eq!(names, expected.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn a_tool_that_cannot_be_used_is_named() {
        use FieldNesting::{Flat, Nested};
        let nested = |function: Value| json!([{ "type": "function", "function": function }]);
        check_tools(
            nested(json!({ "name": "f", "parameters": { "type": "object" }, "strict": true })),
            Nested,
            Ok("f"),
        );
        check_tools(json!([{ "type": "function", "name": "f" }]), Flat, Ok("f"));
        check_tools(json!([{ "type": "custom", "custom": {} }]), Nested, Err("tools[0].type"));
        check_tools(json!([{ "type": "web_search" }]), Flat, Err("tools[0].type"));
        check_tools(nested(json!({ "name": "a b" })), Nested, Err("tools[0].function.name"));
        check_tools(nested(json!({ "name": "f", "x": 1 })), Nested, Err("tools[0].function.x"));
        let strict = json!({ "name": "f", "strict": true, "parameters": { "type": 3 } });
        check_tools(nested(strict), Nested, Err("tools[0].function.parameters"));
        check_tools(
            json!([{ "type": "function", "name": "f" }, { "type": "function", "name": "f" }]),
            Flat,
            Err("tools[1]"),
        );
        check_tools(json!([3]), Flat, Err("tools[0]"));
    }

    #[test]
    fn a_choice_names_a_tool_that_is_there() {
        let tools = [ClientTool {
            spec: ToolSpec { name: "f".into(), description: String::new(), parameters: json!({}) },
            strict: false,
        }];
        let read = |choice: Value, tools: &[ClientTool]| {
            read_tool_choice(choice, tools, FieldNesting::Nested).map_err(|error| parameter(&error))
        };
        assert_eq!(read(json!("auto"), &[]), Ok(ToolChoice::Auto));
        assert_eq!(read(json!("required"), &tools), Ok(ToolChoice::Required));
        assert_eq!(read(json!("required"), &[]), Err("tool_choice".into()));
        let named = |name: &str| json!({ "type": "function", "function": { "name": name } });
        assert_eq!(read(named("f"), &tools), Ok(ToolChoice::Named("f".into())));
        assert_eq!(read(named("g"), &tools), Err("tool_choice.function.name".into()));
        assert_eq!(read(json!({ "type": "allowed_tools" }), &tools), Err("tool_choice.type".into()));
    }

    #[test]
    fn a_format_is_text_an_object_or_a_schema_that_can_be_checked() {
        let read = |format: Value| {
            let read = read_response_format("response_format", format, FieldNesting::Nested);
            read.map(|schema| schema.map(|schema| schema.schema)).map_err(|error| parameter(&error))
        };
        assert_eq!(read(json!({ "type": "text" })), Ok(None));
        assert_eq!(read(json!({ "type": "json_object" })), Ok(Some(json!({ "type": "object" }))));
        let schema = |schema: Value| json!({ "type": "json_schema", "json_schema": { "name": "a", "strict": true, "schema": schema } });
        assert_eq!(read(schema(json!({ "type": "object" }))), Ok(Some(json!({ "type": "object" }))));
        assert_eq!(read(schema(json!({ "type": 1 }))), Err("response_format.json_schema.schema".into()));
        let circular = json!({ "$ref": "#" });
        assert_eq!(read(schema(circular)), Err("response_format.json_schema.schema".into()));
        assert_eq!(read(json!({ "type": "grammar" })), Err("response_format.type".into()));
        assert_eq!(read(json!({ "type": "json_object", "x": 1 })), Err("response_format.x".into()));
    }
}
