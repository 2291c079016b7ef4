"""An MCP client is told what changes, what is to be noted, and how far a call is, if it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, write

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
import mcp_types as types
from mcp import Client, MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ToolsListChanged

from mcp_client import LIMIT, in_session, session, structured
from mcp_client import LOADED as LOADED  # what commands begin with, see conftest
from memvault.mcp import calls

ECHO = "---\ndescription: x\ncommand: python3 tools/echo.py\n---\n"


class Heard:
    """What a client of an older protocol version was told unasked."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def __call__(self, message: Any) -> None:
        """Take a message down."""
        self.messages.append(message)

    async def until(self, found: Callable[[Any], bool]) -> Any:
        """Wait for a message, and return it."""
        async with asyncio.timeout(LIMIT):
            while True:
                for message in self.messages:
                    if found(message):
                        self.messages.remove(message)
                        return message
                await asyncio.sleep(0.02)

    async def of(self, kind: type) -> Any:
        """Wait for a message of a kind."""
        return await self.until(lambda message: isinstance(message, kind))


@pytest.mark.filterwarnings("ignore:resources.*is removed as of 2026-07-28")
def test_a_resource_that_was_subscribed_is_told_of(folder: Path) -> None:
    """A memory that is edited elsewhere, changed by a call or deleted is told of within seconds."""
    path = write(folder, "a.md", "---\nid: a-1\n---\n\n# A\n")
    write(folder, "b.md", "---\nid: b-1\n---\n\n# B\n")
    heard = Heard()

    async def talk(client: Client) -> None:
        async def told() -> str:
            return str((await heard.of(types.ResourceUpdatedNotification)).params.uri)

        await client.subscribe_resource("memvault://memory/a-1")
        path.write_text("---\nid: a-1\n---\n\n# A\n\nMore.\n")
        assert await told() == "memvault://memory/a-1"
        await structured(client, "memory_compound", query="a-1", modifications="Again.")
        assert await told() == "memvault://memory/a-1"
        path.unlink()
        assert await told() == "memvault://memory/a-1"
        await client.unsubscribe_resource("memvault://memory/a-1")
        write(folder, "a.md", "---\nid: a-1\n---\n\n# A\n")
        await client.list_resources()
        await structured(client, "memory_list")
        assert not any(
            isinstance(entry, types.ResourceUpdatedNotification) for entry in heard.messages
        )
        with pytest.raises(MCPError):
            await client.subscribe_resource("memvault://memory/nothing")

    session(folder, talk, mode="legacy", message_handler=heard)


def test_lists_that_were_read_are_told_of(folder: Path, run: Run) -> None:
    """New memories and newly trusted tools are told of after a call; unread lists are not."""
    write(folder, "tools/echo.py", "print()")
    write(folder, "tools/echo.md", ECHO)
    heard = Heard()

    async def talk(client: Client) -> None:
        await structured(client, "memory_save", text="One")
        await client.list_resources()
        await structured(client, "memory_save", text="Two")
        await heard.of(types.ResourceListChangedNotification)
        assert not heard.messages
        await client.list_tools()
        assert run("tools", "trust", "echo", "--yes").code == 0
        await structured(client, "memory_list")
        await heard.of(types.ToolListChangedNotification)
        assert "echo" in [tool.name for tool in (await client.list_tools()).tools]

    session(folder, talk, mode="legacy", message_handler=heard)


@in_session()
async def test_a_stream_of_changes_holds_what_was_asked_for(
    client: Client, folder: Path, run: Run
) -> None:
    """A client of the newest protocol hears of lists, of a type and of a memory, and no other."""
    write(folder, "fact/a.md", "---\nid: a-1\n---\n\n# A\n")
    write(folder, "tools/echo.py", "print()")
    write(folder, "tools/echo.md", ECHO)
    wanted = ["memvault://memory/a-1", "memvault://type/fact"]
    async with (
        asyncio.timeout(40),
        client.listen(
            tools_list_changed=True, resources_list_changed=True, resource_subscriptions=wanted
        ) as told,
    ):
        events = aiter(told)
        write(folder, "fact/a.md", "---\nid: a-1\n---\n\n# A\n\nMore.\n")
        assert await anext(events) == ResourceUpdated("memvault://memory/a-1")
        write(folder, "fact/b.md", "---\nid: b-1\n---\n\n# B\n")
        found = {await anext(events), await anext(events)}
        assert found == {ResourceUpdated("memvault://type/fact"), ResourcesListChanged()}
        assert run("tools", "trust", "echo", "--yes").code == 0
        assert await anext(events) == ToolsListChanged()


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
def test_notes_are_log_messages_for_who_asked(folder: Path) -> None:
    """From the level that a client sets on it is told each note, and by default nothing."""
    write(folder, "memvault.toml", "version = 1\nsong = 1\n")
    heard: list[tuple[str, str]] = []

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        heard.append((params.level, params.data["message"]))

    async def talk(client: Client) -> None:
        await structured(client, "memory_list")
        assert heard == []
        await client.set_logging_level("warning")
        await structured(client, "memory_list")
        ((level, message),) = heard
        assert (level, "unknown setting 'song'" in message) == ("warning", True)
        await client.set_logging_level("debug")
        await structured(client, "memory_list")
        assert [level for level, _ in heard] == ["warning", "warning", "debug"]
        await client.set_logging_level("error")
        await structured(client, "memory_list")
        assert len(heard) == 3

    session(folder, talk, mode="legacy", logging_callback=logged)


def test_a_client_of_the_newest_protocol_asks_with_each_request(folder: Path) -> None:
    """It is sent the log messages of the level that a request names, before the answer."""
    write(folder, "memvault.toml", "version = 1\nsong = 1\n")
    heard: list[str] = []

    async def logged(params: types.LoggingMessageNotificationParams) -> None:
        heard.append(params.level)

    async def talk(client: Client) -> None:
        await structured(client, "memory_list")
        assert heard == ["warning"]

    session(folder, talk, logging_callback=logged, log_level="info")


@in_session()
async def test_how_far_indexing_is_is_told(client: Client, folder: Path) -> None:
    """A call that has many memories to index says how many of them are done, and never less."""
    words = ["zebra", "bridge", "song", "lamp", "river"]
    for number in range(1500):
        text = " ".join(f"{word} {number} of {word}s." for word in words * 8)
        write(folder, f"n{number}.md", f"# Note {number}\n\n{text}\n")
    told: list[tuple[float, float | None, str | None]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    await client.call_tool("memory_recall", {"query": "zebra"}, progress_callback=heard)
    assert told
    steps = [done for done, _, _ in told]
    assert steps == sorted(set(steps))
    assert any("of 1,500" in (message or "") for _, _, message in told)


def test_a_call_that_waits_is_said_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a tool says nothing, its client still hears that it is at work."""
    monkeypatch.setattr(calls, "SILENCE", 0.3)
    told: list[tuple[float, float | None, str]] = []

    async def heard(done: float, total: float | None, message: str) -> None:
        told.append((done, total, message))

    async def work() -> None:
        steps = calls.ProgressTracker()
        telling = asyncio.create_task(steps.tell(heard))

        async def hears(said: str) -> None:
            async with asyncio.timeout(LIMIT):
                while not any(message.startswith(said) for _, _, message in told):
                    await asyncio.sleep(0.02)

        await hears("At work for ")
        steps.note("indexing", 5, 10)
        await hears("Indexing: 5 of 10")
        steps.note("embedding", 1, 10)
        await hears("Embedding: 1 of 10")
        telling.cancel()

    asyncio.run(work())
    steps = [done for done, _, _ in told]
    assert steps == sorted(set(steps))
    assert told[0][1] is None
    assert told[0][2].startswith("At work for ")
    assert all(total is None or total >= done for done, total, _ in told)
