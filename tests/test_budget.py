"""Every result over MCP respects its token budget, and ``next`` leads to everything omitted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, sampled, some_of, succeeded, write
from memvault import Vault, open_vault, sanitize
from memvault.call import Call, Caller
from memvault.index.embedding.tokenizer import count_tokens
from memvault.tools.core import invoke
from memvault.tools.core.registry import Tool
from memvault.workspace import Workspace
from tool_calls import WORKING, call_of

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
from memvault.mcp.calls import PendingCall
from memvault.mcp.sdk_types import result

CLIENT = Caller(has_token_budget=True)
BUDGET = 1_500
MANY = 24
HUGE = "".join(f'Line {number} tells of the zebra "again".\n' for number in range(1_500))
"""A text of about 50,000 characters."""
BIG = HUGE * 8
"""A text of 400 kB."""


def called(vault: Workspace, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool as an MCP client does; return the structured result."""
    call = PendingCall(vault, CLIENT, tool, arguments)
    answer = result(Call(vault, CLIENT), call.run())
    call.acknowledge()
    found: dict[str, Any] = answer.structured_content
    return found


def tokens(found: Mapping[str, Any]) -> int:
    """Count the tokens of a result as JSON."""
    return count_tokens(sanitize.safe_json(found))


def header(**keys: Any) -> str:
    """Write front matter."""
    return "".join(["---\n", *(f"{key}: {json.dumps(keys[key])}\n" for key in keys), "---\n\n"])


def enlarge(root: Path) -> None:
    """Make everything in the vault ``filled`` long, and add many entries of each kind."""
    long_tags = [f"tag-{number}" for number in range(400)]
    write(root, "alpha.md", header(id="m1", tags=["x", *long_tags], about=HUGE) + BIG)
    write(root, "beta.md", header(id="m2") + f"# Beta\n\n[[alpha]]\n\n{HUGE}")
    write(root, "fact/zebras.md", header(id="m3", memory_type="fact") + f"Zebras sleep. {HUGE}")
    for number in range(MANY):
        name = f"w{number}"
        links = "[[alpha]] [[beta]]\n"
        head = header(id=name, tags=["x", f"t{number}"], title=f"{name} {'zebra ' * 30}")
        write(root, f"many/{name}.md", f"{head}{links}A zebra of wood {number}.\n")
        fact = header(id=f"f{number}", memory_type="fact", category="General")
        write(root, f"fact/f{number}.md", f"{fact}The zebra {number} sleeps. {'It does. ' * 40}\n")
        skill = {"memory_type": "procedure", "skill_id": f"life.dig.s{number}"}
        text = f"# zebra {number}\n\nDig for the zebra. {'Dig. ' * 200}\n"
        write(root, f"procedure/p{number}.md", header(id=f"p{number}", **skill) + text)
        event = header(type="talk", timestamp="2026-01-31T12:00:00.000Z", **{"from": "bob"})
        write(root, f"agents/main/inbox/e{number:03}.md", f"{event}Ready {number}? {'Well? ' * 30}")
    with open_vault(root) as vault:
        fill(vault)
    bob = "type: talk\ntimestamp: 2026-01-30T12:00:00.000Z\nfrom: bob\ntalkId: 9"
    write(root, "agents/main/inbox/a000.md", f"---\n{bob}\n---\n\n{HUGE}")


def fill(vault: Vault) -> None:
    """Give the agent many values, goals, plans and messages, the first of them long."""
    texts = [HUGE if number == 0 else f"zebra {number} " * 10 for number in range(MANY)]
    names = [f"n{number:03}" for number in range(MANY)]
    pairs = list(zip(names, texts, strict=True))
    vault.call("set_memories", memories=[{"key": "k", "value": HUGE}])
    vault.call("set_memories", memories=[{"key": name, "value": text} for name, text in pairs])
    vault.call("set_goals", goals=[{"id": name, "description": text} for name, text in pairs])
    at = {"scheduledAt": "2999-01-01"}
    plans = [{"name": name, "instruction": text, **at} for name, text in pairs]
    vault.call("set_plans", plans=plans)
    for text in reversed(texts):
        vault.call("send_message", text=text)
    for number in range(MANY):
        vault.call("store_episode", actions=[f"Fed zebra {number}"], reflection="Well. " * 50)
    vault.call("store_episode", actions=[HUGE], skillsUsed=["life.dig.deep"])
    vault.call("memory_compound", query="m2", modifications=HUGE)
    vault.call("memory_delete", ids=[f"w{number}" for number in range(10, MANY)])


@pytest.fixture(scope="module")
def huge(_filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A vault with too much data of every kind."""
    root = Path(shutil.copytree(_filled, tmp_path_factory.mktemp("huge") / "vault"))
    enlarge(root)
    vault = Workspace(root)
    yield vault
    vault.close()


ASKED: dict[str, dict[str, Any]] = {
    "memory_forget": {"query": "", "filter": "'x' in tags", "threshold": 0},
    "memory_load": {"memId": "m1"},
    "memory_search": {"query": "zebra", "limit": 100},
    "memory_recall": {"query": "zebra", "limit": 50, "full": True, "include": ["state"]},
    "memory_list": {"limit": 200},
    "context": {"task": "zebra"},
    "peek_inbox": {"count": 50},
    "enter_space": {"spaceId": "team", "limit": 200},
    "get_available_tools": {},
    "call_tool": {"toolName": "memory_list", "parameters": {"limit": 200}},
    "get_recent_episodes": {"limit": 100},
    "tag_rename": {"old": "x", "new": "y"},
    "recall_memory": {"observations": ["zebra"]},
    "memory_rename": {"memId": "m2", "title": "Gamma"},
    "recall_fact": {"query": "zebra", "limit": 50},
    "memory_delete": {"ids": [f"none-{number}" for number in range(300)]},
}
"""Arguments that make a tool return a long result, if those of ``call_of`` do not."""


def much(tool: Tool) -> dict[str, Any]:
    """Return arguments that make a tool return a long result."""
    return {**ASKED.get(tool.name, call_of(tool))}


PAGED = [tool for tool in WORKING if tool.read_only and tool.paged_keys]
READ: dict[str, dict[str, Any]] = {
    "memory_recall": {"isAll": True, "limit": 15},
    "memory_search": {"query": "zebra", "limit": 40},
    "memory_list": {"limit": 40},
    "memory_diff": {"memId": "m2"},
    "memory_show": {"memId": "m2"},
    "memory_backlinks": {"memId": "m1"},
    "memory_links": {"memId": "w7"},
    "get_goals": {"limit": 30},
    "get_plans": {},
    "get_memories": {"limit": 30},
    "tag_list": {"limit": 150},
    "get_available_tools": {"schema": False},
    "get_recent_episodes": {"limit": 20},
    "list_inbox": {"limit": 20},
    "read_messages": {"spaceId": "team", "limit": 10},
    "memory_log": {"limit": 10},
}
"""Calls whose results are read to the end."""


def named(entry: Any) -> str:
    """Return an entry's identifier, even if the entry is shortened."""
    if not isinstance(entry, dict):
        return str(entry)
    return str(
        {key: text for key, text in entry.items() if isinstance(text, str) and len(text) < 60}
    )


def followed(vault: Workspace, tool: str, keys: tuple[str, ...], **arguments: Any) -> Iterator[Any]:
    """Call a tool for the first page and, by ``next``, all others; yield every entry or text."""
    offset: int | None = 0
    while offset is not None:
        found = called(vault, tool, **arguments, offset=offset)
        assert found["success"], found
        assert tokens(found) <= BUDGET
        for value in (found[key] for key in keys if key in found):
            yield from [value] if isinstance(value, str) else value
        assert found.get("next", offset + 1) > offset
        offset = found.get("next")


@sampled(6)
@pytest.mark.parametrize("tool", PAGED, ids=lambda tool: tool.name)
def test_budget_next_returns_everything_once(huge: Workspace, tool: Tool) -> None:
    """Following next returns each list entry or each character exactly once, in order."""
    arguments = READ.get(tool.name, much(tool))
    keys = tool.paged_keys or ()
    seen = list(followed(huge, tool.name, keys, **arguments))
    is_listing = "limit" in arguments and not any(
        entry.name == "offset" for entry in tool.page_parameters
    )
    wide = {"limit": 1_000} if is_listing else {}
    one = invoke.call_result(huge, tool.name, {**arguments, **wide})
    if isinstance(one[keys[0]], str):
        assert "".join(seen) == one[keys[0]]
        return
    if tool.name == "memory_recall":  # it returns memories that do not fit as one line each
        assert len(seen) == one["total"]
        return
    wanted = [named(entry) for key in keys for entry in one.get(key, ())]
    found = [named(entry) for entry in seen]
    if tool.newest_last:
        wanted, found = sorted(wanted), sorted(found)
    assert found[: len(wanted)] == wanted
    assert len(set(found)) == len(found)


@sampled(1)
def test_budget_limits_every_tool_result(huge: Workspace, subtests: pytest.Subtests) -> None:
    """No tool result over MCP has more than 1,500 tokens, regardless of the vault's contents."""
    for tool in some_of(sorted(WORKING, key=lambda tool: not tool.read_only), first=1):
        with subtests.test(tool=tool.name):
            arguments = {"timeout": 0.01} if tool.name == "wait_for" else {}
            assert tokens(called(huge, tool.name, **{**much(tool), **arguments})) <= BUDGET


@sampled(6)
@pytest.mark.parametrize("budget", [300, 700, 5_000])
@pytest.mark.parametrize(
    "tool", ["memory_show", "memory_list", "memory_load", "context", "memory_recall", "list_inbox"]
)
def test_budget_of_call_overrides_settings(huge: Workspace, tool: str, budget: int) -> None:
    """A call can override the budget from the settings, and its result stays within it."""
    arguments = {"memId": "m2"} if tool in ("memory_show", "memory_load") else ASKED.get(tool, {})
    found = called(huge, tool, **arguments, budget=budget)
    assert found["success"]
    assert tokens(found) <= budget
    if tool != "context":  # its first entry may not fit
        assert tokens(found) > budget / 4


def test_budget_of_0_means_no_limit(folder: Path) -> None:
    """With budget 0 a client gets the full result, even through call_tool."""
    write(folder, "a.md", header(id="a").strip() + f"\n{HUGE}")
    vault = Workspace(folder)
    whole = called(vault, "memory_show", memId="a", budget=0)
    assert whole["content"] == HUGE
    asked = {"memId": "a", "budget": 0}
    for arguments in ({"parameters": asked}, {"parameters": {"memId": "a"}, "budget": 0}):
        outer = called(vault, "call_tool", toolName="memory_show", **arguments)
        assert outer["result"]["content"] == HUGE
    vault.close()


def test_budget_context_is_returned_once_over_mcp(huge: Workspace) -> None:
    """The context block is complete up to its closing fence, and parts does not repeat it."""
    found = called(huge, "context", task="zebra", budget=900)
    assert tokens(found) <= 900
    assert found["context"].startswith("<memory-data>\n")
    assert found["context"].endswith("\n</memory-data>")
    assert "parts" not in found


@pytest.mark.parametrize("budget", [1, 50, 200])
def test_budget_too_small_for_context_is_reported(huge: Workspace, budget: int) -> None:
    """If no memory fits, the context block is empty and a note states the budget."""
    found = called(huge, "context", task="zebra", budget=budget)
    assert (found["success"], found["context"]) == (True, "")
    unit = "token" if budget == 1 else "tokens"
    assert found["warnings"][0] == f"the first entry is longer than {budget} {unit}"
    assert tokens(found) <= 250
    outer = called(huge, "call_tool", toolName="context", parameters={"budget": budget})
    assert f"the first entry is longer than {budget} {unit}" in str(outer)


@pytest.mark.parametrize("budget", [1, 20, 50])
def test_recall_with_tiny_budget_returns_one_readable_line(folder: Path, budget: int) -> None:
    """A recall with a tiny budget returns one line with its memory id, also through call_tool."""
    for name in ("port", "host"):
        write(
            folder, f"{name}.md", f"---\nid: {name}-k420hk\n---\n# The {name}\n\nThe {name} is 8.\n"
        )
    vault = Workspace(folder)
    found = called(vault, "memory_recall", query="which port", budget=budget)
    outer = called(
        vault, "call_tool", toolName="memory_recall", parameters={"query": "port", "budget": budget}
    )
    vault.close()
    for recalled in (found, outer["result"]):
        (line,) = recalled["brief"]
        assert "port-k420hk" in line


def test_budget_leaves_events_in_inbox_if_too_long(folder: Path) -> None:
    """Each event is delivered once, in order; a long one can be read in full by its ID."""
    for number in range(40):
        head = header(type="talk", timestamp="2026-01-31T12:00:00.000Z", **{"from": "bob"})
        text = HUGE if number == 5 else f"Message {number}. {'Well? ' * 30}"
        write(folder, f"agents/main/inbox/e{number:02}.md", f"{head}{text}")
    vault = Workspace(folder)
    seen: list[str] = []
    remaining = 40
    while remaining:
        found = called(vault, "peek_inbox", count=50)
        assert tokens(found) <= BUDGET
        taken = [event["eventId"] for event in found["events"]]
        assert remaining - len(taken) == found["remaining"]
        seen += taken
        remaining = found["remaining"]
    assert seen == [f"e{number:02}" for number in range(40)]
    one = called(vault, "list_inbox", eventId="e05", budget=0)
    assert [event["data"]["message"] for event in one["events"]] == [HUGE.strip()]
    vault.close()


@pytest.mark.parametrize("length", [20, 1_000, 30_000])
def test_budget_too_small_for_event_keeps_it_in_inbox(folder: Path, length: int) -> None:
    """A budget too small for an event is refused and the event stays; 300 is always enough."""
    vault = Workspace(folder)
    wait = {"events": [{"eventType": "Hook", "parameter": "ci"}], "timeout": 1}
    for tool, arguments in (("peek_inbox", {}), ("wait_for", wait)):
        called(vault, "push_service", name="ci", message="Built. " * (length // 7))
        for size in (1, 20, 150, 299):
            found = called(vault, tool, budget=size, **arguments)
            assert found["error"]["code"] == "usage"
        assert called(vault, "list_inbox")["total"] == 1
        (event,) = called(vault, tool, budget=300, **arguments)["events"]
        assert "ci" in json.dumps(event)
        assert event.get("result", event)["eventId"] != "…"
    vault.close()


def test_budget_never_shortens_identifiers(folder: Path) -> None:
    """Even with a 30 kB header, memId, path, etag and token are returned complete and usable."""
    keys = "".join(
        f"k{one}:\n" + "".join(f"  n{two}: {'value ' * 8}\n" for two in range(24))
        for one in range(24)
    )
    for name in ("a", "b", "c"):
        write(folder, f"{name}.md", f"---\nid: {name}-7k2m9q\n{keys}---\n\nText of {name}.\n")
    vault = Workspace(folder)
    for size in (200, BUDGET):
        shown = called(vault, "memory_show", memId="a-7k2m9q", budget=size)
        assert tokens(shown) <= size
        assert (shown["memId"], shown["filePath"]) == ("a-7k2m9q", "a.md")
        assert "…" not in shown["etag"]
        assert "Text of a." in shown["content"]
        found: list[str] = []
        page: dict[str, Any] = {"next": 0}
        while "next" in page:
            page = called(vault, "memory_list", budget=size, offset=page["next"])
            assert tokens(page) <= size
            found += [entry["memId"] for entry in page["memories"]]
        assert sorted(found) == ["a-7k2m9q", "b-7k2m9q", "c-7k2m9q"]
        token = called(vault, "memory_forget", query="a-7k2m9q", budget=size)["confirmToken"]
        assert "…" not in token
    assert called(vault, "memory_list", budget=100)["error"]["code"] == "usage"
    vault.close()


def test_budget_shortens_long_event_from_wait(folder: Path) -> None:
    """A wait returns its event within the budget and explains how to read the rest."""
    vault = Workspace(folder)
    called(vault, "push_service", name="ci", message=BIG)
    events = [{"eventType": "Hook", "parameter": "ci"}]
    found = called(vault, "wait_for", events=events, timeout=1)
    assert tokens(found) <= BUDGET
    event = found["events"][0]["result"]
    assert "list_inbox with its eventId and budget 0" in found["warnings"][0]
    whole = called(vault, "list_inbox", eventId=event["eventId"], budget=0)
    assert whole["events"][0]["data"]["message"] == BIG.strip()
    vault.close()


def test_budget_applies_to_errors(folder: Path) -> None:
    """An error that lists a thousand candidates or repeats a long argument is shortened."""
    for number in range(1_000):
        write(folder, f"f{number}/same.md", f"# Same\n\nNote {number}.\n")
    vault = Workspace(folder)
    for name in ("Same", "x" * 90_000):
        found = called(vault, "memory_show", memId=name)
        assert found["success"] is False
        assert found["error"]["code"] in ("ambiguous", "not_found")
        assert tokens(found) <= BUDGET
    vault.close()


def test_budget_truncation_never_exposes_partial_secret(folder: Path) -> None:
    """Text can be cut at any position without showing a recognizable part of a secret."""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    secret = secret[:40]
    write(folder, "a.md", header(id="a") + "".join(f"{secret} {n}\n" for n in range(200)))
    vault = Workspace(folder)
    for offset in range(0, 200, 7):
        found = called(vault, "memory_show", memId="a", offset=offset, budget=200 + offset)
        pieces = {secret[at : at + 8] for at in range(len(secret) - 7)}
        assert not [piece for piece in pieces if piece in json.dumps(found)]
    vault.close()


@sampled(3)
@pytest.mark.promise("S73")
@pytest.mark.parametrize("tool", ["memory_show", "memory_load"])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 10])
def test_budget_pages_never_reveal_secret(folder: Path, tool: str, length: int) -> None:
    """Pages of any length and offset never reveal a secret, even when joined."""
    secret = f"ghp_{'a1B2c3D4e5F6g7H8i9J0' * 2}"[:40]
    text = f"Before {secret} after.\n"
    write(folder, "a.md", header(id="a").strip() + f"\n{text}")
    vault = Workspace(folder)
    at = {"memId": "a", "length": length}
    pages = [called(vault, tool, **at, offset=offset) for offset in range(len(text) - 1)]
    assert not [page for page in pages if secret[4:11] in json.dumps(page)]
    inside = pages[len("Before ") + 1 : text.index(" after")]
    assert {page["content"].count("GitHub token") for page in inside} == {1}
    offset, seen = 0, ""
    while offset < len(text.strip()):
        page = called(vault, tool, **at, offset=offset)
        seen += page["content"]
        end = page["offset"] + page["length"] if "length" in page else len(text)
        offset = page.get("next", end)
    assert seen.count("GitHub token") == 1
    assert not [piece for piece in (secret[n : n + 4] for n in range(37)) if piece in seen]
    vault.close()


@pytest.mark.promise("S73")
@pytest.mark.parametrize("length", [3, 7, 30])
def test_budget_pages_of_call_tool_never_reveal_secret(folder: Path, length: int) -> None:
    """Pages that ``call_tool`` returns mask a secret wherever they cut it."""
    secret = f"ghp_{'a1B2c3D4e5F6g7H8i9J0' * 2}"[:40]
    write(folder, "a.md", header(id="a").strip() + f"\nBefore {secret} after.\n")
    vault = Workspace(folder)
    for offset in range(len(secret)):
        parameters = {"memId": "a", "offset": offset, "length": length}
        page = called(vault, "call_tool", toolName="memory_show", parameters=parameters)
        pieces = [secret[n : n + 3] for n in range(4, len(secret) - 2)]
        content = page["result"]["content"]
        assert not [piece for piece in pieces if piece in content]
    vault.close()


def test_budget_shortens_custom_tool_output(folder: Path, run: Run) -> None:
    """A program that prints 900 KB can't fill a client's context unless all of it is requested."""
    write(folder, "tools/long.py", "print('{\"lines\": [' + '\"zebra\",' * 100_000 + '\"end\"]}')")
    write(folder, "tools/long.md", "---\ndescription: x\ncommand: python3 long.py\n---\n")
    assert run("tools", "trust", "long", "--yes").code == 0
    vault = Workspace(folder)
    found = called(vault, "long")
    assert tokens(found) <= BUDGET
    assert "budget 0" in found["warnings"][0]
    assert len(called(vault, "long", budget=0)["lines"]) == 100_001
    vault.close()


def test_budget_paging_works_in_shell(folder: Path, run: Run) -> None:
    """Shell output is cut only with --length or --budget, and --offset continues it."""
    write(folder, "a.md", header(id="a").strip() + f"\n{HUGE}")
    assert succeeded(run("show", "a", "--json")).json["content"] == HUGE
    part = succeeded(run("show", "a", "--length", "100", "--json")).json
    assert (part["content"], part["next"], part["totalLength"]) == (HUGE[:100], 100, len(HUGE))
    small = succeeded(run("show", "a", "--budget", "300", "--json")).json
    rest = succeeded(run("show", "a", "--offset", str(small["next"]), "--json")).json
    assert small["content"] + rest["content"] == HUGE
    assert f"`--offset {small['next']}` shows the rest" in run("show", "a", "--budget", "300").out
