"""The client of the official Python SDK uses `patchbay mcp`, with and without the handshake, over both transports."""

import asyncio
import contextlib
import json

import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

import connections
from connections import PATCHBAY

# 'legacy' begins with `initialize`; 'auto' finds out that it is not needed.
MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}


@contextlib.asynccontextmanager
async def client(home, transport, mode, name="python"):
    info = Implementation(name=name, version="1")
    async with contextlib.AsyncExitStack() as stack:
        if transport == "stdio":
            server = mcp.StdioServerParameters(
                command=str(PATCHBAY), args=["mcp"], env=home.environment(), cwd=str(home.workspace)
            )
        else:
            url, authorization = home.served
            http = await stack.enter_async_context(httpx2.AsyncClient(headers={"Authorization": authorization}, timeout=60))
            server = streamable_http_client(url, http_client=http)
        yield await stack.enter_async_context(mcp.Client(server, mode=mode, client_info=info, read_timeout_seconds=60))


async def use(home, transport, mode):
    async with client(home, transport, mode) as one, client(home, transport, mode, "python two") as two:
        assert one.protocol_version == MODES[mode], one.protocol_version
        assert one.server_info.name == "patchbay", one.server_info
        tools = {tool.name: tool for tool in (await one.list_tools()).tools}
        assert tools["calc__eval"].annotations.read_only_hint is True, tools["calc__eval"]
        assert "fork" not in tools, "tools of the host are not offered"

        # Two connections, and several calls of each, at once.
        calls = [each.call_tool("calc__eval", {"expression": f"2^{n}"}) for n in range(60, 68) for each in (one, two)]
        for number, result in enumerate(await asyncio.gather(*calls)):
            assert not result.is_error and str(2 ** (60 + number // 2)) in text(result), text(result)

        wrong = await one.call_tool("calc__eval", {"expression": 3})
        assert wrong.is_error and text(wrong).startswith("input for 'calc__eval' is invalid"), text(wrong)
        assert wrong.meta["patchbay/code"] == "invalid_input", wrong.meta
        try:
            await one.call_tool("no__such", {})
            raise RuntimeError("an unknown tool has an answer")
        except mcp.MCPError as error:
            assert error.error.code == -32602 and "not found in snapshot" in error.error.message, error

        denied = await one.call_tool("web__fetch", {"url": "https://example.org/"})
        assert denied.is_error and "patchbay grant add" in text(denied), text(denied)
    callers = {json.loads(line)["asker"] for line in home.run("journal", "--json").splitlines()}
    assert {"mcp:python", "mcp:python two"} <= callers, callers
    sessions = {json.loads(line)["session"] for line in home.run("journal", "--json").splitlines()}
    assert len(sessions) == 2, sessions


def text(result):
    return "".join(block.text for block in result.content if block.type == "text")


def run(report):
    for transport in ("stdio", "http"):
        for mode in MODES:
            with report.case(f"Python SDK, {transport}, {mode}"), connections.home() as home:
                with home.http() if transport == "http" else contextlib.nullcontext() as home.served:
                    asyncio.run(asyncio.wait_for(use(home, transport, mode), 120))
