"""Sends every field inside of the fields that OpenAI's client for Python knows, each in a request of its own.

A request is answered, and the place of the field is printed, or it is rejected with the name of a parameter at that place.
"""

import collections.abc
import json
import sys
import typing
import urllib.error
import urllib.request

import typing_extensions
from openai.types.chat import completion_create_params as chat
from openai.types.responses import response_create_params as responses

base, key = sys.argv[1:3]

IMAGE = "data:image/png;base64,AA=="
# Values that mean something. All others are any of their type.
VALUES = {
    "arguments": "{}",
    "call_id": "c1",
    "detail": "auto",
    "id": "c1",
    "image_url": IMAGE,
    "include_obfuscation": False,
    "name": "f",
    "parameters": {"type": "object", "properties": {}},
    "schema": {"type": "object"},
    "tool_call_id": "c1",
    "url": IMAGE,
    "verbosity": "medium",
}
# Fields that the client need not send by its types, and without which nothing is said.
NEEDED = {"function_call_output": ["call_id"], "input_image": ["image_url"]}


def plain(hint):
    """A type without what it is wrapped in."""
    while typing.get_origin(hint) in (typing_extensions.Required, typing_extensions.NotRequired, typing.Annotated):
        hint = typing.get_args(hint)[0]
    return hint


def members(hint):
    """The types that a value may have."""
    hint = plain(hint)
    origin = typing.get_origin(hint)
    if hint is type(None):
        return []
    if origin is typing.Union or str(origin) == "<class 'types.UnionType'>":
        return [member for one in typing.get_args(hint) for member in members(one)]
    return [hint]


def item_type(hint):
    """The type of the items of a list, if it is one."""
    origin = typing.get_origin(hint)
    is_list = isinstance(origin, type) and issubclass(origin, collections.abc.Iterable)
    return typing.get_args(hint)[0] if is_list and not issubclass(origin, collections.abc.Mapping) else None


def sample(hint, name=""):
    """The least value of a type."""
    kinds = members(hint)
    for kind in kinds:
        if name in VALUES and type(VALUES[name]) in (kind, typing.get_origin(kind)):
            return VALUES[name]
    if name in ("schema", "parameters"):
        return VALUES[name]
    kind = kinds[0]
    if typing_extensions.is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        needed = [field for field, inner in hints.items() if typing.get_origin(inner) is typing_extensions.Required]
        value = {field: sample(hints[field], field) for field in needed}
        return value | {field: VALUES[field] for field in NEEDED.get(value.get("type"), [])}
    if typing.get_origin(kind) is typing.Literal:
        literals = typing.get_args(kind)
        return VALUES[name] if VALUES.get(name) in literals else literals[0]
    if (item := item_type(kind)) is not None:
        return [sample(item)]
    return {str: "x", int: 1, float: 0.5, bool: True}.get(kind, {})


def fields(kind):
    return dict(sorted(typing.get_type_hints(kind).items()))


def request(path, root, value):
    """A request with this value in a field."""
    body = {"model": "react"}
    if path == "chat/completions":
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        user = {"role": "user", "content": "hi"}
        before = [user, {"role": "assistant", "tool_calls": [call]}]
        tools = [{"type": "function", "function": {"name": "f"}}]
        body["messages"] = [user]
    else:
        call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
        user = {"role": "user", "content": "hi"}
        before = [user, call]
        tools = [{"type": "function", "name": "f"}]
        body["input"] = [user]
    if root in ("messages", "input") and isinstance(value, list):
        is_result = value[0].get("role") == "tool" or value[0].get("type") == "function_call_output"
        value = before + value if is_result else value if value[0].get("role") == "user" else [*value, user]
    if root == "tool_choice":
        body["tools"] = tools
    body[root] = value
    return body


def send(path, body):
    """The status, and the parameter that is wrong."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    asked = urllib.request.Request(f"{base}/v1/{path}", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, None
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]["param"]


def walk(path, root, place, hint, wrap, name=""):
    """Tries each field of a type. What is not accepted at its least has nothing inside that is."""
    for kind in members(hint):
        if (item := item_type(kind)) is not None:
            walk(path, root, f"{place}[]", item, lambda value, wrap=wrap: wrap([value]))
            continue
        value = sample(kind, name)
        status, parameter = send(path, request(path, root, wrap(value)))
        if status == 400:
            named = str(parameter).split(".")[0].split("[")[0]
            assert named == root, f"{path}: {place} = {value}: {parameter}"
            continue
        assert status == 200, f"{path}: {place} = {value}: {status} {parameter}"
        shown = kind.__name__ if isinstance(kind, type) else typing.get_origin(kind) or kind
        accepted.add(f"{place} {shown}")
        if typing_extensions.is_typeddict(kind):
            for field, inner in fields(kind).items():
                put = lambda inner_value, field=field, value=value: wrap({**value, field: inner_value})
                walk(path, root, f"{place}.{field}", inner, put, field)


for path, kind in (
    ("chat/completions", chat.CompletionCreateParamsNonStreaming),
    ("responses", responses.ResponseCreateParamsNonStreaming),
):
    for root, hint in fields(kind).items():
        if root == "model":
            continue
        accepted = set()
        is_nested = any(typing_extensions.is_typeddict(item_type(one) or one) or item_type(one) for one in members(hint))
        if is_nested:
            walk(path, root, root, hint, lambda value: value, root)
            for line in sorted(accepted):
                print(path, line)
print("ok")
