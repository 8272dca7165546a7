"""The `openai` client's side of `./x bench llm`.

The benchmark starts this program once and talks to it over stdin and stdout, one JSON object a line, one answer a
request. See bench/README.md for the requests. Diagnostics go to stderr.
"""

import asyncio
import json
import platform
import sys
import time

import openai

# The first pieces of a stream come while others connect, and are not counted.
WARM_UP = 3


def main():
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(content):
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    answer({"ready": True, "name": f"openai {openai.__version__} (Python {platform.python_version()})"})
    for line in sys.stdin:
        try:
            answer(asyncio.run(measured(json.loads(line))))
        except Exception as error:  # whatever it is, the other side waits for a line
            answer({"error": f"{type(error).__name__}: {error}"})


async def measured(request):
    async with openai.AsyncOpenAI(base_url=request["url"], api_key="none", max_retries=0, timeout=120) as client:
        cases = {"calls": calls, "streams": streams}
        return await cases[request["case"]](client, request["model"], request["count"])


async def calls(client, model, count):
    for _ in range(20):
        await client.chat.completions.create(model=model, messages=MESSAGES)
    before, waits = time.process_time_ns(), []
    for _ in range(count):
        begun = time.monotonic_ns()
        reply = await client.chat.completions.create(model=model, messages=MESSAGES)
        assert reply.choices[0].message.content
        waits.append(time.monotonic_ns() - begun)
    return summed(time.process_time_ns() - before, waits, count)


async def streams(client, model, count):
    before = time.process_time_ns()
    each = await asyncio.gather(*(stream(client, model) for _ in range(count)))
    cpu = time.process_time_ns() - before
    waits = [wait for one in each for wait in one[WARM_UP:]]
    return summed(cpu, waits, sum(len(one) for one in each))


async def stream(client, model):
    waits = []
    async for chunk in await client.chat.completions.create(model=model, messages=MESSAGES, stream=True):
        text = chunk.choices[0].delta.content if chunk.choices else None
        for stamp in (text or "").split():
            waits.append(time.monotonic_ns() - int(stamp))
    return waits


def summed(cpu, waits, units):
    waits.sort()
    at = lambda share: waits[min(int(len(waits) * share), len(waits) - 1)] / 1000
    return {"units": units, "p50_us": at(0.5), "p99_us": at(0.99), "cpu_us": cpu / 1000 / units}


MESSAGES = [{"role": "user", "content": "안녕하세요?"}]

if __name__ == "__main__":
    main()
