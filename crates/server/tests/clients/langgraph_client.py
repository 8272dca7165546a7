"""Calls every supported route of LangGraph's API with LangGraph's own client, and prints what came, one JSON line a step.

usage: langgraph_client.py BASE_URL [API_KEY]

Times are left out, and ids are numbered in the order in which a step names them, so that two servers of the same graphs print
the same lines. What only tells which server answered (versions, plans, hosts) is left out too.
"""
import asyncio
import json
import re
import sys
import uuid

import httpx
from langgraph_sdk import get_client

BASE = sys.argv[1]
KEY = sys.argv[2] if len(sys.argv) > 2 else None

UUID = re.compile(r"(lc_run--)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-0)?|[0-9a-f]{32}")
ID_KEYS = {
    "id", "run_id", "thread_id", "assistant_id", "checkpoint_id", "parent_checkpoint_id", "cron_id", "interrupt_id",
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

    step("assistants.get_subgraphs", await client.assistants.get_subgraphs(chat["assistant_id"], recurse=True))

    # Stored assistants.
    assistants = client.assistants
    mine = await assistants.create("chat", name="mine", metadata={"team": "a"}, context={"tone": "kind"}, description="first")
    step("assistants.create", mine)
    own = mine["assistant_id"]
    await fails("assistants.create again", assistants.create("chat", assistant_id=own))
    step("assistants.create do_nothing", await assistants.create("hitl", assistant_id=own, if_exists="do_nothing"))
    await fails("assistants.create unknown graph", assistants.create("nope"))
    step("assistants.update", await assistants.update(own, name="yours", metadata={"size": 2}))
    step("assistants.update context", await assistants.update(own, context={"tone": "dry"}))
    step("assistants.get stored", await assistants.get(own))
    step("assistants.search metadata", await assistants.search(metadata={"team": "a"}, select=["name", "version", "graph_id"]))
    step("assistants.search name", [one["name"] for one in await assistants.search(name="yours")])
    step("assistants.search sorted", [one["name"] for one in await assistants.search(sort_by="name", sort_order="asc")])
    step("assistants.count metadata", await assistants.count(metadata={"team": "a"}))
    step("assistants.get_versions", await assistants.get_versions(own))
    step("assistants.get_versions limit", [one["version"] for one in await assistants.get_versions(own, limit=1, offset=1)])
    latest = await assistants.set_latest(own, 1)
    step("assistants.set_latest", [latest["version"], latest["name"], latest["metadata"]])
    step("assistants.get latest", (await assistants.get(own))["version"])
    await fails("assistants.set_latest unknown", assistants.set_latest(own, 9))
    step("assistants.update after", (await assistants.update(own, name="again"))["version"])
    step("assistants.get_graph stored", sorted(await assistants.get_graph(own)))
    step("assistants.get_schemas stored", (await assistants.get_schemas(own))["graph_id"])
    stored = await thread()
    step("runs.wait stored assistant", (await runs.wait(stored, own, input=human))["turn"])
    step("runs.list stored assistant", await runs.list(stored))
    step("threads.get stored assistant", (await threads.get(stored))["metadata"])
    step("runs.wait context", (await runs.wait(stored, own, input=human, context={"tone": "dry"}))["turn"])
    step("runs.wait configurable", (await runs.wait(stored, "chat", input=human, config={"configurable": {"tone": "dry"}, "recursion_limit": 50}))["turn"])
    await assistants.delete(own)
    await fails("assistants.delete", assistants.get(own))
    await fails("assistants.delete again", assistants.delete(own))
    await fails("runs.wait deleted assistant", runs.wait(stored, own, input=human))
    other = await assistants.create("chat")
    gone = await thread()
    await runs.wait(gone, other["assistant_id"], input=human)
    await assistants.delete(other["assistant_id"], delete_threads=True)
    await fails("assistants.delete threads", threads.get(gone))

    # Items of the store.
    store = client.store
    await store.put_item(["users", "kim"], key="food", value={"likes": "kimchi", "times": 3})
    await store.put_item(["users", "kim"], key="drink", value={"likes": "tea", "times": 1})
    await store.put_item(["users", "lee", "notes"], key="one", value={"times": 2}, ttl=60)
    step("store.get_item", await store.get_item(["users", "kim"], key="food"))
    await store.put_item(["users", "kim"], key="food", value={"likes": "bibimbap", "times": 4}, index=False)
    step("store.put_item again", (await store.get_item(["users", "kim"], key="food"))["value"])
    step("store.get_item unknown", await store.get_item(["users", "kim"], key="nope"))
    found = await store.search_items(["users"])
    step("store.search_items", sorted([one["namespace"], one["key"], one["value"], sorted(one)] for one in found["items"]))
    step("store.search_items prefix", sorted(one["key"] for one in (await store.search_items(["users", "kim"]))["items"]))
    step("store.search_items filter", [one["key"] for one in (await store.search_items(["users"], filter={"likes": "tea"}))["items"]])
    step("store.search_items compare", sorted(one["key"] for one in (await store.search_items(["users"], filter={"times": {"$gte": 2}}))["items"]))
    for how, number in (("$eq", 2), ("$ne", 2), ("$gt", 1), ("$lt", 2), ("$lte", 1)):
        found = await store.search_items(["users"], filter={"times": {how: number}})
        step(f"store.search_items {how}", sorted(one["key"] for one in found["items"]))
    step("store.search_items limit", len((await store.search_items(["users"], limit=1, offset=2))["items"]))
    namespaces = await store.list_namespaces(prefix=["users"])
    step("store.list_namespaces", sorted(namespaces["namespaces"]))
    step("store.list_namespaces max_depth", sorted((await store.list_namespaces(prefix=["users"], max_depth=2))["namespaces"]))
    step("store.list_namespaces suffix", (await store.list_namespaces(suffix=["notes"]))["namespaces"])
    await fails("store.put_item period", store.put_item(["a.b"], key="k", value={}))
    for name, item in (("kim", "food"), ("kim", "drink")):
        await store.delete_item(["users", name], key=item)
    await store.delete_item(["users", "lee", "notes"], key="one")
    step("store.delete_item", await store.search_items(["users"]))
    await store.delete_item(["users", "kim"], key="food")
    step("store.delete_item again", "no error")

    # Crons.
    crons = client.crons
    def cron(value):
        # What the server adds to the request is its own, and so is the next time of one that is disabled.
        payload = {key: value["payload"][key] for key in ("assistant_id", "schedule", "input")}
        return {**value, "payload": payload, "next_run_date": None}
    daily = await crons.create("chat", schedule="30 9 * * 1-5", timezone="Asia/Seoul", input=human, metadata={"kind": "daily"}, on_run_completed="keep")
    step("crons.create", cron(daily))
    step("crons.create next", daily["next_run_date"][11:19])
    held = await thread()
    on_thread = await crons.create_for_thread(held, "chat", schedule="0 0 1 1 *", input=human, enabled=False, multitask_strategy="interrupt")
    step("crons.create_for_thread", cron(on_thread))
    await fails("crons.create wrong schedule", crons.create("chat", schedule="every day", input=human))
    await fails("crons.create_for_thread unknown", crons.create_for_thread("01a1e90e-4436-751f-9dd0-34d53ff0ce50", "chat", schedule="* * * * *", input=human))
    step("crons.get", cron((await http.get(f"/runs/crons/{daily['cron_id']}")).json()))
    step("crons.search", [one["schedule"] for one in await crons.search(limit=5)])
    step("crons.search thread_id", [one["schedule"] for one in await crons.search(thread_id=held)])
    step("crons.search enabled", [one["schedule"] for one in await crons.search(enabled=True)])
    step("crons.search assistant_id", [one["schedule"] for one in await crons.search(assistant_id=chat["assistant_id"], sort_by="created_at", sort_order="asc", select=["schedule"])])
    step("crons.search metadata", [one["schedule"] for one in await crons.search(metadata={"kind": "daily"})])
    step("crons.count", await crons.count())
    step("crons.count thread_id", await crons.count(thread_id=held))
    changed = await crons.update(daily["cron_id"], schedule="0 18 * * *", metadata={"more": 1}, enabled=False)
    step("crons.update", [cron(changed)[key] for key in ("schedule", "timezone", "metadata", "enabled")])
    step("crons.update enabled", (await crons.update(daily["cron_id"], enabled=True, timezone="UTC"))["next_run_date"][11:19])
    for one in (daily, on_thread):
        await crons.delete(one["cron_id"])
    await fails("crons.delete again", crons.delete(daily["cron_id"]))
    step("crons.delete", await crons.count())

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

    labelled = {"type": "human", "content": "hi", "id": "mine", "name": "ada", "additional_kwargs": {"tab": 3}}
    told = await runs.wait(await thread(), "chat", input={"messages": [labelled]})
    step("messages with a name", [told["messages"][0], told["messages"][0]["id"] == "mine"])
    for label, search in (
        ("assistants.search", assistants.search(limit=0)),
        ("assistants.get_versions", assistants.get_versions(own, limit=0)),
        ("threads.search", threads.search(limit=0)),
        ("threads.get_history", threads.get_history(talk, limit=0)),
        ("crons.search", crons.search(limit=0)),
    ):
        await fails(f"{label} limit 0", search)

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
    older = await thread()
    await runs.wait(older, "hitl", input=human)
    await runs.wait(older, "hitl", command={"resume": "first"})
    await runs.wait(older, "hitl", input=human)
    first = [one for one in await threads.get_history(older, limit=20) if one["next"] == ["ask"]][-1]
    await threads.update_state(older, {"answer": "none"}, as_node="ask", checkpoint=first["checkpoint"])
    state = await threads.get_state(older)
    step("hitl update older", [state["next"], state["interrupts"], state["values"]["answer"], len(state["values"]["messages"])])
    ended = await runs.wait(older, "hitl", input=None)
    step("hitl update older goes on", [one["content"] for one in ended["messages"]])
    by_id = await thread()
    await runs.wait(by_id, "hitl", input=human)
    question = (await threads.get_state(by_id))["interrupts"][0]["id"]
    step("hitl resume by id", await runs.wait(by_id, "hitl", command={"resume": {question: "no"}}))
    again = await thread()
    await runs.wait(again, "hitl", input=human)
    step("hitl new input", await runs.wait(again, "hitl", input=human))

    # Commands.
    sent = await thread()
    await runs.wait(sent, "chat", input=human)
    jumped = await runs.wait(sent, "chat", command={"update": {"turn": 5}, "goto": "model"})
    step("command goto", [jumped["turn"], [one["type"] for one in jumped["messages"]]])
    step("command goto stream", await events(runs.stream(sent, "chat", command={"goto": ["finish"]}, stream_mode=["values", "updates"])))
    updated = await runs.wait(sent, "chat", command={"update": {"turn": 9}})
    step("command update", updated["turn"])

    # The event protocol.
    for graph_id, given in inputs.items():
        step(f"thread events {graph_id}", await thread_events(http, await thread(), graph_id, given))
    step("commands unknown", await command(http, sent, "nope", {}))
    step("commands no_such_interrupt", await command(http, sent, "input.respond", {"namespace": [], "interrupt_id": "nope", "response": 1}))

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
    after = [[part.event, part.data] async for part in runs.join_stream(join, slow["run_id"], last_event_id="-1")]
    step("runs.join_stream after", after)

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


async def post(http, path, body):
    answer = await http.post(path, json=body)
    answer.raise_for_status()
    return answer.json()


async def command(http, thread, method, params):
    answer = await post(http, f"/threads/{thread}/commands", {"id": 1, "method": method, "params": params})
    return [answer["type"], answer["id"], answer.get("error")]


async def thread_events(http, thread, graph_id, given):
    """The events of a thread, from the start of a run to its end, and on to the end of the run after an answer."""
    seen, last, question = [], 0, None
    channels = ["values", "lifecycle", "input", "messages", "tools"]
    async with http.stream("POST", f"/threads/{thread}/stream/events", json={"channels": channels}) as stream:
        begin = {"id": 7, "method": "run.start", "params": {"assistant_id": graph_id, "input": given}}
        begun = await post(http, f"/threads/{thread}/commands", begin)
        seen.append([begun["type"], begun["id"], sorted(begun["result"])])
        async for line in stream.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            params, data = event["params"], event["params"]["data"]
            assert event["type"] == "event" and event["seq"] > last and params["namespace"] == []
            last = event["seq"]
            if event["method"] == "values":
                # The protocol leaves out what is empty, and may write text as blocks.
                data = {**data, "messages": [[one["type"], text(one["content"])] for one in data.get("messages", [])]}
            seen.append([event["method"], data])
            if data.get("event") in ("completed", "failed"):
                return seen
            if event["method"] == "input.requested":
                question = data["interrupt_id"]
            if event["method"] == "values" and question:
                await command(http, thread, "input.respond", {"namespace": [], "interrupt_id": question, "response": "yes"})
                question = None


def text(content):
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


async def started(client, thread, run):
    while (await client.runs.get(thread, run))["status"] == "pending":
        await asyncio.sleep(0.05)
    # The run begins with its input.
    while (await client.threads.get_state(thread))["checkpoint"] is None:
        await asyncio.sleep(0.05)


asyncio.run(main())
