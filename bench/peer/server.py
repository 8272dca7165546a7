"""The other side of `./x bench server`: LangGraph behind FastAPI.

Served by uvicorn, which the benchmark starts: `uvicorn server:app`. `BENCH_STORE` is `ram`, `sqlite` or `postgres`,
`BENCH_PLACE` the file or the address. `plain` is the same graph without a store, for `langgraph dev`, which brings its own.
"""

import asyncio
import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Annotated, TypedDict

# Tracing would be measured with the rest; it is read when LangGraph is imported.
for switch in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2"):
    os.environ[switch] = "false"

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel

WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
PIECES = [word + " " for word in WORDS[:-1]] + WORDS[-1:]
CONNECTIONS = 16
HEARTBEAT = 15


class Instant(BaseChatModel):
    """Says its words without a moment's thought."""

    @property
    def _llm_type(self):
        return "instant"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(PIECES)))])

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        return self._generate(messages)

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for piece in PIECES:
            chunk = ChatGenerationChunk(message=AIMessageChunk(piece))
            if run_manager:
                await run_manager.on_llm_new_token(piece, chunk=chunk)
            yield chunk


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


model = Instant()


async def before(state):
    return {"messages": [AIMessage("before")]}


async def answer(state):
    return {"messages": [await model.ainvoke(state["messages"])]}


async def after(state):
    return {"messages": [AIMessage("after")]}


def three():
    builder = StateGraph(State)
    builder.add_node("before", before)
    builder.add_node("model", answer)
    builder.add_node("after", after)
    builder.add_edge(START, "before")
    builder.add_edge("before", "model")
    builder.add_edge("model", "after")
    builder.add_edge("after", END)
    return builder


plain = three().compile()


@contextlib.asynccontextmanager
async def saver():
    store, place = os.environ.get("BENCH_STORE", "ram"), os.environ.get("BENCH_PLACE", "")
    if store == "sqlite":
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(place) as kept:
            yield kept
    elif store == "postgres":
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        # As the documentation of the saver asks for.
        settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(place, min_size=CONNECTIONS, max_size=CONNECTIONS, kwargs=settings) as pool:
            kept = AsyncPostgresSaver(pool)
            # Several processes start at once; one makes the tables.
            with open(Path(os.environ["BENCH_FOLDER"]) / "setup.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                await kept.setup()
            yield kept
    else:
        yield InMemorySaver()


@contextlib.asynccontextmanager
async def life(app):
    async with saver() as kept:
        app.state.graph = three().compile(checkpointer=kept)
        yield


app = FastAPI(lifespan=life)


class Chat(BaseModel):
    thread: str
    message: str


def asked(chat):
    return {"messages": [{"role": "user", "content": chat.message}]}, {"configurable": {"thread_id": chat.thread}}


@app.get("/healthz")
async def healthz():
    return {"status": "ok"}


@app.post("/chat")
async def chat(chat: Chat):
    state, config = asked(chat)
    # Each step is in the store before the next begins, as with doran.
    state = await app.state.graph.ainvoke(state, config, durability="sync")
    return {"messages": [message.content for message in state["messages"]]}


@app.post("/chat/stream")
async def stream(chat: Chat):
    state, config = asked(chat)

    async def frames():
        async for piece, _ in app.state.graph.astream(state, config, stream_mode="messages", durability="sync"):
            yield f"data: {json.dumps({'text': piece.content})}\n\n"

    return StreamingResponse(frames(), media_type="text/event-stream")


@app.get("/idle")
async def idle():
    async def frames():
        yield ": alive\n\n"
        while True:
            await asyncio.sleep(HEARTBEAT)
            yield ": alive\n\n"

    return StreamingResponse(frames(), media_type="text/event-stream")
