"""What must hold of every recorded connection, whatever it was for."""

import functools
import json
import pathlib

import jsonschema_rs

TOOLS = pathlib.Path(__file__).parents[1] / ".tools"
SCHEMA = TOOLS / "node/node_modules/@agentclientprotocol/sdk/schema/v1/schema.json"
# These updates are part of work, which only a prompt or a load may do.
WORK = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan"}
# The capability of a client that each method needs.
NEEDS = {
    "fs/read_text_file": ("fs", "readTextFile"),
    "fs/write_text_file": ("fs", "writeTextFile"),
    "terminal/create": ("terminal",),
    "elicitation/create": ("elicitation",),
}
NEEDS_NOTICE = ("session", "notices")


def equal(found, expected, what=""):
    assert found == expected, f"{what}\n  found: {found}\n  expected: {expected}"


@functools.cache
def _schema():
    return json.loads(SCHEMA.read_text())["$defs"]


def _closed(schema):
    """Returns the schema with unknown fields refused wherever it describes an object, because the schema of the protocol
    refuses none. `_meta` and values of any type stay open."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {}
    for key, value in schema.items():
        if key == "properties":
            closed[key] = {name: _sealed(_closed(one)) for name, one in value.items()}
        elif key == "items":
            closed[key] = _sealed(_closed(value))
        elif key in ("enum", "const", "default", "required", "description"):
            closed[key] = value
        else:
            closed[key] = _closed(value)
    return closed


def _sealed(schema):
    composed = isinstance(schema, dict) and {"$ref", "allOf", "anyOf", "oneOf", "properties"} & schema.keys()
    return {"allOf": [schema], "unevaluatedProperties": False} if composed else schema


@functools.cache
def validator(name):
    """Returns the validator of a type of the schema."""
    return jsonschema_rs.Draft202012Validator({**_sealed({"$ref": f"#/$defs/{name}"}), "$defs": _closed(_schema())})


@functools.cache
def types():
    """Returns the types of what an agent sends: of its requests and notifications by method, and of its results by method."""
    sent, results = {}, {}
    for name, schema in _schema().items():
        method, side = schema.get("x-method"), schema.get("x-side")
        if not method:
            continue
        if name.endswith("Response"):
            if side == "agent":
                results[method] = name
        elif side == "client" or side == "protocol":
            sent[method] = name
    return sent, results


def valid(name, value, line):
    errors = [f"{error.message} at {'/'.join(map(str, error.instance_path))}" for error in validator(name).iter_errors(value)]
    assert not errors, f"it is no {name}: {'; '.join(errors[:3])}\n  {line[:2000]}"


class Connection:
    """Follows a recorded connection line by line."""

    def __init__(self, name, shared):
        # Whether other clients work in the same sessions.
        self.name, self.shared = name, shared
        # Requests without an answer: of the client and of the agent, by id. Methods and parameters.
        self.asked, self.asks = {}, {}
        self.offered = {}
        # By session: the last list of commands; its state; tool calls that have not ended; the last list of options.
        self.commands, self.open, self.calls, self.options = {}, set(), {}, {}
        self.owed = set()  # Sessions that have no list of commands yet.
        self.answers = 0

    def line(self, receiver, line):
        message = json.loads(line)
        if receiver == "agent":
            return self.from_client(message)
        equal((type(message), message.get("jsonrpc")), (dict, "2.0"), line)
        equal(set(message) - {"jsonrpc", "id", "method", "params", "result", "error"}, set(), line)
        if "method" in message:
            self.from_agent(message, line)
        else:
            self.answer(message, line)

    def from_client(self, message):
        if "method" in message:
            params = message.get("params") or {}
            if "id" in message:
                assert message["id"] not in self.asked, f"the test repeats the id {message['id']}"
                self.asked[message["id"]] = (message["method"], params)
            if message["method"] == "initialize":
                self.offered = params.get("clientCapabilities") or {}
        else:
            self.asks.pop(message.get("id"), None)

    def from_agent(self, message, line):
        method = message["method"]
        name = types()[0].get(method)
        assert name, f"the protocol has no '{method}' from an agent: {line}"
        valid(name, message.get("params"), line)
        equal("id" in message, name.endswith("Request"), f"whether it has an id: {line}")
        if "id" in message:
            assert message["id"] not in self.asks, f"an id twice: {line}"
            self.asks[message["id"]] = method
        self.check_offered(method, NEEDS.get(method, ()))
        if method == "session/update":
            self.update(message["params"]["sessionId"], message["params"]["update"], line)

    def check_offered(self, what, needs):
        offered = self.offered
        for key in needs:
            offered = (offered or {}).get(key)
        assert offered not in (None, False), f"the client did not offer {what}"

    def update(self, session, update, line):
        kind = update["sessionUpdate"]
        waiting = {method for method, params in self.asked.values() if params.get("sessionId") == session}
        assert session in self.open or "session/load" in waiting, f"an update of a session that is not open: {line[:500]}"
        if kind in WORK and not self.shared:
            assert waiting & {"session/prompt", "session/load"}, f"work while no prompt is open: {line[:500]}"
        if kind == "notice":
            self.check_offered(kind, NEEDS_NOTICE)
        if kind == "available_commands_update":
            assert session in self.open, f"commands before the answer: {line[:500]}"
            commands = update["availableCommands"]
            names = [command["name"] for command in commands]
            equal(len(names), len(set(names)), "commands of one name")
            for name in names:
                assert name and not name.startswith("/") and not set(name) & set(" \t\n"), f"not a command's name: {name!r}"
            assert self.commands.get(session) != commands, "the same commands twice"
            self.commands[session] = commands
            self.owed.discard(session)
        if kind == "config_option_update":
            assert session in self.open, f"options before the answer: {line[:500]}"
            assert self.options.get(session) != update["configOptions"], "the same options twice"
            self.set_options(session, update["configOptions"])
        calls = self.calls.setdefault(session, {})
        if kind == "tool_call":
            assert update["toolCallId"] not in calls, f"a tool call twice: {line[:500]}"
            calls[update["toolCallId"]] = update.get("status", "pending")
        if kind == "tool_call_update":
            status = calls.get(update["toolCallId"])
            assert status is not None, f"an update of an unknown tool call: {line[:500]}"
            assert status not in ("completed", "failed"), f"an update of a tool call that has ended: {line[:500]}"
            calls[update["toolCallId"]] = update.get("status") or status

    def set_options(self, session, options):
        """Checks the whole list of options, and keeps it."""
        ids = [option["id"] for option in options]
        equal(len(ids), len(set(ids)), "options of one id")
        assert {"model", "mode"} <= set(ids), f"a part of the options: {ids}"
        for option in options:
            values = [choice["value"] for choice in option["options"]]
            equal(len(values), len(set(values)), f"choices of one value: {values}")
            assert len(values) <= 200, f"{len(values)} choices"
            assert option["currentValue"] in values, f"{option['currentValue']} is no choice: {values}"
        self.options[session] = options

    def answer(self, message, line):
        identifier = message.get("id")
        equal(("result" in message) + ("error" in message), 1, line)
        if "error" in message:
            valid("Error", message["error"], line)
        if identifier is None:
            return
        assert identifier in self.asked, f"an answer that was not asked for: {line[:500]}"
        method, params = self.asked.pop(identifier)
        self.answers += 1
        if "error" in message:
            return
        result, session = message["result"], params.get("sessionId")
        valid(types()[1][method], result, line)
        if method in ("session/new", "session/load", "session/resume"):
            session = session or result["sessionId"]
            # Another answer about an open session finds the client with its commands.
            if session not in self.open:
                self.owed.add(session)
            self.open.add(session)
        if "configOptions" in result:
            self.set_options(session or result["sessionId"], result["configOptions"])
        if method in ("session/close", "session/delete"):
            self.open.discard(session)
            self.owed.discard(session)
            self.commands.pop(session, None)
        if method == "session/prompt" and not any(
            asked == method and its.get("sessionId") == session for asked, its in self.asked.values()
        ):
            left = {call: status for call, status in self.calls.get(session, {}).items() if status not in ("completed", "failed")}
            equal(left, {}, "tool calls without an end")

    def end(self, answered):
        equal(self.owed, set(), "sessions without commands")
        if answered:
            equal(self.asked, {}, "requests without an answer")


def check(record, answered=True, shared=False):
    """Checks a recorded connection. `answered`: the client waited for all answers. `shared`: other clients worked in its sessions.
    Returns the number of lines of the agent."""
    connection, lines = Connection(record.name, shared), 0
    for number, entry in enumerate(record.read_text().splitlines(), 1):
        receiver, line = json.loads(entry)
        lines += receiver == "client"
        try:
            connection.line(receiver, line)
        except (AssertionError, ValueError, KeyError) as error:
            raise AssertionError(f"line {number} of the connection: {error!r}" if not isinstance(error, AssertionError) else f"line {number} of the connection: {error}") from error
    connection.end(answered)
    return lines
