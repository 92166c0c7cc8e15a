"""The tools as an MCP server on stdio, by hand: JSON-RPC, a message a line."""

import json
import sys
from typing import Any

from spawned import TOOLS

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
DESCRIPTIONS = {"measure": "Counts bytes and code points, and hashes the bytes."}


class Fault(Exception):
    """A code of JSON-RPC, and what is wrong."""


def call(params: dict[str, Any]) -> dict[str, Any]:
    if params["name"] not in TOOLS:
        raise Fault(-32602, f"there is no tool '{params['name']}'")
    try:
        result = TOOLS[params["name"]](**params.get("arguments", {}))
    except TypeError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"content": [{"type": "text", "text": json.dumps(result, separators=(",", ":"))}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            info = {"name": "peer-python", "version": "0.1.0"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [{"name": n, "description": DESCRIPTIONS[n], "inputSchema": SCHEMA} for n in TOOLS]}
        case "tools/call":
            return call(params)
    raise Fault(-32601, f"there is no method '{method}'")


for line in sys.stdin:
    message = json.loads(line)
    # What has no id, or no method, wants no answer.
    if "id" not in message or "method" not in message:
        continue
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answer(message["method"], message.get("params", {}))
    except Fault as fault:
        reply["error"] = {"code": fault.args[0], "message": fault.args[1]}
    print(json.dumps(reply), flush=True)
