"""Properties of every tool, asserted on recorded calls from each front end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from made_secrets import pieces
from memvault.call import LOCAL
from memvault.secrets.detector import BUILTIN
from memvault.server.tokens import SCOPES
from memvault.tools.core import registry
from memvault.tools.core.messages import render_result
from memvault.tools.core.registry import Tool, all_tools
from result_types import violations
from tool_calls import OF_THIS_MACHINE, WRITING, normal, shell_words
from tool_matrix import Matrix, Row

LOCAL_FRONT_ENDS = ("shell", "json", "python")
"""The front ends of a person on this machine."""
CLIENTS = ("mcp", "writer", "reader")
"""The front ends of clients; the tokens of the two HTTP clients have the scopes write and read."""
FOR_PERSONS = {"model_use", "model_verify", "git_init"}
"""Tools that are refused to clients, because they may make this machine run a program."""
FAILING = {"git_sync": "The vault is not in a git repository"}
SCOPED = {"list_agents", "memory_log", "vault_stats", "get_available_tools"}
"""Tools that return less to a client with a token: no other agents' files, fewer tools."""
LOCAL_KEYS = {"context": ["memories", "parts"], "vault_status": ["vault", "folder"]}
"""Result keys that only a person on this machine gets, or that contain a path only there."""
COUNTS = {".memvault/access.jsonl", ".memvault/access.lock"}
"""Files that count recalls; a read-only tool may change them."""

Check = Callable[[Tool, Row], Iterator[object]]


def check_all(matrix: Matrix, problems: Check) -> None:
    """Assert that a check finds no problem in the row of any tool."""
    found = {tool.name: [*problems(tool, matrix.rows[tool.name])] for tool in all_tools()}
    assert {name: entries for name, entries in found.items() if entries} == {}


def is_allowed(tool: Tool, front_end: str) -> bool:
    """Return whether a tool may be called through a front end."""
    scopes = {"writer": ("read", "write"), "reader": ("read",)}
    is_refused = front_end in CLIENTS and tool.name in FOR_PERSONS
    return tool.scope in scopes.get(front_end, (tool.scope,)) and not is_refused


def sent_to_clients(row: Row) -> Iterator[str]:
    """Yield everything that was sent to clients, including answers to invalid arguments."""
    yield from (row.outcomes[name].sent for name in CLIENTS)
    yield from (f"{arguments}: {json.dumps(answer)}" for arguments, answer in row.failures)


def test_all_tools_succeed_with_valid_arguments(matrix: Matrix) -> None:
    """Each tool succeeds on every allowed front end and returns its declared type."""

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        for name, outcome in row.outcomes.items():
            if tool.name in FAILING:
                if is_allowed(tool, name):
                    assert outcome.result["error"]["message"] == FAILING[tool.name]
            elif outcome.result["success"] is not is_allowed(tool, name):
                yield name, outcome.result
            elif outcome.result["success"] and (tool.name, name) != ("call_tool", "shell"):
                yield from violations(tool, outcome.result)

    check_all(matrix, problems)


def test_all_tools_return_the_same_on_every_front_end(matrix: Matrix) -> None:
    """Options, JSON, methods, MCP and HTTP differ only in commands and in masked secrets."""

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        def result(name: str) -> str:
            found: Any = row.outcomes[name].result
            if name in ("shell", "json"):  # both are typed in a shell
                found = render_result(found, tool, LOCAL)
            if name == "shell" and tool.name == "call_tool":
                found = {"success": True, "result": found}
            return normal(Path(matrix.base), masked(found, LOCAL_KEYS.get(tool.name, ())))

        pairs = [("shell", "python"), ("json", "python")]
        pairs += [("python", "mcp")] if is_allowed(tool, "mcp") else []
        pairs += [("mcp", "writer")] if is_allowed(tool, "writer") else []
        for one, other in pairs:
            if not (other == "writer" and tool.name in SCOPED) and result(one) != result(other):
                yield one, result(one), other, result(other)

    check_all(matrix, problems)


def masked(value: Any, left_out: Collection[str] = ()) -> Any:
    """Return a result with masked secrets, and without certain keys at any depth."""
    if isinstance(value, list):
        return [masked(entry, left_out) for entry in value]
    if isinstance(value, dict):
        return {key: masked(value[key], left_out) for key in value if key not in left_out}
    return BUILTIN.masked(value) if isinstance(value, str) else value


def test_all_tools_change_the_same_files_on_every_front_end(matrix: Matrix) -> None:
    """Every front end writes the same text to the same files."""

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        texts = {
            name: normal(Path(matrix.base), sorted(outcome.files.items()))
            for name, outcome in row.outcomes.items()
            if is_allowed(tool, name)
        }
        if len(set(texts.values())) > 1:
            yield texts

    check_all(matrix, problems)


@pytest.mark.promise("S40")
@pytest.mark.promise("S41")
def test_all_tools_obey_token_scope(matrix: Matrix) -> None:
    """A tool outside a token's scope is refused, and a reader's call does not change files."""

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        for name in ("writer", "reader"):
            outcome = row.outcomes[name]
            if not is_allowed(tool, name):
                error = outcome.result["error"]
                assert f"{tool.name} needs scope" in error["message"]
                assert ("ask the administrator" in error["hint"]) is (tool.scope in SCOPES)
            if outcome.changed and (name == "reader" or not is_allowed(tool, name)):
                yield name, outcome.changed

    check_all(matrix, problems)


def test_read_only_tools_do_not_change_files(matrix: Matrix) -> None:
    """A tool declared read-only changes nothing except recall counts."""

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        for name, outcome in row.outcomes.items():
            if tool.read_only and not COUNTS.issuperset(outcome.changed):
                yield name, outcome.changed

    check_all(matrix, problems)


@pytest.mark.promise("R1")
def test_all_tools_log_and_undo_their_changes(matrix: Matrix) -> None:
    """The log lists each file that a tool writes, and undo restores all of them byte for byte."""

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        files = set(row.outcomes["python"].files)
        if tool.name in OF_THIS_MACHINE and not row.journal:
            is_excused = all("/inbox/" in path or path.startswith(".git") for path in files)
        else:
            logged = [{entry["filePath"] for entry in change["files"]} for change in row.journal]
            is_excused = (
                bool(files)
                and [change["tool"] for change in row.journal] == [tool.name]
                and logged[0] >= set(map(masked, files))
                and (row.undone, row.redone) == ([], [])
            )
        if tool in WRITING and not is_excused:
            yield files, row.journal, row.undone, row.redone

    check_all(matrix, problems)


@pytest.mark.promise("S37")
def test_all_tools_hide_local_paths_from_clients(matrix: Matrix) -> None:
    """No result for a client contains a path on this machine, even after an error."""
    package = str(Path(registry.__file__).parents[2])

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        yield from (sent for sent in sent_to_clients(row) if matrix.base in sent or package in sent)

    check_all(matrix, problems)
    assert matrix.base in matrix.rows["vault_status"].outcomes["shell"].sent


@pytest.mark.promise("S74")
@pytest.mark.promise("S87")
def test_all_tools_mask_secrets(matrix: Matrix) -> None:
    """Clients see no part of a secret; people see secrets only in tools that reveal text."""

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        hidden = [*sent_to_clients(row)]
        if not tool.reveals:
            hidden += [row.outcomes[name].sent for name in LOCAL_FRONT_ENDS]
        for sent in hidden:
            yield from (
                (place, sent) for place, secret in matrix.secrets.items() if pieces(secret, sent)
            )

    check_all(matrix, problems)
    shown = [
        place
        for row in matrix.rows.values()
        for place, secret in matrix.secrets.items()
        if secret in row.outcomes["shell"].sent
    ]
    assert len(set(shown)) >= 18
    masks = [
        row.outcomes["mcp"].sent.count("[masked: GitHub token]") for row in matrix.rows.values()
    ]
    assert sum(count > 0 for count in masks) >= 30


def test_all_tools_do_not_mention_commands_to_agents(matrix: Matrix) -> None:
    """Errors, hints, notes and messages to a client mention tools and arguments, not commands."""

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        answers = [row.outcomes[name].result for name in CLIENTS]
        answers += [answer for _, answer in row.failures]
        if tool.name not in FOR_PERSONS:
            yield from (answer for answer in answers if shell_words(answer))

    check_all(matrix, problems)


def test_all_tools_report_invalid_arguments(matrix: Matrix) -> None:
    """A call with invalid arguments returns a result or an error with a hint, never a bug."""

    def problems(tool: Tool, row: Row) -> Iterator[object]:
        for arguments, answer in row.failures:
            error = answer.get("error", {})
            details = {**answer, "message": error} if isinstance(error, str) else error
            fine = details.get("code") != "bug" and re.search(r"[^.]$", details.get("message", ""))
            if answer["success"] is False and not (fine and details.get("hint")):
                yield arguments, answer

    check_all(matrix, problems)
