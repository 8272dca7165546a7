"""LangChain's ChatOpenAI: text, stream, tools, structured output, embeddings."""

import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

base, key = sys.argv[1:3]


class Forecast(BaseModel):
    """A forecast."""

    city: str
    days: int


@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    return f"sunny in {city}"


for responses in (False, True):
    model = ChatOpenAI(
        model="react", base_url=f"{base}/v1", api_key=key, max_retries=0, temperature=0.2, use_responses_api=responses
    )
    text = model.invoke("Hello?")
    assert text.text == "You said: Hello?", text
    assert "".join(chunk.text for chunk in model.stream("Hello?")) == "You said: Hello?"
    for method in ("json_schema", "function_calling"):
        forecast = model.with_structured_output(Forecast, method=method).invoke("How many days?")
        assert forecast == Forecast(city="Seoul", days=3), (method, forecast)
    messages = [HumanMessage("What is the weather in Seoul?")]
    called = model.bind_tools([get_weather]).invoke(messages)
    [call] = called.tool_calls
    assert call["args"] == {"city": "Seoul"}, called
    messages += [called, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    answer = model.bind_tools([get_weather]).invoke(messages)
    assert answer.text == "The weather: sunny in Seoul", answer

embeddings = OpenAIEmbeddings(
    model="built-in", base_url=f"{base}/v1", api_key=key, check_embedding_ctx_length=False
)
assert len(embeddings.embed_query("연차휴가")) > 10
print("ok langchain")
