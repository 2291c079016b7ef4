"""Call each tool once through each front end in a prepared vault, and record the effects.

``test_all_tools.py`` uses the record to check what must be true of every tool.
"""

from __future__ import annotations

import fcntl
import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import SOAK, write
from copies import Copy
from http_client import Served
from made_secrets import made as made_secret
from mcp_client import Raw
from memvault import MemvaultError, Vault, open_vault
from memvault.arguments.parameters import normal_key
from memvault.call import Call, Caller
from memvault.mcp.calls import PendingCall
from memvault.mcp.sdk_types import result
from memvault.tools.core.registry import Tool, all_tools
from memvault.workspace import Workspace
from tool_calls import WRITING, soon, typed, words

CLIENT = Caller(may_see_paths=False, has_token_budget=True)
"""The client of a server that was started with ``--programs``."""
OUTSIDE = ("../x", "/", "~", "..")
"""Paths outside the vault."""
OWN = {"context": {"budget": 3_000}}
"""Arguments that replace those in ``tool_calls``, because a mask is shorter than its secret."""
ODD = (*OUTSIDE, ".memvault", "nothing", "a\0b", "")


class Outcome(NamedTuple):
    """The result of one call, the front end's output for it, and the changed files.

    ``changed`` has their content by path, empty for a removed file.
    """

    result: dict[str, Any]
    sent: str
    changed: dict[str, str]

    @property
    def files(self) -> dict[str, str]:
        """The changed files that belong to the user."""
        own = (".memvault", ".git/")
        return {path: text for path, text in self.changed.items() if not path.startswith(own)}


class Row(NamedTuple):
    """The effects of one tool: per front end, with invalid arguments, and when undone.

    ``journal`` are the changes that the Python call added to the log. ``undone`` are the paths
    that, after undo, differ from their state before the call; ``redone`` are the paths that, after
    redo, differ from their state after the call.
    """

    outcomes: dict[str, Outcome]
    failures: list[tuple[dict[str, Any], dict[str, Any]]]
    journal: list[dict[str, Any]]
    undone: list[str] | None
    redone: list[str] | None


class Matrix(NamedTuple):
    """The rows of all tools, the parent folder of everything, and the secrets in the vault."""

    rows: dict[str, Row]
    base: str
    secrets: dict[str, str]


def aliased(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with keys replaced by aliases where available."""
    keys = {normal_key(entry.key) for entry in tool.parameters}
    aliases = {
        entry.key: [alias for alias in entry.arg.json_aliases if normal_key(alias) not in keys]
        for entry in tool.parameters
    }
    return {next(iter(aliases[key]), key): value for key, value in arguments.items()}


def wrong_arguments(tool: Tool, number: int) -> Iterator[dict[str, Any]]:
    """Yield invalid arguments, including all values that refer to places outside of the vault.

    The other values are distributed over the tools; ``make soak`` uses all values for each tool.
    """
    if tool.name != "wait_for":
        yield {}
    yield {"nonsense": "x"}
    texts = [entry.key for entry in tool.parameters if str in entry.types and not entry.choices]
    for turn, value in enumerate(ODD):
        if texts and (value in OUTSIDE or SOAK or turn % 2 == number % 2):
            yield dict.fromkeys(texts, value)


BEFORE = "Some words in front of it " * 2
"""Text before a secret, long enough for an excerpt to end within the secret."""


def put_secrets(root: Path) -> dict[str, str]:
    """Put a secret into each place in a vault that may contain one; return the secrets by place."""
    secrets: dict[str, str] = {}

    def token(place: str) -> str:
        secrets[place] = made_secret("GitHub token")[0]
        return secrets[place]

    header = f"title: {token('title')}\ntags: [x, {token('tag')}]\naliases: [{token('alias')}]\n"
    escaped = token("escaped").replace("_", "\\_")
    text = (
        f"---\nid: m1\nmemory_type: {token('type')}\n{header}created: 2020-01-01\nb: 1\n---\n\n"
        f"# {secrets['title']}\n\n## {token('heading')}\n\n"
        f"The zebra sleeps and says {token('body')}, {escaped}.\n"
        f"[[{token('link')}]] [text](https://x.example/{token('address')}) [[named]]\n"
        f"- [ ] zebra {token('task')}\n#{token('inline tag')}\n"
    )
    write(root, "alpha.md", text)
    for path in ("beta.md", "fact/zebras.md"):
        with (root / path).open("a") as file:
            file.write(f"\n{BEFORE}{token(path)}\n")
    write(root, f"fact/{token('file name')}.md", "---\nid: named\n---\n\n# Zebra\n\n[[m1]]\n")
    write(root, "fact/hidden.md", f"---\nid: {token('memId')}\n---\n\n# Zebras\n\n[[m1]]\n")
    write(root, "fact/broken.md", f"---\nid: [{token('broken')}\n---\n\nA zebra.\n")
    plan = {"name": "p", "instruction": f"{BEFORE}{token('plan')}", "runAfter": "1 day"}
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("memory_compound", {"query": "m1", "modifications": "More."}),
        ("memory_load", {"memId": "m1"}),
        ("memory_remember", {"title": f"Gone {token('trash')}", "content": "A zebra."}),
        ("memory_forget", {"query": f"Gone {secrets['trash']}", "confirm": True}),
        ("set_memories", {"memories": [{"key": "k", "value": f"{BEFORE}{token('value')}"}]}),
        ("set_goals", {"goals": [{"id": "g", "description": f"{BEFORE}{token('goal')}"}]}),
        ("set_plans", {"plans": [plan]}),
        ("store_fact", {"fact": f"A zebra has {token('fact')}"}),
        ("store_procedure", {"procedureName": "zebra", "procedurePrompt": token("procedure")}),
        ("store_episode", {"context": [token("episode")], "actions": [f"{BEFORE}a zebra"]}),
        ("save_search", {"name": "mine", "query": token("search")}),
        ("enter_space", {"spaceId": "team"}),
        ("send_message", {"text": f"{BEFORE}{token('message')}"}),
        ("push_service", {"name": "ci", "message": f"{BEFORE}{token('event')}"}),
        ("talk_log", {"severity": "info", "message": token("log")}),
    )
    with open_vault(root) as vault:
        for name, arguments in calls:
            outcome = vault.call(name, **arguments)
            assert outcome["success"], (name, outcome)
    return secrets


class _Recorder:
    """A vault, and the servers that answer calls for it."""

    def __init__(self, copy: Copy, mcp: Raw, http: Served, tokens: dict[str, str]) -> None:
        self._copy = copy
        self._root = copy.root
        self._mcp = mcp
        self._http = http
        self._tokens = tokens
        self._calls = 0

    def row(self, tool: Tool, number: int) -> Row:
        """Call a tool through each front end."""
        arguments = {**soon(tool), **OWN.get(tool.name, {})}
        outcomes = {
            "shell": self._outcome(self._by_shell, words(tool, arguments)),
            "json": self._outcome(self._by_shell, ["call", tool.name, json.dumps(arguments)]),
        }
        outcomes["python"], journal, undone, redone = self._in_python(tool, arguments)
        outcomes["mcp"] = self._outcome(self._over_mcp, tool.name, arguments)
        for name in self._tokens:
            keys = aliased(tool, arguments)
            outcomes[name] = self._outcome(self._over_http, tool.name, keys, name)
        failures = self._failures(tool, number)
        return Row(outcomes, failures, journal, undone, redone)

    def _outcome(self, call: Any, *given: Any) -> Outcome:
        self._copy.put_back()
        answer, sent = call(*given)
        return Outcome(answer, sent, self._changed())

    def _changed(self) -> dict[str, str]:
        return {
            path.relative_to(self._root).as_posix(): path.read_bytes().decode("utf-8", "replace")
            if path.exists()
            else ""
            for path in self._copy.changes()
            if not path.is_dir()
        }

    def _by_shell(self, line: list[str]) -> tuple[dict[str, Any], str]:
        ran = typed("--vault", str(self._root), "--json", *line)
        return ran.json, f"{ran.code} {ran.out} {ran.err}"

    def _over_mcp(self, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
        self._calls += 1
        self._mcp.call(self._calls, tool, **arguments)
        while (message := self._mcp.receive()).get("id") != self._calls:
            pass
        return message["result"]["structuredContent"], json.dumps(message, ensure_ascii=False)

    def _over_http(
        self, tool: str, arguments: dict[str, Any], name: str
    ) -> tuple[dict[str, Any], str]:
        answer = self._http.call(self._tokens[name], tool, **arguments)
        message = answer.json
        structured = message.get("result", {}).get("structuredContent", message)
        return structured, f"{answer.status} {answer.body.decode()}"

    def _in_python(
        self, tool: Tool, arguments: dict[str, Any]
    ) -> tuple[Outcome, list[dict[str, Any]], list[str] | None, list[str] | None]:
        """Call a tool's method; undo and redo its changes."""
        self._copy.put_back()
        keys = {entry.key: entry.name for entry in tool.parameters}
        named = {keys[key]: value for key, value in arguments.items()}
        undone = redone = None
        with open_vault(self._root) as vault:
            known = {change["changeId"] for change in _changes(vault)} if tool in WRITING else set()
            before = self._files()
            name = tool.command.replace(" ", "_").replace("-", "_")
            try:
                answer = (
                    vault.call(tool.name, **arguments)
                    if tool.name == "call_tool"  # Its command has the same name as another method.
                    else getattr(vault, name)(**named)
                )
            except MemvaultError as error:
                answer = error.result()
            outcome = Outcome(dict(answer), json.dumps(answer, ensure_ascii=False), self._changed())
            if tool not in WRITING:
                return outcome, [], None, None
            journal = [change for change in _changes(vault) if change["changeId"] not in known]
            if journal:
                after = self._files()
                undo = vault.call("memory_undo")
                undone = _differing(before, self._files())
                vault.call("memory_undo", change=undo.get("changeId"))
                redone = _differing(after, self._files())
        return outcome, journal, undone, redone

    def _files(self) -> dict[str, bytes]:
        paths = {path.relative_to(self._root).as_posix(): path for path in self._root.rglob("*")}
        return {
            name: path.read_bytes()
            for name, path in paths.items()
            if path.is_file() and not name.startswith((".memvault/", ".git/"))
        }

    def _failures(self, tool: Tool, number: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Call a tool with invalid arguments in this process, as the MCP server does."""
        self._copy.put_back()
        workspace = Workspace(self._root)
        failures = []
        for arguments in wrong_arguments(tool, number):
            call = PendingCall(workspace, CLIENT, tool.name, arguments)
            answer = result(Call(workspace, CLIENT), call.run())
            call.acknowledge()
            failures.append((arguments, dict(answer.structured_content or {})))
        workspace.close()
        return failures


def _changes(vault: Vault) -> list[dict[str, Any]]:
    return list(vault.call("memory_log", limit=1_000)["changes"])


def _differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def record(filled: Path, base: Path) -> Matrix:
    """Call all tools in a copy of the vault ``filled`` below an empty folder."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("cache", "state", "config"):
            patch.setenv(f"XDG_{kind.upper()}_HOME", str(base / kind))
        patch.setenv("HOME", str(base / "house"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("MEMVAULT_DEEP", "off")
        (base / "house").mkdir()
        made = Path(shutil.copytree(filled, base / "made"))
        with (made / "memvault.toml").open("a") as settings:
            settings.write("mcp.budget = 0\n")
        secrets = put_secrets(made)
        copy = Copy(made, base / "notes")
        assert typed("vaults", "add", "notes", str(copy.root)).code == 0
        tokens = {}
        for name, scope in (("writer", "write"), ("reader", "read")):
            line = ["tokens", "add", name, "--vaults", "notes", "--scope", scope, "--as", "main"]
            ran = typed(*line, "--json")
            assert ran.code == 0, ran
            tokens[name] = ran.json["token"]
        with Raw(copy.root) as mcp, Served("--tools", "all") as http:
            recorder = _Recorder(copy, mcp, http, tokens)
            rows = {tool.name: recorder.row(tool, n) for n, tool in enumerate(all_tools())}
    return Matrix(rows, str(base), secrets)


def shared_record(filled: Path, base: Path, shared: Path) -> Matrix:
    """Return another worker's record from the folder ``shared``, or create the record."""
    file = shared / "tool-matrix.pickle"
    with (shared / "tool-matrix.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(record(filled, base)))
        matrix: Matrix = pickle.loads(file.read_bytes())
    return matrix
