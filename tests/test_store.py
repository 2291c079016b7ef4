"""Files are written completely or not at all, and history and trash can be restored."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import index_of, titles, write
from memvault import Vault
from memvault.errors import Conflict, NotFound, StorageError
from memvault.files import atomic, temporary_files
from memvault.index.local.folder_diff import diff_folder
from memvault.index.local.manifest import IndexedFile
from memvault.memories.link_graph import LinkGraph
from memvault.memories.rename import plan_rename
from memvault.model import FileState
from memvault.settings.vault_settings import load_settings
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore
from memvault.vault import document
from memvault.vault.naming import new_id
from memvault.vault.paths import numbered_names

HEADER = """\
---
# kept by hand
id: one-abc123
title: 'One'   # the quotes are meant
tags:
  - b   # first
  - a
custom: {z: 1, y: [2]}
modified: 2020-01-01T00:00:00.000Z
---
"""
BODY = """
Intro.

## Plan

Old plan.

```
## Plan
```

### Detail

More.

## End

Last words."""

PLANNED = "\nIntro.\n\n## Plan\n\nnew\n\ntext\n\n## End\n\nLast words."


def _done(result: dict[str, Any]) -> dict[str, Any]:
    assert result["success"], result
    return result


def _remember(vault: Vault, title: str, content: str = "text", kind: str = "") -> dict[str, Any]:
    return _done(vault.call("memory_remember", title=title, content=content, memoryType=kind))


def _error(result: dict[str, Any]) -> str:
    assert result["success"] is False, result
    code: str = result["error"]["code"]
    return code


def _undated(data: bytes) -> bytes:
    return re.sub(rb"(modified: )[^\n]*", rb"\1now", data)


def _revisions(vault: Vault, name: str) -> list[str]:
    found: list[str] = _done(vault.call("memory_show", memId=name))["revisions"]
    return found


def test_store_equal_titles_get_different_files(vault: Vault, folder: Path) -> None:
    """A memory with an existing title gets a file suffix, and the first one is unchanged."""
    first = _remember(vault, "Same title", "first")
    before = (folder / first["filePath"]).read_bytes()
    others = [_remember(vault, title) for title in ("Same title", "same TITLE", "Same/title")]
    paths = [entry["filePath"] for entry in others]
    assert paths == [f"context/same-title-{number}.md" for number in (2, 3, 4)]
    assert (folder / first["filePath"]).read_bytes() == before
    assert titles(vault.call("memory_list")).count("Same title") == 2


def test_store_keeps_title_unchanged_if_file_name_gets_suffix(vault: Vault) -> None:
    """A title is stored as given, even if its file name gets a suffix."""
    made = [_remember(vault, "plain", f"text {number}")["memId"] for number in range(3)]
    assert titles(vault.call("memory_list")) == ["plain"] * 3
    assert len(set(made)) == 3


def test_store_create_and_move_never_overwrite(folder: Path) -> None:
    """Creating and moving refuse a name taken by a file, a folder or a symlink."""
    write(folder, "a.md", "old")
    (folder / "b.md").mkdir()
    (folder / "c.md").symlink_to("nowhere.md")
    for name in ("a.md", "b.md", "c.md"):
        with pytest.raises(FileExistsError):
            atomic.create(folder / name, b"new")
        source = write(folder, "source.md", "moved")
        with pytest.raises(FileExistsError):
            atomic.move_exclusive(source, folder / name)
        assert source.read_bytes() == b"moved"
    assert (folder / "a.md").read_bytes() == b"old"
    assert not (folder / "nowhere.md").exists()


@pytest.mark.parametrize("moment", ["c_call", "c_return"])
def test_store_interrupted_move_keeps_the_file(folder: Path, moment: str) -> None:
    """After a signal just before or after the old name is removed, the file still has a name."""
    source = write(folder, "source.md", "the only copy")
    target = folder / "sub" / "target.md"

    def stop(_frame: object, event: str, function: object) -> None:
        if event == moment and function is os.unlink:
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            atomic.move_exclusive(source, target)
    finally:
        sys.setprofile(None)
    left = [path for path in (source, target) if path.exists()]
    assert target in left
    assert {path.read_text("utf-8") for path in left} == {"the only copy"}


def test_private_file_is_never_readable_by_others_during_write(tmp_path: Path) -> None:
    """The temporary file has no more permissions than the file that it replaces."""
    file = write(tmp_path, "x.md", "old")
    file.chmod(0o600)
    modes: list[int] = []
    before = os.umask(0)
    try:
        look = lambda: modes.extend(one.stat().st_mode & 0o077 for one in tmp_path.iterdir())  # noqa: E731
        atomic.replace(file, b"new", look)
        atomic.write(tmp_path / "y.json", b"{}", private=True)
    finally:
        os.umask(before)
    assert modes == [0, 0]
    assert (tmp_path / "y.json").stat().st_mode & 0o077 == 0


def test_store_update_keeps_permissions(
    vault: Vault, folder: Path, write_protect: Callable[[Path], None]
) -> None:
    """Updating a memory keeps its file mode and its other attributes."""
    for mode in (0o600, 0o664, 0o755):
        file = write(folder, "notes/a.md", f"# A\n\n{mode}\n")
        file.chmod(mode)
        _done(vault.call("memory_compound", query="notes/a.md", modifications="more"))
        assert stat.S_IMODE(file.stat().st_mode) == mode
    write_protect(file)
    with pytest.raises(StorageError):
        atomic.replace(file, b"never")
    assert b"never" not in file.read_bytes()


def test_store_etags_guard_every_change(vault: Vault, folder: Path) -> None:
    """A change based on other contents is refused, and nothing is written."""
    memory = _remember(vault, "One", "first")
    name, file = memory["memId"], folder / memory["filePath"]
    seen = _done(vault.call("memory_show", memId=name))["etag"]
    changed = _done(vault.call("memory_compound", query=name, modifications="2", ifMatch=seen))
    before = file.read_bytes()
    assert changed["etag"] == document.etag(before)
    for arguments in (
        {"modifications": "3", "ifMatch": seen},
        {"modifications": "3", "ifMatch": "nonsense", "mode": "replace"},
        {"modifications": "3", "ifMatch": seen, "memoryType": "fact"},
    ):
        result = vault.call("memory_compound", query=name, **arguments)
        assert _error(result) == "conflict"
        assert document.etag(before) in result["error"]["message"]
        assert result["error"]["hint"]
        assert file.read_bytes() == before
    file.write_bytes(before + b"by hand\n")
    stale = vault.call("memory_compound", query=name, modifications="4", ifMatch=changed["etag"])
    assert _error(stale) == "conflict"


def test_store_concurrent_edit_is_a_conflict(folder: Path, vault: Vault) -> None:
    """A file that an editor saves while memvault works is not overwritten."""
    file = write(folder, "a.md", "# A\n\nfirst\n")
    store = vault._workspace.store
    memory = store.read("a.md")
    file.write_text("# A\n\nby hand\n", "utf-8")
    with pytest.raises(Conflict):
        store.change(memory, {}, "lost")
    with pytest.raises(Conflict):
        store.discard("a.md", memory.etag)
    assert file.read_text("utf-8") == "# A\n\nby hand\n"
    file.unlink()
    with pytest.raises(NotFound):
        store.discard("a.md", memory.etag)


def test_store_every_revision_can_be_restored(vault: Vault, folder: Path) -> None:
    """Each change keeps the previous bytes, and an undo can itself be undone."""
    name = _remember(vault, "One", "v0")["memId"]
    file = folder / "context/one.md"
    contents = [file.read_bytes()]
    made = []
    for number in range(1, 4):
        result = _done(vault.call("memory_compound", query=name, modifications=f"v{number}"))
        made.append(result["previousRevision"])
        contents.append(file.read_bytes())
    assert _revisions(vault, name) == made
    for revision, content in zip(made, contents, strict=False):
        shown = _done(vault.call("memory_show", memId=name, revision=revision))
        assert shown["etag"] == document.etag(content)
        result = _done(vault.call("memory_restore", memId=name, revision=revision))
        assert file.read_bytes() == content
        assert result["etag"] == document.etag(content)
    assert len(_revisions(vault, name)) == 6
    newest = _revisions(vault, name)[3]
    _done(vault.call("memory_restore", memId=name, revision=newest))
    assert file.read_bytes() == contents[-1]
    for wrong in ("1999", "../..", "*", "."):
        assert _error(vault.call("memory_restore", memId=name, revision=wrong)) == "not_found"


@pytest.mark.parametrize("text", ["# One\n\nfirst\n", "plain first\n", HEADER + "first\n"])
def test_store_handwritten_note_has_history(vault: Vault, folder: Path, text: str) -> None:
    """A note without a memvault id can be rewritten and restored like any other."""
    file = write(folder, "notes/one.md", text)
    for mode in ("replace", "append"):
        name = _done(vault.call("memory_show", memId="notes/one.md"))["memId"]
        changed = _done(
            vault.call("memory_compound", query=name, modifications="# Two\n\nnew", mode=mode)
        )
        assert changed["memId"] == name
        restored = _done(
            vault.call("memory_restore", memId=name, revision=changed["previousRevision"])
        )
        assert restored["memId"] == name
        assert file.read_bytes() == text.encode()


# BUG: revisions of one millisecond are ordered by etag, so the newest may be the one deleted
def test_store_history_is_bounded(vault: Vault) -> None:
    """A memory that changes every minute does not fill the disk; the newest revisions stay."""
    store = vault._workspace.store
    for number in range(55):
        with store.history.saved("an-id", f"{number}".encode()):
            pass
    kept = store.history.revisions("an-id")
    assert len(kept) == 50
    assert store.history.read("an-id", kept[-1]) == b"54"


def test_store_forgotten_files_are_restored_unchanged(vault: Vault, folder: Path) -> None:
    """A forgotten memory is in no answer and is restored completely, including its times."""
    file = write(folder, "notes/deep/a.md", b"\xef\xbb\xbf---\r\nid: a-123456\r\n---\r\nx\r\n")
    os.utime(file, (1_500_000_000, 1_500_000_000))
    data = file.read_bytes()
    assert _done(vault.call("memory_forget", query="a-123456", confirm=True))["files"] == [
        "notes/deep/a.md"
    ]
    assert not file.exists()
    assert _done(vault.call("memory_list"))["total"] == 0
    assert len(_done(vault.call("memory_restore"))["trash"]) == 1
    (folder / "notes/deep").rmdir()
    assert _done(vault.call("memory_restore", memId="a-123456"))["filePath"] == "notes/deep/a.md"
    assert file.read_bytes() == data
    assert file.stat().st_mtime == 1_500_000_000
    assert _done(vault.call("memory_restore"))["trash"] == []
    assert _error(vault.call("memory_restore", memId="a-123456")) == "not_found"


def test_store_restore_never_overwrites(vault: Vault, folder: Path) -> None:
    """If the old path is taken, the memory is restored next to it, latest version first."""
    for text in ("first", "second"):
        write(folder, "notes/a.md", text)
        _done(vault.call("memory_forget", query="notes/a.md", confirm=True))
    write(folder, "notes/a.md", "third")
    for path, text in (("notes/a-2.md", "second"), ("notes/a-3.md", "first")):
        assert _done(vault.call("memory_restore", memId="notes/a.md"))["filePath"] == path
        assert (folder / path).read_text("utf-8") == text
    assert (folder / "notes/a.md").read_text("utf-8") == "third"


def test_store_second_concurrent_restore_is_not_found(folder: Path) -> None:
    """Of two restores of one trashed file, the later one fails without writing a file."""
    write(folder, "notes/a.md", "first")
    store = MemoryStore(folder, load_settings(folder))
    item = store.discard("notes/a.md", store.read("notes/a.md").etag)
    subject = FileRef("a-123456", "a")
    assert store.put_back(item, subject) == "notes/a.md"
    with pytest.raises(NotFound, match="trash"):
        store.put_back(item, subject)
    assert [path.name for path in (folder / "notes").iterdir()] == ["a.md"]


def test_store_second_concurrent_rename_is_not_found(folder: Path) -> None:
    """Of two renames of one memory to the same path, the later one raises ``NotFound``."""
    store = MemoryStore(folder, load_settings(folder))
    write(folder, "notes/a.md", "# A\n")
    memory = store.read("notes/a.md")
    store.rename(memory, "notes/b.md")
    with pytest.raises(NotFound, match=re.escape("notes/a.md")):
        plan_rename(store, lambda: LinkGraph({}, lambda _: None), memory, "B", "notes/b.md")


def test_store_broken_symlink_blocks_rename(vault: Vault, folder: Path) -> None:
    """A memory is not renamed to the path of a symlink, even a broken one."""
    write(folder, "notes/a.md", "")
    (folder / "notes/b.md").symlink_to("nowhere.md")
    assert _error(vault.call("memory_rename", memId="notes/a.md", title="b")) == "conflict"
    assert (folder / "notes/a.md").is_file()


def test_store_type_change_moves_the_file(vault: Vault, folder: Path) -> None:
    """A memory with a new type moves to that type's folder, never over another one."""
    write(folder, "issue/one.md", "taken")
    made = _remember(vault, "One", "text", "fact")
    moved = _done(
        vault.call("memory_compound", query="One", modifications="more", memoryType="Issue")
    )
    assert moved["filePath"] == "issue/one-2.md"
    assert moved["memId"] == made["memId"]
    assert moved["memoryType"] == "issue"
    assert not (folder / made["filePath"]).exists()
    assert (folder / "issue/one.md").read_text("utf-8") == "taken"
    back = _done(
        vault.call("memory_restore", memId=made["memId"], revision=moved["previousRevision"])
    )
    assert back["filePath"] == "issue/one-2.md"
    own = write(folder, "my notes/x.md", "# X\n\ntext\n")
    stays = _done(vault.call("memory_compound", query="X", modifications="y", memoryType="fact"))
    assert stays["filePath"] == "my notes/x.md", "a person's own folders are left alone"
    assert b"text\n" in own.read_bytes()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ({}, BODY + "\n\nnew\n\ntext\n"),
        ({"mode": "replace"}, "\nnew\n\ntext\n"),
        ({"section": "## PLAN", "mode": "section"}, PLANNED),
        ({"section": "Detail"}, BODY.replace("More.\n", "new\n\ntext\n")),
        ({"section": "End"}, BODY.replace("Last words.", "new\n\ntext\n")),
        ({"section": "Nowhere"}, BODY + "\n\n## Nowhere\n\nnew\n\ntext\n"),
    ],
)
def test_store_change_keeps_all_other_bytes(
    vault: Vault, folder: Path, arguments: dict[str, str], body: str, newline: str
) -> None:
    """Appending, replacing and replacing a section keep every other byte."""
    file = write(folder, "notes/one.md", (HEADER + BODY).replace("\n", newline))
    text = "new\n\ntext\n\n"
    _done(vault.call("memory_compound", query="one-abc123", modifications=text, **arguments))
    wanted = (HEADER + body).replace("\n", newline).encode()
    assert _undated(file.read_bytes()) == _undated(wanted)


@pytest.mark.parametrize("body", ["a\r\nb\r\n", "a\nb\r\nc\n", "a\rb\n", "a\r\n\r\nb"])
def test_store_keeps_mixed_line_endings(vault: Vault, folder: Path, body: str) -> None:
    """A file with line endings of two systems keeps each line's own ending."""
    file = write(folder, "one.md", f"---\nid: one-abc123\n---\n{body}".encode())
    before = file.read_bytes()
    _done(vault.call("memory_compound", query="one.md", modifications="new"))
    assert file.read_bytes().startswith(before)
    assert file.read_bytes()[len(before) :].strip() == b"new"


@pytest.fixture
def store(folder: Path) -> MemoryStore:
    """Return the files in a vault, without derived files."""
    return MemoryStore(folder, load_settings(folder))


def _file_operations(work: Callable[[], object]) -> int:
    """Count how often files are opened, linked, renamed or removed during a function call."""
    counted = {"open", "os.link", "os.rename", "os.remove", "os.mkdir"}
    seen: list[str] = []
    sys.addaudithook(lambda event, _: seen.append(event) if event in counted else None)
    work()
    counted.clear()
    return len(seen)


def test_store_many_equal_titles_take_constant_time(store: MemoryStore) -> None:
    """If many memories share a title, a new one is written once under a free name."""
    few: list[str] = []
    many: list[str] = []

    def add(paths: list[str]) -> None:
        header = {"id": new_id("again")}
        paths.append(store.add("issue", "again", header, "text").path)

    add([])
    first = _file_operations(lambda: add(few))
    for number in range(3, 2_001):
        write(store.root, f"issue/again-{number}.md", "# again\n")
    last = _file_operations(lambda: add(many))
    assert few == ["issue/again-2.md"]
    assert many == ["issue/again-2001.md"]
    assert last <= first + 2
    assert store.read("issue/again-2001.md").title == "again"


@given(st.sets(st.integers(2, 300)))
def test_store_suggests_a_free_name_quickly(taken: set[int]) -> None:
    """The suggested file names soon include a free one, and none twice."""
    names = {f"a/b-{number}.md" for number in taken} | {"a/b.md"}
    offered = list(islice(numbered_names("a/b.md", names.__contains__), len(taken) + 3))
    assert len(set(offered)) == len(offered)
    assert set(offered) - names


STAMP = "20260101T000000.000Z-abc123"


def test_store_trash_restores_only_memories(vault: Vault, folder: Path) -> None:
    """A trash from an untrusted vault cannot restore hooks or files from outside."""
    outside = folder.parent / "outside"
    write(outside, "secret.md", "# Secret\n")
    trash = folder / ".memvault" / "trash"
    write(trash, f"{STAMP}/.git/hooks/pre-commit", "# Hook\n")
    write(trash, f"{STAMP}/tools/run.md", "# Tool\n")
    (trash / "20260102T000000.000Z-abc123").symlink_to(outside)
    os.mkfifo(trash / STAMP / "pipe.md")
    for name in ("Hook", "Tool", "Secret", "secret.md", "pipe.md"):
        assert vault.call("memory_restore", memId=name)["error"]["code"] == "not_found"
    assert (outside / "secret.md").exists()


def test_store_symlinked_revision_is_ignored(vault: Vault, folder: Path) -> None:
    """A symlink among the revisions shows nothing from outside the vault."""
    secret = write(folder.parent, "secret.txt", "hidden")
    made = vault.call("memory_remember", title="A", content="one", memoryType="fact")
    assert vault.call("memory_compound", query="A", modifications="two")["success"]
    kept = next((folder / ".memvault" / "history").rglob("2*.md"))
    kept.unlink()
    kept.symlink_to(secret)
    shown = vault.call("memory_show", memId=made["memId"], revision=kept.stem)
    assert "hidden" not in str(shown)


def test_store_future_trash_timestamp_does_not_block_forget(vault: Vault, folder: Path) -> None:
    """A trash entry dated in the year 9999 does not prevent forgetting other memories."""
    write(folder, ".memvault/trash/99991231T235959.999Z-abc123/b.md", "# B\n")
    write(folder, "a.md", "# A\n\nzebra\n")
    assert vault.call("memory_forget", query="a.md", confirm=True)["deletedFiles"] == 1


_WRITER = """
import os, signal, sys
from pathlib import Path
from memvault.files import atomic
sys.addaudithook(lambda event, _: event == "os.link" and os.kill(os.getpid(), signal.SIGKILL))
atomic.create(Path(sys.argv[1]), b"half")
"""
_TWO_HOURS = 7_200
_TWO_DAYS = 48 * 3_600


def _aged(path: Path, seconds: float = _TWO_HOURS) -> Path:
    """Set a file's time to the past."""
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def _killed(folder: Path) -> Path:
    """Return the temporary file of a process that was killed while writing a file."""
    folder.mkdir(parents=True, exist_ok=True)
    before = set(folder.iterdir())
    command = [sys.executable, "-c", _WRITER, str(folder / "note.md")]
    assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGKILL
    (left,) = set(folder.iterdir()) - before
    return left


@pytest.mark.promise("R29")
def test_store_write_deletes_stale_temporary_files(folder: Path) -> None:
    """Writing sometimes deletes stale temporary files, never those of a running process."""
    old, fresh = _aged(_killed(folder)), _killed(folder)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        own = folder / f".note.md.{living.pid}-abcd1234.tmp"
        others = [own, folder / ".note.md.tmp", folder / ".syncthing.note.md.tmp"]
        for path in others:
            path.write_text("whole")
            _aged(path)
        for number in range(1_000):
            if not old.exists():
                break
            atomic.write(folder / "state", str(number).encode(), durable=False)
        assert not old.exists()
        assert fresh.exists(), "it may belong to a process of another machine"
        assert all(path.exists() for path in others)
        living.communicate(b"\n")
    temporary_files.remove_stale_temp_files(folder)
    assert not own.exists(), "its process has exited"


@pytest.mark.promise("R29")
def test_doctor_and_reindex_delete_all_stale_files(vault: Vault, folder: Path) -> None:
    """Both delete stale files in each memvault folder and keep git's and users' files."""
    vault.call("memory_remember", title="T", content="c", memoryType="fact")
    wheres = [folder / name for name in ("fact", "my own/x", "agents/bob/inbox", ".memvault/talk")]
    for tool, arguments in (("vault_doctor", {"fix": True}), ("vault_reindex", {})):
        left = [_aged(_killed(where)) for where in (*wheres, index_of(folder))]
        git = _aged(write(folder, ".git/.x.999999999-abcd1234.tmp", "git's own"))
        mine = _aged(write(folder, "fact/.mine.tmp", "mine"), _TWO_DAYS)
        assert vault.call("vault_status")["success"]
        # In the index, status saves the scan, and any write may delete stale files beside it.
        assert all(path.exists() for path in left[:-1]), "status changes only the index"
        assert vault.call(tool, **arguments)["success"]
        assert not [path for path in left if path.exists()]
        assert git.exists()
        assert mine.exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_ignores_temporary_files_in_handmade_vault(folder: Path, vault: Vault) -> None:
    """In a repository with only memvault.toml, a killed process's files are not added."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init")
    exclude = folder / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("mine\n", "utf-8")
    assert vault.call("memory_remember", title="A", content="x", memoryType="fact")["success"]
    _killed(folder / "fact")
    git("add", "-A")
    assert git("ls-files").split() == ["fact/a.md", "memvault.toml"]
    assert exclude.read_text("utf-8") == "mine\n.*.tmp\n"


paths = st.sampled_from(["a.md", "b.md", "d/a.md", "d/e/a.md", "de/a.md"])


times = st.sampled_from([0, 5_000_000_000, 5_000_000_001, 9_000_000_000])


states = st.builds(FileState, paths, st.integers(0, 1), times, times, st.integers(1, 2))


@given(
    st.dictionaries(paths, st.tuples(states, times)),
    st.dictionaries(paths, states),
    st.sets(st.sampled_from(["d", "d/e", "de"])),
)
def test_store_folder_diff_covers_every_file(
    indexed: dict[str, tuple[FileState, int]], there: dict[str, FileState], lost: set[str]
) -> None:
    """Each file is new, changed, uncertain or unchanged, and no unreadable file is removed."""
    known = {
        path: IndexedFile(uid, state._replace(path=path), checked, "etag")
        for uid, (path, (state, checked)) in enumerate(indexed.items())
    }
    files = [state._replace(path=path) for path, state in there.items()]
    plan = diff_folder(known, files, sorted(lost))
    for state in files:
        entry = known.get(state.path)
        kinds = [
            state in plan.added,
            (entry, state) in plan.changed,
            (entry, state) in plan.doubtful,
        ]
        assert sum(kinds) <= 1
        assert kinds[0] == (entry is None)
        if entry is not None:
            assert kinds[1] == (entry.state != state)
            if not any(kinds):
                assert entry.checked - state.ctime > 1_000_000_000
    for path, entry in known.items():
        hidden = any(path.startswith(f"{folder}/") for folder in lost)
        assert (entry.uid in plan.removed) == (path not in there and not hidden)


@pytest.mark.promise("R29")
def test_doctor_deletes_files_of_killed_write_immediately(folder: Path, vault: Vault) -> None:
    """A temporary file left on this machine is deleted once its process has exited."""
    if not Path("/proc/sys/kernel/random/boot_id").exists():
        pytest.skip("processes cannot be told apart from another machine's")
    vault.call("memory_remember", title="T", content="c", memoryType="fact")
    left = _killed(folder / "agents/main/plans")
    mine = write(folder, f"fact/.n.md.{os.getpid()}-{left.name.split('-')[-2]}-abcd1234.tmp", "x")
    other = write(folder, "fact/.n.md.999999999-0123abcd-abcd1234.tmp", "of another machine")
    found = vault.call("vault_doctor")["findings"]
    assert [entry["filePath"] for entry in found] == [left.relative_to(folder).as_posix()]
    assert vault.call("vault_doctor", fix=True)["success"]
    assert not left.exists()
    assert mine.exists(), "its process is alive"
    assert other.exists(), "it may belong to a process of another machine"
