"""An MCP host made with the official SDK.

    mcp_host.py http URL KEY CASE        a server on streamable HTTP
    mcp_host.py stdio PROGRAM ARGS…      a server on standard input and output; the case is `everything`

It asserts what it sees and prints `ok`.
"""

import asyncio
import json
import re
import sys
import urllib.parse
import urllib.request

import httpx
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

QUESTION = "15 * 4는 얼마야?"


class Person:
    """Answers the forms that the server shows."""

    def __init__(self, action, content=None):
        self.action, self.content, self.asked = action, content, []

    async def __call__(self, context, params):
        self.asked.append(params)
        return types.ElicitResult(action=self.action, content=self.content)


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


async def everything(session, person):
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert set(tools) == {"ask", "search_documents", "read_document"}, tools
    assert "react" in tools["ask"].inputSchema["properties"]["agent"]["enum"], tools["ask"].inputSchema
    assert tools["search_documents"].annotations.readOnlyHint is True
    for tool in tools.values():
        for name, field in tool.inputSchema["properties"].items():
            assert field["type"] in ("string", "integer") and "format" not in field, (tool.name, name, field)

    found = await session.call_tool("search_documents", {"query": "육아휴직은 얼마나 쓸 수 있나요?", "limit": 3})
    assert not found.isError and 1 <= len(found.structuredContent["passages"]) <= 3, found
    document = found.structuredContent["passages"][0]["document"]
    whole = await session.call_tool("read_document", {"document": document})
    total = whole.structuredContent["total"]
    assert whole.structuredContent["end"] == total > 100, whole
    part = await session.call_tool("read_document", {"document": document, "start": 10, "length": 20})
    assert part.structuredContent["text"] == whole.structuredContent["text"][10:30], part
    beyond = await session.call_tool("read_document", {"document": document, "start": 2**64 - 1, "length": 20})
    assert beyond.structuredContent["text"] == "" and beyond.structuredContent["end"] == total, beyond

    listed = (await session.list_resources()).resources
    uri = f"doran://documents/{urllib.parse.quote(document, safe='')}"
    assert uri in [str(resource.uri) for resource in listed], (uri, listed)
    read = await session.read_resource(uri)
    assert read.contents[0].text == whole.structuredContent["text"]

    progress = []

    async def on_progress(done, total, message):
        progress.append((done, message))

    answer = await session.call_tool(
        "ask", {"agent": "assistant", "message": "육아휴직은 얼마나 쓸 수 있나요?"}, progress_callback=on_progress
    )
    assert not answer.isError and answer.structuredContent["status"] == "finished", answer
    assert answer.content[0].text == answer.structuredContent["answer"] != "", answer
    assert progress and progress == sorted(progress), progress
    thread = answer.structuredContent["thread"]
    again = await session.call_tool("ask", {"agent": "assistant", "message": "고마워요", "thread": thread})
    assert again.structuredContent["thread"] == thread, again

    for name, arguments in [
        ("ask", {"agent": "nobody", "message": "안녕"}),
        ("ask", {"agent": "react"}),
        ("ask", {"agent": "react", "message": "안녕", "model": "other"}),
        ("read_document", {"document": "../../etc/passwd"}),
        ("search_documents", {"query": "가" * 3000}),
        ("search_documents", {"query": "휴가", "limit": 0}),
    ]:
        wrong = await session.call_tool(name, arguments)
        assert wrong.isError and text(wrong), (name, wrong)


async def approve(session, person):
    answer = await session.call_tool("ask", {"agent": "react", "message": QUESTION})
    assert len(person.asked) == 1 and "calculator" in person.asked[0].message, person.asked
    assert not answer.isError and "60" in text(answer), answer


async def decline(session, person):
    answer = await session.call_tool("ask", {"agent": "react", "message": QUESTION})
    assert len(person.asked) == 1, person.asked
    assert answer.structuredContent["status"] == "finished" and "거절" in text(answer), answer


async def close_the_form(session, person):
    answer = await session.call_tool("ask", {"agent": "react", "message": QUESTION})
    assert answer.structuredContent["status"] == "paused", answer
    again = await session.call_tool(
        "ask", {"agent": "react", "message": "그럼?", "thread": answer.structuredContent["thread"]}
    )
    assert again.structuredContent["status"] == "paused", again


async def nobody_to_ask(session, person):
    answer = await session.call_tool("ask", {"agent": "react", "message": QUESTION})
    assert answer.structuredContent["status"] == "paused", answer
    page = rf"http://[\w.]+:\d+/t/{answer.structuredContent['thread']}\b"
    assert re.search(page, text(answer)), answer
    assert answer.structuredContent["questions"][0]["question"]["name"] == "calculator", answer


async def cancel(session, person):
    begun = asyncio.Event()

    async def on_progress(done, total, message):
        begun.set()

    ask = {"agent": "assistant", "message": "육아휴직은 얼마나 쓸 수 있나요?"}
    asking = asyncio.create_task(session.call_tool("ask", ask, progress_callback=on_progress))
    await begun.wait()
    notice = types.CancelledNotification(
        params=types.CancelledNotificationParams(requestId=session._request_id - 1, reason="changed my mind")
    )
    await session.send_notification(types.ClientNotification(notice))
    for _ in range(600):
        request = urllib.request.Request(f"{URL}/api/runs", headers={"Authorization": f"Bearer {KEY}"})
        runs = json.load(await asyncio.to_thread(urllib.request.urlopen, request))["runs"]
        if runs and runs[0]["status"] == "cancelled":
            break
        await asyncio.sleep(0.1)
    else:
        raise AssertionError(runs)
    asking.cancel()


CASES = {
    "everything": (everything, None),
    "approve": (approve, Person("accept", {"approve": True})),
    "decline": (decline, Person("decline")),
    "close_the_form": (close_the_form, Person("cancel")),
    "nobody_to_ask": (nobody_to_ask, None),
    "cancel": (cancel, None),
}


async def run(read, write, name):
    case, person = CASES[name]
    async with ClientSession(read, write, elicitation_callback=person) as session:
        about = await session.initialize()
        assert about.serverInfo.name == "doran", about
        await case(session, person)


async def main():
    if sys.argv[1] == "stdio":
        server = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:])
        async with stdio_client(server) as (read, write):
            await run(read, write, "everything")
    else:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(headers=headers, timeout=60, trust_env=False) as client:
            async with streamable_http_client(f"{URL}/mcp", http_client=client) as (read, write, _):
                await run(read, write, sys.argv[4])
    print("ok")


if sys.argv[1] == "http":
    URL, KEY = sys.argv[2], sys.argv[3]
asyncio.run(main())
