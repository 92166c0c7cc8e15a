// A client of a TypeScript SDK: lists, calls, fails, is denied, with two connections at once. Its argument says how to connect.

import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";

const given = JSON.parse(process.argv[2]);
const load = (file) => import(pathToFileURL(path.join(given.modules, "@modelcontextprotocol", file)));

async function sdk() {
  if (given.sdk === "1") {
    const { Client } = await load("sdk/dist/esm/client/index.js");
    const { StdioClientTransport } = await load("sdk/dist/esm/client/stdio.js");
    const { StreamableHTTPClientTransport } = await load("sdk/dist/esm/client/streamableHttp.js");
    return { Client, StdioClientTransport, StreamableHTTPClientTransport, options: {} };
  }
  const { Client, StreamableHTTPClientTransport } = await load("client/dist/index.mjs");
  const { StdioClientTransport } = await load("client/dist/stdio.mjs");
  return { Client, StdioClientTransport, StreamableHTTPClientTransport, options: { versionNegotiation: { mode: "auto" } } };
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport, options } = await sdk();

async function connect(name) {
  const client = new Client({ name, version: "1" }, options);
  const transport = given.url
    ? new StreamableHTTPClientTransport(new URL(given.url), { requestInit: { headers: { Authorization: given.authorization } } })
    : new StdioClientTransport({ command: given.command, args: ["mcp"], cwd: given.workspace, env: process.env });
  await client.connect(transport);
  return client;
}

const text = (result) => result.content.map((block) => block.text ?? "").join("");

const [one, two] = await Promise.all([connect("typescript"), connect("typescript two")]);
if (given.sdk === "2") assert.equal(one.getNegotiatedProtocolVersion(), "2026-07-28");
const { tools } = await one.listTools();
const calc = tools.find((tool) => tool.name === "calc__eval");
assert.equal(calc.annotations.readOnlyHint, true);

const call = (client, name, input, more) => client.callTool({ name, arguments: input }, ...(more ?? []));
const calls = [...Array(8).keys()].flatMap((n) => [one, two].map((client) => call(client, "calc__eval", { expression: `2^${60 + n}` })));
for (const [number, result] of (await Promise.all(calls)).entries()) {
  assert.ok(!result.isError && text(result).includes(String(2n ** BigInt(60 + Math.floor(number / 2)))), text(result));
}

const wrong = await call(one, "calc__eval", { expression: 3 });
assert.ok(wrong.isError && text(wrong).startsWith("input for 'calc__eval' is invalid"), text(wrong));
assert.equal(wrong._meta["patchbay/code"], "invalid_input");
await assert.rejects(call(one, "no__such", {}), (error) => error.code === -32602 && /not found in snapshot/.test(error.message));
const denied = await call(one, "web__fetch", { url: "https://example.org/" });
assert.ok(denied.isError && text(denied).includes("patchbay grant add"), text(denied));
await Promise.all([one.close(), two.close()]);
