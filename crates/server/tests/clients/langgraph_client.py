"""Calls every supported route of LangGraph's API with LangGraph's own client, and prints what came, one JSON line a step.

usage: langgraph_client.py BASE_URL [API_KEY]

Times are left out, and ids are numbered in the order in which a step names them, so that two servers of the same graphs print
the same lines. What only tells which server answered (versions, plans, hosts) is left out too.
"""
import asyncio
import json
import re
import sys

import httpx
from langgraph_sdk import get_client

BASE = sys.argv[1]
KEY = sys.argv[2] if len(sys.argv) > 2 else None

UUID = re.compile(r"(lc_run--)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-0)?|[0-9a-f]{32}")
ID_KEYS = {
    "id", "run_id", "thread_id", "assistant_id", "checkpoint_id", "parent_checkpoint_id", "cron_id",
}
TIME_KEYS = {"created_at", "updated_at", "state_updated_at", "timestamp", "next_run_date"}
# What tells about the server, and not about the run.
SERVER_KEYS = {
    "created_by", "run_attempt", "langgraph_version", "langgraph_api_version", "langgraph_plan", "langgraph_host",
    "langgraph_api_url", "langgraph_request_id", "langgraph_auth_user", "langgraph_auth_user_id",
    "langgraph_auth_permissions", "user_id", "ls_integration", "ls_provider", "ls_model_type", "lc_versions",
    "__request_start_time_ms__", "__after_seconds__", "kwargs", "langsmith_session_name", "config", "checkpoint_ns",
    "tags", "user", "description",
}


def plain(value):
    """The value with ids numbered and times left out."""
    known = {}

    def name(text):
        return known.setdefault(text, f"<{len(known) + 1}>")

    def walk(value, key=None):
        if isinstance(value, dict):
            items = [(k, v) for k, v in value.items() if k not in SERVER_KEYS]
            if value.get("name") == "__start__":
                # An input as it was sent, or as it was read.
                items = [(k, v) for k, v in items if k != "result"]
            # Objects have no order: ids are numbered by the names of their fields.
            return {
                (name(k) if UUID.fullmatch(k) or k in known else k): walk(v, k)
                for k, v in sorted(items, key=lambda item: (bool(UUID.fullmatch(item[0])), item[0]))
            }
        if isinstance(value, (list, tuple)):
            return [walk(one, key) for one in value]
        if isinstance(value, str):
            if key in TIME_KEYS:
                return "<time>"
            if key in ID_KEYS and value:
                return name(value)
            return UUID.sub(lambda found: name(found.group(0)), value)
        return value

    return walk(value)


def step(label, value):
    print(json.dumps([label, plain(value)], sort_keys=True, ensure_ascii=False), flush=True)


async def fails(label, awaitable):
    try:
        await awaitable
    except httpx.HTTPStatusError as error:
        step(label, error.response.status_code)
    except Exception as error:  # The client has a class for each status.
        step(label, [type(error).__name__, getattr(error, "status_code", None)])
    else:
        step(label, "no error")


async def events(stream):
    # Ids of events are those of the server.
    return [[part.event, part.data] async for part in stream]


async def main():
    client = get_client(url=BASE, api_key=KEY)
    http = httpx.AsyncClient(base_url=BASE, headers={"x-api-key": KEY} if KEY else {}, timeout=60)
    threads, runs = client.threads, client.runs
    human = {"messages": [{"role": "user", "content": "hi"}]}

    async def thread(**fields):
        return (await threads.create(**fields))["thread_id"]

    # Assistants.
    step("ok", (await http.get("/ok")).json()["ok"])
    step("info", sorted({"version", "flags"} & set((await http.get("/info")).json())))
    found = await client.assistants.search()
    step("assistants.search", sorted((one["graph_id"], one["name"], one["version"], one["metadata"].get("created_by")) for one in found))
    [chat] = await client.assistants.search(graph_id="chat", limit=5)
    step("assistants.search graph_id", [chat["graph_id"]])
    step("assistants.count", await client.assistants.count(graph_id="chat"))
    step("assistants.get", await client.assistants.get(chat["assistant_id"]))
    graph = await client.assistants.get_graph(chat["assistant_id"])
    step("assistants.get_graph", {"nodes": graph["nodes"], "edges": sorted(map(json.dumps, graph["edges"]))})
    schemas = await client.assistants.get_schemas(chat["assistant_id"])
    step("assistants.get_schemas", [schemas["graph_id"], sorted(schemas["state_schema"]["properties"])])
    await fails("assistants.get unknown", client.assistants.get("01a1e90e-4436-751f-9dd0-34d53ff0ce50"))

    # Threads.
    made = await threads.create(metadata={"colour": "blue"})
    step("threads.create", made)
    blue = made["thread_id"]
    step("threads.get", await threads.get(blue))
    await fails("threads.create again", threads.create(thread_id=blue))
    step("threads.create do_nothing", await threads.create(thread_id=blue, if_exists="do_nothing"))
    step("threads.update", await threads.update(blue, metadata={"size": 3}))
    step("threads.search", await threads.search(metadata={"colour": "blue", "size": 3}))
    step("threads.search ids", await threads.search(ids=[blue], select=["thread_id", "metadata"]))
    step("threads.search status", await threads.search(metadata={"colour": "blue"}, status="busy"))
    step("threads.count", await threads.count(metadata={"colour": "blue", "size": 3}))
    step("threads.get_state empty", await threads.get_state(blue))
    step("threads.get_history empty", await threads.get_history(blue))
    await fails("threads.get unknown", threads.get("01a1e90e-4436-751f-9dd0-34d53ff0ce50"))
    await fails("runs.create unknown thread", runs.create("01a1e90e-4436-751f-9dd0-34d53ff0ce50", "chat", input=human))
    await threads.delete(blue)
    await fails("threads.get deleted", threads.get(blue))

    # A chat.
    talk = await thread()
    step("runs.wait", await runs.wait(talk, "chat", input=human))
    step("threads.get after", await threads.get(talk))
    step("threads.get_state", await threads.get_state(talk))
    step("threads.get_history", await threads.get_history(talk, limit=10))
    step("threads.get_history get", [one["next"] for one in (await http.get(f"/threads/{talk}/history?limit=2")).json()])
    step("runs.wait again", await runs.wait(talk, "chat", input=human))
    history = await threads.get_history(talk, limit=20)
    step("threads.get_history again", [[one["metadata"]["step"], one["metadata"]["source"], one["next"], one["values"].get("turn")] for one in history])
    step("threads.get_history before", len(await threads.get_history(talk, limit=20, before={"configurable": history[4]["checkpoint"]})))
    step("threads.get_state checkpoint", await threads.get_state(talk, checkpoint=history[3]["checkpoint"]))
    step("threads.get_state checkpoint_id", (await http.get(f"/threads/{talk}/state/{history[3]['checkpoint']['checkpoint_id']}")).json())
    listed = await runs.list(talk)
    step("runs.list", listed)
    step("runs.list limit", [one["status"] for one in await runs.list(talk, limit=1, offset=1)])
    step("runs.list status", len(await runs.list(talk, status="error")))
    step("runs.get", await runs.get(talk, listed[0]["run_id"]))
    step("runs.join", await runs.join(talk, listed[0]["run_id"]))
    step("threads.update_state", await threads.update_state(talk, {"turn": 7}))
    step("threads.update_state as_node", await threads.update_state(talk, {"turn": 8}, as_node="prepare"))
    step("threads.get_history updates", [[one["metadata"]["step"], one["metadata"]["source"], one["next"], one["values"]["turn"], one["tasks"]] for one in await threads.get_history(talk, limit=3)])
    step("runs.stream goes on", await events(runs.stream(talk, "chat", input=None, stream_mode=["values", "updates"])))
    fork = history[-3]["checkpoint"]
    step("runs.stream checkpoint", await events(runs.stream(talk, "chat", input=None, checkpoint=fork, stream_mode=["values", "updates"])))
    step("threads.get_history fork", [[one["metadata"]["step"], one["next"], one["values"].get("turn")] for one in await threads.get_history(talk, limit=4)])
    step("runs.stream checkpoint input", await events(runs.stream(talk, "chat", input=human, checkpoint_id=history[-1]["checkpoint"]["checkpoint_id"], stream_mode="updates")))
    step("threads.copy", [key in await threads.copy(talk) for key in ("thread_id", "metadata", "status")])
    step("threads.search values", len(await threads.search(values={"turn": 1}, metadata={"graph_id": "chat"}, limit=1)))
    gone = await thread()
    await runs.wait(gone, "chat", input=human)
    [listed] = await runs.list(gone)
    await runs.delete(gone, listed["run_id"])
    step("runs.delete", len(await runs.list(gone)))
    await fails("runs.get deleted", runs.get(gone, listed["run_id"]))
    keep = [{"type": "human", "content": "one", "id": "one"}, {"type": "human", "content": "two", "id": "two"}]
    edit = await thread()
    await runs.wait(edit, "chat", input={"messages": keep})
    await threads.update_state(edit, {"messages": [{"type": "remove", "id": "one", "content": ""}, {"type": "human", "content": "2", "id": "two"}]})
    step("messages by id", [[one["type"], one["content"]] for one in (await threads.get_state(edit))["values"]["messages"]])

    # Every stream mode of every graph.
    inputs = {"chat": human, "hitl": human, "failing": {"answer": "x"}}
    for graph_id, given in inputs.items():
        for mode in ("values", "updates", "messages-tuple", "messages", "custom", "tasks", "checkpoints", "debug"):
            step(f"runs.stream {graph_id} {mode}", await events(runs.stream(await thread(), graph_id, input=given, stream_mode=mode)))
    together = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug"]
    for graph_id, given in inputs.items():
        step(f"runs.stream {graph_id} all", await events(runs.stream(await thread(), graph_id, input=given, stream_mode=together)))
    step("runs.stream slow", await events(runs.stream(await thread(), "slow", input={}, stream_mode=["custom", "values", "updates"])))
    twice = await thread()
    await runs.wait(twice, "chat", input=human)
    step("runs.stream second turn", await events(runs.stream(twice, "chat", input=human, stream_mode=["messages-tuple", "values", "debug"])))
    await fails("runs.stream unknown mode", events(runs.stream(twice, "chat", input=human, stream_mode="nope")))

    # Questions.
    asked = await thread()
    step("hitl wait", await runs.wait(asked, "hitl", input=human))
    step("hitl thread", await threads.get(asked))
    state = await threads.get_state(asked)
    step("hitl state", state)
    step("hitl search", [one["status"] for one in await threads.search(ids=[asked], status="interrupted")])
    step("hitl resume", await events(runs.stream(asked, "hitl", command={"resume": "yes"}, stream_mode=["values", "updates", "messages-tuple", "tasks"])))
    step("hitl history", [[one["metadata"]["step"], one["next"], one["values"].get("answer")] for one in await threads.get_history(asked, limit=10)])
    step("hitl thread after", await threads.get(asked))
    by_id = await thread()
    await runs.wait(by_id, "hitl", input=human)
    question = (await threads.get_state(by_id))["interrupts"][0]["id"]
    step("hitl resume by id", await runs.wait(by_id, "hitl", command={"resume": {question: "no"}}))
    again = await thread()
    await runs.wait(again, "hitl", input=human)
    step("hitl new input", await runs.wait(again, "hitl", input=human))

    # Pauses.
    paused = await thread()
    step("interrupt_before", await events(runs.stream(paused, "chat", input=human, interrupt_before=["model"], stream_mode=["values", "updates", "tasks"])))
    step("interrupt_before thread", await threads.get(paused))
    step("interrupt_before state", [(await threads.get_state(paused))[key] for key in ("next", "tasks", "interrupts")])
    step("interrupt_before goes on", await events(runs.stream(paused, "chat", input=None, stream_mode=["values", "updates"])))
    step("interrupt_after", await events(runs.stream(await thread(), "chat", input=human, interrupt_after="*", stream_mode=["values", "updates"])))

    # Failures.
    broken = await thread()
    step("failing wait", await runs.wait(broken, "failing", input={"answer": "x"}, raise_error=False))
    step("failing thread", await threads.get(broken))
    step("failing state", await threads.get_state(broken))
    step("failing runs", [one["status"] for one in await runs.list(broken)])

    # Cancel, and runs on a busy thread.
    busy = await thread()
    slow = await runs.create(busy, "slow", input={})
    step("runs.create", slow)
    await fails("multitask reject", runs.create(busy, "slow", input={}, multitask_strategy="reject"))
    await started(client, busy, slow["run_id"])
    step("threads.get busy", (await threads.get(busy))["status"])
    await runs.cancel(busy, slow["run_id"], wait=True)
    step("runs.cancel", (await runs.get(busy, slow["run_id"]))["status"])
    step("runs.cancel thread", [(await threads.get(busy))["status"], (await threads.get_state(busy))["next"]])
    await fails("runs.cancel again", runs.cancel(busy, slow["run_id"], wait=True))
    back = await thread()
    slow = await runs.create(back, "slow", input={"answer": "none"})
    await started(client, back, slow["run_id"])
    await runs.cancel(back, slow["run_id"], wait=True, action="rollback")
    await fails("runs.cancel rollback", runs.get(back, slow["run_id"]))
    step("runs.cancel rollback state", await threads.get_state(back))
    many = await thread()
    slow = await runs.create(many, "slow", input={})
    await started(client, many, slow["run_id"])
    await runs.cancel_many(thread_id=many, run_ids=[slow["run_id"]])
    while (await runs.get(many, slow["run_id"]))["status"] == "running":
        await asyncio.sleep(0.05)
    step("runs.cancel_many", (await runs.get(many, slow["run_id"]))["status"])
    for strategy in ("enqueue", "interrupt", "rollback"):
        queue = await thread()
        first = await runs.create(queue, "slow", input={"answer": "first"})
        await started(client, queue, first["run_id"])
        second = await runs.create(queue, "failing", input={"answer": "second"}, multitask_strategy=strategy)
        if strategy == "enqueue":
            step("multitask enqueue waits", (await runs.get(queue, second["run_id"]))["status"])
            await runs.cancel(queue, first["run_id"], wait=True)
        await runs.join(queue, second["run_id"])
        step(f"multitask {strategy}", [one["status"] for one in await runs.list(queue)])

    # Streams that are come back to.
    join = await thread()
    slow = await runs.create(join, "slow", input={}, stream_mode=["custom", "updates"], stream_resumable=True)
    seen = []
    async for part in runs.join_stream(join, slow["run_id"], last_event_id="-1"):
        seen.append(part)
        if len(seen) == 8:
            break
    async for part in runs.join_stream(join, slow["run_id"], last_event_id=seen[-1].id):
        seen.append(part)
    step("runs.join_stream", [[part.event, part.data] for part in seen])

    # Runs without a thread.
    step("stateless wait", await runs.wait(None, "chat", input=human))
    step("stateless stream", await events(runs.stream(None, "chat", input=human, stream_mode=["values", "messages-tuple"])))
    one = await runs.create(None, "chat", input=human)
    step("stateless create", [one["status"], one["multitask_strategy"]])
    batch = await runs.create_batch([{"assistant_id": "chat", "input": human}, {"assistant_id": "failing", "input": {"answer": "x"}}])
    step("stateless batch", [one["status"] for one in batch])
    await fails("unknown assistant", runs.wait(None, "nope", input=human))
    created = await runs.wait("01a1e90e-4436-451f-9dd0-34d53ff0ce51", "chat", input=human, if_not_exists="create")
    step("if_not_exists", len(created["messages"]))
    await threads.delete("01a1e90e-4436-451f-9dd0-34d53ff0ce51")
    answer = await http.post("/runs/wait", json={"assistant_id": "chat", "input": human})
    step("headers", sorted(set(answer.headers) & {"location", "content-location"}))


async def started(client, thread, run):
    while (await client.runs.get(thread, run))["status"] == "pending":
        await asyncio.sleep(0.05)
    # The run begins with its input.
    while (await client.threads.get_state(thread))["checkpoint"] is None:
        await asyncio.sleep(0.05)


asyncio.run(main())
