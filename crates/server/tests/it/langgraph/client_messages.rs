//! Messages of LangGraph's clients in the ready-made agents: under the ids that the clients gave them.

use doran_server::ServerApp;
use serde_json::{Value, json};

use super::{new_thread, run_of};
use crate::{app, get, json, post, send, text};

const AGENTS: [&str; 4] = ["assistant", "contract", "react", "docqa"];

async fn wait(app: &ServerApp, thread: &str, agent: &str, messages: Value) -> Vec<Value> {
    let body = json!({ "assistant_id": agent, "input": { "messages": messages } }).to_string();
    let values = json(app, post(&format!("/threads/{thread}/runs/wait"), &body)).await;
    values["messages"].as_array().expect("a list").clone()
}

fn question(id: &str) -> Value {
    json!({
        "type": "human", "content": "연차휴가는 며칠인가요?", "id": id, "name": "ada", "additional_kwargs": { "tab": 3 },
        "response_metadata": {},
    })
}

fn with_id<'a>(messages: &'a [Value], id: &str) -> Vec<&'a Value> {
    messages.iter().filter(|message| message["id"] == id).collect()
}

/// A client shows its message before it is stored, and knows it again by its id.
#[tokio::test]
async fn a_message_keeps_its_id_and_what_its_client_stores_with_it() {
    let app = app();
    for agent in AGENTS {
        let thread = new_thread(&app).await;
        let messages = wait(&app, &thread, agent, json!([question("q-1")])).await;
        let [asked] = with_id(&messages, "q-1")[..] else { panic!("{agent}: {messages:?}") };
        assert_eq!(asked["content"], "연차휴가는 며칠인가요?", "{agent}");
        assert_eq!((&asked["name"], &asked["additional_kwargs"]), (&json!("ada"), &json!({ "tab": 3 })));
        let answer = messages.last().expect("an answer").clone();
        assert_eq!(answer["type"], "ai", "{agent}: {answer}");
        // A client that sends the whole conversation again repeats nothing.
        let again = json!([question("q-1"), answer, question("q-2")]);
        let messages = wait(&app, &thread, agent, again).await;
        let answer_id = answer["id"].as_str().expect("an id");
        for id in ["q-1", answer_id, "q-2"] {
            assert_eq!(with_id(&messages, id).len(), 1, "{agent} {id}: {messages:?}");
        }
        let state = json(&app, get(&format!("/threads/{thread}/state"))).await;
        let messages = state["values"]["messages"].as_array().expect("a list");
        assert_eq!(with_id(messages, "q-2")[0]["name"], "ada", "{agent}");
    }
}

/// The first state that a stream shows has the question under the id of its client, where the input is the message.
#[tokio::test]
async fn a_stream_shows_the_question_under_its_id() {
    let app = app();
    for agent in AGENTS {
        let thread = new_thread(&app).await;
        let body = json!({
            "assistant_id": agent, "input": { "messages": [question("q-1")] }, "stream_mode": ["values"],
        });
        let response = send(&app, post(&format!("/threads/{thread}/runs/stream"), &body.to_string())).await;
        let _ = run_of(&response);
        let stream = text(response).await;
        let states = stream.lines().filter_map(|line| line.strip_prefix("data: "));
        let states = states.map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
        let first =
            states.filter_map(|state| state["messages"].as_array().cloned()).find(|all| !all.is_empty());
        assert_eq!(first.expect("messages")[0]["id"], "q-1", "{agent}: {stream}");
    }
}

#[tokio::test]
async fn what_a_ready_made_agent_cannot_take_is_named() {
    let app = app();
    let image = json!([
        { "type": "text", "text": "무엇인가요?" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } },
    ]);
    let call = json!({ "id": "c", "name": "f", "args": {} });
    for (message, named) in [
        (json!({ "type": "tool", "content": "1", "tool_call_id": "c" }), "input.messages[0]"),
        (json!({ "type": "ai", "content": "", "tool_calls": [call] }), "input.messages[0]"),
        (json!({ "type": "human", "content": "a", "id": "system-chat" }), "input.messages[0].id"),
        (json!({ "type": "human", "content": image }), "image"),
    ] {
        let body = json!({ "assistant_id": "docqa", "input": { "messages": [message] } }).to_string();
        let response = send(&app, post("/runs/wait", &body)).await;
        let (status, reply) = (response.status().as_u16(), text(response).await);
        assert!(status == 422 && reply.contains(named), "{message}: {status} {reply}");
    }
    // A client that answers a call which was cut off can go on.
    for agent in ["assistant", "react"] {
        let call = json!({ "id": "c", "name": "calculator", "args": {} });
        let messages = json!([
            { "type": "ai", "content": "", "id": "a-1", "tool_calls": [call] },
            { "type": "tool", "content": "done", "id": "t-1", "tool_call_id": "c" },
            question("q-1"),
        ]);
        let messages = wait(&app, &new_thread(&app).await, agent, messages).await;
        let ids: Vec<&Value> = messages.iter().take(3).map(|message| &message["id"]).collect();
        assert_eq!(ids, ["a-1", "t-1", "q-1"], "{agent}: {messages:?}");
    }
    // An agent has a place for some of the texts that come with a question.
    for (agent, fields) in [
        ("assistant", "`messages`, `collection`, `document`"),
        ("contract", "`messages`, `contract_id`, `document`"),
        ("react", "`messages`, `document`"),
        ("docqa", "`messages`, `collection`, `document`"),
    ] {
        let input = json!({ "messages": [question("q")], "nobody": "x" });
        let body = json!({ "assistant_id": agent, "input": input }).to_string();
        let reply = text(send(&app, post("/runs/wait", &body)).await).await;
        assert!(reply.contains(&format!("there are {fields}\"")), "{agent}: {reply}");
        let schemas = json(&app, get(&format!("/assistants/{agent}/schemas"))).await;
        let properties = schemas["input_schema"]["properties"].as_object().expect("an object");
        let mut names: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
        names.sort_by_key(|name| fields.find(name.as_str()));
        assert_eq!(names.join(", "), fields, "{agent}");
    }
}
