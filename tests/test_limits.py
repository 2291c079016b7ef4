"""Whatever a stranger's vault holds is read up to a limit, and written in one way."""

from __future__ import annotations

import ast
import contextlib
import io
import shutil
from pathlib import Path

import pytest

from conftest import ROOT, Run, refused, titles, write
from growth import Steps, check_growth
from memvault import Vault, open_vault
from memvault.__main__ import main
from memvault.plain_files import MEMORY, SETTING


def _sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(size)


def test_settings_have_a_largest_size(folder: Path, run: Run) -> None:
    """A memvault.toml that is larger than a megabyte is named, not read."""
    _sparse(folder / "memvault.toml", 20 << 30)
    assert "larger than 1 MB" in refused(run("list"), 3)


def test_a_huge_file_is_a_problem_of_its_own(folder: Path, run: Run) -> None:
    """A sparse file of 20 GB among the memories hides none of them, and status names it."""
    write(folder, "a.md", "# A\n\nzebra\n")
    _sparse(folder / "huge.md", 20 << 30)
    assert titles(run("recall", "zebra", "--json").json) == ["A"]
    assert {entry["filePath"] for entry in run("list", "--json").json["memories"]} == {
        "a.md",
        "huge.md",
    }
    (problem,) = run("status", "--json").json["problems"]
    assert problem["filePath"] == "huge.md"
    assert "larger than 64 MB" in problem["problem"]
    assert "larger than 64 MB" in refused(run("show", "huge.md"), 1)
    assert run("forget", "huge.md", "--confirm", "true").code == 1


def test_a_memory_may_be_as_large_as_the_limit(folder: Path) -> None:
    """The limit is a limit of memories, not of what is reasonable: just below it all is found."""
    assert MEMORY == 64 << 20
    assert SETTING == 1 << 20
    write(folder, "a.md", "# A\n\nzebra\n" + "lorem ipsum\n" * 100_000)
    with open_vault(folder) as vault:
        assert titles(vault.call("memory_recall", query="zebra")) == ["A"]


_STATES = (
    ".memvault/access.json",
    ".memvault/access.jsonl",
    ".memvault/talk-id",
    ".memvault/agents/main/active.json",
    ".memvault/agents/main/plans.json",
    ".memvault/agents/main/talks.json",
    ".memvault/agents/main/space",
)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b"[]",
        b"{}",
        b"null",
        b"\xff\0",
        b"",
        b"9" * 6_000,
        b'{"plans": 5, "pieces": 5, "sent": 5}',
        b'{"plans": {"a": {"next": 9e999}}, "heard": [[1]], "m1": {"count": 9e999}}',
    ],
    ids=range(9),
)
def test_whatever_state_a_vault_brings_along_breaks_no_tool(
    folder: Path, vault: Vault, data: bytes
) -> None:
    """Files of the program's own in a stranger's vault may hold anything, and be of any size."""
    write(folder, "fact/a.md", "---\nid: m1\n---\n\n# A\n\nzebra\n")
    for path in _STATES:
        write(folder, path, data)
    for tool, arguments in (
        ("memory_recall", {"query": "zebra"}),
        ("recall_fact", {"query": "zebra"}),
        ("memory_load", {"memId": "m1"}),
        ("memory_active", {}),
        ("set_plans", {"plans": [{"name": "p", "instruction": "i", "runAfter": "1 day"}]}),
        ("get_plans", {}),
        ("talk_user", {"message": "x"}),
        ("enter_space", {"spaceId": "team"}),
        ("send_message", {"text": "x"}),
        ("peek_inbox", {}),
        ("context", {}),
        ("vault_status", {}),
    ):
        found = vault.call(tool, **arguments)
        assert found["success"], (tool, found)
    for path in _STATES:
        shutil.rmtree(folder / path, ignore_errors=True)
        (folder / path).unlink(missing_ok=True)
        _sparse(folder / path, 20 << 30)
    named = {entry["filePath"] for entry in vault.call("vault_status")["problems"]}
    assert named == {path for path in _STATES if path.endswith(".json")}
    assert vault.call("recall_fact", query="zebra")["success"]
    assert vault.call("talk_user", message="x")["success"]
    assert vault.call("context")["success"]


_WRITERS = {
    "vault/atomic.py": "the one way to write",
    "vault/lock.py": "a lock's file, never through a link",
    "index/place.py": "the same",
    "index/flat_vectors.py": "rows in the index's own folder",
    "cli/streams.py": "the empty device",
    "mcp/audit.py": "the file that --audit names",
    "mcp/wire.py": "the empty device",
}
"""Modules that may open a file for writing, and what for."""


def _writes(tree: ast.AST) -> list[int]:
    """Return the lines on which a file may be opened for writing, or made."""
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        texts = [
            entry.value
            for entry in (*node.args, *(word.value for word in node.keywords))
            if isinstance(entry, ast.Constant) and isinstance(entry.value, str)
        ]
        base = getattr(getattr(node.func, "value", None), "id", "")
        mode = name in ("open", "fdopen") and any(set(text) & set("wax+") for text in texts[-1:])
        if name in ("write_text", "write_bytes", "touch", "mkstemp", "mkdtemp") or (
            mode or (base == "os" and name == "open")
        ):
            lines.append(node.lineno)
    return lines


def test_there_is_one_way_to_write() -> None:
    """No other module opens files for writing, or makes temporary ones with a name to guess."""
    found = {
        path.relative_to(ROOT / "src" / "memvault").as_posix()
        for path in (ROOT / "src" / "memvault").rglob("*.py")
        if _writes(ast.parse(path.read_text("utf-8")))
    }
    assert found <= _WRITERS.keys() | {"plain_files.py", "plugins/fingerprint.py"}, found
    assert "vault/atomic.py" in found


def test_a_link_with_a_temporary_files_name_is_not_followed(
    folder: Path, run: Run, tmp_path: Path
) -> None:
    """No write of the program goes through a name that somebody can know beforehand."""
    mine = write(tmp_path, "mine.txt", "mine")
    write(folder, "a.md", "# A\n\nzebra\n")
    for name in ("index/seal.json.tmp", "index/manifest.db", "access.json.tmp", "talk-id.tmp"):
        link = folder / ".memvault" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(mine)
    assert run("recall", "zebra").code == 0
    assert run("talk", "user", "Hello").code == 0
    assert mine.read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("before", "part", "behind"),
    [
        ("", "a.", "a = 1\n"),
        ("[", "a.", "a]\n"),
        ("x = { ", "a.", "a = 1 }\n"),
        ("ignore = ['", "*a", "']\n"),
        ("version = ", "99", "\n"),
    ],
    ids=["key", "table", "inline", "ignore", "number"],
)
def test_no_settings_stall(folder: Path, run: Run, before: str, part: str, behind: str) -> None:
    """Settings of a megabyte that would take minutes to read are refused at once."""
    codes = []

    def work(size: int) -> Steps:
        write(folder, "memvault.toml", before + part * (size // 2) + behind)
        with contextlib.redirect_stderr(io.StringIO()):
            yield lambda: codes.append(main(["--vault", str(folder), "list"]))

    check_growth(work, 200_000)
    assert set(codes[1:]) == {3}
    assert "memvault.toml" in refused(run("list"), 3)


def test_unknown_settings_do_not_flood(folder: Path, run: Run) -> None:
    """Of thousands of unknown settings the first few are named, and how many more there are."""
    write(folder, "memvault.toml", "".join(f"a{number} = 1\n" for number in range(3_000)))
    warnings = run("list", "--json").json["warnings"]
    assert len(warnings) == 11
    assert "2,990 more" in warnings[-1]
