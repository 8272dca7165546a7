"""Pydantic AI: typed output by a tool and by a schema, and tools, over chat completions and Responses."""

import sys

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

base, key = sys.argv[1:3]
provider = OpenAIProvider(base_url=f"{base}/v1", api_key=key)


class Forecast(BaseModel):
    city: str
    days: int


for kind in (OpenAIChatModel, OpenAIResponsesModel):
    model = kind("react", provider=provider)
    assert Agent(model).run_sync("Hello?").output == "You said: Hello?"
    for output in (Forecast, NativeOutput(Forecast)):
        typed = Agent(model, output_type=output).run_sync("How many days?")
        assert typed.output == Forecast(city="Seoul", days=3), (kind, output, typed)
    agent = Agent(model)

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """Weather of a city."""
        return f"sunny in {city}"

    answer = agent.run_sync("What is the weather in Seoul?")
    assert answer.output == "The weather: sunny in Seoul", answer
print("ok pydantic_ai")
