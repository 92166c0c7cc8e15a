"""Drives the binary with the official Python SDK."""

import asyncio
import contextlib
import json
import logging
import re

import acp
from acp import schema
from acp.ws import create_websocket_stream

from checks import equal
from home import PDF, PNG

SECONDS = 60

# The SDK logs `$/cancel_request`, which it does not know, with a traceback.
logging.disable(logging.CRITICAL)


class Client:
    """A client that keeps all updates, and answers questions as a test says."""

    def __init__(self):
        self.updates = {}
        self.questions = []
        # The kind of the option that is chosen, `cancelled`, an exception, or `None`: no answer.
        self.answer = "reject_once"
        self.came = asyncio.Event()

    async def session_update(self, session_id, update, **_):
        self.updates.setdefault(session_id, []).append(update)
        self.came.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.questions.append((tool_call, options))
        self.came.set()
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "cancelled":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        chosen = next(option for option in options if option.kind == self.answer)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def until(self, session, condition):
        """Waits until one of the updates of a session meets `condition`, and returns it."""
        async with asyncio.timeout(SECONDS):
            while True:
                for update in self.updates.get(session, []):
                    if condition(update):
                        return update
                self.came.clear()
                await self.came.wait()

    def take(self, session):
        """Returns the updates of a session since the last call."""
        return self.updates.pop(session, [])


def kind(update):
    return update.session_update


def text(updates, of="agent_message_chunk"):
    """Returns the joined text of the messages in `updates`."""
    return "".join(update.content.text for update in updates if kind(update) == of)


def is_commands(update):
    return kind(update) == "available_commands_update"


class Agent:
    """A connection to the binary."""

    def __init__(self, client, connection, home):
        self.client, self.connection, self.home = client, connection, home

    async def new(self):
        """Makes a session, and waits for its commands."""
        session = (await self.connection.new_session(cwd=str(self.home.workspace), mcp_servers=[])).session_id
        await self.client.until(session, is_commands)
        return session

    async def prompt(self, session, *blocks):
        """Sends a prompt. Returns the reason of its end and the updates."""
        self.client.take(session)
        blocks = [acp.text_block(block) if isinstance(block, str) else block for block in blocks]
        answer = await self.connection.prompt(session_id=session, prompt=blocks)
        return answer.stop_reason, self.client.take(session)

    async def say(self, session, *blocks):
        """Sends a prompt that ends as it should. Returns the text of the answer."""
        reason, updates = await self.prompt(session, *blocks)
        equal(reason, "end_turn")
        return text(updates)


class Recorded:
    """A transport whose messages are recorded as `wire.py` records lines."""

    def __init__(self, transport, path):
        self.transport, self.record = transport, open(path, "w")

    def write(self, receiver, message):
        print(json.dumps([receiver, json.dumps(message)]), file=self.record, flush=True)

    async def send(self, message):
        self.write("agent", message)
        await self.transport.send(message)

    async def receive(self):
        message = await self.transport.receive()
        if message is not None:
            self.write("client", message)
        return message

    async def close(self):
        await self.transport.close()


@contextlib.asynccontextmanager
async def connected(client, home, name):
    """Yields a connection to a server, or to a process of its own."""
    if websocket := home.websocket():
        url, headers = websocket
        transport = Recorded(await create_websocket_stream(url, headers=headers), home.folder / f"{name}.record")
        async with acp.connect_to_agent(client, transport) as connection:
            yield connection
        return
    async with acp.spawn_agent_process(
        client, *home.command(name), env=home.environment(), cwd=home.workspace,
        transport_kwargs={"limit": 64 << 20, "shutdown_timeout": 20},
    ) as (connection, process):
        yield connection
    equal(process.returncode, 0, "how the process ended")


@contextlib.asynccontextmanager
async def agent(home, name="python", **capabilities):
    client = Client()
    async with connected(client, home, name) as connection:
        answer = await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(**capabilities),
            client_info=schema.Implementation(name="interop", version="1"),
        )
        equal((answer.protocol_version, answer.agent_info.name), (1, "patchbay"))
        agent = Agent(client, connection, home)
        agent.answer = answer
        yield agent


async def capabilities(home):
    async with agent(home) as patchbay:
        able = patchbay.answer.agent_capabilities
        equal(able.load_session, True)
        for name in ("list", "resume", "close", "delete"):
            assert getattr(able.session_capabilities, name) is not None, name
        prompts = able.prompt_capabilities
        equal((prompts.image, prompts.audio, prompts.embedded_context), (True, True, True))


async def message(home):
    async with agent(home) as patchbay:
        session = await patchbay.new()
        equal(await patchbay.say(session, "say Good day."), "Good day.")
        equal(await patchbay.say(session, " /not a command"), "You said: /not a command")


async def thoughts(home):
    async with agent(home) as patchbay:
        session = await patchbay.new()
        await patchbay.say(session, "/model demo-1/low")
        reason, updates = await patchbay.prompt(session, "say Thought about.")
        equal((reason, text(updates)), ("end_turn", "Thought about."))
        assert text(updates, "agent_thought_chunk").startswith("Thinking at level low"), updates


async def command(home):
    """A command with an alias, a built-in, and one that does not exist. The model sees none of them."""
    async with agent(home) as patchbay:
        session = await patchbay.new()
        equal((await patchbay.say(session, "/calc 2^100")).strip(), str(2**100))
        skills = await patchbay.say(session, "/skills")
        assert "calc - " in skills, skills
        equal(await patchbay.say(session, "/nothing at all"), "Error: unknown command '/nothing'.")
        equal(await patchbay.say(session, "/"), "Error: command name is required after '/'.")
        equal(await patchbay.say(session, "\n", "/skill calc 6*7"), "42")
        shown = await patchbay.say(session, "show context")
        assert "messages: 1\n" in shown, shown


async def commands(home):
    """What takes text has a hint; what only steers a terminal is not there."""
    async with agent(home) as patchbay:
        session = await patchbay.new()
        [update] = [update for update in patchbay.client.updates[session] if is_commands(update)]
        listed = {command.name: command for command in update.available_commands}
        assert all(command.description for command in listed.values()), listed
        assert {"skills", "help", "calc", "model", "reload_skills"} <= listed.keys(), sorted(listed)
        assert not {"quit"} & listed.keys(), sorted(listed)
        takes = {name for name, command in listed.items() if command.input}
        assert {"help", "calc", "model", "mail-send"} <= takes and not takes & {"skills", "commands", "agents"}, sorted(takes)
        assert all(listed[name].input.root.hint for name in takes), listed


async def attachments(home):
    async with agent(home) as patchbay:
        session = await patchbay.new()
        blocks = [
            acp.image_block(PNG, "image/png"),
            "show context",
            acp.resource_block(acp.embedded_text_resource("file:///notes.txt", "Remember the milk.", mime_type="text/plain")),
        ]
        shown = await patchbay.say(session, *blocks)
        assert "image/png(" in shown, shown
        (home.workspace / "linked.txt").write_text("linked text")
        link = acp.resource_link_block("linked.txt", (home.workspace / "linked.txt").as_uri(), mime_type="text/plain")
        shown = await patchbay.say(session, link, "show context")
        assert "linked.txt" in shown or "text(" in shown, shown
        image, sound = acp.image_block(PNG, "image/png"), acp.audio_block("UklGRnh4eHhXQVZF", "audio/wav")
        pdf = acp.resource_block(acp.embedded_blob_resource("file:///a.pdf", PDF, mime_type="application/pdf"))
        equal((await patchbay.say(session, image, "/calc 6*7", sound, pdf, "more")).strip(), "42")
        refused = await patchbay.say(session, "look", pdf)
        assert refused.startswith("Error: model 'demo-1' is not known to read application/pdf (/a.pdf)"), refused
        shown = await patchbay.say(session, "/skills", image)
        assert shown.startswith("/skills does not accept attachments; 'image' was not used.") and "calc - " in shown, shown
        equal(await patchbay.say(await patchbay.new(), image), "You said nothing.")


async def options(home):
    """Model, thinking level and persona are menus of the client, in both directions."""

    def current(options):
        return [option.current_value for option in options]

    home.persona("pirate", "You are a pirate.")
    async with agent(home) as patchbay:
        opened = await patchbay.connection.new_session(cwd=str(home.workspace), mcp_servers=[])
        session, connection = opened.session_id, patchbay.connection
        await patchbay.client.until(session, is_commands)
        equal([(option.id, option.category) for option in opened.config_options],
              # The SDK knows no category of one's own.
              [("model", "model"), ("thought_level", "thought_level"), ("mode", "mode"), ("permissions", None)])
        equal(current(opened.config_options), ["demo:demo-1", "default", "default", "ask"])
        set = await connection.set_config_option(config_id="model", session_id=session, value="demo:demo-big")
        equal(current(set.config_options), ["demo:demo-big", "default", "default", "ask"])
        set = await connection.set_config_option(config_id="mode", session_id=session, value="pirate")
        equal(current(set.config_options), ["demo:demo-big", "default", "pirate", "ask"])
        shown = await patchbay.say(session, "show context")
        assert "model: demo-big\n" in shown and "You are a pirate." in shown, shown
        _, updates = await patchbay.prompt(session, "/model demo-1/high")
        [announced] = [update for update in updates if kind(update) == "config_option_update"]
        equal(current(announced.config_options), ["demo:demo-1", "high", "pirate", "ask"])
        data = await refused(-32602, connection.set_config_option(config_id="mode", session_id=session, value="none"))
        equal(data["code"], "persona_not_found")


async def reload(home):
    """Only the session that is reloaded has the new command."""
    async with agent(home) as patchbay:
        one, other = await patchbay.new(), await patchbay.new()
        home.skill("greet", "summary: Greets\ncommand: greet\ninput_hint: a name\ninvocation_mode: llm_orchestration")
        reason, updates = await patchbay.prompt(one, "/reload_skills")
        equal(reason, "end_turn")
        assert "+ greet" in text(updates), text(updates)
        patchbay.client.updates.setdefault(one, []).extend(updates)
        is_new = lambda update: is_commands(update) and any(one.name == "greet" for one in update.available_commands)
        update = await patchbay.client.until(one, is_new)
        [greet] = [command for command in update.available_commands if command.name == "greet"]
        equal((greet.description, greet.input.root.hint), ("Greets", "a name"))
        assert "unknown command" not in await patchbay.say(one, "/greet Ada")
        equal(await patchbay.say(other, "/greet Ada"), "Error: unknown command '/greet'.")
        updates = patchbay.client.take(other)
        assert not any(is_commands(update) for update in updates), updates
        # The same skills again: nothing is sent.
        patchbay.client.take(one)
        _, updates = await patchbay.prompt(one, "/reload_skills")
        await patchbay.say(one, "/skills")
        assert not any(map(is_commands, updates + patchbay.client.take(one))), updates


async def cancel(home):
    home.set_delay(20)
    async with agent(home) as patchbay:
        session = await patchbay.new()
        prompt = asyncio.create_task(patchbay.prompt(session, "repeat 3000 word"))
        await asyncio.sleep(0)
        await patchbay.client.until(session, lambda update: kind(update) == "agent_message_chunk")
        began = asyncio.get_running_loop().time()
        await patchbay.connection.cancel(session_id=session)
        reason, updates = await prompt
        took = asyncio.get_running_loop().time() - began
        equal(reason, "cancelled")
        assert took < 30, f"it took {took} s"
        words = len(text(updates).split())
        assert 0 < words < 3000, words
        # Without a prompt, cancelling does nothing.
        await patchbay.connection.cancel(session_id=session)
        equal(await patchbay.say(session, "/skill calc 1+1"), "2")
        equal(await patchbay.say(session, "say Still here."), "Still here.")


WRITE = 'call files__write {"path": "made.txt", "text": "made"}'


async def permission(home):
    """Granted once, refused, cancelled and answered with an error: each answer holds for one call, and the turn goes on."""
    # Where others may answer, they leave the question open.
    unclear = [] if home.shared else ["cancelled", acp.RequestError.internal_error()]
    async with agent(home) as patchbay:
        session, client, made = await patchbay.new(), patchbay.client, home.workspace / "made.txt"
        for number, answer in enumerate(["reject_once", *unclear, "allow_once"], 1):
            client.answer = answer
            reason, updates = await patchbay.prompt(session, WRITE)
            equal((reason, len(client.questions)), ("end_turn", number))
            call, options = client.questions[-1]
            kinds = [option.kind for option in options]
            assert {"allow_once", "reject_once"} <= set(kinds), kinds
            allowed = answer == "allow_once"
            equal(made.exists(), allowed, str(answer))
            states = [update.status for update in updates if kind(update).startswith("tool_call") and update.status]
            equal(states[-1], "completed" if allowed else "failed")
            ids = {update.tool_call_id for update in updates if kind(update).startswith("tool_call")}
            equal(ids, {call.tool_call_id}, "a question about another tool call")
        equal(made.read_text(), "made")


async def always(home):
    """Always is a grant, which outlives the process."""
    async with agent(home, "first") as patchbay:
        session = await patchbay.new()
        patchbay.client.answer = "allow_always"
        await patchbay.prompt(session, WRITE)
        [(_, options)] = patchbay.client.questions
        assert any("workspace-write" in option.name for option in options) or "workspace-write" in str(
            patchbay.client.questions
        ), options
    (home.workspace / "made.txt").unlink()
    async with agent(home, "second") as patchbay:
        session = await patchbay.new()
        await patchbay.prompt(session, WRITE)
        equal((patchbay.client.questions, (home.workspace / "made.txt").exists()), ([], True))


async def edit(home):
    """An edit shows its place and the difference."""
    (home.workspace / "text.txt").write_text("one\ntwo\n")
    async with agent(home) as patchbay:
        session = await patchbay.new()
        patchbay.client.answer = "allow_once"
        _, updates = await patchbay.prompt(
            session, 'call files__edit {"path": "text.txt", "old": "two", "new": "three"}\nthen say Done.'
        )
        equal(text(updates), "Done.")
        calls = [update for update in updates if kind(update).startswith("tool_call")]
        equal((calls[0].kind, [update.status for update in calls if update.status][-1]), ("edit", "completed"))
        assert any(place.path == str(home.workspace / "text.txt") for call in calls for place in call.locations or []), calls
        [diff] = [part for call in calls for part in call.content or [] if part.type == "diff"][-1:]
        equal((diff.path, diff.old_text, diff.new_text), (str(home.workspace / "text.txt"), "two", "three"))


async def load(home):
    """A session is loaded by another process: the conversation is replayed, then the request is answered."""
    async with agent(home, "first") as patchbay:
        session = await patchbay.new()
        await patchbay.say(session, "say One.")
        await patchbay.prompt(session, 'call calc__eval {"expression": "6*7"}\nthen say Two.')
    async with agent(home, "second") as patchbay:
        listed = (await patchbay.connection.list_sessions(cwd=str(home.workspace))).sessions
        equal([one.session_id for one in listed], [session])
        await patchbay.connection.load_session(cwd=str(home.workspace), session_id=session, mcp_servers=[])
        replayed = list(patchbay.client.updates[session])
        said = text(replayed, "user_message_chunk")
        assert said.startswith("say One.") and "calc__eval" in said, said
        equal(text(replayed), "One.Two.")
        calls = [update for update in replayed if kind(update).startswith("tool_call")]
        equal([update.status for update in calls if update.status][-1], "completed")
        await patchbay.client.until(session, is_commands)
        shown = await patchbay.say(session, "show context")
        assert "messages: 7\n" in shown or "messages: 6\n" in shown, shown
    async with agent(home, "third") as patchbay:
        await patchbay.connection.resume_session(cwd=str(home.workspace), session_id=session)
        await patchbay.client.until(session, is_commands)
        equal([kind(update) for update in patchbay.client.take(session) if kind(update).endswith("_chunk")], [])
        await patchbay.connection.close_session(session_id=session)
        await refused(-32002, patchbay.connection.prompt(session_id=session, prompt=[acp.text_block("say No.")]))


async def refused(code, request):
    """Asserts that the agent answers `request` with an error. Returns its data."""
    try:
        answer = await request
    except acp.RequestError as error:
        equal(error.code, code, str(error))
        return error.data
    raise AssertionError(f"it is answered: {answer}")


async def in_use(home):
    """One process at a time has a session."""
    async with agent(home, "first") as first, agent(home, "second") as second:
        session = await first.new()
        data = await refused(-32603, second.connection.load_session(cwd=str(home.workspace), session_id=session, mcp_servers=[]))
        equal(data["code"], "session_in_use")
        await first.connection.close_session(session_id=session)
        await second.connection.load_session(cwd=str(home.workspace), session_id=session, mcp_servers=[])
        await second.client.until(session, is_commands)


async def many(home):
    """Twenty sessions at once, each with its own answers."""
    async with agent(home) as patchbay:
        sessions = await asyncio.gather(*(patchbay.new() for _ in range(20)))
        equal(len(set(sessions)), 20)

        async def talk(number, session):
            for turn in range(3):
                equal(await patchbay.say(session, f"say Session {number}, turn {turn}."), f"Session {number}, turn {turn}.")
                equal((await patchbay.say(session, f"/calc {number}*1000+{turn}")).strip(), str(number * 1000 + turn))

        await asyncio.gather(*(talk(number, session) for number, session in enumerate(sessions)))


async def errors(home):
    async with agent(home) as patchbay:
        await refused(-32601, patchbay.connection.ext_method("nothing", {}))
        await refused(-32602, patchbay.connection.new_session(cwd="relative", mcp_servers=[]))
        missing = "00000000-0000-7000-8000-000000000000"
        prompt = patchbay.connection.prompt(session_id=missing, prompt=[acp.text_block("say No.")])
        await refused(-32002, prompt)
        await refused(-32002, patchbay.connection.load_session(cwd=str(home.workspace), session_id=missing, mcp_servers=[]))


async def sub_agents(home):
    """A prompt stays open until the agents that it began are idle, and shows each as a tool call."""
    async with agent(home) as patchbay:
        session = await patchbay.new()
        lines = ['call fork {"prompt": "pause 3000\\nsay The child\'s answer."}', "then say Forked.", "on mail say Told."]
        reason, updates = await patchbay.prompt(session, "\n".join(lines))
        equal(reason, "end_turn")
        assert "The child's answer." not in text(updates), text(updates)
        assert text(updates).startswith("Forked."), text(updates)
        assert "Told." in text(updates), text(updates)
        calls = [update for update in updates if kind(update).startswith("tool_call")]
        [card] = [call for call in calls if kind(call) == "tool_call" and re.fullmatch("[0-9a-f]{8}", call.title)]
        states = [call for call in calls if call.tool_call_id == card.tool_call_id]
        equal((states[0].status, states[-1].status), ("in_progress", "completed"))
        assert "The child's answer." in str(states[-1].content), states


async def shared(home):
    """Both clients of a session see its answers and its questions, and the first answer counts."""
    async with agent(home, "first") as first, agent(home, "second") as second:
        session = await first.new()
        await second.connection.load_session(cwd=str(home.workspace), session_id=session, mcp_servers=[])
        await second.client.until(session, is_commands)
        second.client.take(session)
        equal(await first.say(session, "say One."), "One.")
        await second.client.until(session, lambda update: kind(update) == "agent_message_chunk")
        equal(text(second.client.take(session), "user_message_chunk"), "say One.")
        first.client.answer, second.client.answer = None, "allow_once"
        reason, updates = await first.prompt(session, WRITE)
        equal((reason, (home.workspace / "made.txt").read_text()), ("end_turn", "made"))
        [shown], [also] = first.client.questions, second.client.questions
        equal((shown[0].title, shown[1]), (also[0].title, also[1]))
        states = [update.status for update in updates if kind(update).startswith("tool_call") and update.status]
        equal(states[-1], "completed")


CASES = (
    capabilities, message, thoughts, command, commands, attachments, options, reload, cancel, permission, always, edit, load, in_use,
    many, errors, sub_agents,
)


# One process at a time has a session; a server's clients share it.
SERVED = (*(case for case in CASES if case is not in_use), shared)
# The workspace is another folder than the editor's.
BRIDGED = (capabilities, message, commands, options, cancel, load, many, errors, sub_agents)


def run(case, home):
    async def limited():
        async with asyncio.timeout(SECONDS * 2):
            await case(home)

    asyncio.run(limited())
