// The tools as an MCP server on stdio, with the SDK for Node.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const stats = (string) => ({
  bytes: Buffer.byteLength(string),
  lines: string.split("\n").length - (string === "" || string.endsWith("\n") ? 1 : 0),
  words: string.match(/[^ \t-\r]+/g)?.length ?? 0,
});

const server = new McpServer({ name: "peer-node", version: "0.1.0" });
const inputSchema = { text: z.string() };
const answer = (text) => ({ content: [{ type: "text", text }] });

server.registerTool("echo", { description: "Gives back the text.", inputSchema }, ({ text }) => answer(text));
server.registerTool("stats", { description: "Counts bytes, lines and words.", inputSchema }, ({ text }) =>
  answer(JSON.stringify(stats(text))),
);

await server.connect(new StdioServerTransport());
