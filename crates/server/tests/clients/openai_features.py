"""OpenAI's client for Python: tools, typed answers, Responses and embeddings. The model behind calls `get_weather` once."""

import json
import sys

import openai
from pydantic import BaseModel

base, key = sys.argv[1:3]
client = openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0)

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CHAT_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA, "strict": True}}
RESPONSE_TOOL = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": True}


class Forecast(BaseModel):
    city: str
    days: int


def chat_tools():
    messages = [{"role": "user", "content": "What is the weather in Seoul?"}]
    first = client.chat.completions.create(model="react", messages=messages, tools=[CHAT_TOOL])
    message = first.choices[0].message
    assert first.choices[0].finish_reason == "tool_calls" and message.content is None, first
    call = message.tool_calls[0]
    assert call.function.name == "get_weather" and json.loads(call.function.arguments) == {"city": "Seoul"}
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "sunny, 23 degrees"}]
    second = client.chat.completions.create(model="react", messages=messages, tools=[CHAT_TOOL])
    assert second.choices[0].message.content == "The weather: sunny, 23 degrees", second


def chat_stream_tools():
    messages = [{"role": "user", "content": "What is the weather in Seoul?"}]
    with client.chat.completions.stream(model="react", messages=messages, tools=[CHAT_TOOL]) as stream:
        first = stream.get_final_completion()
    call = first.choices[0].message.tool_calls[0]
    assert call.function.parsed_arguments == {"city": "Seoul"}, first
    messages += [first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
    with client.chat.completions.stream(model="react", messages=messages, tools=[CHAT_TOOL]) as stream:
        assert stream.get_final_completion().choices[0].message.content == "The weather: rain"


def chat_typed():
    messages = [{"role": "user", "content": "How many days in Seoul?"}]
    parsed = client.chat.completions.parse(model="react", messages=messages, response_format=Forecast)
    assert parsed.choices[0].message.parsed == Forecast(city="Seoul", days=3), parsed


def responses():
    first = client.responses.create(model="react", input="Hello?", instructions="Be brief.")
    assert first.status == "completed" and first.output_text == "You said: Hello?", first
    assert client.responses.retrieve(first.id).output_text == first.output_text
    second = client.responses.create(model="react", input="And now?", previous_response_id=first.id)
    assert second.output_text == "You said: And now?" and second.usage.total_tokens > 0
    words = ""
    with client.responses.stream(model="react", input="Hello?") as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                words += event.delta
        assert stream.get_final_response().output_text == words == "You said: Hello?"
    events = list(client.responses.create(model="react", input="Hello again?", stream=True, background=True))
    said = lambda events: "".join(event.delta for event in events if event.type == "response.output_text.delta")
    for at, event in enumerate(events[:-1]):
        place = {"stream": True, "starting_after": event.sequence_number}
        rest = list(client.responses.retrieve(events[-1].response.id, **place))
        assert said(events[: at + 1] + rest) == "You said: Hello again?" and rest[-1] == events[-1], (event, rest)
        with client.responses.stream(response_id=events[-1].response.id, starting_after=event.sequence_number) as stream:
            assert said(events[: at + 1] + list(stream)) == "You said: Hello again?", event
    typed = client.responses.parse(model="react", input="How many days?", text_format=Forecast)
    assert typed.output_parsed == Forecast(city="Seoul", days=3), typed
    later = client.responses.create(model="react", input="Later?", background=True)
    for _ in range(1000):
        later = client.responses.retrieve(later.id)
        if later.status not in ("queued", "in_progress"):
            break
    assert later.output_text == "You said: Later?", later
    client.responses.delete(later.id)
    try:
        client.responses.retrieve(later.id)
        raise AssertionError("it was deleted")
    except openai.NotFoundError:
        pass


def responses_tools():
    tools = [RESPONSE_TOOL]
    first = client.responses.create(model="react", input="What is the weather in Seoul?", tools=tools)
    [call] = [item for item in first.output if item.type == "function_call"]
    assert json.loads(call.arguments) == {"city": "Seoul"}, first
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "snow"}
    second = client.responses.create(model="react", input=[output], previous_response_id=first.id, tools=tools)
    assert second.output_text == "The weather: snow", second
    question = {"role": "user", "content": "What is the weather in Seoul?"}
    third = client.responses.create(model="react", input=[question], tools=tools)
    [call] = third.output
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "fog"}
    fourth = client.responses.create(model="react", input=[question, *third.output, output], tools=tools)
    assert fourth.output_text == "The weather: fog", fourth


def embeddings():
    given = client.embeddings.create(model="built-in", input=["연차휴가는 며칠인가요?", "연차휴가는 15일입니다.", "주차장은 지하 2층에 있습니다."])
    vectors = [one.embedding for one in given.data]
    near = lambda left, right: sum(a * b for a, b in zip(left, right))
    assert abs(near(vectors[0], vectors[0]) - 1) < 0.01 and near(vectors[0], vectors[1]) > near(vectors[0], vectors[2])
    floats = client.embeddings.create(model="built-in", input="연차휴가는 며칠인가요?", encoding_format="float")
    assert max(abs(a - b) for a, b in zip(floats.data[0].embedding, vectors[0])) < 1e-6


def rejected():
    try:
        client.chat.completions.create(
            model="react", messages=[{"role": "user", "content": "hi"}], logprobs=True
        )
        raise AssertionError("it was accepted")
    except openai.BadRequestError as error:
        assert error.param == "logprobs", error


for check in (chat_tools, chat_stream_tools, chat_typed, responses, responses_tools, embeddings, rejected):
    check()
print("ok openai", openai.__version__)
