"""An MCP client is offered the tools that were chosen for it, at a price that is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Run, refused, write
from memvault.command_table import GROUPS
from memvault.mcp import profiles

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
from mcp import Client, MCPError

from mcp_client import LOADED as LOADED  # what commands begin with, see conftest
from mcp_client import in_session, session, structured

CORE = profiles.profiles()["core"].tools


async def names(client: Client) -> list[str]:
    """Return the names of the tools that a server lists."""
    return [tool.name for tool in (await client.list_tools()).tools]


def offered(folder: Path, tools: str = "", *options: str) -> list[str]:
    """Return what a server offers that is started with some tools, or none named."""
    found: list[str] = []

    async def talk(client: Client) -> None:
        found.extend(await names(client))

    session(folder, talk, *options, tools=tools)
    return found


def test_the_core_is_about_ten_tools_under_1800_tokens() -> None:
    """What a model reads before it does anything stays small."""
    found = {entry["name"]: entry for entry in profiles.table()["profiles"]}
    assert 8 <= found["core"]["count"] <= 12
    assert found["core"]["tokens"] < 1_800
    assert {"memory_recall", "memory_remember", "context"} < {*found["core"]["tools"]}


def test_each_group_is_a_profile_and_all_is_every_tool(run: Run) -> None:
    """The list of profiles names every group of tools, with its tools and its price."""
    found = {
        entry["name"]: entry for entry in run("mcp", "--list-profiles", "--json").json["profiles"]
    }
    assert list(found) == ["core", *GROUPS, "all"]
    listed = [tool for group in GROUPS for tool in found[group]["tools"]]
    assert sorted(listed) == sorted(found["all"]["tools"])
    assert found["all"]["tokens"] > found["core"]["tokens"] > 0
    shown = run("mcp", "--list-profiles").out
    assert f"{found['talk']['tokens']} tokens" in shown


def test_without_a_choice_the_core_is_offered(folder: Path) -> None:
    """A server that is told nothing offers what recalling and writing memories takes."""
    assert sorted(offered(folder)) == sorted(CORE)


def test_profiles_and_tools_are_combined(folder: Path) -> None:
    """A list may name profiles, tools and commands; each tool is listed once."""
    found = offered(folder, "long-term,status, memory_save,Core")
    assert sorted(found) == sorted([*CORE, "memory_save", "memory_delete", "vault_status"])


def test_what_the_core_does_not_tell_of_is_taken(folder: Path) -> None:
    """An argument that the core leaves out works, and is told of in the group's own profile."""
    write(folder, "a.md", "# A\n\nThe zebra sleeps.\n")

    async def told(client: Client) -> bool:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        return "explain" in tools["memory_recall"].input_schema["properties"]

    async def core(client: Client) -> None:
        assert not await told(client)
        found = await structured(client, "memory_recall", query="zebra", explain=True)
        assert found["memories"][0]["why"]

    async def group(client: Client) -> None:
        assert await told(client)

    session(folder, core, tools="core")
    session(folder, group, tools="core,historian")


@in_session(tools="core")
async def test_a_tool_that_is_not_offered_is_refused_with_its_profile(
    client: Client, folder: Path
) -> None:
    """A tool outside the choice is unknown by any spelling, and the hint says how to get it."""
    for name in ("talk_user", "Talk-User"):
        with pytest.raises(MCPError, match="The tool talk_user is not offered") as raised:
            await client.call_tool(name, {"message": "x"})
        assert raised.value.data == {"hint": "memvault mcp --tools core,talk offers it"}
    assert (await structured(client, "recall", query="x"))["success"]


@in_session(tools="status")
async def test_a_trusted_tool_of_the_vault_is_always_offered(
    client: Client, folder: Path, run: Run
) -> None:
    """What the user trusts is there, whatever else was chosen."""
    write(folder, "tools/echo.py", "print('{\"a\": 1}')")
    write(folder, "tools/echo.md", "---\ndescription: x\ncommand: python3 tools/echo.py\n---\n")
    assert run("tools", "trust", "echo", "--yes").code == 0
    assert await names(client) == ["vault_status", "echo"]
    assert (await structured(client, "echo"))["a"] == 1


def test_the_settings_choose_and_the_command_line_wins(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's settings hold for vaults that say nothing, the vault's come before them."""
    monkeypatch.setenv("MEMVAULT_CONFIG", str(tmp_path / "config"))
    write(tmp_path, "config/settings.toml", '[mcp]\ntools = "git"\n').chmod(0o600)
    assert "git_sync" in offered(folder)
    write(folder, "memvault.toml", 'version = 1\n[mcp]\ntools = "skills"\n')
    assert "list_skills" in offered(folder)
    assert "git_sync" not in offered(folder)
    assert offered(folder, "active") == ["memory_active"]


@in_session(tools="")
async def test_a_name_that_is_neither_is_said(client: Client, folder: Path, run: Run) -> None:
    """A misspelt profile ends the server at once; in memvault.toml it is said until mended."""
    assert "profile or tool 'historien'" in refused(run("mcp", "--tools", "core,historien"), 2)
    assert "did you mean historian?" in run("mcp", "--tools", "core,historien").err
    assert "No tools are named" in refused(run("mcp", "--tools", ","), 2)
    write(folder, "memvault.toml", 'version = 1\n[mcp]\ntools = "braim"\n')
    with pytest.raises(MCPError, match="'braim'") as raised:
        await client.list_tools()
    assert "brain" in str(raised.value.data)
    write(folder, "memvault.toml", "version = 1\n")
    assert sorted(await names(client)) == sorted(CORE)
