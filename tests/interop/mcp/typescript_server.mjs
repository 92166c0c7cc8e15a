// A server made with the official TypeScript SDK. Its arguments: the folder of the modules, then stdio, or http and a port.

import http from "node:http";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, transport, port] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(path.join(modules, file)));
const { McpServer } = await load("@modelcontextprotocol/sdk/dist/esm/server/mcp.js");
const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/dist/esm/server/stdio.js");
const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/dist/esm/server/streamableHttp.js");
const { z } = await load("zod/index.js");

function server() {
  const made = new McpServer({ name: "typescript server", version: "1" });
  const reads = { readOnlyHint: true };
  const text = (words) => ({ content: [{ type: "text", text: words }] });
  const numbers = { left: z.number().int(), right: z.union([z.number().int(), z.literal("zero")]) };
  made.registerTool(
    "add",
    { description: "Adds two numbers.", inputSchema: numbers, outputSchema: { total: z.number() }, annotations: reads },
    async ({ left, right }) => {
      const total = { total: left + (right === "zero" ? 0 : right) };
      return { ...text(JSON.stringify(total)), structuredContent: total };
    },
  );
  made.registerTool("picture", { annotations: reads }, async () => ({
    content: [{ type: "image", data: Buffer.from("not really").toString("base64"), mimeType: "image/png" }],
  }));
  made.registerTool(
    "slow",
    { description: "Reports its progress.", inputSchema: { steps: z.number().int() }, annotations: reads },
    async ({ steps }, extra) => {
      const { progressToken } = extra._meta;
      for (let progress = 0; progress < steps; progress++) {
        const params = { progressToken, progress, total: steps, message: `step ${progress}` };
        await extra.sendNotification({ method: "notifications/progress", params });
      }
      return text("done");
    },
  );
  made.registerTool("write", { inputSchema: { text: z.string() } }, async ({ text: words }) => text(`wrote ${words}`));
  made.registerTool("fail", { annotations: reads }, async () => {
    throw new Error("the disk is full");
  });
  return made;
}

if (transport === "stdio") {
  await server().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  http
    .createServer(async (request, response) => {
      let found = sessions.get(request.headers["mcp-session-id"]);
      if (!found) {
        found = new StreamableHTTPServerTransport({
          sessionIdGenerator: () => crypto.randomUUID(),
          onsessioninitialized: (id) => sessions.set(id, found),
        });
        await server().connect(found);
      }
      if (request.headers.authorization !== "Bearer interop-secret") return response.writeHead(401).end();
      await found.handleRequest(request, response);
    })
    .listen(Number(port), "127.0.0.1", () => console.log("ready"));
}
