"""LangGraph's side of `./x bench agents`.

The benchmark starts this program once and talks to it over stdin and stdout, one JSON object a
line, one answer a request, so that both sides can be measured in turns within one run:

    {"case": "talk", "at_once": 1, "seconds": 2.0, "path": "/tmp/fresh.db"}
    {"turns": 123, "seconds": 2.01, "latencies_ms": [...], "langgraph": "…"}

The graph is the `assistant`: router, memory, agent and tools, on LangGraph's SQLite saver, every
step durable before the next begins. The model is a plain function that answers at once.
Diagnostics go to stderr.
"""

import contextlib
import itertools
import json
import os
import signal
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypedDict

# Tracing would be measured with the graph; it is read when LangGraph is imported.
for switch in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2"):
    os.environ[switch] = "false"

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

MAX_MESSAGES = 10
KEEP_RECENT = 5
QUESTIONS = {"talk": "안녕하세요", "tool": "123 * 456 계산해줘"}
ANSWERS = {"talk": "안녕하세요! 무엇을 도와드릴까요?", "tool": "123 × 456 = 56,088입니다."}


class AgentState(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    summary: str
    context: str
    next_action: str


@tool
def calculator(expression: str) -> str:
    """Multiplies two whole numbers."""
    left, right = expression.split("*")
    return str(int(left) * int(right))


def assistant(case):
    """start ─▶ router ─▶ memory ─▶ agent ⇄ tools, agent ─▶ end"""

    def router(_state):
        return {"next_action": "agent"}

    def memory(state):
        messages = state["messages"]
        if len(messages) <= MAX_MESSAGES:
            return {}
        return {"summary": "요약", "messages": [RemoveMessage(id=m.id) for m in messages[:-KEEP_RECENT]]}

    def agent(state):
        if case == "tool" and state["messages"][-1].type == "human":
            call = {"name": "calculator", "args": {"expression": "123 * 456"}, "id": "call-1"}
            return {"messages": [AIMessage("", tool_calls=[call])], "next_action": "tools"}
        return {"messages": [AIMessage(ANSWERS[case])], "next_action": "end"}

    builder = StateGraph(AgentState)
    builder.add_node("router", router)
    builder.add_node("memory", memory)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode([calculator]))
    builder.add_edge(START, "router")
    builder.add_edge("router", "memory")
    builder.add_edge("memory", "agent")
    builder.add_conditional_edges(
        "agent", lambda state: "tools" if state["next_action"] == "tools" else END, ["tools", END]
    )
    builder.add_edge("tools", "agent")
    return builder


@contextlib.contextmanager
def sqlite_store(path):
    files = [Path(path + suffix) for suffix in ("", "-wal", "-shm")]
    if any(file.exists() for file in files):
        raise ValueError(f"`{path}` exists; a case starts with a fresh file")
    try:
        with SqliteSaver.from_conn_string(path) as saver:
            saver.setup()
            yield saver
    finally:
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                file.unlink()


def measure(request):
    case, at_once, seconds = request["case"], int(request["at_once"]), float(request["seconds"])
    if case not in QUESTIONS:
        raise ValueError(f"unknown case `{case}`; known: {', '.join(QUESTIONS)}")
    with sqlite_store(request["path"]) as saver:
        graph = assistant(case).compile(checkpointer=saver)
        threads = itertools.count()
        guard = threading.Lock()

        def turn():
            with guard:
                config = {"configurable": {"thread_id": f"t{next(threads)}"}}
            begun = time.perf_counter()
            result = graph.invoke({"messages": [HumanMessage(QUESTIONS[case])]}, config, durability="sync")
            took = time.perf_counter() - begun
            if result["messages"][-1].content != ANSWERS[case]:
                raise RuntimeError(f"the answer was {result['messages'][-1].content!r}")
            return took

        for _ in range(3):
            turn()
        latencies, failures = [], []
        begun = time.perf_counter()
        end = begun + seconds

        def work():
            own = []
            try:
                while len(own) < 3 or time.perf_counter() < end:
                    own.append(turn())
            except Exception as error:
                failures.append(error)
            with guard:
                latencies.extend(own)

        workers = [threading.Thread(target=work) for _ in range(at_once)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        took = time.perf_counter() - begun
        if failures:
            raise failures[0]
    return {"turns": len(latencies), "seconds": took, "latencies_ms": [t * 1e3 for t in latencies]}


def main():
    # Ended from outside, the store still takes its files away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # A stray print in a library must not break the protocol.
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(content):
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    answer({"langgraph": version("langgraph"), "python": sys.version.split()[0]})
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            result = measure(json.loads(line))
        except Exception as error:
            # The benchmark decides whether one failed case ends the run.
            result = {"error": f"{type(error).__name__}: {error}"}
        answer(result)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
