"""A long-running process sees every change in a vault's folder without a scan per call."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from conftest import examples
from memvault import Vault, open_vault
from memvault.files import inotify
from memvault.index.local import folder_diff
from memvault.settings.exclusions import Exclusions
from memvault.vault import folder_watch, scan
from memvault.vault.folder_watch import FolderWatch
from memvault.vault.scan import Scan

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify needs Linux")

FOLDERS = st.sampled_from(["", "a", "a/b", "c", ".git", "agents/main/inbox"])
NAMES = st.sampled_from(["x.md", "y.md", "Z.MD", ".hidden.md", "note.txt"])
PLACES = st.tuples(FOLDERS, NAMES)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that are scanned, in order."""
    found: list[Path] = []
    scan = FolderWatch.scan

    def counted(watch: FolderWatch, exclusions: Exclusions, *rest: Callable[[], bool]) -> Scan:
        found.append(watch._root)
        return scan(watch, exclusions, *rest)

    monkeypatch.setattr(FolderWatch, "scan", counted)
    return found


def paths_of(vault: Vault) -> list[str]:
    """Return the paths that a vault lists, with their titles."""
    listed = vault.call("memory_list", limit=1_000)["memories"]
    return sorted(f"{entry['filePath']}: {entry['title']}" for entry in listed)


_TICK = 0.006
"""Seconds after which a file system's clock has advanced."""


class WatchedAgainstScanned(RuleBasedStateMachine):
    """A vault lists the existing files, whether it is watched or scanned at each call."""

    @initialize()
    def begin(self) -> None:
        import tempfile

        self.place = Path(tempfile.mkdtemp())
        self.root = self.place / "vault"
        self.root.mkdir()
        (self.root / "memvault.toml").write_text("version = 1\n", "utf-8")
        self.vault = open_vault(self.root)
        self.number = 0
        self.ignored: tuple[str, ...] = ()
        self.granularity = vars(folder_diff)["TIMESTAMP_GRANULARITY"]
        vars(folder_diff)["TIMESTAMP_GRANULARITY"] = 0

    def teardown(self) -> None:
        vars(folder_diff)["TIMESTAMP_GRANULARITY"] = self.granularity
        self.vault.close()
        shutil.rmtree(self.place)

    def _text(self) -> str:
        self.number += 1
        return f"# Title {self.number}\n"

    @rule(place=PLACES)
    def write(self, place: tuple[str, str]) -> None:
        file = self.root.joinpath(*place)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_symlink():
            file.write_text(self._text(), "utf-8")

    @rule(place=PLACES)
    def replace(self, place: tuple[str, str]) -> None:
        outside = self.place / "new"
        outside.write_text(self._text(), "utf-8")
        file = self.root.joinpath(*place)
        file.parent.mkdir(parents=True, exist_ok=True)
        os.replace(outside, file)

    @rule(place=PLACES)
    def delete(self, place: tuple[str, str]) -> None:
        self.root.joinpath(*place).unlink(missing_ok=True)

    @rule(old=PLACES, new=PLACES)
    def rename(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        source, target = self.root.joinpath(*old), self.root.joinpath(*new)
        if source.exists() and target.parent.is_dir():
            os.replace(source, target)

    @rule(old=FOLDERS, new=st.sampled_from(["moved", "a/moved", ".moved"]))
    def move_folder(self, old: str, new: str) -> None:
        source, target = self.root / old, self.root / new
        may_move = target.parent.is_dir() and source not in target.parents and not target.exists()
        if old and source.is_dir() and may_move:
            source.rename(target)

    @rule(folder=FOLDERS)
    def delete_folder(self, folder: str) -> None:
        if folder:
            shutil.rmtree(self.root / folder, ignore_errors=True)

    @rule(place=PLACES)
    def link(self, place: tuple[str, str]) -> None:
        file = self.root.joinpath(*place)
        if file.parent.is_dir() and not file.exists():
            file.symlink_to(self.root / "memvault.toml")

    @rule(ignored=st.sampled_from([[], ["a/"], ["x.md"]]))
    def ignore(self, ignored: list[str]) -> None:
        text = f"version = 1\nignore = {ignored}\n"
        self.ignored = tuple(ignored)
        (self.root / "memvault.toml").write_text(text, "utf-8")

    @rule()
    def swap_the_vault(self) -> None:
        self.root.rename(self.place / "old")
        shutil.copytree(self.place / "old", self.root, symlinks=True)
        shutil.rmtree(self.place / "old")
        (self.root / "swapped.md").write_text(self._text(), "utf-8")

    @invariant()
    def listed_as_they_are(self) -> None:
        if not hasattr(self, "vault"):
            return
        expected = sorted(self._titles())
        time.sleep(_TICK)  # two changes within one tick may have the same times
        ways = [self._watched, self._scanned]
        for way in ways if self.number % 2 else reversed(ways):  # the first one indexes
            assert way() == expected

    def _watched(self) -> list[str]:
        return paths_of(self.vault)

    def _scanned(self) -> list[str]:
        with open_vault(self.root) as fresh:
            return paths_of(fresh)

    def _titles(self) -> Iterator[str]:
        for state in scan.scan(self.root, Exclusions(self.root, self.ignored)).files:
            title = (self.root / state.path).read_text("utf-8").removeprefix("# ").strip()
            yield f"{state.path}: {title}"


TestWatchedAgainstScanned = WatchedAgainstScanned.TestCase
TestWatchedAgainstScanned.settings = settings(max_examples=examples(15), stateful_step_count=30)


@pytest.mark.promise("R81")
def test_watch_scans_folder_only_on_first_call(
    vault: Vault, folder: Path, scans: list[Path]
) -> None:
    """Edits, new files and deletions are found without another scan; a new folder needs one."""
    (folder / "a").mkdir()
    (folder / "a/one.md").write_text("# One\n", "utf-8")
    assert paths_of(vault) == ["a/one.md: One"]
    scans.clear()
    (folder / "a/one.md").write_text("# Changed\n", "utf-8")
    (folder / "two.md").write_text("# Two\n", "utf-8")
    assert paths_of(vault) == ["a/one.md: Changed", "two.md: Two"]
    vault.call("memory_remember", memoryType="fact", name="Three", information="Three")
    paths_of(vault)  # scan for the new folder "fact"
    scans.clear()
    (folder / "two.md").unlink()
    assert "two.md: Two" not in paths_of(vault)
    assert scans == []
    (folder / "new").mkdir()
    (folder / "new/four.md").write_text("# Four\n", "utf-8")
    assert "new/four.md: Four" in paths_of(vault)
    assert scans


def test_watch_rescans_folder_after_some_minutes(
    vault: Vault, scans: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is scanned every few minutes, because some changes cause no event."""
    paths_of(vault)
    scans.clear()
    monkeypatch.setattr(folder_watch, "TRUSTED_SECONDS", 0.0)
    paths_of(vault)
    assert len(scans) == 1


def test_watch_is_off_for_network_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose file system may not be local is scanned instead of watched."""
    monkeypatch.setattr(inotify, "_LOCAL_FILE_SYSTEMS", {})
    watch = FolderWatch(tmp_path)
    for _ in range(2):
        watch.scan(Exclusions(tmp_path))
        assert watch.changes() is None
    watch.close()


def test_watch_ignores_files_with_hard_links(tmp_path: Path) -> None:
    """A file that can change through a hard link outside the vault is checked each time."""
    (tmp_path / "a.md").touch()
    os.link(tmp_path / "a.md", tmp_path / "other")
    watch = FolderWatch(tmp_path)
    watch.scan(Exclusions(tmp_path))
    assert watch.changes() is None
    watch.close()


def test_watch_rescans_folder_after_lost_events(tmp_path: Path) -> None:
    """If the kernel's event queue overflows, the folder is scanned."""
    watch = FolderWatch(tmp_path)
    watch.scan(Exclusions(tmp_path))
    assert watch.changes() == frozenset()
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text("ascii"))
    if most > 40_000:
        pytest.skip("too many events are kept here to lose any soon")
    for number in range(most // 2 + 2):
        (tmp_path / f"{number % 2}.md").touch()
        (tmp_path / f"{number % 2}.md").unlink()
    assert watch.changes() is None
    watch.scan(Exclusions(tmp_path))
    assert watch.changes() == frozenset()
    watch.close()


def test_watch_is_separate_after_fork(folder: Path, vault: Vault) -> None:
    """After a fork, neither process consumes the other's events."""
    assert paths_of(vault) == []
    child = os.fork()
    if not child:
        with suppress(BaseException):
            (folder / "new").mkdir()
            (folder / "new/a.md").write_text("# A\n", "utf-8")
            os._exit(0 if paths_of(vault) == ["new/a.md: A"] else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert paths_of(vault) == ["new/a.md: A"]
    (folder / "new/b.md").write_text("# B\n", "utf-8")
    assert paths_of(vault) == ["new/a.md: A", "new/b.md: B"]


def test_watch_is_released_with_unclosed_vault(folder: Path) -> None:
    """A vault that is garbage-collected without close releases its file watches."""
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        open_vault(folder).call("memory_list")
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
