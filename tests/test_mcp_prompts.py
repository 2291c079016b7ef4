"""An MCP client gets prompts to ask with, lists to read, and its words completed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import write

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
from mcp import Client, MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from mcp_client import in_session, session
from memvault.tools.core import registry


@pytest.fixture
def kept(folder: Path) -> Path:
    """A vault with memories of two types, with tags."""
    for number in range(3):
        header = f"id: owl-{number}\nmemory_type: learning\ntags: [bird, night]"
        write(folder, f"owl{number}.md", f"---\n{header}\n---\n\n# Owl {number}\n")
    write(folder, "fact/crow.md", "---\nid: crow-x\ntags: [bird]\n---\n\n# Black bird\n")
    return folder


async def text_of(client: Client, name: str, **arguments: str) -> str:
    """Return what a prompt says."""
    answer = await client.get_prompt(name, arguments)
    (message,) = answer.messages
    assert message.role == "user"
    return message.content.text  # type: ignore[union-attr]


@in_session()
async def test_prompts_are_listed_and_written_out(client: Client, folder: Path) -> None:
    """Each prompt says what it is for, and holds what it was given and only existing tools."""
    found = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
    assert set(found) == {"historian", "recall-first", "wrap-up"}
    for name, prompt in found.items():
        assert prompt.title
        assert prompt.description
        given = {part.name: f"<{part.name}>" for part in prompt.arguments or []}
        text = await text_of(client, name, **given)
        for value in given.values():
            assert value in text
        called = [word.strip(".,;") for word in text.split() if word.startswith("memory_")]
        assert called
        assert all(registry.lookup(word) for word in called)


@in_session()
async def test_what_a_prompt_is_not_given_is_left_out(client: Client, folder: Path) -> None:
    """A line about an argument that is missing or empty is not there."""
    text = await text_of(client, "recall-first", task="mend the roof", tag=" ")
    assert "mend the roof" in text
    assert "{" not in text
    assert "tag" not in text
    assert "It was about" not in await text_of(client, "wrap-up")


@in_session()
async def test_a_prompt_that_cannot_be_written_is_refused(client: Client, folder: Path) -> None:
    """An unknown prompt, a missing argument and an unknown one are each told by name."""
    wrong: list[tuple[str, dict[str, str], str]] = [
        ("sing", {}, "There is no prompt 'sing'"),
        ("recall-first", {}, "needs task"),
        ("recall-first", {"task": "x", "song": "y"}, "takes no 'song'"),
    ]
    for name, arguments, message in wrong:
        with pytest.raises(MCPError, match=message) as raised:
            await client.get_prompt(name, arguments)
        assert raised.value.code == -32602


def test_arguments_are_completed_from_the_vault(kept: Path) -> None:
    """Types, tags and memIds are completed, those that begin so first, by a title's words too."""
    memory = ResourceTemplateReference(uri="memvault://memory/{memId}")
    kind = ResourceTemplateReference(uri="memvault://type/{memoryType}")
    tag = ResourceTemplateReference(uri="memvault://tag/{tag}")
    prompt = PromptReference(name="recall-first")
    asked: list[tuple[Any, str, str, list[str]]] = [
        (memory, "memId", "owl-1", ["owl-1"]),
        (memory, "memId", "black", ["crow-x"]),
        (PromptReference(name="historian"), "memId", "CROW", ["crow-x"]),
        (kind, "memoryType", "lear", ["learning"]),
        (tag, "tag", "", ["bird", "night"]),
        (prompt, "tag", "ig", ["night"]),
        (prompt, "task", "anything", []),
    ]

    async def talk(client: Client) -> None:
        for ref, name, value, wanted in asked:
            found = (await client.complete(ref, {"name": name, "value": value})).completion
            assert found.values == wanted, (name, value)
            assert found.total == len(wanted)
        types = (
            await client.complete(prompt, {"name": "memoryType", "value": "decision"})
        ).completion
        assert types.values == ["architectural-decision", "design-decision"]
        for ref in (PromptReference(name="sing"), ResourceTemplateReference(uri="x://{tag}")):
            with pytest.raises(MCPError, match="no argument"):
                await client.complete(ref, {"name": "tag", "value": ""})

    session(kept, talk)


@in_session()
async def test_many_values_are_cut_and_counted(client: Client, folder: Path) -> None:
    """A completion holds a hundred values at most, and says how many there are."""
    for number in range(120):
        write(folder, f"n{number}.md", f"---\nid: m{number}\n---\n\n# Note {number}\n")
    ref = ResourceTemplateReference(uri="memvault://memory/{memId}")
    found = (await client.complete(ref, {"name": "memId", "value": "m"})).completion
    assert (len(found.values), found.total, found.has_more) == (100, 120, True)


def test_a_type_and_a_tag_are_lists_to_read(kept: Path) -> None:
    """The address of a type or a tag gives links to its memories, each of which can be read."""

    async def read(client: Client, uri: str) -> str:
        return (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]

    async def talk(client: Client) -> None:
        found = (await client.list_resource_templates()).resource_templates
        assert [entry.uri_template for entry in found] == [
            "memvault://memory/{memId}",
            "memvault://type/{memoryType}",
            "memvault://tag/{tag}",
        ]
        assert "- [Owl 1](memvault://memory/owl-1)\n" in await read(
            client, "memvault://type/learning"
        )
        assert (await read(client, "memvault://tag/bird")).count("\n") == 4
        for uri in ("memvault://type/song", "memvault://tag/", "memvault://other/x"):
            with pytest.raises(MCPError) as raised:
                await client.read_resource(uri)
            assert raised.value.code == -32602

    session(kept, talk)


@in_session()
async def test_a_list_tells_no_secret(client: Client, folder: Path) -> None:
    """What stands in for a secret is a mask in a list and in a completion too."""
    secret = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"[:36]
    write(folder, "a.md", f"---\nid: a\ntags: [x, {secret}]\n---\n\n# The key {secret}\n")
    read = await client.read_resource("memvault://tag/x")
    assert secret not in str(read)
    ref = ResourceTemplateReference(uri="memvault://tag/{tag}")
    found = await client.complete(ref, {"name": "tag", "value": ""})
    assert found.completion.values == ["x"]
