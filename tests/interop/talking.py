"""Checks the binary with an independent server, in each of the four formats.

The server is aimock: what it answers stands in `answers` below, as its fixtures. Between the two stands a tap, which keeps
the requests; each of them must be such as the official SDK could have built.
"""

import contextlib
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import tempfile
import termios
import time
from concurrent import futures

import asking
import reading
from loopback import tap

HERE = pathlib.Path(__file__).parent
PATCHBAY = HERE.parents[1] / "target/debug/patchbay"
AIMOCK = HERE / ".tools/node/node_modules/@copilotkit/aimock/dist/cli.js"
SECONDS = 120


class Provider:
    """A bundled provider, its format, and the path of that format on the server."""

    def __init__(self, name, word, model, base, variable):
        self.name, self.word, self.model, self.base, self.variable = name, word, model, base, variable


PROVIDERS = (
    Provider("anthropic", "messages", "claude-sonnet-5-5", "", "ANTHROPIC_API_KEY"),
    Provider("openai", "responses", "gpt-6.2-sol", "/v1", "OPENAI_API_KEY"),
    Provider("google", "gemini", "gemini-4-argon", "", "GOOGLE_API_KEY"),
    Provider("xai", "responses", "grok-4.7", "/v1", "XAI_API_KEY"),
    Provider("meta", "responses", "muse-spark-1.3", "/v1", "MODEL_API_KEY"),
    Provider("local", "chat", "qwen3-32b", "/v1", "LOCAL_API_KEY"),
)


def answers(provider):
    """What aimock says, the first that fits. It counts nothing unless told to: whatever a fixture asks for stands in the request."""
    call = {"id": "call_sum", "name": "calc__eval", "arguments": {"expression": "6*7"}}
    # Of itself it ends Gemini's calls with a word that Gemini does not have.
    called = {"finishReason": "stop"} if provider.word == "gemini" else {}
    usage = {"usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}}
    twelve = [{"id": f"call_{n}", "name": "calc__eval", "arguments": {"expression": f"{n}*{n}"}} for n in range(12)]
    endless = {"id": "call_endless", "name": "calc__eval", "arguments": {"expression": "1+" * 400 + "1"}}
    # Gemini sends a call whole, so that only the text before it can be cut off.
    well = "Well, well, well. " * (100 if provider.word == "gemini" else 1)
    return [
        {"match": {"userMessage": "Are you busy", "sequenceIndex": 0},
         "response": {"error": {"message": "Slow down.", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1}},
        {"match": {"userMessage": "Are you busy"}, "response": {"content": "Not any more."}},
        {"match": {"userMessage": "Do what is wrong"},
         "response": {"error": {"message": "That is no request.", "type": "invalid_request_error"}, "status": 400}},
        {"match": {"userMessage": "Break off"}, "truncateAfterChunks": 12, "latency": 20,
         "response": {"content": "Once upon a time there was a story" + ", and then another" * 20 + ", and that was the end."}},
        {"match": {"userMessage": "How much is it", "toolResultContains": "42"},
         "response": {"content": "It is forty-two."}},
        {"match": {"userMessage": "How much is it", "hasToolResult": False},
         "response": {"reasoning": "A sum. There is a tool for it.", "toolCalls": [call], **called}},
        {"match": {"userMessage": "In words"}, "response": {"content": "Forty-two."}},
        {"match": {"userMessage": "Take your time", "hasToolResult": False}, "latency": 300, "chunkSize": 8,
         "response": {"reasoning": "Let me see. " * 8, "content": "Let me see. " * 8, "toolCalls": [call], **called}},
        {"match": {"userMessage": "Twelve at once", "hasToolResult": False},
         "response": {"reasoning": "They do not depend on each other.", "toolCalls": twelve, **called}},
        {"match": {"userMessage": "Twelve at once", "hasToolResult": True}, "response": {"content": "Twelve results."}},
        {"match": {"userMessage": "Cut me off"}, "latency": 300, "chunkSize": 8,
         "response": {"reasoning": "A long sum.", "content": well, "toolCalls": [endless], **called}},
        {"match": {"userMessage": "Think about it"},
         "response": {"reasoning": "First this, then that.", "content": "Thought about."}},
        {"match": {"userMessage": "Who am I", "turnIndex": 1}, "response": {"content": "You are Ada."}},
        {"match": {"userMessage": "I am Ada", "turnIndex": 0}, "response": {"content": "Good day, Ada. 👋 日本語", **usage}},
    ]


@contextlib.contextmanager
def aimock(fixtures):
    """Runs the server with `fixtures`. Yields its origin."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"fixtures": fixtures}, file)
        file.flush()
        command = ["node", AIMOCK, "--port", "0", "--fixtures", file.name, "--strict", "--validate-on-load"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            try:
                said = ""
                for line in server.stdout:
                    said += line
                    if found := re.search(r"listening on (http://\S+)", line):
                        break
                else:
                    raise AssertionError(f"aimock did not start: {said}")
                yield found[1]
            finally:
                server.kill()


class Home:
    """A home with one provider, whose requests go to `origin`."""

    def __init__(self, folder, provider, origin):
        self.folder, self.provider = pathlib.Path(folder), provider
        config = self.folder / "home/config"
        config.mkdir(parents=True, exist_ok=True)
        (self.folder / "workspace").mkdir(exist_ok=True)
        (config / "config.toml").write_text(
            f'default_model = "{provider.model}"\n[providers.{provider.name}]\norigin = "{origin}{provider.base}"\n'
            + ('adapter = "openai-compatible"\nmodels = ["qwen3-32b"]\nenv = "LOCAL_API_KEY"\n' if provider.name == "local" else "")
        )

    def run(self, *lines, code=0):
        """Runs lines, in a new session unless the options name one. Returns the events and the result of each line."""
        ran = subprocess.run(
            [PATCHBAY, "exec", "--json", *lines], cwd=self.folder / "workspace", env=self.environment(),
            capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
        )
        assert ran.returncode == code, f"it ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}"
        assert reading.KEY not in ran.stdout + ran.stderr, "the secret is shown"
        told = [json.loads(line) for line in ran.stdout.splitlines()]
        self.session = told[0]["session"]
        return [one for one in told if "event" in one], [one["message"] for one in told if "line" in one]

    def environment(self):
        return {"PATH": os.environ["PATH"], "PATCHBAY_HOME": str(self.folder / "home"), self.provider.variable: reading.KEY}

    def type(self, *steps):
        """Opens the terminal. Each step is a text that is waited for, and the keys that are typed then."""
        deadline = time.monotonic() + SECONDS
        keys, screen = pty.openpty()
        termios.tcsetwinsize(screen, (24, 100))
        environment = self.environment() | {"TERM": "xterm-256color"}
        with os.fdopen(keys, "r+b", buffering=0) as terminal, subprocess.Popen(
            [PATCHBAY], cwd=self.folder / "workspace", env=environment, stdin=screen, stdout=screen, stderr=screen,
        ) as program:
            os.close(screen)
            try:
                shown = b""
                for text, typed in steps:
                    while text.encode() not in shown:
                        left = deadline - time.monotonic()
                        ready = left > 0 and select.select([terminal], [], [], left)[0]
                        assert ready, f"'{text}' is not shown: {shown[-2000:]}"
                        shown += terminal.read(4096)
                    shown = b""
                    terminal.write(typed.encode())
            finally:
                program.kill()


def equal(found, expected):
    assert found == expected, f"\n  found: {found}\n  expected: {expected}"


def texts(events, block):
    """Returns the joined deltas."""
    return "".join(event["text"] for event in events if event.get("block") == block)


def rows(events, kind):
    return [event for event in events if event.get("kind") == kind]


def several_turns(home):
    """The second message is sent by another process, which has only the stored conversation."""
    events, said = home.run("I am Ada")
    equal(said, ["Good day, Ada. 👋 日本語"])
    equal(texts(events, "text"), said[0])
    equal(home.run("--session", home.session, "Who am I?")[1], ["You are Ada."])
    usage = rows(events, "assistant")[0]["data"]["usage"]
    equal((usage["input"], usage["output"]), (11, 7))


def a_tool(home):
    events, said = home.run("How much is it?")
    equal(said, ["It is forty-two."])
    equal([row["content"] for row in rows(events, "tool")], ["42"])


def joined(home):
    """A message that is typed during the first answer is sent with the result of its call: two requests, not three."""
    home.type(("Model: ", "Take your time.\r"), ("* ", "In words, please.\r"), ("Forty-two.", ""))


def thinking(home):
    """With a thinking level, the model thinks before it calls a tool; its thoughts are sent back with the result."""
    events, said = home.run(f"/model {home.provider.model}/low", "Think about it", "How much is it?")
    equal(said[1:], ["Thought about.", "It is forty-two."])
    equal(texts(events, "thinking"), "First this, then that.A sum. There is a tool for it.")


def busy(home):
    events, said = home.run("Are you busy?")
    equal(said, ["Not any more."])
    notices = [event["text"] for event in events if event["event"] == "notice"]
    equal(notices, [f"Rate limit exceeded: {home.provider.name}. Retrying in 1 s (attempt 1 of at most 15)."])


def refused(home):
    _, [said] = home.run("Do what is wrong", code=1)
    assert "That is no request." in said, said


def broken_off(home):
    """Each answer breaks off: it is asked for again, and what came of the last one is stored and marked as partial."""
    events, [said] = home.run("Break off", code=1)
    assert "cut short" in said, said
    given_up = [place for place, event in enumerate(events) if event["event"] == "given_up"]
    equal(len(given_up), 4)
    [row] = rows(events, "assistant")
    equal(row["data"]["interrupted"], True)
    assert row["content"].startswith("Once upon a time") and not row["content"].endswith("the end."), row["content"]
    equal(texts(events[given_up[-1]:], "text"), row["content"])


def twelve_calls(home):
    """An answer with twelve calls: the results go back in the order of the calls."""
    events, said = home.run(f"/model {home.provider.model}/low", "Twelve at once")
    equal(said[1:], ["Twelve results."])
    equal([row["content"] for row in rows(events, "tool")], [str(n * n) for n in range(12)])


def reloaded(home):
    """The skills, and so the tools of a request, change in the middle of a conversation in which the model has thought."""
    home.run(f"/model {home.provider.model}/low", "Think about it", "How much is it?")
    skill = home.folder / "home/config/skills/greeting"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\ndescription: How to greet.\n---\nBow.\n")
    try:
        _, said = home.run("--session", home.session, "/reload_skills", "Think about it", "How much is it?")
    finally:
        (skill / "SKILL.md").unlink()
        skill.rmdir()
    assert "+ greeting" in said[0], said
    equal(said[1:], ["Thought about.", "It is forty-two."])


def cancelled(home):
    """A turn that is stopped while the arguments of a call arrive. The next request has no trace of that call."""
    home.run(f"/model {home.provider.model}/low", "--timeout", "10", "Cut me off", code=3)
    equal(home.run("--session", home.session, "Think about it")[1], ["Thought about."])


CASES = (several_turns, a_tool, joined, thinking, busy, refused, broken_off, twelve_calls, reloaded, cancelled)
# The number of requests of each case.
REQUESTS = {
    several_turns: 2, a_tool: 2, joined: 2, thinking: 3, busy: 2, refused: 1, broken_off: 5, twelve_calls: 2, reloaded: 6, cancelled: 2,
}


def run(report):
    if not PATCHBAY.exists():
        report.failed(f"{PATCHBAY} is not built; run: make build")
        return
    # The cases mostly wait, so the providers run side by side.
    with futures.ThreadPoolExecutor(len(PROVIDERS)) as pool:
        list(pool.map(lambda provider: run_provider(report, provider), PROVIDERS))


def run_provider(report, provider):
    # Its cache saves compiling the adapter each time.
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            run_case(report, provider, case, folder)


def run_case(report, provider, case, folder):
    """Runs a case with its own server, because aimock counts its answers."""
    with report.case(f"{provider.name} ({provider.word}): {case.__name__}"), aimock(answers(provider)) as behind, \
            tap(behind) as (origin, requests):
        try:
            case(Home(folder, provider, origin))
        finally:
            for request in requests:
                asking.check(provider.word, request, provider.model)
        equal(len(requests), REQUESTS[case])
