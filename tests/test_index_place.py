"""The local index satisfies the index contract in a private folder of the user."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import sqlite3
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run, called, child, examples, index_of, titles, without_rights, write
from index_contract import IndexContract, local
from memvault import Vault, open_vault
from memvault.errors import StorageError
from memvault.files.lock import FileLock
from memvault.files.plain_files import stamp_of
from memvault.index.federated import FederatedIndex
from memvault.index.folder import delete_abandoned, prepare_folder
from memvault.index.keyword.bm25f import KeywordDocument
from memvault.index.keyword.keyword_index import KeywordIndex
from memvault.index.local.index_files import INDEX
from memvault.index.local.local_index import LocalIndex
from memvault.index.protocol import COMPLETE, Index, KeywordQuery, SearchIndex
from memvault.workspace import Workspace


class Evil:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.fixture
def filled(folder: Path) -> Path:
    """An indexed vault of two memories."""
    write(folder, "a.md", "# A\n\nzebra\n")
    write(folder, "b.md", "# B\n\nwombat\n")
    with open_vault(folder) as vault:
        assert titles(vault.call("memory_recall", query="zebra", type="keyword")) == ["A"]
    return folder


def _poisoned(index: Path, marker: Path) -> None:
    """Replace each file with a pickle that runs code, and record their states."""
    keyword = index / INDEX / "keyword"
    files = [*keyword.iterdir(), keyword / "_MAIN_999999.toc"]
    for file in files:
        file.write_bytes(pickle.dumps(Evil(marker)))
    _note(index, *files)


def _note(index: Path, *files: Path) -> None:
    """Make the manifest accept the current files of the keyword index."""
    with closing(sqlite3.connect(index / INDEX / "manifest.db")) as database, database:
        for path in files:
            row = path.name, json.dumps(stamp_of(path))
            database.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", row)


@pytest.mark.promise("S1")
def test_index_inside_vault_is_never_read(filled: Path, run: Run) -> None:
    """A cloned vault with a prepared index can't run anything."""
    marker = filled.parent / "ran"
    shutil.copytree(index_of(filled), filled / ".memvault" / "index")
    _poisoned(filled / ".memvault" / "index", marker)
    ran = run("recall", "zebra", "--mode", "keyword", "--json")
    assert titles(ran.json) == ["A"]
    assert not marker.exists()


@pytest.mark.promise("S5")
def test_index_never_runs_malicious_pickle(filled: Path, run: Run) -> None:
    """Even if someone wrote to the index folder, a pickle in it can't call anything."""
    marker = filled.parent / "ran"
    _poisoned(index_of(filled), marker)
    assert titles(run("recall", "wombat", "--mode", "keyword", "--json").json) == ["B"]
    assert not marker.exists()


@given(
    st.sampled_from([".toc", ".seg"]),
    st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=30),
)
@pytest.mark.promise("S49")
@settings(max_examples=examples(40))
def test_index_corrupted_by_power_loss_is_repaired(
    filled: Path, suffix: str, changes: list[tuple[float, int]]
) -> None:
    """If a power loss left wrong bytes in valid-looking files, recall repairs the index."""
    index = index_of(filled)
    with open_vault(filled) as vault:
        vault.call("memory_recall", query="zebra", type="keyword")
    files = (index / INDEX / "keyword").glob(f"*{suffix}")
    file = max(files, key=lambda one: one.stat().st_mtime_ns)
    content = bytearray(file.read_bytes())
    for place, byte in changes:
        content[int(place * len(content))] = byte
    file.write_bytes(content)
    _note(index, file)
    with open_vault(filled) as vault:
        for query in ("zebra", "wombat"):
            called(vault, "memory_recall", query=query, type="keyword", explain=True)
        write(filled, "c.md", f"# C\n\nbilby {changes}\n")
        assert vault.call("memory_recall", query="bilby", type="keyword")["success"]


def test_index_finds_every_memory_with_a_term(tmp_path: Path) -> None:
    """For rare and common terms, every memory and count is found, even after merges."""
    index = KeywordIndex.create(tmp_path / "keyword")
    held: dict[str, dict[int, int]] = defaultdict(dict)
    for batch in range(15):
        removed = [(batch - 5) * 20 + place for place in range(3)] if batch >= 5 else []
        for memories in held.values():
            for uid in removed:
                memories.pop(uid, None)
        added = []
        for uid in range(batch * 20, batch * 20 + 20):
            terms = Counter({"common": uid % 7 + 1, f"by{uid % 15}": 300, f"own{uid}": uid + 1})
            added.append(KeywordDocument(uid, {"body": terms}))
            for term, count in terms.items():
                held[term][uid] = count
        index = index.apply(removed, added)
    segments = index.candidates(KeywordQuery([]))
    assert len(segments) < 15
    for term, memories in held.items():
        postings = [
            (segment.owner(number)[0], count)
            for segment in segments
            for number, count in zip(*segment.find(term).get("body", ((), ())), strict=True)
            if number not in segment.deleted
        ]
        assert len(postings) == len(memories)
        assert dict(postings) == memories
    index.close()


@pytest.mark.promise("S5")
def test_index_never_uses_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is unpickled while an index is created, searched, changed or merged."""
    import whoosh.writing

    def refuse(*_: Any) -> None:
        raise AssertionError("a pickle was read")

    assert whoosh.writing
    for name, module in list(sys.modules.items()):
        if name == "pickle" or name.startswith("whoosh."):
            for reader in ("load", "loads", "Unpickler"):
                if hasattr(module, reader):
                    monkeypatch.setattr(module, reader, refuse)
    index = KeywordIndex.create(tmp_path / "keyword")
    for uid in range(40):
        terms = {"body": Counter({"wombat": 1})}
        index = index.apply({uid - 2}, [KeywordDocument(uid, terms)])
        segments = index.candidates(KeywordQuery([("wombat",)]))
        assert sum(segment.documents for segment in segments) == min(uid + 1, 2)
    index.close()


@pytest.mark.promise("S36")
def test_index_is_stored_outside_the_vault(filled: Path) -> None:
    """Derived data is stored outside the vault, so that cloud sync does not copy it."""
    assert sorted(path.name for path in filled.iterdir()) == ["a.md", "b.md", "memvault.toml"]


@pytest.mark.promise("S2")
def test_index_folder_is_private(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is in the user's cache or in MEMVAULT_CACHE, and other users can't read it."""
    index = index_of(filled)
    assert index.is_relative_to(tmp_path / "cache" / "memvault")
    monkeypatch.setenv("MEMVAULT_CACHE", str(tmp_path / "elsewhere"))
    chosen = index_of(filled)
    assert chosen.is_relative_to(tmp_path / "elsewhere")
    for folder in (index, index.parent, chosen, chosen.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_index_belongs_to_real_path_of_vault(filled: Path, tmp_path: Path) -> None:
    """A symlink to a vault uses the vault's index; a different folder has a different index."""
    link = tmp_path / "link"
    link.symlink_to(filled)
    other = tmp_path / "other" / filled.name
    shutil.copytree(filled, other)
    assert index_of(link) == index_of(filled)
    assert index_of(other) != index_of(filled)


def _sandbox(folder: Path, tmp_path: Path, *, temporary: bool = True) -> dict[str, str]:
    """Return a sandbox's environment: a read-only home, and a temporary folder."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "tmp").mkdir()
    home.chmod(0o555)
    (tmp_path / "tmp").chmod(0o777 if temporary else 0o555)
    folder.chmod(0o777)
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "MEMVAULT_"))
    }
    return {**kept, "HOME": str(home), "TMPDIR": str(tmp_path / "tmp")}


def test_index_is_in_temporary_folder_without_writable_home(folder: Path, tmp_path: Path) -> None:
    """With a read-only home, the second call silently reuses the first call's index."""
    rights = without_rights()
    write(folder, "a.md", "# A\n\nzebra\n")
    prefix = ["env", "-i", *(f"{key}={value}" for key, value in _sandbox(folder, tmp_path).items())]
    indexes = []
    for _ in range(2):
        ran = child(folder, "recall", "zebra", "--json", prefix=[*rights, *prefix])
        assert (ran.code, ran.err) == (0, "")
        assert "warnings" not in ran.json
        place = tmp_path / "tmp" / f"memvault-{os.geteuid()}"
        (index,) = [path for path in place.iterdir() if path.is_dir()]
        assert index.stat().st_mode & 0o777 == 0o700
        with sqlite3.connect(index / INDEX / "manifest.db") as database:
            rows = database.execute("SELECT * FROM counters WHERE name != 'commits'")
            indexes.append(sorted(rows.fetchall()))
    assert indexes[0] == indexes[1]
    assert not (folder / ".memvault").exists()


def test_index_is_in_memory_if_nothing_is_writable(folder: Path, tmp_path: Path) -> None:
    """Without a writable folder recall still answers, and a note explains how to speed it up."""
    rights = without_rights()
    write(folder, "a.md", "# A\n\nzebra\n")
    sandbox = _sandbox(folder, tmp_path, temporary=False)
    # Without a writable temporary folder, Python uses the current one, which is read-only here too.
    folder.chmod(0o555)
    prefix = ["env", "-i", *(f"{key}={value}" for key, value in sandbox.items())]
    nowhere = ["unshare", "-m", "sh", "-c", _READ_ONLY]
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("only root can make the system's temporary folders read-only for a process")
    ran = child(folder, "recall", "zebra", "--json", prefix=[*nowhere, *rights, *prefix])
    if ran.code == 99:
        pytest.skip("nothing can be mounted here")
    assert ran.code == 0, ran
    assert titles(ran.json) == ["A"]
    assert any("MEMVAULT_CACHE" in note for note in ran.json["warnings"])


_READ_ONLY = """
for folder in /tmp /var/tmp /usr/tmp; do
    [ -d $folder ] || continue
    mount --bind $folder $folder && mount -o remount,bind,ro $folder || exit 99
done
exec "$0" "$@"
"""


@pytest.mark.promise("S3")
@pytest.mark.parametrize("kind", ["link", "open", "file", "another's"])
def test_index_folder_of_other_users_is_not_used(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A symlink, a folder writable by others or one owned by another user is skipped."""
    aim = tmp_path / "prepared"
    aim.mkdir(mode=0o700)
    base = tmp_path / "chosen"
    base.mkdir()
    if kind == "link":
        (base / "indexes").symlink_to(aim)
    elif kind == "open":
        (base / "indexes").mkdir()
        (base / "indexes").chmod(0o777)
    elif kind == "file":
        (base / "indexes").write_bytes(b"")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        (base / "indexes").mkdir(mode=0o700)
        os.chown(base / "indexes", 12345, 12345)
    monkeypatch.setenv("MEMVAULT_CACHE", str(base))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", None)
    place = prepare_folder(filled)
    assert place.folder is not None
    assert place.folder.is_relative_to(tmp_path / "tmp")
    assert str(base) in place.note
    assert list(aim.iterdir()) == []


@pytest.mark.promise("S4")
def test_index_ignores_cache_folder_inside_vault(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache folder inside a vault is not used, because its contents may be untrusted."""
    monkeypatch.setenv("MEMVAULT_CACHE", str(filled / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_vault(filled) as vault:
        found = vault.call("memory_recall", query="zebra")
    assert any("inside the vault" in note for note in found["warnings"])
    assert not (filled / "cache").exists()


def test_index_of_deleted_vault_is_removed_after_90_days(filled: Path, tmp_path: Path) -> None:
    """The index is removed 90 days after its last use, and never while the vault exists."""
    gone = tmp_path / "gone"
    shutil.copytree(filled, gone)
    index, kept = index_of(gone), index_of(filled)
    shutil.rmtree(gone)
    assert delete_abandoned(index.parent) == []
    for folder, days in ((index, 89.0), (kept, 400.0)):
        long_ago = time.time() - days * 86_400
        os.utime(folder / "vault", (long_ago, long_ago))
    assert delete_abandoned(index.parent) == []
    long_ago = time.time() - 91 * 86_400
    os.utime(index / "vault", (long_ago, long_ago))
    # Its index was not used for a day, which triggers the cleanup.
    with open_vault(filled) as vault:
        assert vault.call("memory_recall", query="zebra")["success"]
    assert not index.exists()
    assert kept.exists()
    index = index_of(gone)
    mine = write(index.parent, "letters/mine.txt", "mine")
    os.utime(mine.parent, (long_ago, long_ago))
    write(index.parent, "letters-too/vault", os.fsencode(gone))
    assert delete_abandoned(index.parent, days=-1.0) == [index]
    assert mine.exists()


def test_index_in_use_is_not_deleted(filled: Path, tmp_path: Path) -> None:
    """Cleanup leaves an index alone while a process has it open."""
    gone = tmp_path / "gone"
    shutil.copytree(filled, gone)
    workspace = Workspace(gone)
    workspace.index.refresh(True, COMPLETE)
    index = index_of(gone)
    (gone / "memvault.toml").unlink()
    with FileLock(index / "lock"):
        assert delete_abandoned(index.parent, days=-1.0) == []
    workspace.close()


def test_index_with_pipe_in_place_of_file_still_answers(vault: Vault, folder: Path) -> None:
    """Recall answers even if a named pipe replaces a file of the index."""
    write(folder, "a.md", "# A\n\nzebra\n")
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]
    manifest = index_of(folder) / INDEX / "manifest.db"
    manifest.unlink()
    os.mkfifo(manifest)
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]


class TestLocalIndex(IndexContract):
    """The contract for the local index."""

    @contextmanager
    def opened(self, root: Path) -> Iterator[Index]:
        """Open the local index of a vault."""
        with local(root) as index:
            yield index


class TestFederatedIndex(IndexContract):
    """The contract for a vault combined with an empty one."""

    @contextmanager
    def opened(self, root: Path) -> Iterator[SearchIndex[Any]]:
        """Open the local indexes of a vault and of an empty one."""
        empty = root.parent / "empty"
        write(empty, "memvault.toml", "version = 1\n")
        with local(empty) as other, local(root) as index:
            yield FederatedIndex({"empty": lambda: other, "own": lambda: index})


def test_index_error_states_cause_and_fix(filled: Path) -> None:
    """The error for an index that cannot be written states the cause and a fix."""
    workspace = Workspace(filled)
    index = workspace.index
    assert isinstance(index, LocalIndex)
    for number, advice in (
        (errno.ENOSPC, "free some disk space"),
        (errno.EACCES, "check the permissions of caches"),
        (errno.EROFS, "set MEMVAULT_CACHE"),
    ):
        with pytest.raises(StorageError) as caught, index.files.locked(0.0):
            raise OSError(number, os.strerror(number), "caches")
        assert os.strerror(number) in caught.value.message
        assert advice in caught.value.hint
    workspace.close()
