"""A served caller's answers contain only visible data, and use few tokens."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT, Run, sampled, some_of, write
from copies import Copy
from memvault import Vault, named_vaults, open_vault, sanitize
from memvault.call import LOCAL, Call, Caller, Scope
from memvault.errors import Refused
from memvault.index.embedding import tokenizer
from memvault.recall.one_line import split_budget
from memvault.tools.core import available, invoke
from memvault.tools.core.invoke import call_result
from memvault.tools.core.registry import Tool, all_tools
from memvault.vault import naming
from memvault.vault.document import encode_new
from memvault.workspace import Workspace
from tool_calls import normal, soon

VALUE = "agents/bob/memories/k.md"
HIDDEN = [
    "agents/bob/goals/g.md",
    VALUE,
    naming.derived_id(VALUE),
    "secret:hidden-7k2m9q",
    "hidden-7k2m9q",
    "../secret/fact/hidden.md",
]
"""Arguments that may refer to a memory outside the caller's scope."""
WORDS = ["'walrus' in content or 'narwhal' in content", "walrus narwhal"]
"""Searches that would find the memory by its words."""
NAMING = frozenset(
    (
        "memId ids query filter task keys goalIds planIds factId uri supersedes filePath "
        "context observations memoryType tags vaults name old from spaceId"
    ).split()
)
SCOPES: tuple[Scope, ...] = ("read", "write")
ORDER = get_args(Scope)


class Side(NamedTuple):
    """One of two vaults that differ only in data hidden from the caller."""

    root: Path
    config: Path
    canary: str
    change: str
    copy: Copy


def side(filled: Path, place: Path, canary: str, times: int, patch: pytest.MonkeyPatch) -> Side:
    """Copy a vault, and add another agent's and another vault's hidden data."""
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
    named_vaults.add_vault("secret", str(other))
    named_vaults.add_vault("team", str(root))
    named_vaults.set_default(["secret"])
    made = place.rename(place.with_name(f"{place.name}-made"))
    return Side(root, config, canary, changes[0]["changeId"], Copy(made, place))


@pytest.fixture
def sides(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Side]:
    """Two vaults that a caller cannot tell apart."""
    return [
        side(filled, tmp_path / name, canary, times, monkeypatch)
        for name, canary, times in (("a", "walrus", 1), ("b", "narwhal", 4))
    ]


def tries(tool: Tool, own: Side) -> Iterator[dict[str, Any]]:
    """Yield arguments for a tool: valid ones, and ones that refer to hidden data."""
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
    """Call a tool in every way; return the results of a client with a scope."""
    from memvault.mcp import sdk_types as told

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


@sampled(2)
@pytest.mark.promise("S39")
@pytest.mark.parametrize("scope", SCOPES)
def test_hidden_memories_do_not_affect_answers(
    sides: list[Side], scope: Scope, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Each tool answers a scope as if hidden agents and vaults did not exist."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed")
    for tool in some_of(all_tools(), first=SCOPES.index(scope) % 2):
        with subtests.test(tool=tool.name):
            for own in sides:
                own.copy.put_back()
            first, second = (answers(own, scope, tool, monkeypatch) for own in sides)
            assert first == second
            for text in first:
                for words in WORDS:  # answers may repeat the query
                    text = text.replace(words, "")
                assert not any(own.canary in text for own in sides), text


@pytest.mark.promise("S40")
@pytest.mark.parametrize("scope", SCOPES)
def test_scope_allows_only_its_own_tools(filled: Path, scope: Scope) -> None:
    """A tool beyond the caller's scope is not listed, and every way to call it is refused."""
    call = Call(Workspace(filled), Caller("ann", False, False, True, (), scope))
    listed = {tool.name for tool in available.builtin_tools(call.workspace, call.caller)}
    for tool in all_tools():
        if tool.group == available.WORLD:
            continue
        is_within = ORDER.index(tool.scope) <= ORDER.index(scope)
        assert (tool.name in listed) is is_within
        if not is_within:
            with pytest.raises(Refused, match="needs scope"):
                available.find_tool(call.workspace, call.caller, tool.name)
            with pytest.raises(Refused, match="needs scope"):
                invoke.call_nested(call, "call_tool", {"toolName": tool.name, "parameters": {}})
    call.workspace.close()


@pytest.mark.promise("S39")
@pytest.mark.parametrize("scope", SCOPES)
def test_resources_and_completion_omit_hidden_memories(
    sides: list[Side], scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hidden memories have no resource and do not appear in lists or completions."""
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


TEXTS = ROOT / "bench" / "everyday" / "everyday-ops" / "corpus.jsonl"
QUERY = "why does a reminder arrive late at night"
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with a hundred everyday memories of a team."""
    folder = tmp_path_factory.mktemp("notes")
    (folder / "memvault.toml").write_text("version = 1\n", "utf-8")
    for line in TEXTS.read_text("utf-8").splitlines()[:100]:
        entry = json.loads(line)
        slug = re.sub(r"\W+", "-", entry["title"]).strip("-").lower()
        header = {"id": f"{slug}-7k2m9q", "title": entry["title"]}
        (folder / f"{slug}.md").write_bytes(encode_new(header, entry["text"]))
    return folder


@pytest.fixture(scope="module")
def team(notes: Path) -> Iterator[Vault]:
    """The same vault, open in this process."""
    with open_vault(notes) as vault:
        yield vault


def size(found: dict[str, Any]) -> int:
    """Count the tokens of a result as a model receives it."""
    return tokenizer.count_tokens(sanitize.safe_json(found))


def over_mcp(folder: Path, **arguments: Any) -> dict[str, Any]:
    """Recall as a caller with a token budget."""
    return call_result(
        Workspace(folder),
        "memory_recall",
        arguments,
        LOCAL._replace(has_token_budget=True, may_see_paths=False),
    )


def test_brief_hit_takes_less_than_25_tokens(team: Vault) -> None:
    """Ten brief hits average under 25 tokens of four characters and are still clear."""
    found = team.call("memory_recall", query=QUERY, brief=True)
    whole = team.call("memory_recall", query=QUERY)
    assert (found["memories"], found["count"], len(found["brief"])) == ([], 10, 10)
    assert mean(len(line) / 4 for line in found["brief"]) < 25
    # The tokenizer counts each hyphen.
    assert mean(map(tokenizer.count_tokens, found["brief"])) < 34
    for line, entry in zip(found["brief"], whole["memories"], strict=True):
        assert re.search(rf"\({entry['memId']}[;)]", line)
        assert line.startswith(entry["title"][:12])
        assert ("; weak" in line) == (entry["strength"] == "weak")


def test_brief_hit_shows_the_matching_sentence(vault: Vault) -> None:
    """The line shows the sentence that answers the query, not the memory's first sentence."""
    content = "It stands in the hall. The cellar floods each spring. Mira has the key."
    vault.call("memory_remember", title="House", content=content, memoryType="fact")
    (line,) = vault.call("memory_recall", query="who has the key", brief=True)["brief"]
    assert line.startswith("House: Mira has the key")


def test_brief_prints_one_line_per_hit(notes: Path, run: Run) -> None:
    """On the command line each brief hit is one line, the same as in JSON."""
    asked = ("recall", QUERY, "--brief", "--vault", str(notes))
    shown = run(*asked).out.splitlines()
    assert shown[-10:] == run(*asked, "--json").json["brief"]
    last = run("recall", "--all", "--brief", "--vault", str(notes)).out.splitlines()[-1]
    assert last == "50 of 100; `--offset 50` shows more"


@pytest.mark.parametrize("budget", [1, 60, 150, 300, 500, 900, 1_500, 4_000])
def test_budget_is_respected_and_used(team: Vault, budget: int) -> None:
    """A result with several hits never exceeds its budget, and it counts the omitted hits."""
    found = team.call("memory_recall", query=QUERY, budget=budget, limit=12)
    shown = len(found["memories"]) + len(found.get("brief", []))
    assert shown == found["count"] >= 1
    assert size(found) <= budget or shown == 1
    assert found.get("more", 0) == 12 - shown
    whole = team.call("memory_recall", query=QUERY, limit=12)
    assert found["memories"] == whole["memories"][: len(found["memories"])]
    if shown < 12:
        assert size(found) + 60 > budget
        rest = team.call("memory_recall", query=QUERY, limit=12 - shown, offset=found["next"])
        assert rest["memories"] == whole["memories"][shown:]


def test_recall_without_budget_is_not_shortened(team: Vault) -> None:
    """Without a budget, or with 0, a recall returns everything within its limit."""
    whole = team.call("memory_recall", query=QUERY, limit=60)
    assert whole["count"] > 20
    assert team.call("memory_recall", query=QUERY, limit=60, budget=0) == whole
    assert "brief" not in whole


def test_mcp_recall_has_default_budget(notes: Path) -> None:
    """Over MCP a recall has a budget of 1,500 tokens unless the call sets its own."""
    asked = {"query": QUERY, "limit": 60}
    found = over_mcp(notes, **asked)
    assert 1_000 < size(found) <= 1_500
    assert found["brief"]
    assert "brief" not in over_mcp(notes, **asked, budget=0)
    assert size(over_mcp(notes, **asked, budget=300)) <= 300
    listed = over_mcp(notes, isAll=True)
    assert size(listed) <= 1_500
    assert listed["total"] == 100
    assert listed["next"] == listed["count"] <= 50


def test_mcp_budget_is_a_setting(vault: Vault, folder: Path) -> None:
    """``[mcp] budget`` sets the default over MCP; 0 turns it off, and a string is an error."""
    for number in range(20):
        text = f"The {number}th lamp in the hall is out again, and someone has to change it."
        vault.call("memory_remember", title=f"Lamp {number}", content=text, memoryType="fact")
    settings = folder / "memvault.toml"
    settings.write_text("version = 1\n[mcp]\nbudget = 200\n", "utf-8")
    assert size(over_mcp(folder, query="lamp in the hall")) <= 200
    settings.write_text("version = 1\n[mcp]\nbudget = 0\n", "utf-8")
    assert over_mcp(folder, query="lamp in the hall", limit=20)["count"] == 20
    settings.write_text('version = 1\n[mcp]\nbudget = "much"\n', "utf-8")
    assert "mcp.budget" in over_mcp(folder, query="lamp")["error"]["message"]


def test_brief_hit_masks_secrets(vault: Vault, folder: Path) -> None:
    """A brief line masks a secret, unless its memory allows secrets."""
    for name, more in (("Robot", ""), ("Sample", "secrets: allowed\n")):
        text = f"---\nid: {name}\n{more}---\n\nThe {name} token is {SECRET} for now.\n"
        (folder / f"{name}.md").write_text(text, "utf-8")
    lines = vault.call("memory_recall", query="token", brief=True)["brief"]
    assert [SECRET[:10] in line for line in lines if "(Robot" in line] == [False]


def test_brief_hit_marks_superseded_memory(vault: Vault) -> None:
    """A brief line marks a superseded memory and shows its replacement."""
    old = vault.call("memory_remember", title="Port", content="It is 80.", memoryType="fact")
    new = vault.call(
        "memory_remember",
        title="New port",
        content="The port is 81.",
        memoryType="fact",
        supersedes=old["memId"],
    )
    lines = vault.call("memory_recall", query="which port", brief=True)["brief"]
    assert f"superseded by {new['memId']}" in lines[-1]


costs = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 400)), min_size=1, max_size=20)


@given(costs=costs, budget=st.integers(-50, 2_000))
def test_budget_is_filled_best_first(costs: list[tuple[int, int]], budget: int) -> None:
    """The budget goes first to brief lines for many memories, then to full memories, best first."""
    brief = [line for line, _ in costs]
    whole = [line + more for line, more in costs]
    told, shown = split_budget(budget, whole, brief)
    used = sum(whole[:told]) + sum(brief[told:shown])
    assert 0 <= told <= shown
    assert shown >= 1
    assert used <= budget or (told, shown) == (0, 1)
    if shown < len(costs):
        assert sum(brief[: shown + 1]) > budget
    if told < shown:
        assert used - brief[told] + whole[told] > budget


def test_remember_lists_only_similar_memories(vault: Vault) -> None:
    """Remember lists only memories of at least fair similarity, and none if all are unrelated."""
    first = {
        "title": "Database",
        "content": "We use PostgreSQL for all services.",
        "memoryType": "fact",
    }
    kept = vault.call("memory_remember", **first)
    for title, content in (
        ("Tea", "Green tea is brewed at 70 degrees."),
        ("Bicycle", "The rear tyre holds four bar."),
        ("Vienna", "The sleeper to Vienna leaves at nine."),
    ):
        alone = vault.call("memory_remember", title=title, content=content, memoryType="fact")
        assert alone["similar"] == []
    again = vault.call(
        "memory_remember",
        title="Which database",
        content="All our services use PostgreSQL as their database.",
        memoryType="fact",
    )
    assert [entry["memId"] for entry in again["similar"]] == [kept["memId"]]
