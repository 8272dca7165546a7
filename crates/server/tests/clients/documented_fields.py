"""Prints the fields that OpenAI's client for Python knows, a line for each request."""

import typing

from openai.types import embedding_create_params as embeddings
from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params as responses

for name, kinds in {
    "chat": (chat.CompletionCreateParamsNonStreaming, chat.CompletionCreateParamsStreaming),
    "responses": (responses.ResponseCreateParamsNonStreaming, responses.ResponseCreateParamsStreaming),
    "embeddings": (embeddings.EmbeddingCreateParams,),
}.items():
    fields = {field for kind in kinds for field in typing.get_type_hints(kind)}
    print(name, *sorted(fields))
