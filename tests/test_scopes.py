"""What a served caller may not see changes nothing of what it gets: no count, score or error."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from conftest import contents, write
from copies import Copy
from memvault import open_vault
from memvault.call import Call, Caller, Scope
from memvault.errors import Refused
from memvault.settings import vaults
from memvault.tools.core import available, invoke
from memvault.tools.core.registry import Tool, all_tools
from memvault.vault import paths
from memvault.workspace import Workspace
from tool_calls import normal, soon

VALUE = "agents/bob/memories/k.md"
HIDDEN = [
    "agents/bob/goals/g.md",
    VALUE,
    paths.derived_id(VALUE),
    "secret:hidden-7k2m9q",
    "hidden-7k2m9q",
    "../secret/fact/hidden.md",
]
"""What may lead to something that is not the caller's."""
WORDS = ["'walrus' in content or 'narwhal' in content", "walrus narwhal"]
"""What finds it by its words."""
NAMING = frozenset(
    (
        "memId ids query filter task keys goalIds planIds factId uri supersedes filePath "
        "context observations memoryType tags vaults name old from spaceId"
    ).split()
)
SCOPES: tuple[Scope, ...] = ("read", "write")
ORDER = get_args(Scope)


class Side(NamedTuple):
    """One of two vaults that differ only in what the caller may not see."""

    root: Path
    config: Path
    canary: str
    change: str
    copy: Copy


def side(filled: Path, place: Path, canary: str, times: int, patch: pytest.MonkeyPatch) -> Side:
    """Copy a vault, and let another agent and another vault hold so much of a word."""
    root, config = place / "vault", place.with_name(f"{place.name}-config")
    shutil.copytree(filled, root)
    other = place / "secret"
    write(other, "memvault.toml", "version = 1\n")
    for number in range(times):
        head = f"---\nid: hidden-{number or '7k2m9q'}\n"
        write(other, f"fact/hidden{number or ''}.md", f"{head}tags: [{canary}]\n---\n\n{canary}\n")
    with open_vault(root, "bob") as bob:
        for number in range(times):
            text = f"{canary} {number}"
            bob.call("set_memories", memories=[{"key": "k", "value": text}])
            bob.call("set_goals", goals=[{"id": "g", "description": text}])
            bob.call(
                "set_plans",
                plans=[{"id": f"p{number}", "instruction": text, "scheduledAt": "2020-01-01"}],
            )
            bob.call("push_service", name="ci", message=text)
            bob.call("memory_load", memId="m1")
        bob.call("delete_goals", goalIds=["g"])
        changes = bob.call("memory_log")["changes"]
    patch.setenv("MEMVAULT_CONFIG", str(config))
    vaults.add_vault("secret", str(other))
    vaults.add_vault("team", str(root))
    vaults.set_default(["secret"])
    made = place.rename(place.with_name(f"{place.name}-made"))
    return Side(root, config, canary, changes[0]["changeId"], Copy(made, place))


@pytest.fixture
def sides(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Side]:
    """Two vaults that a caller cannot tell from each other."""
    return [
        side(filled, tmp_path / name, canary, times, monkeypatch)
        for name, canary, times in (("a", "walrus", 1), ("b", "narwhal", 4))
    ]


def tries(tool: Tool, own: Side) -> Iterator[dict[str, Any]]:
    """Yield arguments for a tool: as they should be, and such as lead elsewhere."""
    usual = soon(tool)
    yield usual
    texts = [entry for entry in tool.parameters if {str, list} & set(entry.types)]
    for hidden in [*HIDDEN, *(WORDS if tool.read_only else ())]:
        named = {entry.key: entry.types == (list,) for entry in texts if entry.key in NAMING}
        if named:
            yield {**usual, **{key: [hidden] if many else hidden for key, many in named.items()}}
    if "change" in {entry.key for entry in texts}:
        yield {"change": own.change}


def answers(own: Side, scope: Scope, tool: Tool, patch: pytest.MonkeyPatch) -> list[str]:
    """Call a tool in every way; return what a client with a scope is told."""
    from memvault.mcp import results as told

    patch.setenv("MEMVAULT_CONFIG", str(own.config))
    caller = Caller("ann", False, False, True, ("team",), scope)
    workspace = Workspace(own.root)
    found = []
    try:
        for arguments in tries(tool, own):
            result = invoke.call_result(workspace, tool.name, arguments, caller)
            shown = told.result(Call(workspace, caller), result).structured_content
            found.append(normal(own.root, shown).replace(own.change, "CHANGE"))
    finally:
        workspace.close()
    return found


@pytest.mark.parametrize("scope", SCOPES)
def test_what_is_hidden_changes_nothing(
    sides: list[Side], scope: Scope, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Whatever other agents and vaults hold, each tool answers a scope as if it were not there."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    for tool in all_tools():
        with subtests.test(tool=tool.name):
            for own in sides:
                own.copy.put_back()
            first, second = (answers(own, scope, tool, monkeypatch) for own in sides)
            assert first == second
            for text in first:
                for words in WORDS:  # what was asked for is told back
                    text = text.replace(words, "")
                assert not any(own.canary in text for own in sides), text


@pytest.mark.parametrize("scope", SCOPES)
def test_a_scope_runs_its_tools_and_no_other(filled: Path, scope: Scope) -> None:
    """A tool that needs more than the caller's scope is not listed, and refused in every way."""
    call = Call(Workspace(filled), Caller("ann", False, False, True, (), scope))
    listed = {tool.name for tool in available.builtin_tools(call.workspace, call.caller)}
    for tool in all_tools():
        if tool.group == available.WORLD:
            continue
        is_within = ORDER.index(tool.scope) <= ORDER.index(scope)
        assert (tool.name in listed) is is_within
        if not is_within:
            with pytest.raises(Refused, match="needs a caller"):
                available.find_tool(call.workspace, call.caller, tool.name)
            with pytest.raises(Refused, match="needs a caller"):
                invoke.call_nested(call, "call_tool", {"toolName": tool.name, "parameters": {}})
    call.workspace.close()


@pytest.mark.parametrize("scope", SCOPES)
def test_resources_and_completion_hide_it_too(
    sides: list[Side], scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses of what is hidden lead nowhere, and lists and completions do not hold it."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    import mcp_types as types
    from mcp.shared.exceptions import MCPError

    from memvault.mcp import resources

    found = []
    for own in sides:
        monkeypatch.setenv("MEMVAULT_CONFIG", str(own.config))
        caller = Caller("ann", False, False, True, ("team",), scope)
        workspace = Workspace(own.root)
        said = [str(resources.listed(Call(workspace, caller), None))]
        for name in [*HIDDEN, own.canary]:
            for start in (resources.MEMORY, resources.TYPE, resources.TAG):
                with pytest.raises(MCPError) as error:
                    resources.read(Call(workspace, caller), resources.uri_for(name, start))
                said.append(f"{error.value} {error.value.error.data}".replace(own.canary, "WORD"))
        for typed in (own.canary[:3], ""):
            params = types.CompleteRequestParams(
                ref=types.PromptReference(name="recall-first"),
                argument=types.CompletionArgument(name="tag", value=typed),
            )
            said.append(str(resources.complete(Call(workspace, caller), params)))
        found.append([normal(own.root, text) for text in said])
        workspace.close()
    assert found[0] == found[1]
    assert not any(own.canary in str(found) for own in sides)


def test_who_reads_leaves_every_file_as_it_was(
    sides: list[Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No tool that a reader may call changes a file of the vault."""
    own = sides[0]
    before = contents(own.root)
    for tool in all_tools():
        if tool.scope == "read":
            answers(own, "read", tool, monkeypatch)
            assert contents(own.root) == before, tool.name
