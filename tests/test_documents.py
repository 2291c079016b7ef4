"""The example calls of the documents behave as described; they are in ``documents.yaml``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import ROOT, Run, write
from memvault import Vault, clock, open_vault

FILES = {
    "memvault.toml": "version = 1\n[world]\nenabled = true\n",
    "places/wood.md": "---\nx: 10\ny: 0\nradius: 3\nterrain: forest\nclimate: mild\n"
    "resources: [wood]\n---\n",
    "agents/bob.md": "---\nx: 12\ny: 0\ntype: guide\n---\n",
    "tools/double.py": "import json, sys\n"
    "print(json.dumps({'doubled': json.load(sys.stdin)['radius'] * 2}))\n",
}
LAUNCH = f"{clock.now().year + 1}-03-01T08:00:00"
KNOWN = {
    "$python": sys.executable,
    "$past": (datetime.now(UTC) - timedelta(minutes=1)).isoformat(),
    "$launch": f"{LAUNCH}Z",
    "$launched": f"{LAUNCH}.000Z",
}


class Has:
    """A value that contains each given string, and no string given with a "-" in front."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def __eq__(self, other: object) -> bool:
        value = str(other)
        return all((text.lstrip("-") in value) != text.startswith("-") for text in self.texts)

    def __hash__(self) -> int:
        return hash(self.texts)

    def __repr__(self) -> str:
        return f"Has{self.texts}"


class Unordered(list[Any]):
    """A list whose entries may come in any order."""


class Calls(yaml.SafeLoader):
    """Read the sessions, with their tags."""


construct: Any = Calls.add_constructor
construct("!any", lambda *_: ...)
construct("!has", lambda loader, node: Has(*loader.construct_sequence(node)))
construct("!unordered", lambda loader, node: Unordered(loader.construct_sequence(node, deep=True)))
SESSIONS = yaml.load((ROOT / "tests" / "documents.yaml").read_text("utf-8"), Calls)


def fits(found: Any, wanted: Any, known: dict[str, Any]) -> bool:
    """Return whether a value contains the expected one; record the value of each ``$name``."""
    if wanted is ...:
        return bool(found)
    if isinstance(wanted, str) and wanted.startswith("$"):
        return bool(found) and bool(found == known.setdefault(wanted, found))
    if isinstance(wanted, Mapping):
        return all(key in found and fits(found[key], wanted[key], known) for key in wanted)
    if isinstance(wanted, Unordered):
        fitting = [[entry for entry in found if fits(entry, one, {**known})] for one in wanted]
        return len(found) == len(wanted) and all(
            len(entries) == 1 and fits(entries[0], one, known)
            for entries, one in zip(fitting, wanted, strict=True)
        )
    if isinstance(wanted, list):
        pairs = zip(found, wanted, strict=False)
        return len(found) == len(wanted) and all(fits(one, other, known) for one, other in pairs)
    return bool(wanted == (pytest.approx(found) if isinstance(found, float) else found))


def filled_in(given: Any, known: dict[str, Any]) -> Any:
    """Return arguments with ``$name`` replaced by its value."""
    if isinstance(given, Mapping):
        return {key: filled_in(value, known) for key, value in given.items()}
    if isinstance(given, list):
        return [filled_in(value, known) for value in given]
    return known[given] if isinstance(given, str) and given.startswith("$") else given


@pytest.mark.parametrize("session", SESSIONS)
def test_document_tool_calls_match_their_specification(
    folder: Path, run: Run, session: str
) -> None:
    """Each tool accepts the arguments in its document and returns the documented keys."""
    for path, text in FILES.items():
        write(folder, path, text)
    known: dict[str, Any] = {**KNOWN}
    with ExitStack() as stack:
        vaults: dict[str, Vault] = {}
        for call, given, wanted in ((*row, {})[:3] for row in SESSIONS[session]):
            arguments = filled_in(given, known)
            *agent, tool = call.split()
            found: Any
            if tool == "$":
                ran = run(*given.split())
                assert ran.code == 0, (given, ran)
                found = {}
            elif tool == "write":
                found = write(folder, *given)
            elif tool == "file":
                file = folder / arguments
                found = file.read_text("utf-8") if file.exists() else None
            else:
                name = agent[0] if agent else "main"
                if name not in vaults:
                    vaults[name] = stack.enter_context(open_vault(folder, name))
                found = vaults[name].call(tool, **arguments)
                succeeds = wanted is not False and wanted.get("success", True)
                assert found["success"] is succeeds, (call, given, found)
            assert wanted is False or fits(found, wanted, known), (call, given, wanted, found)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("talk_user", {"User": "", "Message": "May I start?"}),
        ("talk_agent", {"Agent": "designer", "Message": "Is the mockup ready?"}),
        ("talk_brain", {"subbrain": "primary", "Message": "Plan the day"}),
        ("talk_log", {"Severity": "warning", "Message": "The disk is full"}),
    ],
)
def test_talk_returns_a_talk_id(folder: Path, tool: str, arguments: dict[str, str]) -> None:
    """A talk to any destination returns immediately; its TalkId increases and is never 0."""
    with open_vault(folder, "main/night" if tool == "talk_brain" else "main") as caller:
        ids = [caller.call(tool, **arguments)["talkId"] for _ in range(3)]
    assert ids == sorted(set(ids))
    assert ids[0] > 0


@pytest.mark.parametrize(
    ("types", "success"),
    [
        ([], False),
        (["action_error"], False),
        (["success"], True),
        (["success"] * 7 + ["action_error"] * 3, False),
        (["success"] * 8 + ["action_error"] * 2, True),
    ],
)
def test_episode_with_few_errors_is_a_success(
    vault: Vault, types: list[str], success: bool
) -> None:
    """An episode succeeds if fewer than 30 % of its outcomes are an action_error."""
    outcomes = [{"type": kind} for kind in types]
    made = vault.call("store_episode", actions=["Dug"], outcomes=outcomes)
    assert (made["success"], made["episodeSuccess"]) == (True, success)
    (found,) = vault.call("get_recent_episodes")["episodes"]
    assert found["metadata"]["success"] is success


def test_document_example_without_id_is_a_memory(vault: Vault, folder: Path) -> None:
    """The document's example file, which has no id, is recalled as a memory."""
    header = "memory_type: architectural-decision\ntags: [database, infrastructure]\n"
    days = "created: 2026-02-16T10:30:00.000Z\nmodified: 2026-02-16T10:30:00.000Z\n"
    write(
        folder,
        "architectural-decision/storage.md",
        f"---\n{header}{days}---\n\nPostgreSQL is the database.\n",
    )
    (found,) = vault.call("memory_recall", query="PostgreSQL")["memories"]
    assert found["memoryType"] == "architectural-decision"
    assert found["tags"] == ["database", "infrastructure"]
    assert found["created"] == found["modified"] == "2026-02-16T10:30:00.000Z"


def test_tools_are_listed_as_mcp_schemas(vault: Vault) -> None:
    """Each listed tool has a schema with its required keys and the defaults of the others."""
    shown = vault.call("get_available_tools")["tools"]
    schema = next(tool for tool in shown if tool["name"] == "use_skill")["inputSchema"]
    assert schema["type"] == "object"
    assert {"skillId", "actionDescription"} <= set(schema["required"])
    assert schema["properties"]["difficultyModifier"]["default"] == 0.0
