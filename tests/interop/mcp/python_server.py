"""A server made with the official Python SDK. Its arguments: stdio, or http and a port."""

import sys

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel

READS = ToolAnnotations(read_only_hint=True)
server = MCPServer("python server")


class Sum(BaseModel):
    total: int


@server.tool(annotations=READS)
def add(left: int, right: int) -> Sum:
    """Adds two numbers."""
    return Sum(total=left + right)


@server.tool(annotations=READS)
def picture() -> Image:
    """Returns a picture."""
    return Image(data=b"not really", format="png")


@server.tool(annotations=READS)
async def slow(steps: int, context: Context) -> str:
    """Reports its progress."""
    for step in range(steps):
        await context.report_progress(step, steps, f"step {step}")
    return "done"


@server.tool()
def write(text: str) -> str:
    """Writes nothing."""
    return f"wrote {text}"


@server.tool(annotations=READS)
def fail() -> str:
    """Fails."""
    raise ToolError("the disk is full")


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
