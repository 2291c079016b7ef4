"""Dates of notes from git's commits: merges, wrong clocks, and git failures."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

import pytest

from conftest import index_of, lie_still, recalled, without_rights, write
from git_clones import git, without_identity
from memvault import Vault, open_vault
from memvault.index.protocol import EARLY
from memvault.model import FileCommits
from memvault.repository.approved import approved_repository
from memvault.repository.commits import read_commits
from memvault.repository.location import find_repository
from memvault.workspace import Workspace
from test_date_sources import NEW, OLD, WANTED, Repository, allow, are_new, dates, two_notes

LATER = "2025-12-01T00:00:00.000Z"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A vault in git with two notes that were not just written."""
    made = two_notes(tmp_path, monkeypatch)
    lie_still(made.root)
    return made


def lines(word: str) -> str:
    """Return a body that git still recognizes after small changes."""
    return "".join(f"{word} line {number}\n" for number in range(30))


def read(
    root: Path, since: str = "", known: dict[str, FileCommits] | None = None
) -> tuple[str, dict[str, FileCommits]]:
    """Return HEAD and each note's dates from its commits."""
    place = find_repository(root)
    assert place is not None
    found = approved_repository(root, place)
    head = found.git.commit_id("HEAD")
    return head, read_commits(found, head, frozenset(), since, known)


def test_merge_with_rename_keeps_commit_dates(repository: Repository) -> None:
    """A rename in a merge keeps the note's history and does not affect other notes."""
    for name in ("a", "b", "c"):
        write(repository.root, f"{name}.md", lines(name))
    repository.commit(OLD)
    git(repository.root, "switch", "--quiet", "--create", "side")
    git(repository.root, "mv", "a.md", "ra.md")
    write(repository.root, "b.md", lines("b") + "Side.\n")
    repository.commit("2025-07-01T00:00:00Z")
    git(repository.root, "switch", "--quiet", "main")
    write(repository.root, "a.md", lines("a") + "Main.\n")
    write(repository.root, "b.md", lines("b") + "Main.\n")
    repository.commit("2025-08-01T00:00:00Z")
    allow(repository.root)
    git(repository.root, "-c", "merge.memvault.driver=false", "merge", "side", good=False)
    git(repository.root, "mv", "c.md", "rc.md")
    write(repository.root, "b.md", lines("b") + "Both.\n")
    write(repository.root, "z.md", "# Z\n\nNew in the merge.\n")
    repository.commit(LATER)
    assert dates(repository.root) == {
        **WANTED,
        "ra.md": (OLD, "2025-08-01T00:00:00.000Z"),
        "rc.md": (OLD, OLD),
        "b.md": (OLD, LATER),
        "z.md": (LATER, LATER),
    }


@pytest.mark.parametrize("seed", range(5))
def test_incremental_commit_reading_equals_full_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Dates updated from new commits equal those of a full read, for any two branches."""
    without_identity(monkeypatch, tmp_path / "home")
    made = Repository(tmp_path / "vault")
    for number in range(8):
        write(made.root, f"n{number}.md", lines(str(number)))
    made.commit("2025-01-01T00:00:00Z")
    allow(made.root)
    chance = random.Random(seed)
    last, known = read(made.root)
    for number in range(6):
        git(made.root, "switch", "--quiet", "--force-create", "side")
        change_some(made.root, chance)
        made.commit(f"2025-01-02T0{number}:00:00Z")
        git(made.root, "switch", "--quiet", "main")
        change_some(made.root, chance)
        made.commit(f"2025-01-02T0{number}:20:00Z")
        last, known = read(made.root, last, known)
        here, other = chance.choice([("main", "side"), ("side", "main")])
        git(made.root, "switch", "--quiet", here)
        words = ("-c", "merge.memvault.driver=false", "merge", "--no-commit", other)
        git(made.root, *words, good=False)
        change_some(made.root, chance)
        made.commit(f"2025-01-02T0{number}:40:00Z")
        if here == "side":
            git(made.root, "switch", "--quiet", "main")
            git(made.root, "merge", "--quiet", "--ff-only", "side")
        last, known = read(made.root, last, known)
        assert known == read(made.root)[1]
        assert known.keys() == {file.name for file in made.root.glob("*.md")}
        assert all("2025" <= entry.created <= entry.modified for entry in known.values())


def change_some(root: Path, chance: random.Random) -> None:
    """Add, edit, rename and delete a few notes."""
    write(root, f"a{chance.randrange(10**9)}.md", lines(str(chance.random())))
    for file in sorted(root.glob("*.md")):
        match chance.choice(["edit", "rename", "both", "delete", *["keep"] * 8]):
            case "edit":
                file.write_text(f"{file.read_text()}More {chance.random()}.\n")
            case "rename":
                file.rename(root / f"r{chance.randrange(10**9)}.md")
            case "both":
                file.write_text(f"{file.read_text()}More {chance.random()}.\n")
                file.rename(root / f"b{chance.randrange(10**9)}.md")
            case "delete":
                file.unlink()


@pytest.mark.parametrize("when", ["@4102444800 +0000", "@99999999999999 +0000", "tomorrow"])
def test_future_commit_date_is_ignored(repository: Repository, when: str) -> None:
    """A commit whose author's clock was over a day ahead does not date its notes."""
    if when == "tomorrow":
        when = (datetime.now(UTC) + timedelta(days=2)).isoformat()
    write(repository.root, "old.md", "# The office\n\nOur office is in Faro.\n")
    write(repository.root, "more.md", "# More\n\nAnother note.\n")
    repository.commit(when)
    allow(repository.root)
    _, found = read(repository.root)
    assert {path: entry[:2] for path, entry in found.items()} == {
        "old.md": (OLD, ""),
        "more.md": ("", ""),
        "new.md": (NEW, NEW),
    }


def shown(root: Path) -> dict[str, tuple[str, str]]:
    """Return the result of ``dates``, as displayed for each note."""
    with open_vault(root) as vault:
        return {path: one(vault, path) for path in WANTED}


def one(vault: Vault, path: str) -> tuple[str, str]:
    """Return when a note was created and modified, as displayed."""
    found = vault.call("memory_show", memId=path)
    return found["created"], found["modified"]


def listed(vault: Vault) -> dict[str, tuple[str, str]]:
    """Return the times of all notes, from a listing of an open vault."""
    found = vault.call("memory_list", limit=100)["memories"]
    return {entry["filePath"]: (entry["created"], entry["modified"]) for entry in found}


def cache_of(root: Path) -> Path:
    """Return the cache of times read from git."""
    (cache,) = index_of(root).glob("commits-*.db")
    return cache


@pytest.mark.parametrize("kind", ["forbidden", "folder", "pipe"])
def test_unreadable_commit_cache_is_ignored(repository: Repository, kind: str) -> None:
    """If the times from git cannot be read, notes are still found."""
    allow(repository.root)
    assert dates(repository.root) == WANTED
    cache = cache_of(repository.root)
    if kind == "forbidden":
        cache.chmod(0)
    else:
        cache.unlink()
        cache.mkdir() if kind == "folder" else os.mkfifo(cache)
    repository.commit(LATER)
    command = [*without_rights(), sys.executable, "-P", "-m", "memvault"]
    for words in (["recall", "our office"], ["show", "old.md"], ["list"]):
        found = subprocess.run(
            [*command, *words], cwd=repository.root, capture_output=True, text=True, check=False
        )
        assert (found.returncode, found.stderr) == (0, "")
        assert "office" in found.stdout


@pytest.mark.parametrize("stays", [False, True], ids=["new process", "open vault"])
@pytest.mark.parametrize("change", ["moved", "setting", "lost", "other", "above"])
def test_disabling_git_dates_applies_everywhere(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, change: str, stays: bool
) -> None:
    """When git no longer dates notes, listings and single notes show the same dates."""
    root = repository.root
    monkeypatch.setenv("MEMVAULT_CONFIG", str(root.parent / "config"))
    write(root.parent, "config/settings.toml", "[git]\ndates = true\n")
    allow(root)
    with ExitStack() as stack:
        vault = stack.enter_context(open_vault(root))
        assert listed(vault) == WANTED
        if change == "setting":
            write(root.parent, "config/settings.toml", "[git]\ndates = false\n")
        else:
            (root / ".git").rename(root.parent / "moved")
        if change == "lost":
            cache_of(root).unlink()
        elif change == "other":
            git(root, "init", "--quiet")
        elif change == "above":
            git(root.parent, "init", "--quiet")
        if not stays:
            vault = stack.enter_context(open_vault(root))
        assert recalled(vault, "our office")
        found = listed(vault)
        assert found == {path: one(vault, path) for path in WANTED}
        assert are_new(chain(*found.values()))


def test_rebuilt_commit_cache_drops_old_dates(repository: Repository) -> None:
    """A note that git no longer has is dated by its file after the cache is rebuilt."""
    root = repository.root
    allow(root)
    assert dates(root) == WANTED
    git(root, "rm", "--quiet", "--cached", "old.md")
    git(root, "commit", "--quiet", "-m", "x")
    cache_of(root).unlink()
    found = dates(root)
    assert found == shown(root)
    assert found["new.md"] == WANTED["new.md"]
    assert are_new(found["old.md"])


def test_git_dates_are_used_again_in_restored_repository(repository: Repository) -> None:
    """Moving a repository away temporarily has no permanent effect."""
    root = repository.root
    allow(root)
    assert dates(root) == WANTED
    (root / ".git").rename(root.parent / "moved")
    assert are_new(chain(*dates(root).values()))
    (root.parent / "moved").rename(root / ".git")
    assert dates(root) == shown(root) == WANTED


def test_date_in_name_does_not_depend_on_git(repository: Repository) -> None:
    """A note with a modified date in its header is created on its name's date, even with git."""
    root = repository.root
    header = "---\nmodified: 2025-06-01\n---\n\n"
    write(root, "2025-03-04 Plan.md", f"{header}# Plan\n\nBegun early.\n")
    repository.commit(OLD)
    before = dates(root)["2025-03-04 Plan.md"]
    allow(root)
    assert dates(root)["2025-03-04 Plan.md"] == before
    assert before[0] == "2025-03-04T00:00:00.000Z"
    with open_vault(root) as vault:
        assert one(vault, "2025-03-04 Plan.md") == before


@pytest.mark.parametrize("kind", ["symbolic", "reftable", "worktree"])
def test_commit_is_detected_for_every_kind_of_head(repository: Repository, kind: str) -> None:
    """A commit is detected for every kind of HEAD."""
    root = repository.root
    if kind == "symbolic":
        git(root, "config", "core.logAllRefUpdates", "false")
        shutil.rmtree(root / ".git/logs")
        git(root, "branch", "trunk")
        git(root, "symbolic-ref", "refs/heads/main", "refs/heads/trunk")
    elif kind == "reftable":
        made = subprocess.run(
            ["git", "clone", "--quiet", "--ref-format=reftable", str(root), str(root.parent / "r")],
            check=False,
            capture_output=True,
        )
        if made.returncode:
            pytest.skip("this git has no reftable")
        root = root.parent / "r"
    if kind != "symbolic":
        git(root, "worktree", "add", "--quiet", "--detach", str(root.parent / "tree"), "HEAD")
        root = root.parent / "tree"
    allow(root)
    assert dates(root) == WANTED
    write(root, "old.md", "# The office\n\nOur office is in Faro.\n")
    dates(root)
    git(root, "commit", "--quiet", "--all", "-m", "x", f"--date={LATER}")
    assert dates(root)["old.md"] == (OLD, LATER)


@pytest.fixture(params=["log", "rev-parse"])
def slow_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Path:
    """A git with one command that takes half a minute while a file exists, counted in ``runs``."""
    slow = tmp_path / "slow"
    script = (
        f'#!/bin/sh\ncase " $* " in *" {request.param} "*) echo >> "{tmp_path / "runs"}"\n'
        f'[ -e "{slow}" ] && exec sleep 30;; esac\nexec "{shutil.which("git")}" "$@"\n'
    )
    write(tmp_path, "bin/git", script).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return slow


def test_slow_git_does_not_delay_recall(repository: Repository, slow_git: Path) -> None:
    """A recall waits two seconds for git, then notes that dates are pending."""
    root = repository.root
    allow(root)
    slow_git.touch()
    runs = root.parent / "runs"
    runs.unlink(missing_ok=True)
    with closing(Workspace(root)) as workspace:
        began = time.monotonic()
        view = workspace.index.refresh(False, EARLY)
        assert time.monotonic() - began < 10
        assert any("git is slow" in note for note in view.notes)
        began = time.monotonic()
        workspace.index.refresh(False, EARLY)
        assert time.monotonic() - began < 1.9
        assert runs.read_text().count("\n") == 1
        slow_git.unlink()
        workspace.finish_indexing()
        assert not workspace.index.refresh(False, EARLY).notes
    assert dates(root) == WANTED


def test_editor_shows_dates_from_git(repository: Repository) -> None:
    """The language server reads the dates of saved and unsaved notes from git, too."""
    pytest.importorskip("lsprotocol", reason="pip install 'memvault[lsp]'")
    from memvault.lsp.documents import Buffer, EditorVault

    root = repository.root
    allow(root)
    vault = EditorVault(root, str(root))
    unsaved = Buffer((root / "old.md").as_uri(), 1, "# The office\n\nIt has moved.\n")
    store = vault.state({"old.md": unsaved}).store
    assert [store.read(name).created for name in ("old.md", "new.md")] == [OLD, NEW]
    vault.workspace.close()
