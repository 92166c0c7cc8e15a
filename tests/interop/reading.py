"""Checks that the official SDKs read the same recorded bytes as our codecs, with the same results.

For each format one function streams an answer with the SDK and tells what it came to, in the words of the fixtures
`plugins/codecs/recordings/FORMAT/NAME.json`. The words for stops and failures are of our contract, and are mapped
here a second time, from the SDK's own values and exceptions.
"""

import json
import pathlib

import anthropic
import openai
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types
from openai.lib.streaming.chat import ChatCompletionStreamState

from loopback import replay

FOLDER = pathlib.Path(__file__).parents[2] / "plugins/codecs/recordings"
KEY = "interop-key"

# The SDKs' errors for statuses, and for the words in an error's `type` or `code`.
KINDS = {
    "MALFORMED_FUNCTION_CALL": "server",
    "authentication_error": "authentication",
    "permission_error": "authentication",
    "rate_limit_error": "rate-limit",
    "rate_limit_exceeded": "rate-limit",
    "insufficient_quota": "rate-limit",
    "RESOURCE_EXHAUSTED": "rate-limit",
    "invalid_request_error": "invalid-request",
    "INVALID_ARGUMENT": "invalid-request",
    "not_found_error": "not-found",
    "NOT_FOUND": "not-found",
    "overloaded_error": "server",
    "api_error": "server",
    "server_error": "server",
    "INTERNAL": "server",
    "UNAVAILABLE": "server",
    "PROHIBITED_CONTENT": "content-filter",
    "timeout_error": "timeout",
    "DEADLINE_EXCEEDED": "timeout",
}


def failure(code, text):
    return {"failure": {"kind": KINDS.get(code, f"no kind for {code}"), "code": code}, "text": text}


def cut(text):
    """The SDK received the end of the body, but not the end of the answer."""
    return {"failure": {"kind": "network"}, "text": text}


def messages(origin, model="claude-sonnet-4-5"):
    client = anthropic.Anthropic(base_url=origin, api_key=KEY, max_retries=0, _strict_response_validation=True)
    text, thinking, calls, turns, conversation = "", "", [], [], [{"role": "user", "content": "?"}]
    while True:
        said = ""
        try:
            with client.messages.stream(model=model, max_tokens=1000, messages=conversation) as stream:
                for event in stream:
                    said += event.text if event.type == "text" else ""
                message = stream.current_message_snapshot
        except anthropic.APIStatusError as error:
            return failure(error.body["error"]["type"], text + said)
        text += said
        if message.stop_reason is None:
            return cut(text)
        thinking += "".join(block.thinking for block in message.content if block.type == "thinking")
        calls += [{"id": block.id, "name": block.name, "input": block.input} for block in message.content if block.type == "tool_use"]
        turns.append(message.usage)
        if message.stop_reason != "pause_turn":
            break
        conversation = [conversation[0], {"role": "assistant", "content": message.content}]
    read = sum(usage.cache_read_input_tokens or 0 for usage in turns)
    written = sum(usage.cache_creation_input_tokens or 0 for usage in turns)
    stops = {"end_turn": "end-turn", "stop_sequence": "end-turn", "tool_use": "tool-use", "max_tokens": "max-tokens",
             "refusal": "refusal", "model_context_window_exceeded": "context-window"}
    return {
        "text": text,
        "thinking": thinking,
        "tool_calls": calls,
        "usage": {
            "input": sum(usage.input_tokens for usage in turns) + read + written,
            "output": sum(usage.output_tokens for usage in turns),
            "thinking": sum(usage.output_tokens_details.thinking_tokens for usage in turns if usage.output_tokens_details),
            "cache_read": read,
            "cache_write": written,
        },
        "stop": stops.get(message.stop_reason, "other"),
        "raw": message.stop_reason,
    }


def chat(origin, model="gpt-4o"):
    client = openai.OpenAI(base_url=f"{origin}/v1", api_key=KEY, max_retries=0, _strict_response_validation=True)
    state, text = ChatCompletionStreamState(), ""
    try:
        asked = [{"role": "user", "content": "?"}]
        for chunk in client.chat.completions.create(model=model, messages=asked, stream=True):
            state.handle_chunk(chunk)
            for choice in chunk.choices:
                text += choice.delta.content or choice.delta.refusal or ""
    except openai.APIError as error:
        return failure(error.code or error.type, text)
    except json.JSONDecodeError:
        return cut(text)
    completion = state.current_completion_snapshot
    choice = completion.choices[0]
    if choice.finish_reason is None:
        return cut(text)
    calls = [
        {"id": call.id, "name": call.function.name, "input": json.loads(call.function.arguments)}
        for call in choice.message.tool_calls or []
    ]
    stops = {"stop": "end-turn", "tool_calls": "tool-use", "length": "max-tokens", "content_filter": "content-filter"}
    stop = stops.get(choice.finish_reason, "other")
    if choice.finish_reason == "stop" and (calls or choice.message.refusal):
        stop = "tool-use" if calls else "refusal"
    # Other servers use one of these names for thinking; the SDK knows neither.
    extra = choice.message.model_extra or {}
    return {
        "text": text,
        "thinking": extra.get("reasoning_content") or extra.get("reasoning") or "",
        "tool_calls": calls,
        "usage": usage_of_openai(completion.usage, "prompt", "completion"),
        "stop": stop,
        "raw": choice.finish_reason,
    }


def responses(origin, model="gpt-4o"):
    client = openai.OpenAI(base_url=f"{origin}/v1", api_key=KEY, max_retries=0, _strict_response_validation=True)
    text, response = "", None
    try:
        for event in client.responses.create(model=model, input="?", stream=True):
            match event.type:
                case "response.output_text.delta" | "response.refusal.delta":
                    text += event.delta
                case "error":
                    return failure(event.code, text)
                case "response.failed":
                    return failure(event.response.error.code, text)
                case "response.completed" | "response.incomplete":
                    response = event.response
    except openai.APIError as error:
        return failure(error.code, text)
    except json.JSONDecodeError:
        return cut(text)
    if response is None:
        return cut(text)
    items = response.output
    calls = [
        {"id": item.call_id, "name": item.name, "input": json.loads(item.arguments)}
        for item in items
        if item.type == "function_call"
    ]
    parts = [part for item in items if item.type == "message" for part in item.content]
    assert text == "".join(part.refusal if part.type == "refusal" else part.text for part in parts), "deltas differ from items"
    raw, stop = response.status, "tool-use" if calls else "end-turn"
    if any(part.type == "refusal" for part in parts):
        stop = "refusal"
    if response.incomplete_details:
        raw = response.incomplete_details.reason
        stop = {"max_output_tokens": "max-tokens", "content_filter": "content-filter"}.get(raw, "other")
    return {
        "text": text,
        "thinking": "\n\n".join(part.text for item in items if item.type == "reasoning" for part in item.summary),
        "tool_calls": calls,
        "usage": usage_of_openai(response.usage, "input", "output"),
        "stop": stop,
        "raw": raw,
    }


def usage_of_openai(usage, given, made):
    """Both of its APIs count in the same way, with different names."""
    if usage is None:
        return {}
    of_input, of_output = getattr(usage, f"{given}_tokens_details"), getattr(usage, f"{made}_tokens_details")
    return {
        "input": getattr(usage, f"{given}_tokens"),
        "output": getattr(usage, f"{made}_tokens"),
        "thinking": getattr(of_output, "reasoning_tokens", None),
        "cache_read": getattr(of_input, "cached_tokens", None),
        "cache_write": getattr(of_input, "cache_write_tokens", None),
    }


def gemini(origin, model="gemini-2.5-pro"):
    options = genai_types.HttpOptions(base_url=origin, api_version="v1beta")
    client = genai.Client(api_key=KEY, http_options=options)
    text, thinking, calls, usage, raw = "", "", [], None, None
    try:
        for chunk in client.models.generate_content_stream(model=model, contents="?"):
            usage = chunk.usage_metadata or usage
            if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
                return failure(chunk.prompt_feedback.block_reason.value, text)
            for candidate in chunk.candidates or []:
                raw = candidate.finish_reason.value if candidate.finish_reason else raw
                for part in candidate.content.parts or [] if candidate.content else []:
                    if part.function_call:
                        call = part.function_call
                        # If the API sends no id, our codec creates one.
                        calls.append({"id": call.id or f"call_{len(calls) + 1}", "name": call.name, "input": call.args or {}})
                    elif part.text and part.thought:
                        thinking += part.text
                    elif part.text:
                        text += part.text
    except genai_errors.APIError as error:
        return failure(error.status, text)
    except (json.JSONDecodeError, genai_errors.UnknownApiResponseError):
        return cut(text)
    if raw is None:
        return cut(text)
    if raw == "MALFORMED_FUNCTION_CALL" and not calls:
        # The SDK ends as with an answer; our codec fails, so that the host asks again.
        return failure(raw, text)
    stops = {"STOP": "end-turn", "MAX_TOKENS": "max-tokens", "SAFETY": "content-filter"}
    return {
        "text": text,
        "thinking": thinking,
        "tool_calls": calls,
        "usage": {
            "input": (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
            "output": (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
            "thinking": usage.thoughts_token_count,
            "cache_read": usage.cached_content_token_count,
        } if usage else {},
        "stop": "tool-use" if calls and raw == "STOP" else stops.get(raw, "other"),
        "raw": raw,
    }


FORMATS = {"messages": messages, "responses": responses, "chat": chat, "gemini": gemini}


def normal(summary):
    """Removes zero and empty values, so that a missing and an empty value are equal."""
    if not isinstance(summary, dict):
        return summary
    inner = {key: normal(value) if key in ("usage", "failure") else value for key, value in summary.items()}
    return {key: value for key, value in inner.items() if value not in (None, 0, "", [], {})}


def parts(folder, fixture):
    """The bodies of one recording: one, or one for each request."""
    return [(folder / exchange["gives"]["body"]["file"]).read_bytes() for exchange in fixture["exchanges"]]


def summary(events):
    """What the events of a fixture come to."""
    blocks = [event["signed"]["part"] if "signed" in event else event for event in events]
    texts = {kind: "".join(block.get(kind, "") for block in blocks) for kind in ("text", "thinking")}
    last = events[-1]
    if "fail" in last:
        return {"text": texts["text"], "failure": {"kind": last["fail"]["kind"], "code": last["fail"].get("code")}}
    usage = next((event["usage"] for event in events if "usage" in event), {})
    calls = [block["tool_call"] for block in blocks if "tool_call" in block]
    return {**texts, "tool_calls": calls, "usage": usage, **last["finish"]}


def run(report):
    for word, read in FORMATS.items():
        folder = FOLDER / word
        names = sorted(file.stem for file in folder.glob("*.json"))
        if not names:
            report.failed(f"{word}: there is no recording in {folder}")
        for name in names:
            fixture = json.loads((folder / f"{name}.json").read_text())
            expected = normal(summary(fixture["events"]))
            with report.case(f"{word}/{name}"), replay(parts(folder, fixture)) as (origin, _):
                found = normal(read(origin))
                assert found == expected, f"\n  the SDK: {found}\n  our codec: {expected}"
