"""OpenAI's own client against the server: `openai_client.py BASE KEY`. Ends with `ok` or with what did not hold."""

import sys

import openai

base, key = sys.argv[1:]
client = openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0, timeout=60)
QUESTION = "연차휴가는 며칠인가요?"


def ask(**more):
    messages = more.pop("messages", [{"role": "user", "content": QUESTION}])
    return client.chat.completions.create(**{"model": "assistant", "messages": messages, **more})


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


names = [model.id for model in client.models.list()]
assert {"assistant", "react", "docqa", "contract"} <= set(names), names
assert client.models.retrieve("react").id == "react"

whole = ask()
choice = whole.choices[0]
assert choice.finish_reason == "stop" and choice.message.role == "assistant", whole
assert "15일" in choice.message.content, whole
assert choice.message.tool_calls is None, whole
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 0, whole

chunks = list(ask(stream=True, stream_options={"include_usage": True}))
said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
assert said == choice.message.content, (said, choice.message.content)
assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 0, chunks[-1]
assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason] == ["stop"]
assert len({chunk.id for chunk in chunks}) == 1 and chunks[0].choices[0].delta.role == "assistant"
assert all(chunk.usage is None for chunk in chunks[:-1])
assert all(chunk.usage is None for chunk in ask(stream=True))

# What the agent does on the way comes under names of its own, whole and in pieces.
thought = "".join((chunk.choices[0].delta.model_extra or {}).get("reasoning_content", "") for chunk in chunks if chunk.choices)
assert thought and thought == choice.message.model_extra["reasoning_content"] == choice.message.model_extra["reasoning"], whole

# The client keeps the conversation, and parts of a message are read like the message.
remembered = ask(messages=[
    {"role": "system", "content": "짧게 답하세요."},
    {"role": "user", "content": "내 이름은 철수야."},
    {"role": "assistant", "content": "반갑습니다."},
    {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
])
assert remembered.choices[0].message.content == choice.message.content, remembered

# A thread that is named is the server's to remember.
for message in ["내 이름은 영희야.", "내 이름이 뭐야?"]:
    answer = ask(messages=[{"role": "user", "content": message}], extra_headers={"x-thread-id": "python"})
assert "영희" in answer.choices[0].message.content, answer

gone = refused(openai.NotFoundError, lambda: ask(model="gpt-5"))
assert gone.code == "model_not_found" and gone.status_code == 404, gone
refused(openai.NotFoundError, lambda: client.models.retrieve("gpt-5"))
refused(openai.BadRequestError, lambda: ask(messages=[]))
refused(openai.BadRequestError, lambda: ask(n=2))
refused(openai.BadRequestError, lambda: ask(messages=[{"role": "user", "content": "  "}]))
stranger = openai.OpenAI(base_url=f"{base}/v1", api_key="key-nobody", max_retries=0)
wrong = refused(openai.AuthenticationError, lambda: stranger.models.list())
assert wrong.code == "wrong_key", wrong

print(f"ok openai {openai.__version__}")
