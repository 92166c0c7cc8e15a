// The tools as an MCP server on stdio, with the SDK for Node.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const measure = (text) => {
  const bytes = new TextEncoder().encode(text);
  let hash = 2166136261;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 16777619);
  return { bytes: bytes.length, hash: hash >>> 0, points: [...text].length };
};

const server = new McpServer({ name: "peer-node", version: "0.1.0" });
const inputSchema = { text: z.string() };
const answer = (text) => ({ content: [{ type: "text", text }] });

const description = "Counts bytes and code points, and hashes the bytes.";
server.registerTool("measure", { description, inputSchema }, ({ text }) => answer(JSON.stringify(measure(text))));

await server.connect(new StdioServerTransport());
