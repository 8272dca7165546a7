"""The four graphs of `crates/server/examples/four_graphs.rs`, for `langgraph dev`."""
import asyncio
from typing import Annotated, TypedDict

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

TOKENS = [f"token{i} " for i in range(20)]


class TokenModel(BaseChatModel):
    @property
    def _llm_type(self):
        return "tokens"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content="".join(TOKENS)))])

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for token in TOKENS:
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=token))
            if run_manager:
                await run_manager.on_llm_new_token(token, chunk=chunk)
            yield chunk


class Chat(TypedDict, total=False):
    messages: Annotated[list, add_messages]
    turn: int


async def prepare(state: Chat):
    return {"turn": state.get("turn", 0) + 1}


async def model(state: Chat):
    return {"messages": [await TokenModel().ainvoke(state["messages"])]}


async def finish(state: Chat):
    return {}


chat = StateGraph(Chat)
for node in (prepare, model, finish):
    chat.add_node(node.__name__, node)
chat.add_edge(START, "prepare")
chat.add_edge("prepare", "model")
chat.add_edge("model", "finish")
chat.add_edge("finish", END)
chat = chat.compile()


class Hitl(TypedDict, total=False):
    messages: Annotated[list, add_messages]
    answer: str


async def ask(state: Hitl):
    return {"answer": interrupt({"question": "approve?"})}


async def reply(state: Hitl):
    return {"messages": [AIMessage(content=f"you said {state['answer']}")]}


hitl = StateGraph(Hitl)
hitl.add_node("ask", ask)
hitl.add_node("reply", reply)
hitl.add_edge(START, "ask")
hitl.add_edge("ask", "reply")
hitl.add_edge("reply", END)
hitl = hitl.compile()


class Slow(TypedDict, total=False):
    answer: str


async def tick(state: Slow):
    write = get_stream_writer()
    for i in range(50):
        write({"tick": i})
        await asyncio.sleep(0.1)
    return {"answer": "done"}


slow = StateGraph(Slow)
slow.add_node("tick", tick)
slow.add_edge(START, "tick")
slow.add_edge("tick", END)
slow = slow.compile()


class Failing(TypedDict, total=False):
    answer: str


async def fail(state: Failing):
    raise ValueError("boom")


failing = StateGraph(Failing)
failing.add_node("fail", fail)
failing.add_edge(START, "fail")
failing.add_edge("fail", END)
failing = failing.compile()
