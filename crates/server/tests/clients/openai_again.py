"""OpenAI's own client as it comes, which asks again by itself: `openai_again.py BASE THREAD`. Prints what it was refused with."""

import sys

import openai

base, thread = sys.argv[1:]
client = openai.OpenAI(base_url=f"{base}/v1", api_key="-")
messages = [{"role": "user", "content": "안녕?"}]
try:
    client.chat.completions.create(model="assistant", messages=messages, extra_headers={"x-thread-id": thread})
except openai.APIStatusError as error:
    print(error.status_code, error.code)
