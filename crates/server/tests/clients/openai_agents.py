"""The OpenAI Agents SDK with its defaults (Responses): tools and typed output."""

import sys

from agents import Agent, Runner, function_tool, set_default_openai_client, set_tracing_disabled
from openai import AsyncOpenAI
from pydantic import BaseModel

base, key = sys.argv[1:3]
set_tracing_disabled(True)
set_default_openai_client(AsyncOpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0))


class Forecast(BaseModel):
    city: str
    days: int


@function_tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    return f"sunny in {city}"


agent = Agent(name="weather", model="react", instructions="Be brief.", tools=[get_weather])
result = Runner.run_sync(agent, "What is the weather in Seoul?")
assert result.final_output == "The weather: sunny in Seoul", result.final_output
second = Runner.run_sync(agent, result.to_input_list() + [{"role": "user", "content": "Hello?"}])
assert second.final_output == "You said: Hello?", second.final_output
typed = Agent(name="forecast", model="react", output_type=Forecast)
assert Runner.run_sync(typed, "How many days?").final_output == Forecast(city="Seoul", days=3)
print("ok agents")
