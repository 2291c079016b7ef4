"""Dates of notes without dates in their header: from the name, from git, from the file."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

import pytest

from conftest import (
    explained,
    index_of,
    lie_still,
    recalled,
    write,
)
from git_clones import git, without_identity
from memvault import open_vault
from memvault.index.folder import find_folder
from memvault.index.local import index_writer
from memvault.index.protocol import COMPLETE, MemoryRecord
from memvault.model import FileCommits, FileState
from memvault.repository.approved import approved_repository
from memvault.repository.commits import read_commits
from memvault.repository.dates import CommitDates
from memvault.repository.location import find_repository
from memvault.vault.memory_file import read_memory
from memvault.workspace import Workspace

OLD, NEW = "2024-02-03T04:05:06.000Z", "2025-06-07T08:09:10.000Z"
LONG_AGO = datetime(2001, 2, 3, tzinfo=UTC)
STARTED = datetime.now(UTC).date().isoformat()


def are_new(times: Iterable[str]) -> bool:
    """Return whether all times are on the days of this test."""
    return all(STARTED <= time[:10] <= datetime.now(UTC).date().isoformat() for time in times)


def created_of(path: str, changed: str = "2026-11-27", header: str = "") -> tuple[str, str]:
    """Return the creation date, and its source, of a note that was last changed on a day."""
    moment = int(datetime.fromisoformat(changed).replace(tzinfo=UTC).timestamp() * 1e9)
    text = f"---\n{header}\n---\nText.\n" if header else "Text.\n"
    state = FileState(path, len(text), moment, moment, 1)
    memory = read_memory(text.encode(), state, frozenset())
    return memory.created[:10], memory.created_from


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("2024-03-05.md", "2024-03-05"),
        ("2024-03-05 Meeting.md", "2024-03-05"),
        ("work/2024-03-05-launch.md", "2024-03-05"),
        ("2024_03_05 Meeting.md", "2024-03-05"),
        ("2024.03.05 Meeting.md", "2024-03-05"),
        ("20240305.md", "2024-03-05"),
        ("20240305-x.md", "2024-03-05"),
        ("20240305T1230 x.md", "2024-03-05"),
        ("202403051230 Zettel.md", "2024-03-05"),
        ("20240305123059-org-roam.md", "2024-03-05"),
        ("2024/03/05.md", "2024-03-05"),
        ("journal/2024/03-05.md", "2024-03-05"),
        ("2024-W10.md", "2024-03-04"),
        ("2024-03.md", "2024-03-01"),
    ],
)
def test_created_date_comes_from_file_name(path: str, day: str) -> None:
    """A note without dates in its header was created on the day its file name starts with."""
    assert created_of(path) == (day, "name")


@pytest.mark.parametrize(
    "path",
    [
        "12345678-phone.md",
        "20241305-x.md",
        "20240230-x.md",
        "202403059930 x.md",
        "2024030512-x.md",
        "1969-07-20 Moon landing.md",
        "2026-12-24 Christmas.md",
        "2024-03-05x2.md/../x.md",
        "report-2024-03-05.md",
        "v2024.md",
    ],
)
def test_implausible_date_in_the_name_is_not_used(path: str) -> None:
    """Numbers that are not dates, and implausible dates, are ignored."""
    assert created_of(path) == ("2026-11-27", "file")


def test_header_date_takes_precedence_over_file_name() -> None:
    """A date in the header is never replaced by one in the name."""
    found = created_of("2024-03-05.md", header="created: 2023-01-02")
    assert found == ("2023-01-02", "header")


@pytest.mark.parametrize("zone", [-1, 0, 1])
def test_note_written_on_its_day_is_dated_by_its_name(zone: int) -> None:
    """Today's daily note counts, although its day can start earlier or later in UTC."""
    day = (datetime(2026, 11, 27, tzinfo=UTC) - timedelta(days=zone)).date().isoformat()
    assert created_of(f"{day}.md", "2026-11-27T00:30:00") == (day, "name")


def test_file_time_never_puts_created_after_modified() -> None:
    """A copied note with only a modified date is never shown as created after it."""
    assert created_of("a.md", header="modified: 2023-01-02") == ("2023-01-02", "file")


class Repository:
    """A vault in a git repository whose commits have given times."""

    def __init__(self, top: Path, below: str = "") -> None:
        self.top, self.root = top, top / below
        self.root.mkdir(parents=True, exist_ok=True)
        git(top, "init", "--quiet", "--initial-branch=main")
        write(self.root, "memvault.toml", "version = 1\n")

    def commit(self, when: str, *words: str) -> None:
        """Commit everything at a time."""
        git(self.top, "add", "--all")
        git(self.top, "commit", "--quiet", "--allow-empty", "-m", "x", f"--date={when}", *words)


def allow(root: Path) -> None:
    """Approve git for a vault's repository, as its user does once."""
    with open_vault(root) as vault:
        assert vault.call("git_init", confirm=True)["success"]


def dates(root: Path) -> dict[str, tuple[str, str]]:
    """Return when each memory was created and modified, from a listing."""
    with open_vault(root) as vault:
        found = vault.call("memory_list", limit=1_000)["memories"]
    return {entry["filePath"]: (entry["created"], entry["modified"]) for entry in found}


def touch(root: Path, moment: datetime | None = None) -> None:
    """Change the timestamps of all notes, like copying and checking out."""
    at = (moment or datetime.now(UTC)).timestamp()
    for file in root.rglob("*.md"):
        os.utime(file, (at, at))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A vault in git with two notes about one thing, the second one a year later."""
    return two_notes(tmp_path, monkeypatch)


def two_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Return a vault in git with two notes of different times, and without an author's name."""
    without_identity(monkeypatch, tmp_path / "home")
    made = Repository(tmp_path / "vault")
    write(made.root, "old.md", "# The office\n\nOur office is in Lisbon, on the second floor.\n")
    made.commit(OLD)
    write(made.root, "new.md", "# The office\n\nOur office is in Porto, on the second floor.\n")
    made.commit(NEW)
    return made


def newer(root: Path) -> dict[str, str]:
    """Return, for each recall result, the path of the newer memory that it refers to."""
    with open_vault(root) as vault:
        found = recalled(vault, "where is our office")
        paths = {entry["memId"]: entry["filePath"] for entry in found}
        return {entry["filePath"]: paths.get(entry.get("newer", ""), "") for entry in found}


@pytest.fixture
def git_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return how often memvault has run git since the last call."""
    program, log = shutil.which("git"), tmp_path / "runs"
    script = f'#!/bin/sh\necho >> "{log}"\nexec "{program}" "$@"\n'
    write(tmp_path, "bin/git", script).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def count() -> int:
        found = log.read_text().count("\n") if log.exists() else 0
        log.unlink(missing_ok=True)
        return found

    return count


WANTED = {"old.md": (OLD, OLD), "new.md": (NEW, NEW)}


def test_notes_are_dated_by_their_commits(repository: Repository) -> None:
    """A note is created at its first commit and modified at the last one that changed it."""
    allow(repository.root)
    write(repository.root, "old.md", "# The office\n\nOur office is in Faro.\n")
    repository.commit(NEW)
    assert dates(repository.root)["old.md"] == (OLD, NEW)


def test_touch_does_not_change_dates(repository: Repository) -> None:
    """Touching files affects neither listings nor which note is newer."""
    allow(repository.root)
    before = dates(repository.root), newer(repository.root)
    assert before == (WANTED, {"new.md": "", "old.md": "new.md"})
    for moment in (None, LONG_AGO):
        touch(repository.root, moment)
        os.utime(repository.root / "old.md")
        assert (dates(repository.root), newer(repository.root)) == before


def test_clone_has_the_dates_of_the_original(repository: Repository) -> None:
    """A fresh clone shows the original's dates and newer marks despite today's file times."""
    allow(repository.root)
    clone = repository.root.parent / "clone"
    git(repository.root.parent, "clone", "--quiet", "vault", "clone")
    assert are_new(chain(*dates(clone).values()))
    assert newer(clone) == {"new.md": "", "old.md": ""}
    allow(clone)
    assert dates(clone) == dates(repository.root)
    assert newer(clone) == newer(repository.root) == {"new.md": "", "old.md": "new.md"}


@pytest.mark.promise("S21")
def test_git_never_runs_without_approval(
    repository: Repository, git_runs: Callable[[], int]
) -> None:
    """A downloaded vault with a repository is dated without running git."""
    dates(repository.root)
    newer(repository.root)
    assert git_runs() == 0


def test_user_setting_disables_commit_dates(
    repository: Repository, git_runs: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``git.dates = false`` in the user's settings, no recall runs git."""
    allow(repository.root)
    git_runs()
    home = repository.root.parent / "config"
    monkeypatch.setenv("MEMVAULT_CONFIG", str(home))
    write(home, "settings.toml", "[git]\ndates = false\n")
    assert are_new(chain(*dates(repository.root).values()))
    assert git_runs() == 0


def test_git_runs_only_if_head_has_moved(
    repository: Repository, git_runs: Callable[[], int]
) -> None:
    """Edits, listings and recalls do not run git unless HEAD has moved."""
    allow(repository.root)
    dates(repository.root)
    git_runs()
    write(repository.root, "old.md", "# The office\n\nOur office is in Faro.\n")
    newer(repository.root)
    dates(repository.root)
    assert git_runs() == 0
    repository.commit(NEW)
    git_runs()
    dates(repository.root)
    assert git_runs() > 0
    dates(repository.root)
    assert git_runs() == 0


def test_memories_with_header_dates_need_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, git_runs: Callable[[], int]
) -> None:
    """A committed vault of memories written by memvault is recalled with its header dates."""
    without_identity(monkeypatch, tmp_path / "home")
    made = Repository(tmp_path / "vault")
    write(made.root, "memvault.toml", "version = 1\n\n[git]\nautocommit = true\n")
    allow(made.root)
    with open_vault(made.root) as vault:
        for title in ("Kites", "Boats"):
            vault.call("memory_remember", title=title, content="They need wind.")
            git_runs()
            assert recalled(vault, "what needs wind")
            if title == "Boats":
                assert git_runs() == 0


def test_uncommitted_change_uses_file_mtime(repository: Repository) -> None:
    """An uncommitted change has its file's time but does not make a note newer."""
    allow(repository.root)
    write(repository.root, "old.md", "# The office\n\nOur office is in Faro, second floor.\n")
    created, modified = dates(repository.root)["old.md"]
    assert created == OLD
    assert are_new([modified])
    assert newer(repository.root)["new.md"] == ""
    repository.commit("2025-12-01T00:00:00Z")
    assert dates(repository.root)["old.md"] == (OLD, "2025-12-01T00:00:00.000Z")
    assert newer(repository.root)["new.md"] == "old.md"


def test_explain_shows_date_sources(repository: Repository) -> None:
    """--explain shows for each date whether it comes from the header, name, git or file."""
    allow(repository.root)
    write(repository.root, "2024-03-05 Office.md", "# Moving\n\nThe office moves.\n")
    write(repository.root, "h.md", "---\ncreated: 2024-01-01\n---\n\nAn office with a header.\n")
    with open_vault(repository.root) as vault:
        found = explained(vault, "office", limit=10)
    sources = {
        entry["filePath"]: (entry["why"]["dates"]["created"], entry["why"]["dates"]["modified"])
        for entry in found
    }
    assert sources == {
        "old.md": ("git", "git"),
        "new.md": ("git", "git"),
        "2024-03-05 Office.md": ("name", "file"),
        "h.md": ("header", "file"),
    }


@pytest.mark.parametrize(
    "name",
    [
        'with "quotes".md',
        "tab\there.md",
        "new\nline.md",
        "äöü 日本.md",
        "-dash.md",
        ":(top)x.md",
    ]
    + ([] if sys.platform == "darwin" else [os.fsdecode(b"latin-\xe9.md")]),
)
def test_unusual_file_names_are_dated(repository: Repository, name: str) -> None:
    """Unusual file names are dated by their commits, even after a rename."""
    write(repository.root, "plain.md", "# A note\n\nIt is renamed.\n")
    repository.commit(OLD)
    (repository.root / "plain.md").rename(repository.root / name)
    repository.commit(NEW)
    allow(repository.root)
    with open_vault(repository.root) as vault:
        found = vault.call("memory_list", limit=10)["memories"]
    renamed = [entry for entry in found if entry["filePath"] not in WANTED]
    assert [(entry["created"], entry["modified"]) for entry in renamed] == [(OLD, OLD)]


def test_renamed_and_edited_note_keeps_its_creation(repository: Repository) -> None:
    """A commit that renames a note and changes some of it is a change, not a new note."""
    lines = "".join(f"Line {number} of the note.\n" for number in range(20))
    write(repository.root, "a.md", lines)
    repository.commit(OLD)
    (repository.root / "a.md").unlink()
    write(repository.root, "b/c.md", f"{lines}One more.\n")
    repository.commit(NEW)
    allow(repository.root)
    assert dates(repository.root)["b/c.md"] == (OLD, NEW)


def test_name_of_a_deleted_note_can_be_used_again(repository: Repository) -> None:
    """A note with the name of a deleted one counts as new."""
    (repository.root / "old.md").unlink()
    repository.commit(NEW)
    write(repository.root, "old.md", "# Something else\n\nA recipe for bread.\n")
    repository.commit("2025-12-01T00:00:00Z")
    allow(repository.root)
    assert dates(repository.root)["old.md"] == ("2025-12-01T00:00:00.000Z",) * 2


def test_commit_dates_include_both_sides_of_merge(repository: Repository) -> None:
    """Changes on a merged branch keep their own times; a resolved conflict has the merge's."""
    allow(repository.root)
    repository.commit(NEW)
    git(repository.root, "switch", "--quiet", "--create", "side")
    write(repository.root, "side.md", "# Side\n\nA note of the side branch.\n")
    write(repository.root, "old.md", "# The office\n\nFaro.\n")
    repository.commit("2025-07-01T00:00:00Z")
    git(repository.root, "switch", "--quiet", "main")
    write(repository.root, "old.md", "# The office\n\nBraga.\n")
    repository.commit("2025-08-01T00:00:00Z")
    git(repository.root, "-c", "merge.memvault.driver=false", "merge", "side", good=False)
    write(repository.root, "old.md", "# The office\n\nBoth.\n")
    git(repository.root, "add", "--all")
    git(repository.root, "commit", "--quiet", "-m", "x", "--date=2025-09-01T00:00:00Z")
    found = dates(repository.root)
    assert found["side.md"] == ("2025-07-01T00:00:00.000Z",) * 2
    assert found["old.md"] == (OLD, "2025-09-01T00:00:00.000Z")


def test_rewritten_history_is_read_again(repository: Repository) -> None:
    """After a reset, an amended commit or another branch, the dates are those of HEAD."""
    allow(repository.root)
    assert dates(repository.root) == WANTED
    git(repository.root, "commit", "--quiet", "--amend", "--no-edit", "--date=2025-03-03T00:00Z")
    assert dates(repository.root)["new.md"][1] == "2025-03-03T00:00:00.000Z"
    git(repository.root, "switch", "--quiet", "--orphan", "other")
    git(repository.root, "checkout", "--quiet", "main", "--", ".")
    repository.commit("2025-04-04T00:00Z")
    assert set(dates(repository.root).values()) == {("2025-04-04T00:00:00.000Z",) * 2}
    git(repository.root, "switch", "--quiet", "--detach", "main")
    assert dates(repository.root)["new.md"][1] == "2025-03-03T00:00:00.000Z"


def test_shallow_clone_does_not_date_older_notes(repository: Repository) -> None:
    """A commit without its parents does not date its files; only later commits do."""
    url = repository.root.as_uri()
    git(repository.root.parent, "clone", "--quiet", "--depth=1", url, "clone")
    clone = repository.root.parent / "clone"
    allow(clone)
    assert are_new(chain(*dates(clone).values()))
    write(clone, "old.md", "# The office\n\nOur office is in Faro.\n")
    git(clone, "commit", "--quiet", "--all", "-m", "x", "--date=2025-12-01T00:00:00Z")
    created, modified = dates(clone)["old.md"]
    assert (created, modified) == ("2025-12-01T00:00:00.000Z",) * 2
    git(clone, "fetch", "--quiet", "--unshallow")
    assert dates(clone) == {"old.md": (OLD, "2025-12-01T00:00:00.000Z"), "new.md": (NEW, NEW)}


def test_vault_in_repository_subfolder_has_commit_dates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vault in a subfolder of a repository is dated by the commits of its own files."""
    without_identity(monkeypatch, tmp_path / "home")
    made = Repository(tmp_path / "project", "docs/my notes")
    write(made.root, "a.md", "# A\n\nOne.\n")
    write(made.top, "a.md", "# A\n\nAnother.\n")
    made.commit(OLD)
    write(made.top, "a.md", "# A\n\nChanged.\n")
    made.commit(NEW)
    git(made.top, "config", "diff.relative", "true")
    git(made.top, "config", "log.showRoot", "false")
    git(made.top, "config", "log.follow", "true")
    allow(made.root)
    assert dates(made.root) == {"a.md": (OLD, OLD)}


def test_commit_dates_work_in_linked_worktree(repository: Repository) -> None:
    """A worktree has the dates of its own HEAD."""
    tree = repository.root.parent / "tree"
    git(repository.root, "worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
    allow(tree)
    assert dates(tree) == WANTED


@pytest.mark.parametrize("broken", ["HEAD", "objects", "gone", "worktree"])
def test_broken_repository_falls_back_to_file_times(repository: Repository, broken: str) -> None:
    """Without git data, notes are found with the remaining dates and without an error."""
    allow(repository.root)
    folder = repository.root / ".git"
    if broken == "HEAD":
        write(folder, "HEAD", "ref: refs/heads/\0\n")
    elif broken == "objects":
        shutil.rmtree(folder / "objects")
        (folder / "objects").mkdir()
    else:
        shutil.rmtree(folder)
        if broken == "worktree":
            folder.write_text("gitdir: /nowhere/.git/worktrees/x\n")
    assert set(dates(repository.root)) == {"old.md", "new.md"}
    with open_vault(repository.root) as vault:
        found = vault.call("memory_recall", query="our office")
    assert len(found["memories"]) == 2
    assert "notes" not in found


def test_missing_git_falls_back_to_file_times(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If git is not installed, recall still works in an approved vault."""
    allow(repository.root)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert are_new(chain(*dates(repository.root).values()))


def test_damaged_cache_is_rebuilt(repository: Repository) -> None:
    """A damaged cache is rebuilt from git."""
    allow(repository.root)
    assert dates(repository.root) == WANTED
    folder = find_folder(repository.root)
    assert folder is not None
    (cache,) = folder.glob("commits-*.db")
    cache.write_bytes(b"x" * 5_000)
    for _ in range(2):
        dates(repository.root)
    touch(repository.root)
    assert dates(repository.root) == WANTED


def test_commit_dates_are_correct_after_kill_before_indexing(repository: Repository) -> None:
    """A process killed between reading git and indexing leaves no outdated dates."""
    root = repository.root
    dates(root)
    allow(root)
    with closing(CommitDates(root, lambda: find_folder(root))) as read:
        read.update(60)
        assert read.pending() >= WANTED.keys()
    assert dates(root) == WANTED
    with closing(CommitDates(root, lambda: find_folder(root))) as read:
        assert not read.pending()


def test_checkout_line_endings_do_not_count_as_a_change(repository: Repository) -> None:
    """A note checked out with CRLF counts as unchanged."""
    git(repository.root, "config", "core.autocrlf", "true")
    for file in repository.root.glob("*.md"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    allow(repository.root)
    assert dates(repository.root) == WANTED


def test_index_built_by_several_processes_has_commit_dates(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first index built by several processes contains the git dates."""
    monkeypatch.setattr(index_writer, "_MANY_FILES", 1)
    monkeypatch.setattr("memvault.index.local.analysis_pool._processors", lambda: 2)
    allow(repository.root)
    assert dates(repository.root) == WANTED


def test_unwritable_index_still_answers_with_dates(repository: Repository) -> None:
    """If new commits cannot be indexed, notes are found with the last known dates."""
    allow(repository.root)
    lie_still(repository.root)
    with closing(Workspace(repository.root)) as workspace:
        before = records(workspace)
        repository.commit("2025-12-01T00:00:00Z")
        folder = index_of(repository.root)
        folder.chmod(0o755)  # memvault does not write to a folder that others can access
        try:
            assert records(workspace) == before != {}
        finally:
            folder.chmod(0o700)


def test_open_vault_sees_commits(repository: Repository) -> None:
    """A process that watches the folder notices a commit that does not change notes."""
    allow(repository.root)
    write(repository.root, "old.md", "# The office\n\nOur office is in Faro.\n")
    with closing(Workspace(repository.root, long_lived=True)) as workspace:
        for _ in range(2):
            found = records(workspace)["old.md"]
            assert (found.created, found.modified_from) == (OLD, "file")
        repository.commit("2025-12-01T00:00:00Z")
        found = records(workspace)["old.md"]
        assert (found.modified, found.modified_from) == ("2025-12-01T00:00:00.000Z", "git")


@pytest.mark.promise("S22")
def test_git_never_runs_in_a_changed_repository(
    repository: Repository, git_runs: Callable[[], int]
) -> None:
    """Once a repository can run a new program, no recall runs git until it is approved."""
    allow(repository.root)
    assert dates(repository.root) == WANTED
    git(repository.root, "config", "core.fsmonitor", "./evil")
    write(repository.root, "old.md", "# The office\n\nOur office is in Faro.\n")
    repository.commit("2025-12-01T00:00:00Z")
    git_runs()
    touch(repository.root)
    found = dates(repository.root)
    assert git_runs() == 0
    assert found["new.md"] == WANTED["new.md"]
    assert are_new(found["old.md"][1:])
    allow(repository.root)
    assert dates(repository.root)["old.md"] == (OLD, "2025-12-01T00:00:00.000Z")


@pytest.mark.parametrize("seed", range(3))
def test_incremental_read_equals_full_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Dates updated from new commits equal those of a full read, for any changes."""
    without_identity(monkeypatch, tmp_path / "home")
    made = Repository(tmp_path / "vault")
    allow(made.root)
    chance, last = random.Random(seed), ""
    known: dict[str, FileCommits] = {}
    model: dict[str, tuple[str, str]] = {}
    for number in range(12):
        when = f"2025-01-{number + 1:02}T00:00:00.000Z"
        _change_some(made.root, model, when, chance)
        made.commit(when)
        place = find_repository(made.root)
        assert place is not None
        repository = approved_repository(made.root, place)
        head = repository.git.commit_id("HEAD")
        known = read_commits(repository, head, frozenset(), last, known)
        last = head
        assert known == read_commits(repository, head, frozenset())
        assert _times(known) == model


def records(workspace: Workspace) -> dict[str, MemoryRecord]:
    """Return the records of a fresh view, by path."""
    view = workspace.index.refresh(False, COMPLETE)
    return {record.path: record for record in view.records()}


def _times(files: dict[str, FileCommits]) -> dict[str, tuple[str, str]]:
    return {path: (entry.created, entry.modified) for path, entry in files.items()}


def _change_some(
    root: Path, model: dict[str, tuple[str, str]], when: str, chance: random.Random
) -> None:
    """Add, edit, rename and delete notes, recording when each was created and changed."""
    for path in [path for path in model if chance.random() < 0.5]:
        created = model[path][0]
        file = root / path
        match chance.choice(["edit", "rename", "both", "delete"]):
            case "edit":
                file.write_text(f"{file.read_text()}More, {when}.\n")
                model[path] = created, when
            case "rename":
                file.rename(file.with_name(f"r{chance.randrange(10**9)}.md"))
                model[_only_new(root, model)] = model.pop(path)
            case "both":
                target = file.with_name(f"b{chance.randrange(10**9)}.md")
                target.write_text(f"{file.read_text()}And more, {when}.\n")
                file.unlink()
                del model[path]
                model[target.name] = created, when
            case _:
                file.unlink()
                del model[path]
    for _ in range(chance.randrange(4)):
        name = f"n{chance.randrange(10**9)}.md"
        words = "".join(f"{chance.randrange(10**9)} {chance.randrange(10**9)}\n" for _ in range(30))
        write(root, name, words)
        model[name] = when, when


def _only_new(root: Path, model: dict[str, tuple[str, str]]) -> str:
    (name,) = {file.name for file in root.glob("*.md")} - model.keys()
    return name
