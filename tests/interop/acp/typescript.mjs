// Drives the binary with the official TypeScript SDK. Runs one case; typescript.py starts it.
//
// The one argument is a JSON object: `modules` (the folder of the packages), `case`, `workspace`, `png`, and either `command` and
// `environment` of the agent, or the `url` of a server, its `headers`, and the beginning of the names of `records`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const given = JSON.parse(process.argv[2]);
const installed = createRequire(join(given.modules, "any.js"));
const load = (name) => import(pathToFileURL(installed.resolve(name)));
const acp = await load("@agentclientprotocol/sdk");
const { methods } = acp;
const WRITE = 'call files__write {"path": "made.txt", "text": "made"}';
const MADE = join(given.workspace, "made.txt");

/** Starts the binary. Returns its stream, and a function that waits for its end. */
function start() {
  const [program, ...args] = given.command;
  const agent = spawn(program, args, { cwd: given.workspace, env: given.environment, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => agent.on("exit", (code) => resolve(code)));
  const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  const end = async () => {
    agent.stdin.end();
    assert.equal(await ended, 0);
  };
  return { stream, end };
}

let sockets = 0;

/** Connects to the server. Messages are recorded as `wire.py` records lines. */
async function connect() {
  const { createWebSocketStream } = await load("@agentclientprotocol/sdk/experimental/ws-client");
  const { default: WebSocket } = await load("ws");
  const socket = createWebSocketStream(given.url, { headers: given.headers, WebSocket });
  const file = `${given.records}.${++sockets}.record`;
  const recorded = (receiver) => new TransformStream({
    transform(message, controller) {
      appendFileSync(file, `${JSON.stringify([receiver, JSON.stringify(message)])}\n`);
      controller.enqueue(message);
    },
  });
  const { readable, writable } = recorded("agent");
  readable.pipeTo(socket.writable).catch(() => {});
  return { stream: { readable: socket.readable.pipeThrough(recorded("client")), writable }, end: () => {} };
}

/** Runs `work` with a connection to the binary. `handlers` may replace handlers of the client. */
async function connected(work, capabilities = {}, handlers = {}) {
  const { stream, end } = given.url ? await connect() : start();
  const updates = [];
  let client = acp
    .client({ name: "interop" })
    .onNotification(methods.client.session.update, ({ params }) => void updates.push(params));
  for (const [method, handler] of Object.entries(handlers)) client = client.onRequest(method, handler);
  await client.connectWith(stream, async (patchbay) => {
    const answer = await patchbay.request(methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: capabilities,
      clientInfo: { name: "interop", version: "1" },
    });
    assert.equal(answer.protocolVersion, 1);
    assert.equal(answer.agentInfo.name, "patchbay");
    await work(patchbay, updates, answer);
  });
  await end();
}

/** Waits until `condition` holds. */
async function until(condition, what) {
  for (let tries = 0; tries < 3000; tries++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.fail(`in a minute: ${what}`);
}

/** Sends a prompt that ends as it should. Returns the text of the answer and all updates. */
async function say(session, prompt, reason = "end_turn") {
  const ended = session.prompt(prompt);
  const [updates, texts] = [[], []];
  for (;;) {
    const message = await session.nextUpdate();
    if (message.kind === "stop") {
      assert.equal(message.stopReason, reason);
      await ended;
      return { text: texts.join(""), updates };
    }
    updates.push(message.update);
    if (message.update.sessionUpdate === "agent_message_chunk") texts.push(message.update.content.text);
  }
}

const text = (text) => ({ type: "text", text });
const opened = (patchbay) => patchbay.buildSession(given.workspace).start();
const calls = (updates) => updates.filter((update) => update.sessionUpdate.startsWith("tool_call"));

/** Answers a question by the option of this kind. */
const choose = (kind) => ({ params }) => {
  const { optionId } = params.options.find((option) => option.kind === kind);
  return { outcome: { outcome: "selected", optionId } };
};

const cases = {
  async prompts() {
    await connected(async (patchbay) => {
      const session = await opened(patchbay);
      assert.equal((await say(session, "say Good day.")).text, "Good day.");
      assert.equal((await say(session, "/calc 2^64")).text.trim(), String(2n ** 64n));
      assert.equal((await say(session, "/nothing")).text, "Error: unknown command '/nothing'.");
      const image = { type: "image", data: given.png, mimeType: "image/png" };
      const shown = await say(session, [image, text("show context")]);
      assert.match(shown.text, /image\/png\(/);
    });
  },

  async calls() {
    await connected(async (patchbay) => {
      const session = await opened(patchbay);
      const { text, updates } = await say(session, 'call calc__eval {"expression": "6*7"}\nthen say Forty-two.');
      assert.equal(text, "Forty-two.");
      const [begun, ...rest] = calls(updates);
      assert.equal(begun.sessionUpdate, "tool_call");
      assert.deepEqual(begun.rawInput ?? rest.find((update) => update.rawInput)?.rawInput, { expression: "6*7" });
      const last = calls(updates).at(-1);
      assert.equal(last.status, "completed");
      assert.match(JSON.stringify(last), /42/);
    });
  },

  async permission() {
    const refuse = () => {
      throw new acp.RequestError(-32603, "the window is closed");
    };
    // Where others may answer, an error leaves the question open.
    const unclear = given.url ? [] : [[refuse, false]];
    for (const [handler, made] of [[choose("reject_once"), false], ...unclear, [choose("allow_once"), true]]) {
      await connected(async (patchbay) => {
        const session = await opened(patchbay);
        const { updates } = await say(session, WRITE);
        assert.equal(calls(updates).at(-1).status, made ? "completed" : "failed");
        assert.equal(existsSync(MADE), made);
      }, {}, { [methods.client.session.requestPermission]: handler });
    }
  },

  async never() {
    let asked = 0;
    const reject = (context) => {
      asked += 1;
      return choose("reject_always")(context);
    };
    await connected(async (patchbay) => {
      const session = await opened(patchbay);
      for (let time = 0; time < 2; time++) assert.equal(calls((await say(session, WRITE)).updates).at(-1).status, "failed");
      assert.deepEqual([asked, existsSync(MADE)], [1, false]);
    }, {}, { [methods.client.session.requestPermission]: reject });
  },

  /** An editor that offers its files, its terminals and notices. */
  async editor() {
    const file = join(given.workspace, "text.txt");
    writeFileSync(file, "saved\n");
    const [written, ran] = [[], []];
    const { fs, session: questions, terminal } = methods.client;
    const handlers = {
      [questions.requestPermission]: choose("allow_once"),
      [fs.readTextFile]: () => ({ content: "not saved\n" }),
      [fs.writeTextFile]: ({ params }) => (written.push([params.path, params.content]), {}),
      [terminal.create]: ({ params }) => (ran.push([params.command, ...params.args]), { terminalId: "t1" }),
      [terminal.waitForExit]: () => ({ exitCode: 0 }),
      [terminal.output]: () => ({ output: "It ran.\n", truncated: false }),
      [terminal.release]: () => ({}),
    };
    const offered = { fs: { readTextFile: true, writeTextFile: true }, terminal: true, session: { notices: {} } };
    await connected(async (patchbay, updates) => {
      const session = await opened(patchbay);
      await say(session, 'call files__edit {"path": "text.txt", "old": "not saved", "new": "edited"}');
      assert.deepEqual([written, readFileSync(file, "utf8")], [[[file, "edited\n"]], "saved\n"]);
      const command = await say(session, 'call terminal__run {"command": "make", "args": ["test"]}');
      assert.deepEqual(ran, [["make", "test"]]);
      const last = calls(command.updates).at(-1);
      assert.deepEqual([last.status, last.content[0]], ["completed", { type: "terminal", terminalId: "t1" }]);
      // The folder of the workspace is the user's home folder, which a notice says.
      await patchbay.request(methods.agent.session.new, { cwd: dirname(given.workspace), mcpServers: [] });
      const notice = ({ update }) => update.sessionUpdate === "notice" && update.title.includes("your home folder");
      await until(() => updates.some(notice), "a notice");
    }, offered, handlers);
  },

  async cancel() {
    await connected(async (patchbay) => {
      const session = await opened(patchbay);
      const ended = session.prompt("hang");
      await new Promise((resolve) => setTimeout(resolve, 300));
      await patchbay.notify(methods.agent.session.cancel, { sessionId: session.sessionId });
      assert.equal((await ended).stopReason, "cancelled");
    });
  },

  async load() {
    let id;
    await connected(async (patchbay) => {
      const session = await opened(patchbay);
      id = session.sessionId;
      await say(session, "say One.");
    });
    await connected(async (patchbay, updates) => {
      await patchbay.request(methods.agent.session.load, { sessionId: id, cwd: given.workspace, mcpServers: [] });
      const said = updates.map(({ update }) => [update.sessionUpdate, update.content?.text]);
      const chunks = said.filter(([kind]) => kind.endsWith("_chunk"));
      assert.deepEqual(chunks, [["user_message_chunk", "say One."], ["agent_message_chunk", "One."]]);
      await until(() => updates.some(({ update }) => update.sessionUpdate === "available_commands_update"), "commands");
      const prompt = [text("say Two.")];
      assert.equal((await patchbay.request(methods.agent.session.prompt, { sessionId: id, prompt })).stopReason, "end_turn");
      await patchbay.request(methods.agent.session.delete, { sessionId: id });
      const { sessions } = await patchbay.request(methods.agent.session.list, {});
      assert.deepEqual(sessions, []);
    });
  },
};

await cases[given.case]();
// Streams of ended processes must not keep this one.
process.exit(0);
