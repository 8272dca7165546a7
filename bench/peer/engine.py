"""LangGraph's side of `./x bench engine`.

The benchmark starts this program once and talks to it over stdin and stdout, one JSON object a
line, one answer a request, so that both sides can be measured in turns within one run. See
bench/README.md for the requests. Diagnostics go to stderr.
"""

import contextlib
import gc
import itertools
import json
import operator
import os
import random
import signal
import statistics
import string
import sys
import time
import uuid
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypedDict

# Tracing would be measured with the engine; it is read when LangGraph is imported.
for switch in ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2"):
    os.environ[switch] = "false"

import psycopg
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from psycopg.rows import dict_row

LINE = 10
LOOP = 100
FAN = 100
MESSAGE_BYTES = 1024
WARM_UP_RUNS = 2
WARM_UP_SHARE = 0.2
LEAST_RUNS = 3
LAST_TURNS = 10


class BadRequest(Exception):
    """A request that cannot be measured; its text is the answer."""


def main():
    # Ended from outside, the stores still take their files and tables away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # A stray print in a library must not break the protocol.
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(content):
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    answer({"ready": True, "langgraph": version("langgraph"), "python": sys.version.split()[0]})
    for line in sys.stdin:
        if not line.strip():
            continue
        named = {}
        try:
            request = read_request(line)
            named = {key: request[key] for key in ("case", "store") if key in request}
            result = measure(request)
        except Exception as error:
            # The benchmark decides whether one failed case ends the run.
            result = {"error": f"{type(error).__name__}: {error}"}
        answer({**named, **result})


def read_request(line):
    try:
        request = json.loads(line)
    except ValueError as error:
        raise BadRequest(f"a request is one JSON object a line: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest("a request is a JSON object")
    return request


def measure(request):
    case, store = request.get("case"), request.get("store")
    if store not in STORES:
        raise BadRequest(f"unknown store `{store}`; known: {', '.join(STORES)}")
    if case == "thread":
        if store not in ("sqlite", "postgres"):
            raise BadRequest(f"case `thread` counts bytes on disk; `{store}` keeps none")
        return measure_thread(request)
    if case in CASES:
        return measure_nodes(request)
    raise BadRequest(f"unknown case `{case}`; known: {', '.join([*CASES, 'thread'])}")


def seconds_of(request, key, otherwise):
    seconds = request.get(key, otherwise)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
        raise BadRequest(f"`{key}` is a number of seconds above zero, not {seconds!r}")
    return seconds


# Each store yields a saver and a function that tells how many bytes it keeps. It starts empty and
# leaves nothing behind.


@contextlib.contextmanager
def no_store(_path):
    yield None, lambda: 0


@contextlib.contextmanager
def ram_store(_path):
    yield InMemorySaver(), lambda: 0


@contextlib.contextmanager
def sqlite_store(path):
    if not path:
        raise BadRequest("`path` is missing: where shall the database file be?")
    files = [Path(path + suffix) for suffix in ("", "-wal", "-shm")]
    if any(file.exists() for file in files):
        raise BadRequest(f"`{path}` exists; a case starts with a fresh file")
    try:
        with SqliteSaver.from_conn_string(path) as saver:
            saver.setup()

            def stored_bytes():
                # What still waits in the log is moved into the file, so that a page counts once.
                saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                return sum(file.stat().st_size for file in files[:2] if file.exists())

            yield saver, stored_bytes
    finally:
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                file.unlink()


@contextlib.contextmanager
def postgres_store(url):
    if not url:
        raise BadRequest("`path` is missing: which PostgreSQL (a URL)?")
    # A schema of its own: the tables cannot meet anyone else's, and one DROP takes them away.
    schema = f"langgraph_peer_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE SCHEMA {schema}")
    try:
        # The settings of PostgresSaver.from_conn_string, which has no place for the schema.
        settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        with psycopg.connect(url, **settings) as connection:
            connection.execute(f"SET search_path TO {schema}")
            saver = PostgresSaver(connection)
            saver.setup()

            def stored_bytes():
                # Tables with their indexes and TOAST.
                row = connection.execute(
                    "SELECT sum(pg_total_relation_size(oid))::bigint AS bytes FROM pg_class"
                    " WHERE relkind = 'r' AND relnamespace = %s::regnamespace",
                    (schema,),
                ).fetchone()
                return row["bytes"]

            yield saver, stored_bytes
    finally:
        # Over a connection of its own: an interrupted run leaves the other one busy.
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute(f"DROP SCHEMA {schema} CASCADE")


STORES = {"none": no_store, "ram": ram_store, "sqlite": sqlite_store, "postgres": postgres_store}


def invoke(graph, saver, thread, values):
    """One run of the graph; with a store, every step is durable before the next begins."""
    if saver is None:
        return graph.invoke(values, {"recursion_limit": 1000})
    config = {"recursion_limit": 1000, "configurable": {"thread_id": thread}}
    return graph.invoke(values, config, durability="sync")


class Count(TypedDict):
    done: Annotated[int, operator.add]


def count_one(_state):
    return {"done": 1}


def line10():
    """start ─▶ n0 ─▶ n1 ─▶ … ─▶ n9 ─▶ end"""
    builder = StateGraph(Count)
    names = [f"n{i}" for i in range(LINE)]
    for name in names:
        builder.add_node(name, count_one)
    for source, target in zip([START, *names], [*names, END]):
        builder.add_edge(source, target)
    return builder, LINE


def loop100():
    """start ─▶ n ─▶ end, with a branch from n back to itself until it ran 100 times"""
    builder = StateGraph(Count)
    builder.add_node("n", count_one)
    builder.add_edge(START, "n")
    builder.add_conditional_edges("n", lambda state: "n" if state["done"] < LOOP else END, ["n", END])
    return builder, LOOP


def fan100():
    """start ─▶ 100 nodes side by side ─▶ join ─▶ end"""
    builder = StateGraph(Count)
    names = [f"n{i}" for i in range(FAN)]
    builder.add_node("join", count_one)
    for name in names:
        builder.add_node(name, count_one)
        builder.add_edge(START, name)
    builder.add_edge(names, "join")
    builder.add_edge("join", END)
    return builder, FAN + 1


CASES = {"line10": line10, "loop100": loop100, "fan100": fan100}


def measure_nodes(request):
    seconds = seconds_of(request, "seconds", 1.5)
    builder, nodes = CASES[request["case"]]()
    with STORES[request["store"]](request.get("path")) as (saver, _):
        graph = builder.compile(checkpointer=saver)
        threads = (f"t{i}" for i in itertools.count())

        def run_once():
            wall, cpu = time.perf_counter(), time.process_time()
            result = invoke(graph, saver, next(threads), {"done": 0})
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if result["done"] != nodes:
                raise RuntimeError(f"{result['done']} nodes ran instead of {nodes}")
            return wall, cpu

        repeat(run_once, WARM_UP_RUNS, seconds * WARM_UP_SHARE)
        gc.collect()
        runs = repeat(run_once, LEAST_RUNS, seconds)

    walls, cpus = zip(*runs)
    return {
        "nodes": nodes,
        "runs": len(runs),
        "wall_us_per_node": per_node(statistics.median(walls), nodes),
        "best_us_per_node": per_node(min(walls), nodes),
        "cpu_us_per_node": per_node(statistics.median(cpus), nodes),
    }


def repeat(run_once, least, seconds):
    """Runs for the given time, and at least so often."""
    runs, end = [], time.perf_counter() + seconds
    while len(runs) < least or time.perf_counter() < end:
        runs.append(run_once())
    return runs


def per_node(seconds, nodes):
    return round(seconds / nodes * 1e6, 2)


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    prepared: int
    finished: int


def chat(texts):
    """start ─▶ prepare ─▶ answer ─▶ finish ─▶ end"""
    builder = StateGraph(Chat)
    builder.add_node("prepare", lambda state: {"prepared": len(state["messages"])})
    builder.add_node("answer", lambda _state: {"messages": [AIMessage(next(texts))]})
    builder.add_node("finish", lambda state: {"finished": len(state["messages"])})
    builder.add_edge(START, "prepare")
    builder.add_edge("prepare", "answer")
    builder.add_edge("answer", "finish")
    builder.add_edge("finish", END)
    return builder


def message_texts():
    """Texts of 1 KB that no store can make smaller by finding repetitions; the same every time."""
    source = random.Random(1)
    while True:
        yield "".join(source.choices(string.ascii_letters + string.digits, k=MESSAGE_BYTES))


def measure_thread(request):
    marks = marks_of(request)
    max_seconds = seconds_of(request, "max_seconds", 60)
    store, path = STORES[request["store"]], request.get("path")

    # Warmed up in a store that is thrown away: pages freed by deleting would be used again.
    with store(path) as (saver, _):
        turn = chat_turns(saver)
        for _ in range(LAST_TURNS):
            turn()

    turns, points = [], []
    with store(path) as (saver, stored_bytes):
        empty_bytes = stored_bytes()
        turn = chat_turns(saver)
        gc.collect()
        end = time.perf_counter() + max_seconds
        while len(turns) < marks[-1] and time.perf_counter() < end:
            turns.append(turn())
            if len(turns) in marks:
                points.append(point(turns, stored_bytes()))
        # Cut short: the last point says how far it came.
        if len(turns) not in marks:
            points.append(point(turns, stored_bytes()))

    return {
        "marks": points,
        "turns": len(turns),
        "complete": len(turns) == marks[-1],
        "empty_bytes": empty_bytes,
    }


def chat_turns(saver):
    """A function that adds one turn to a thread and returns its wall and CPU seconds."""
    texts = message_texts()
    graph = chat(texts).compile(checkpointer=saver)
    numbers = itertools.count(1)

    def turn():
        question = {"messages": [HumanMessage(next(texts))]}
        wall, cpu = time.perf_counter(), time.process_time()
        result = invoke(graph, saver, "chat", question)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        number = next(numbers)
        if len(result["messages"]) != 2 * number:
            raise RuntimeError(f"the thread holds {len(result['messages'])} messages after {number} turns")
        return wall, cpu

    return turn


def point(turns, stored):
    walls, cpus = zip(*turns[-LAST_TURNS:])
    return {
        "turns": len(turns),
        "bytes": stored,
        "payload_bytes": len(turns) * 2 * MESSAGE_BYTES,
        "ms_per_turn_last10": round(statistics.median(walls) * 1e3, 3),
        "cpu_ms_per_turn_last10": round(statistics.median(cpus) * 1e3, 3),
    }


def marks_of(request):
    marks = request.get("turns")
    if not isinstance(marks, list) or not marks or not all(type(n) is int and n > 0 for n in marks):
        raise BadRequest(f"`turns` is a list of numbers of turns, such as [10, 100], not {marks!r}")
    return sorted(set(marks))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
