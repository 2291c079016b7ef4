"""Hostile vaults and failing disks: nothing outside is touched, and nothing is lost."""

from __future__ import annotations

import contextlib
import io
import json
import re
import resource
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, called, child, refused, sampled, succeeded, titles, without_rights, write
from growth import Steps, check_growth
from memvault import Vault, open_vault
from memvault.__main__ import main
from memvault.arguments.binding import MOST_BYTES
from memvault.arguments.parameters import MOST_CHARACTERS, MOST_ENTRIES, input_schema
from memvault.call import Call, Caller
from memvault.errors import UsageError
from memvault.files import plain_files
from memvault.files.plain_files import MAX_MEMORY_BYTES, MAX_SETTING_BYTES
from memvault.tools.core.registry import all_tools
from memvault.workspace import Workspace
from tool_calls import call_of


def _tree(root: Path) -> dict[str, bytes | str]:
    """Return every file below a folder with its bytes, and every link with its target."""
    found: dict[str, bytes | str] = {}
    for path in root.rglob("*"):
        if path.is_symlink():
            found[str(path)] = str(path.readlink())
        elif path.is_file():
            found[str(path)] = path.read_bytes()
    return found


@pytest.mark.promise("S30")
def test_symlinks_are_neither_read_nor_written_through(vault: Vault, folder: Path) -> None:
    """External, circular and broken symlinks never cause a read or a change outside."""
    outside = folder.parent / "outside"
    write(outside, "secret.md", "# Secret\n\nperiwinkle\n")
    write(folder, "fact/kept.md", "# Kept\n\ntext\n")
    write(folder, "fact/other.md", "# Other\n\ntext\n")
    for link, target in (
        ("context/secret.md", outside / "secret.md"),
        ("context/gone.md", outside / "gone.md"),
        ("context/loop.md", "loop.md"),
        ("issue", outside),
        ("circle", "."),
    ):
        (folder / link).parent.mkdir(exist_ok=True)
        (folder / link).symlink_to(target)
    before = _tree(outside)
    found = vault.call("memory_list")["memories"]
    assert {entry["filePath"] for entry in found} == {"fact/kept.md", "fact/other.md"}
    assert vault.call("memory_recall", query="periwinkle", type="keyword")["count"] == 0
    assert vault.call("memory_forget", query="fact/other.md", confirm=True)["success"]
    kept = {"query": "Kept", "modifications": "x", "memoryType": "issue"}
    moved = vault.call("memory_compound", **kept)
    shutil.move(folder / "fact", folder / "moved")
    (folder / "fact").symlink_to(outside)
    restored = vault.call("memory_restore", memId="fact/other.md")
    made = vault.call("memory_remember", title="New", content="x", memoryType="issue")
    assert _tree(outside) == before
    for result in (moved, restored, made):
        assert result["error"]["code"] == "refused", result
        assert re.search("is a link|outside the vault", result["error"]["message"])
        assert result["error"]["hint"]
    assert (folder / "moved/kept.md").read_text("utf-8") == "# Kept\n\ntext\n"


@pytest.mark.parametrize(
    "path",
    (
        "{outside}/x.md ../outside/x.md old/../../outside/x.md linked/x.md old/linked.md "
        "old/../linked/x.md old/../agents/x.md OLD/x.md old//x.md old/x.md/ agents/x.md "
        ".hidden/x.md ignored/x.md old/x.txt"
    ).split(),
)
def test_unlisted_path_is_not_a_memory(folder: Path, run: Run, path: str) -> None:
    """A path that recall does not list cannot select a memory to show, change or forget."""
    (folder / "memvault.toml").write_text('version = 1\nignore = ["ignored"]\n', "utf-8")
    for real in ("old/x.md", "agents/x.md", ".hidden/x.md", "ignored/x.md", "old/x.txt"):
        write(folder, real, "wombat\n")
    outside = folder.parent / "outside"
    write(outside, "x.md", "bilby\n")
    (folder / "old" / "linked.md").symlink_to(outside / "x.md")
    (folder / "linked").symlink_to(outside)
    before = _tree(outside), _tree(folder / "old")
    name = path.format(outside=outside)
    shown = run("show", name)
    assert "old/x.md" in shown.out if path in ("OLD/x.md", "old/x.md/") else refused(shown, 1)
    assert refused(run("compound", name, "more"), 1)
    assert refused(run("forget", name, "--confirm", "true"), 1)
    assert before == (_tree(outside), _tree(folder / "old"))


@pytest.mark.parametrize("target", ["/etc/passwd", "nowhere.md", "taken.md", "a.md"])
def test_symlink_blocks_new_file_name(folder: Path, vault: Vault, target: str) -> None:
    """If a symlink has a new memory's file name, the memory gets a suffix."""
    write(folder, "context/a.md", "# A\n")
    (folder / "context/taken.md").symlink_to(target)
    made = called(vault, "memory_remember", title="Taken", content="x", memoryType="")
    assert made["filePath"] == "context/taken-2.md"


_TAKING = "20200101T000000.000000Z-0"
_FILES = (
    "lock talk-id talk.lock agents/main/lock agents/main/log.jsonl agents/main/space "
    f"agents/main/talks.json agents/main/active.json agents/main/leases/{_TAKING}.lock"
).split()
_FOLDERS = (
    "index history trash agents agents/main agents/main/leases agents/main/popped "
    f"agents/main/leases/docs agents/main/leases/{_TAKING} agents/main/popped/{_TAKING}"
).split()


_SHARED = "agents agents/main agents/main/inbox agents/main/memories spaces spaces/team".split()
"""Folders in the vault that contain agents' files."""


@sampled(3)
@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((f".memvault/{name}", ".") for name in _FOLDERS),
        *((f".memvault/{name}", target) for name in _FILES for target in ("log", "gone")),
        *((name, ".") for name in _SHARED),
        *((f"agents/main/{name}.md", "mine.md") for name in ("goals/a", "memories/a")),
        (f"agents/main/inbox/{_TAKING}.md", "mine.md"),
    ],
)
@pytest.mark.promise("S30")
def test_symlinks_in_place_of_state_files_are_not_followed(
    vault: Vault, folder: Path, name: str, target: str
) -> None:
    """An untrusted vault cannot make memvault delete, write or read files outside it."""
    outside = folder.parent / "outside"
    write(outside, "sub/secret.md", "# Secret\n\nperiwinkle\n")
    write(outside, "20200101T000000.000Z-0/mine.md", "# Mine\n\nbilby\n")
    write(outside, "mine.md", "# Mine\n\nbilby\n")
    for number in range(101):
        write(outside, f"{_TAKING}{number:03}/mine.md", "# Mine\n\nbilby\n")
    write(outside, "log", '{"line": 1}\n')
    write(folder, "fact/a.md", "# A\n\ntext\n")
    link = folder / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / target)
    before = _tree(outside)
    refusals = 0
    for tool, arguments in (
        ("memory_recall", {"query": "text"}),
        ("memory_list", {}),
        ("memory_show", {"memId": "A"}),
        ("memory_restore", {}),
        ("vault_status", {}),
        ("memory_remember", {"title": "B", "content": "text", "memoryType": ""}),
        ("memory_compound", {"query": "A", "modifications": "more"}),
        ("memory_restore", {"memId": "Mine"}),
        ("memory_forget", {"query": "A", "confirm": True}),
        ("vault_reindex", {}),
        ("memory_load", {"memId": "A"}),
        ("set_memories", {"memories": [{"key": "k", "value": "v"}]}),
        ("get_memories", {}),
        ("get_goals", {}),
        ("get_plans", {}),
        ("push_service", {"name": "x"}),
        ("enter_space", {"spaceId": "team"}),
        ("send_message", {"text": "x"}),
        ("talk_user", {"message": "x"}),
        ("talk_log", {"severity": "info", "message": "x"}),
        ("peek_inbox", {"count": 5}),
        ("context", {}),
    ):
        result = vault.call(tool, **arguments)
        assert _tree(outside) == before, tool
        assert "secret" not in str(result).lower()
        assert not re.search(r"mine\.md|bilby|periwinkle", str(result))
        if result["success"] is False:
            assert tool not in ("memory_recall", "memory_list", "memory_show", "vault_status")
            assert result["error"]["code"] in ("refused", "storage", "not_found"), tool
            assert result["error"]["hint"]
            refusals += result["error"]["code"] == "refused"
    assert refusals or name not in (*_SHARED, ".memvault/agents", ".memvault/agents/main/log.jsonl")


def test_file_in_place_of_type_folder_is_reported(vault: Vault, folder: Path) -> None:
    """If a file blocks a memory's target folder, the call is refused with the reason."""
    write(folder, "notes/a.md", "a")
    assert vault.call("memory_forget", query="notes/a.md", confirm=True)["success"]
    (folder / "notes").rmdir()
    write(folder, "notes", "no folder")
    write(folder, "issue", "no folder")
    write(folder, "fact/b.md", "b")
    for result in (
        vault.call("memory_restore", memId="notes/a.md"),
        vault.call("memory_compound", query="fact/b.md", modifications="x", memoryType="issue"),
        vault.call("memory_remember", title="C", content="c", memoryType="issue"),
    ):
        assert result["error"]["code"] == "refused"
        assert "is a file" in result["error"]["message"]
        assert result["error"]["hint"]
    assert (folder / "fact/b.md").read_text("utf-8") == "b"
    assert len(vault.call("memory_restore")["trash"]) == 1


_MERGED = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{!!merge <<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12)
)
_LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30)
)
BOMBS = {
    "aliases": f"---\n{_LAUGHS}---\nx\n",
    "merge keys": f"---\n{_MERGED.replace('!!merge ', '')}---\nx\n",
    "explicit merge keys": f"---\n{_MERGED}---\nx\n",
    "brackets": f"---\na: {'[' * 100_000}\n---\nx\n",
    "braces": f"---\na: {'{a: ' * 40_000}\n---\nx\n",
    "dashes": f"---\n{'- ' * 100_000}\n---\nx\n",
    "questions": f"---\n{'? ' * 100_000}\n---\nx\n",
    "deeper and deeper": "---\n" + "".join(f"{' ' * n}a:\n" for n in range(600)) + "---\nx\n",
    "a huge header": f"---\na: {'b' * 300_000}\n---\nx\n",
    "a wide heading": f"# a{' ' * 30_000}b{' ' * 30_000}c\n",
    "comments in code": "```sh\n" + "# x\n" * 200_000 + "```\n",
}


@sampled(3)
@pytest.mark.parametrize("name", BOMBS)
def test_resource_exhausting_file_does_not_hide_other_memories(folder: Path, name: str) -> None:
    """A file made to exhaust its reader breaks neither the process nor other memories."""
    file = write(folder, "bomb.md", BOMBS[name])
    write(folder, "fine.md", "# Fine\n\nperiwinkle\n")
    command = ["recall", "periwinkle", "--mode", "keyword", "--json"]
    ran = succeeded(child(folder, *command, before=_little_memory, seconds=20))
    assert [entry["title"] for entry in ran.json["memories"]] == ["Fine"]
    assert file.read_text("utf-8") == BOMBS[name]


def _little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))


def test_unreadable_file_is_reported_and_the_rest_works(folder: Path) -> None:
    """Files without read permission are listed or kept, and all others are still found."""
    weak = without_rights()
    write(folder, "fine.md", "# Fine\n\nperiwinkle\n")
    locked = write(folder, "locked.md", "# Locked\n\nperiwinkle\n")
    write(folder, "shut/inner.md", "# Inner\n\nperiwinkle\n")
    recall = ["recall", "periwinkle", "--mode", "keyword"]
    assert succeeded(child(folder, *recall)).out.count("periwinkle") == 3
    locked.chmod(0)
    (folder / "shut").chmod(0)
    try:
        found = succeeded(child(folder, *recall, "--json", prefix=weak)).json["memories"]
        listed = succeeded(child(folder, "list", "--json", prefix=weak)).json["memories"]
        said = refused(child(folder, "show", "locked.md", prefix=weak), 1)
        refused(child(folder, "compound", "locked.md", "x", prefix=weak), 1)
        refused(child(folder, "forget", "locked.md", "--confirm", "true", prefix=weak), 1)
    finally:
        locked.chmod(0o644)
        (folder / "shut").chmod(0o755)
    assert [entry["title"] for entry in found] == ["Fine"]
    problems = {entry["filePath"]: entry.get("problem", "") for entry in listed}
    assert problems["fine.md"] == ""
    assert problems["locked.md"].startswith("Permission denied")
    assert "Permission denied" in said
    assert succeeded(child(folder, *recall)).out.count("periwinkle") == 3


@pytest.mark.parametrize("name", ["memvault.toml", "."])
def test_unreadable_vault_is_reported(folder: Path, name: str) -> None:
    """Without permission to read the vault or its settings the exit code is 3."""
    weak = without_rights()
    mode = (folder / name).stat().st_mode
    (folder / name).chmod(0o300)
    try:
        ran = child(folder, "list", prefix=weak)
    finally:
        (folder / name).chmod(mode)
    assert "Permission denied" in refused(ran, 3)


def test_events_are_returned_if_lease_cannot_be_finished(folder: Path) -> None:
    """If a lease cannot be finished, the event is returned and may be delivered again."""
    weak = without_rights()
    popped = folder / ".memvault/agents/main/popped"
    popped.mkdir(parents=True)
    assert succeeded(child(folder, "inbox", "push", "x", prefix=weak)).out
    popped.chmod(0o555)
    try:
        first = succeeded(child(folder, "inbox", "peek", "--json", prefix=weak))
    finally:
        popped.chmod(0o755)
    assert "Permission denied" in first.err
    assert "may be delivered again" in first.err
    for ran in (first, succeeded(child(folder, "inbox", "peek", "--json", prefix=weak))):
        assert [event["data"]["name"] for event in ran.json["events"]] == ["x"]


@pytest.mark.parametrize("limit", [0, 8192])
def test_interrupted_write_leaves_file_unchanged(folder: Path, limit: int) -> None:
    """An interrupted write leaves the memory, the list and the folder unchanged."""
    write(folder, "a.md", "# A\n\nperiwinkle\n")
    before = _tree(folder)
    big = b"word " * 9_000

    def cut_off() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    for line in (["remember", "B", "-"], ["compound", "A", "-"]):
        refused(child(folder, *line, before=cut_off, stdin=big), 1)
        assert before.items() == {item for item in _tree(folder).items() if ".mem" not in item[0]}
    for line in (["list"], ["recall", "periwinkle"], ["show", "A"]):
        assert "A" in succeeded(child(folder, *line, before=cut_off)).out


_FULL = """
set -e
mount -t tmpfs -o size=1m,mode=700 none "$1" || exit 99
cd "$1"
printf 'version = 1\\n' > memvault.toml
printf '# Small\\n\\nperiwinkle\\n' > small.md
say() { echo "== $*"; "$0" -m memvault "$@" 2>&1 || echo "code $?"; }
say list
head -c 2000000 /dev/zero > filler 2>/dev/null || true
say recall periwinkle
say list
say remember New words
say compound Small words
rm -rf .memvault
head -c 2000000 /dev/zero > more 2>/dev/null || true
say recall periwinkle
rm filler more
say remember New words
say recall periwinkle
"""


def test_full_disk_loses_no_data(folder: Path) -> None:
    """On a full disk every memory is still found, and a write reports the full disk."""
    line = ["unshare", "-m", "sh", "-c", _FULL, sys.executable, str(folder)]
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare to mount a small disk with")
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip("a small disk cannot be mounted here")
    parts = dict(part.split("\n", 1) for part in done.stdout.split("== ")[1:])
    assert done.returncode == 0, done
    for part in done.stdout.split("== ")[1:]:
        if part.startswith(("list", "recall")):
            assert "small.md" in part, done.stdout
    assert "The disk is full" in parts["compound Small words"]
    assert "hint: free some space" in parts["compound Small words"]
    assert "code 1" in parts["compound Small words"]
    assert "Remembered" in parts["remember New words"]


_NO_FILES = """
set -e
mount -t tmpfs -o size=4m,nr_inodes=60,mode=700 none "$1" || exit 99
cd "$1"
printf 'version = 1\\n' > memvault.toml
"$0" -m memvault goals set zero "Set before" > /dev/null
n=0; while touch "filler$n" 2> /dev/null; do n=$((n + 1)); done
rm filler0 filler1
exec "$0" -m memvault call set_goals "$2"
"""


def test_changes_before_full_disk_are_reported(folder: Path) -> None:
    """If the disk fills up during a call, the saved goals and the full disk are reported."""
    if not shutil.which("unshare"):
        pytest.skip("there is no unshare to mount a small disk with")
    goals = '{"goals": [{"id": "one", "description": "x"}, {"id": "two", "description": "x"}]}'
    line = ["unshare", "-m", "sh", "-c", _NO_FILES, sys.executable, str(folder), goals]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip("a small disk cannot be mounted here")
    error = json.loads(done.stdout)["error"]
    assert "has no free inodes" in error["message"]
    assert "agents/main/goals/one.md was changed before that; `memvault undo" in error["hint"]


def _sparse(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(size)


@pytest.mark.promise("S50")
def test_settings_have_a_maximum_size(folder: Path, run: Run) -> None:
    """A memvault.toml larger than a megabyte is reported, not read."""
    _sparse(folder / "memvault.toml", 20 << 30)
    assert "larger than 1 MB" in refused(run("list"), 3)


@pytest.mark.promise("S50")
def test_huge_file_does_not_hide_other_memories(folder: Path, run: Run) -> None:
    """A sparse file of 20 GB does not hide other memories, and status reports it."""
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


def test_file_over_limit_is_not_read(tmp_path: Path) -> None:
    """A file that is larger than its limit is refused without being read into memory."""
    _sparse(tmp_path / "huge", 20 << 30)
    tracemalloc.start()
    with pytest.raises(OSError, match="larger than 10 MB"):
        plain_files.read(tmp_path / "huge", 10 << 20)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


def test_memory_just_below_size_limit_is_found(folder: Path) -> None:
    """A large memory below the size limit is found completely."""
    assert MAX_MEMORY_BYTES == MOST_BYTES == 64 << 20
    assert MAX_SETTING_BYTES == 1 << 20
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
        b'{"plans": {"a": {"next": 9e999}}, "received": [[1]], "m1": {"count": 9e999}}',
    ],
    ids=range(9),
)
@pytest.mark.promise("S59")
def test_tools_work_with_corrupt_state_files(folder: Path, vault: Vault, data: bytes) -> None:
    """An untrusted vault's state files can contain anything, at any size."""
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


@pytest.mark.promise("S35")
def test_temporary_file_names_are_unpredictable(folder: Path, run: Run, tmp_path: Path) -> None:
    """No write goes through a symlink with a predictable temporary file name."""
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
@pytest.mark.promise("S48")
def test_slow_settings_are_refused_quickly(
    folder: Path, run: Run, before: str, part: str, behind: str
) -> None:
    """Settings of a megabyte that would take minutes to parse are refused quickly."""
    codes = []

    def work(size: int) -> Steps:
        write(folder, "memvault.toml", before + part * (size // 2) + behind)
        with contextlib.redirect_stderr(io.StringIO()):
            yield lambda: codes.append(main(["--vault", str(folder), "list"]))

    check_growth(work, 200_000)
    assert set(codes[1:]) == {3}
    assert "memvault.toml" in refused(run("list"), 3)


READER = Caller(
    "reader",
    may_run_programs=False,
    may_see_paths=False,
    has_token_budget=True,
    vaults=(),
    scope="read",
)
"""A caller with a read-only token of ``memvault serve``."""


def asked_over_http(root: Path, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a client with a read-only token."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
    from memvault.mcp import sdk_types
    from memvault.mcp.calls import PendingCall

    workspace = Workspace(root)
    found = PendingCall(workspace, READER, tool, arguments).run()
    answer = sdk_types.result(Call(workspace, READER), found)
    workspace.close()
    told: dict[str, Any] = answer.structured_content
    return told


@pytest.mark.promise("S44")
def test_lists_and_names_have_a_maximum_size() -> None:
    """Each list, and each string that is not content, has a maximum size in its schema."""
    for tool in all_tools():
        properties = input_schema(tool.parameters)["properties"]
        for parameter in tool.parameters:
            too_long: list[Any] = []
            if list in parameter.types and not parameter.anything:
                assert properties[parameter.key]["maxItems"] == MOST_ENTRIES
                too_many = [{} if parameter.items else "x"] * (MOST_ENTRIES + 1)
                with pytest.raises(UsageError, match="5,001 entries"):
                    tool.bind({**call_of(tool), parameter.key: too_many})
                too_long += [] if parameter.items else [["x" * (MOST_CHARACTERS + 1)]]
            if str in parameter.types and not parameter.arg.text:
                too_long += ["x" * (MOST_CHARACTERS + 1)]
            for value in too_long:
                with pytest.raises(UsageError, match="100,001 characters"):
                    tool.bind({**call_of(tool), parameter.key: value})


@pytest.mark.promise("S44")
def test_call_reads_user_settings_once(folder: Path, tmp_path: Path, run: Run) -> None:
    """More unknown tags cause no more settings reads, and only the first tags are listed."""
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
        assert told["warnings"][-1] == f"{number - 10:,} more tags are not used"
    listening = False
    assert reads[0] == reads[1] > 0


@pytest.mark.promise("S44")
def test_first_warnings_are_listed_and_the_rest_counted(folder: Path, run: Run) -> None:
    """If many files are broken, an answer has twenty warnings and a count of the rest."""
    for number in range(500):
        write(folder, f"agents/reader/inbox/m{number}.md", "---\ntype: [\n---\n")
    told = asked_over_http(folder, "context", {"task": "tea"})
    assert len(told["warnings"]) == 21
    assert told["warnings"][-1] == "480 more warnings were omitted"
    assert len(run("context", "tea", "--agent", "reader", "--json").json["warnings"]) == 21
    with open_vault(folder, agent="reader") as vault:
        inner = vault.call("call_tool", toolName="context", parameters={"task": "tea"})
    assert inner["warnings"][20:] == told["warnings"][20:]


@pytest.mark.promise("S44")
def test_secret_warning_is_never_omitted(folder: Path, run: Run) -> None:
    """A secret written by the call is reported even among many other warnings."""
    secret = f"ghp_{'a1B2c3D4e5' * 4}"[:40]
    for number in range(500):
        write(folder, f"agents/main/inbox/m{number}.md", "---\ntype: [\n---\n")
    write(folder, "memvault.toml", "version = 1\n" + "".join(f"x{at} = 1\n" for at in range(30)))
    told = succeeded(run("remember", "Token", secret, "--json")).json
    assert any("GitHub token" in note for note in told["warnings"])
    assert len(told["warnings"]) <= 21


@pytest.mark.promise("S44")
@pytest.mark.parametrize("tool", ["memory_recall", "get_memories", "no_such_tool"])
def test_unknown_arguments_are_reported_briefly(folder: Path, tool: str) -> None:
    """An error shortens an unknown name, key or nested value of several megabytes."""
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
