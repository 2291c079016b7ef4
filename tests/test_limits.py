"""Whatever a stranger's vault holds is read up to a limit, and written in one way."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run, refused, succeeded, titles, write
from growth import Steps, check_growth
from memvault import Vault, open_vault
from memvault.__main__ import main
from memvault.arguments.parameters import MOST_CHARACTERS, MOST_ENTRIES, input_schema
from memvault.call import Call, Caller
from memvault.errors import UsageError
from memvault.files.plain_files import MEMORY, SETTING
from memvault.tools.core.registry import Tool, all_tools
from memvault.workspace import Workspace
from tool_calls import call_of


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
    "files/atomic.py": "the one way to write",
    "files/lock.py": "a lock's file, never through a link",
    "index/folder.py": "the same",
    "index/local/vectors.py": "rows in the index's own folder",
    "cli/shutdown.py": "the empty device",
    "server/audit.py": "the file that --audit names",
    "mcp/stdio.py": "the empty device",
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
    only_read = {"files/plain_files.py", "plugins/trust.py", "files/walk.py"}
    assert found <= _WRITERS.keys() | only_read, found
    assert "files/atomic.py" in found


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


READER = Caller(
    "reader", may_run_programs=False, may_see_paths=False, budgeted=True, vaults=(), scope="read"
)
"""Who has a token of ``memvault serve`` that only reads."""


def asked_over_http(root: Path, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what a client with a token that only reads is answered."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
    from memvault.mcp import results
    from memvault.mcp.calls import PendingCall

    workspace = Workspace(root)
    found = PendingCall(workspace, READER, tool, arguments).run()
    answer = results.result(Call(workspace, READER), found)
    workspace.close()
    told: dict[str, Any] = answer.structured_content
    return told


@pytest.mark.parametrize("tool", all_tools(), ids=lambda tool: tool.name)
def test_lists_and_names_have_a_largest_size(folder: Path, tool: Tool) -> None:
    """Each list has a largest size, which its schema names, and so has what is no content."""
    properties = input_schema(tool.parameters)["properties"]
    given = call_of(tool)
    for parameter in tool.parameters:
        if list in parameter.types and not parameter.anything:
            assert properties[parameter.key]["maxItems"] == MOST_ENTRIES
            entry: Any = {} if parameter.items else "x"
            too_much: Any = [entry] * (MOST_ENTRIES + 1)
            with pytest.raises(UsageError, match="5,001 entries"):
                tool.bind({**given, parameter.key: too_much})
            if not parameter.items:
                with pytest.raises(UsageError, match="100,001 characters"):
                    tool.bind({**given, parameter.key: ["x" * (MOST_CHARACTERS + 1)]})
        if str in parameter.types and not parameter.arg.text:
            with pytest.raises(UsageError, match="100,001 characters"):
                tool.bind({**given, parameter.key: "x" * (MOST_CHARACTERS + 1)})


def test_a_call_reads_the_users_settings_once_for_all_warnings(
    folder: Path, tmp_path: Path, run: Run
) -> None:
    """Ten times the unknown tags cost no more reads of settings, and only the first are told."""
    write(folder, "a.md", "---\ntags: [tea]\n---\n\nGreen tea.\n")
    succeeded(run("vaults", "add", "mine", str(folder)))
    asked_over_http(folder, "memory_list", {})
    opened: list[str] = []
    listening = True

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "open" and str(arguments[0]).endswith("settings.toml"):
            opened.append(str(arguments[0]))

    sys.addaudithook(note)
    reads = []
    for number in (100, MOST_ENTRIES):
        opened.clear()
        told = asked_over_http(folder, "memory_list", {"tags": [f"t{at}" for at in range(number)]})
        reads.append(len(opened))
        assert told["warnings"][0].startswith("there is no tag 't0'")
        assert told["warnings"][-1] == f"{number - 10:,} more of the tags are on no memory"
    listening = False
    assert reads[0] == reads[1] > 0


def test_the_first_warnings_are_told_and_the_rest_counted(folder: Path, run: Run) -> None:
    """However many files are broken, an answer has twenty warnings and the number of the rest."""
    for number in range(500):
        write(folder, f"agents/reader/inbox/m{number}.md", "---\ntype: [\n---\n")
    told = asked_over_http(folder, "context", {"task": "tea"})
    assert len(told["warnings"]) == 21
    assert told["warnings"][-1] == "480 more warnings are left out"
    assert len(run("context", "tea", "--agent", "reader", "--json").json["warnings"]) == 21


def test_a_warning_of_what_was_written_is_not_left_out(folder: Path, run: Run) -> None:
    """Whatever else is wrong in a vault, a secret that a call wrote is warned of."""
    secret = f"ghp_{'a1B2c3D4e5' * 4}"[:40]
    for number in range(500):
        write(folder, f"agents/main/inbox/m{number}.md", "---\ntype: [\n---\n")
    write(folder, "memvault.toml", "version = 1\n" + "".join(f"x{at} = 1\n" for at in range(30)))
    told = succeeded(run("remember", "Token", secret, "--json")).json
    assert any("GitHub token" in note for note in told["warnings"])
    assert len(told["warnings"]) <= 21


@pytest.mark.parametrize("tool", ["memory_recall", "get_memories", "no_such_tool"])
def test_what_no_tool_takes_is_told_in_short(folder: Path, tool: str) -> None:
    """An unknown name, key or nested value of megabytes is not told again whole."""
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    name = tool * 100_000 if tool == "no_such_tool" else tool
    calls: list[dict[str, Any]] = [{"query": deep}, {"keys": {"a": deep}}, {"k" * 1_000_000: 1}]
    for given in calls:
        with open_vault(folder) as vault:
            told = vault.call(name, **given)
        assert not told["success"]
        assert len(json.dumps(told)) < 2_000
