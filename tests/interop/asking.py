"""Checks that the official SDKs could have built the requests of our adapters.

The SDKs describe what they send by types. They are taken strictly here: a field that they do not know is a mistake, as is a
value of another type. The paths must be those of the SDKs' own requests.
"""

import json
import typing
import warnings

import pydantic
from anthropic.types import AnthropicBetaParam
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming as BetaMessageCreateParamsStreaming
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from google.genai import types as genai_types
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

import reading
from loopback import replay


class GeminiBody(pydantic.BaseModel):
    """The fields of a Gemini request; the SDK has types for their values alone."""

    model_config = pydantic.ConfigDict(extra="forbid", alias_generator=pydantic.alias_generators.to_camel)
    contents: list[genai_types.Content]
    system_instruction: genai_types.Content | None = None
    tools: list[genai_types.Tool] | None = None
    tool_config: genai_types.ToolConfig | None = None
    generation_config: genai_types.GenerationConfig | None = None


def strictly(body):
    """The rules of a list apply to its items, at any depth."""
    return pydantic.TypeAdapter(list[body], config=pydantic.ConfigDict(extra="forbid"))


BODIES = {
    "messages": strictly(MessageCreateParamsStreaming),
    "chat": strictly(CompletionCreateParamsStreaming),
    "responses": strictly(ResponseCreateParamsStreaming),
    "gemini": strictly(GeminiBody),
}
# One of the SDK's types takes any field; pydantic warns that it cannot be made strict.
warnings.filterwarnings("ignore", message="TypedDict class .* allows extra items")

# The body of a request whose header names a beta of the API.
BETA_BODIES = {"messages": strictly(BetaMessageCreateParamsStreaming)}
KNOWN_BETAS = {name for member in typing.get_args(AnthropicBetaParam) for name in typing.get_args(member)}
# Versions of the API. Ours may be any of them, because an adapter sends the same to all.
VERSIONS = {"messages": ("2023-06-01", "2026-10-21")}
# The secret, as the API's own documents say it. (The Anthropic SDK sends a bearer token, which is as good.)
SECRETS = {
    "messages": ("x-api-key", reading.KEY),
    "chat": ("authorization", f"Bearer {reading.KEY}"),
    "responses": ("authorization", f"Bearer {reading.KEY}"),
    "gemini": ("x-goog-api-key", reading.KEY),
}


def walk(value):
    """Reads a whole value, because an Iterable of the SDKs is only checked when it is read. Parts of an answer that are sent back
    may also have the SDK's types of answers, which keep unknown fields."""
    if isinstance(value, pydantic.BaseModel):
        assert not value.model_extra, f"the SDK knows no {list(value.model_extra)} in {type(value).__name__}"
        value = dict(value)
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return
    for inner in value:
        walk(inner)


# Fields of compatible servers for thinking, which goes back as it came. The SDK knows none of them.
REASONING = {"reasoning_content": str, "reasoning": str, "reasoning_details": list}


def without_reasoning(body):
    """The body of a chat request without thinking of the model, after a check of its fields."""
    messages = []
    for message in body["messages"]:
        found = {key: value for key, value in message.items() if key in REASONING}
        assert not found or message["role"] == "assistant", f"{list(found)} in a message of '{message['role']}'"
        assert all(isinstance(value, REASONING[key]) for key, value in found.items()), found
        messages.append({key: value for key, value in message.items() if key not in REASONING})
    return body | {"messages": messages}


def check_body(word, body, bodies):
    types = bodies[word]
    if word == "chat":
        body = without_reasoning(body)
    try:
        if word == "gemini":
            # Its types convert bytes only from JSON.
            types.validate_json(json.dumps([body]), strict=True)
        else:
            walk(types.validate_python([body], strict=True))
    except pydantic.ValidationError as error:
        # A union has errors for each member; the deepest ones belong to the member that matches best.
        nearest = sorted(error.errors(), key=lambda one: -len(one["loc"]))[:6]
        words = [f"{[place for place in one['loc'] if '[' not in str(place)]}: {one['msg']}" for one in nearest]
        raise AssertionError("\n  ".join(["the SDK knows no such request:", *words])) from None


def steps(word, body):
    """The ids of the calls and of the results of each message, in order. Gemini's calls have no ids: their names are used."""
    if word == "messages":
        for message in body["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            yield ([block["id"] for block in blocks if block["type"] == "tool_use"],
                   [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"])
    elif word == "chat":
        for message in body["messages"]:
            yield ([call["id"] for call in message.get("tool_calls") or []],
                   [message["tool_call_id"]] if message["role"] == "tool" else [])
    elif word == "responses":
        for item in body["input"]:
            kind = item.get("type")
            yield ([item["call_id"]] if kind == "function_call" else [],
                   [item["call_id"]] if kind == "function_call_output" else [])
    else:
        for content in body["contents"]:
            yield ([part["functionCall"]["name"] for part in content["parts"] if "functionCall" in part],
                   [part["functionResponse"]["name"] for part in content["parts"] if "functionResponse" in part])


def check_calls(word, body):
    """Each call has its result, after it and before anything else; there is no other result. No API takes another request, but
    no SDK checks it."""
    open_calls = []
    for calls, results in steps(word, body):
        for result in results:
            assert result in open_calls, f"a result without its call: {result}"
            open_calls.remove(result)
        assert results or calls or not open_calls, f"calls without results: {open_calls}"
        open_calls += calls
    assert not open_calls, f"calls without results: {open_calls}"


def of_the_sdk(word, model):
    """The SDK's own request for an answer of `model`."""
    with replay([]) as (origin, requests):
        try:
            reading.FORMATS[word](origin, model)
        except Exception:  # It gets no answer.
            pass
        return requests[0]


def spoiled(body):
    """The same body with an unknown field, in two places."""
    yield body | {"no_such_field": 1}
    [turns] = [key for key in ("messages", "input", "contents") if key in body]
    yield body | {turns: [*body[turns][:-1], body[turns][-1] | {"no_such_field": 1}]}


def bodies_for(request):
    """The types of the body: a beta that a header names has more fields."""
    betas = request["headers"].get("anthropic-beta")
    if betas is None:
        return BODIES
    for beta in betas.split(","):
        assert beta.strip() in KNOWN_BETAS, f"the SDK knows no beta '{beta}'"
    return BETA_BODIES


def check(word, request, model):
    """Checks a request of ours to the API `word` for an answer of `model`."""
    bodies = bodies_for(request)
    check_body(word, request["body"], bodies)
    check_calls(word, request["body"])
    for body in spoiled(request["body"]):
        try:
            check_body(word, body, bodies)
        except AssertionError:
            continue
        raise AssertionError("an unknown field was accepted: the types are not checked")
    theirs, headers = of_the_sdk(word, model), request["headers"]
    assert request["path"] == theirs["path"], f"ours: {request['path']}, the SDK's: {theirs['path']}"
    assert headers["content-type"] == theirs["headers"]["content-type"], headers["content-type"]
    assert headers.get("anthropic-version") in VERSIONS.get(word, (None,)), headers
    header, value = SECRETS[word]
    assert headers.get(header) == value, f"no secret in {header}"
