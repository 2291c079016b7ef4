"""Owner, group, permissions, mounts and umask of the files that tools write."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memvault
from children import become, bind, in_child, only_as_root
from conftest import vault_files, write
from memvault import Vault, open_vault

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux mounts, users and groups"
)

NOTE = "---\nid: m1\nmemory_type: team\ntags: [x]\n---\n\n# Pay talk\n\nzebra\n\n- [ ] Ask more\n"
PATH = "team/pay-talk.md"
FIRST, SECOND, GROUP = 2_001, 2_002, 3_000

Step = tuple[str, dict[str, Any]]
FORGET: Step = ("memory_forget", {"query": "m1", "confirm": True})
RENAME: Step = ("memory_rename", {"memId": "m1", "title": "Wage talk", "confirm": True})
ADD: Step = ("memory_compound", {"query": "m1", "modifications": "More."})
MOVE: Step = (
    "memory_compound",
    {"query": "m1", "modifications": "x", "memoryType": "issue"},
)
REMOVE: Step = ("delete_memories", {"keys": ["k"]})
WRITES: dict[str, list[Step]] = {
    "compound": [ADD],
    "compound --mode replace": [
        ("memory_compound", {"query": "m1", "modifications": "New", "mode": "replace"})
    ],
    "compound --type": [MOVE],
    "rename": [RENAME],
    "rename into a folder": [("memory_rename", {"memId": "m1", "to": "other/", "confirm": True})],
    "tag add": [("tag_add", {"memId": "m1", "tags": ["a"]})],
    "tag remove": [("tag_remove", {"memId": "m1", "tags": ["x"]})],
    "tag rename": [("tag_rename", {"old": "x", "new": "y", "confirm": True})],
    "task done": [("complete_task", {"memory": "m1", "line": 11})],
    "forget": [FORGET],
    "restore from the trash": [FORGET, ("memory_restore", {"memId": "m1"})],
    "restore a revision": [ADD, ("memory_restore", {"memId": "m1", "revision": "latest"})],
    "undo a change": [ADD, ("memory_undo", {})],
    "undo a rename": [RENAME, ("memory_undo", {})],
    "undo a move": [MOVE, ("memory_undo", {})],
    "undo a forget": [FORGET, ("memory_undo", {})],
    "values set": [("set_memories", {"memories": [{"key": "k", "value": "zebra two"}]})],
    "values delete": [REMOVE],
    "goals set": [("set_goals", {"goals": [{"id": "g", "description": "zebra two"}]})],
    "plans set": [
        (
            "set_plans",
            {"plans": [{"name": "p", "instruction": "zebra two", "runAfter": "1 day"}]},
        )
    ],
}
"""Calls that change, move or delete existing files."""


def vault_at(root: Path) -> Path:
    """Return a vault with a note and an agent's files."""
    write(root, "memvault.toml", "version = 1\n")
    write(root, PATH, NOTE)
    write(root, "team/other.md", "---\nid: m2\n---\n\n# Other\n\nSee [[Pay talk]].\n")
    with open_vault(root) as vault:
        for tool, arguments in (
            ("set_memories", {"memories": [{"key": "k", "value": "zebra"}]}),
            ("set_goals", {"goals": [{"id": "g", "description": "zebra"}]}),
            ("set_plans", {"plans": [{"name": "p", "instruction": "zebra", "runAfter": "1 day"}]}),
        ):
            assert vault.call(tool, **arguments)["success"]
    return root


def done(vault: Vault, steps: list[Step]) -> None:
    """Make calls, each of which must succeed without a warning."""
    for tool, arguments in steps:
        if "revision" in arguments:
            latest = vault._workspace.store.history.revisions("m1")[-1]
            arguments = {**arguments, "revision": latest}
        result = vault.call(tool, **arguments)
        assert result["success"], (tool, result)
        assert not result.get("warnings"), (tool, result)


def texts(root: Path) -> dict[Path, str]:
    """Return the notes and agents' files in a vault, with their revisions and trashed copies."""
    found = {path: path.read_text("utf-8") for path in root.rglob("*.md")}
    return {path: text for path, text in found.items() if re.search("zebra|New|id: m1", text)}


def _others_can_read() -> bool:
    os.setuid(FIRST)
    return os.access(memvault.__file__, os.R_OK)


@pytest.fixture
def shared(vault: Vault) -> Iterator[Path]:
    """A folder accessible to other users, with all needed modules loaded."""
    only_as_root()
    for tool, arguments in (ADD, ("memory_recall", {"query": "zebra"})):
        vault.call(tool, **arguments)
    base = Path(tempfile.mkdtemp(dir="/tmp"))
    base.chmod(0o755)
    for user in (FIRST, SECOND):
        (base / str(user)).mkdir()
        os.chown(base / str(user), user, GROUP)
    readable = in_child(_others_can_read)
    if not readable:
        pytest.skip("other users cannot read the program")
    yield base
    shutil.rmtree(base)


@pytest.mark.promise("R85")
@pytest.mark.parametrize("steps", WRITES.values(), ids=WRITES.keys())
def test_private_files_stay_private(tmp_path: Path, steps: list[Step]) -> None:
    """A file readable only by its owner stays so, including its revisions and trashed copy."""
    umask = os.umask(0o022)
    try:
        root = vault_at(tmp_path / "vault")
        for path in texts(root):
            path.chmod(0o600)
        with open_vault(root) as vault:
            for number in range(1, len(steps) + 1):
                done(vault, steps[number - 1 : number])
                modes = {path: stat.S_IMODE(path.stat().st_mode) for path in texts(root)}
                assert set(modes.values()) == {0o600}, modes
            done(vault, [("memory_undo", {})])
            modes = {path: stat.S_IMODE(path.stat().st_mode) for path in texts(root)}
            assert set(modes.values()) == {0o600}, modes
    finally:
        os.umask(umask)


@pytest.mark.promise("R85")
def test_private_note_is_never_readable_during_write(folder: Path, vault: Vault) -> None:
    """Temporary files of a private note are private from creation."""
    write(folder, PATH, NOTE).chmod(0o600)
    vault.call("memory_show", memId="m1")

    def work() -> list[int]:
        seen: list[int] = []

        def happens(event: str, _: object) -> None:
            if event in ("os.chmod", "os.link", "os.rename"):
                left = (*folder.rglob(".pay*.tmp"), *folder.rglob(".wage*.tmp"))
                seen.extend(stat.S_IMODE(path.stat().st_mode) for path in left)

        sys.addaudithook(happens)
        done(vault, [ADD, RENAME])
        return seen

    assert set(in_child(work)) == {0o600}


@pytest.mark.promise("R86")
@pytest.mark.parametrize("steps", WRITES.values(), ids=WRITES.keys())
def test_extended_attributes_are_kept(tmp_path: Path, steps: list[Step]) -> None:
    """Extended attributes that other programs set on a file survive each change."""
    root = vault_at(tmp_path / "vault")
    for path in texts(root):
        try:
            os.setxattr(path, "user.color", b"red")
        except OSError as error:
            pytest.skip(f"no extended attributes here: {error}")
    with open_vault(root) as vault:
        for number in range(1, len(steps) + 1):
            done(vault, steps[number - 1 : number])
        for path in texts(root):
            assert os.getxattr(path, "user.color") == b"red", path
        done(vault, [("memory_undo", {})])
        for path in texts(root):
            assert os.getxattr(path, "user.color") == b"red", path


@pytest.mark.promise("R86")
@pytest.mark.parametrize("steps", WRITES.values(), ids=WRITES.keys())
def test_root_writes_files_with_vault_owner(tmp_path: Path, steps: list[Step]) -> None:
    """In another user's vault, files written by root belong to that user and group."""
    only_as_root()
    root = vault_at(tmp_path / "vault")
    for path in (root, *root.rglob("*")):
        os.chown(path, FIRST, GROUP, follow_symlinks=False)
    with open_vault(root) as vault:
        done(vault, [*steps, ("memory_undo", {})])
    owners = {path: (path.stat().st_uid, path.stat().st_gid) for path in root.rglob("*")}
    assert set(owners.values()) == {(FIRST, GROUP)}, owners


MOUNTED = {
    "a folder of notes": "team",
    "the history": ".memvault/history",
    "the trash": ".memvault/trash",
}


@pytest.mark.promise("R87")
@pytest.mark.parametrize("place", MOUNTED.values(), ids=MOUNTED.keys())
def test_folder_on_another_mount_can_be_changed(tmp_path: Path, mounting: None, place: str) -> None:
    """In a vault folder on another mount, each change works and can be undone."""

    def work() -> int:
        root, disk = vault_at(tmp_path / "vault"), tmp_path / "disk"
        disk.mkdir()
        (root / place).mkdir(exist_ok=True)
        for path in (root / place).iterdir():
            shutil.move(path, disk)
        bind(disk, root / place)
        if place == "team":
            (root / PATH).chmod(0o640)
        for name, steps in WRITES.items():
            with open_vault(root) as vault:
                before = vault_files(root)
                done(vault, steps)
                for _ in steps:
                    if vault_files(root) != before:
                        undone = vault.call("memory_undo")
                        assert undone["success"], (name, undone)
                assert vault_files(root) == before, name
                if place == "team":
                    assert stat.S_IMODE((root / PATH).stat().st_mode) == 0o640, name
        return len(WRITES)

    assert in_child(work) >= 16


@pytest.mark.promise("R88")
@pytest.mark.parametrize("umask", [0o002, 0o007])
def test_group_members_share_a_vault(shared: Path, umask: int) -> None:
    """In a setgid folder, group members can change, forget and undo each other's memories."""
    root = shared / "vault"
    root.mkdir()
    os.chown(root, FIRST, GROUP)
    root.chmod(0o2770 if umask == 0o007 else 0o2775)

    def first() -> int:
        become(FIRST, GROUP, umask, shared)
        vault_at(root)
        with open_vault(root) as vault:
            done(vault, [ADD, FORGET, ("memory_restore", {"memId": "m1"})])
        return 0

    def second() -> int:
        become(SECOND, GROUP, umask, shared)
        for name, steps in WRITES.items():
            with open_vault(root) as vault:
                before = vault_files(root)
                done(vault, steps)
                while vault_files(root) != before:
                    undone = vault.call("memory_undo")
                    assert undone["success"], (name, undone)
        with open_vault(root) as vault:
            done(
                vault, [ADD, ("memory_remember", {"title": "T", "content": "c", "memoryType": ""})]
            )
        return 0

    def again() -> int:
        become(FIRST, GROUP, umask, shared)
        with open_vault(root) as vault:
            done(vault, [ADD, RENAME, FORGET])
        return 0

    in_child(first)
    in_child(second)
    in_child(again)
    groups = {path: path.stat().st_gid for path in root.rglob("*")}
    assert set(groups.values()) == {GROUP}, groups


@pytest.mark.promise("R88")
def test_note_without_write_permission_is_not_replaced(shared: Path) -> None:
    """A user without write permission cannot replace a note, even in a group folder."""
    root = shared / "vault"
    root.mkdir()
    os.chown(root, FIRST, GROUP)
    root.chmod(0o2775)

    def first() -> int:
        become(FIRST, GROUP, 0o002, shared)
        vault_at(root)
        (root / PATH).chmod(0o644)
        return 0

    def second() -> Any:
        become(SECOND, GROUP, 0o002, shared)
        with open_vault(root) as vault:
            return vault.call(ADD[0], **ADD[1])

    in_child(first)
    error = in_child(second)["error"]
    assert error["message"].startswith("Permission denied")
    assert (root / PATH).read_text("utf-8") == NOTE
    assert (root / PATH).stat().st_uid == FIRST
    assert not list((root / ".memvault").rglob("*.tmp"))


@pytest.mark.promise("R58")
def test_read_only_folder_refuses_each_change(shared: Path) -> None:
    """In a read-only folder, each tool fails with a clear message."""
    root = shared / "vault"

    def work() -> int:
        become(FIRST, GROUP, 0o022, shared)
        refused = 0
        for name, steps in WRITES.items():
            shutil.rmtree(root, ignore_errors=True)
            vault_at(root)
            before = vault_files(root)
            for place in ("team", "agents/main/memories", "agents/main/goals", "agents/main/plans"):
                (root / place).chmod(0o555)
            with open_vault(root) as vault:
                for tool, arguments in steps:
                    result = vault.call(tool, **arguments)
                    if not result["success"]:
                        error = result["error"]
                        assert error["code"] != "bug", (name, error)
                        assert "Permission denied" in error["message"] or tool == steps[-1][0]
                        refused += 1
            for place in ("team", "agents/main/memories", "agents/main/goals", "agents/main/plans"):
                (root / place).chmod(0o755)
            now = vault_files(root)
            assert before.items() <= now.items(), name
        return refused

    root.mkdir()
    os.chown(shared, FIRST, GROUP)
    os.chown(root, FIRST, GROUP)
    assert in_child(work) >= 16
