"""The dates of notes from git's commits: merges, wrong clocks, and git that stops counting."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from conftest import write
from git_clones import git, without_identity
from memvault.model import FileCommits
from memvault.repository.approved import approved_repository
from memvault.repository.commits import read_commits
from memvault.repository.location import find
from test_date_sources import NEW, OLD, WANTED, Repository, allow, dates, two_notes

LATER = "2025-12-01T00:00:00.000Z"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A vault in git with two notes."""
    return two_notes(tmp_path, monkeypatch)


def lines(word: str) -> str:
    """Return a text that git recognizes after small changes."""
    return "".join(f"{word} line {number}\n" for number in range(30))


def read(
    root: Path, since: str = "", known: dict[str, FileCommits] | None = None
) -> tuple[str, dict[str, FileCommits]]:
    """Return HEAD and what its commits say of each note."""
    place = find(root)
    assert place is not None
    found = approved_repository(root, place)
    head = found.git.commit_id("HEAD")
    return head, read_commits(found, head, frozenset(), since, known)


def test_merge_with_a_rename_dates_all_notes(repository: Repository) -> None:
    """A rename in a merge keeps the note's history and changes nothing for other notes."""
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


@pytest.mark.parametrize("seed", range(3))
def test_reading_merges_one_by_one_is_reading_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever two branches edit, rename and delete, new commits lead to the same dates."""
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
        git(made.root, "-c", "merge.memvault.driver=false", "merge", "--no-commit", "side",
            good=False)  # fmt: skip
        change_some(made.root, chance)
        made.commit(f"2025-01-02T0{number}:40:00Z")
        last, known = read(made.root, last, known)
        assert known == read(made.root)[1]
        assert known.keys() == {file.name for file in made.root.glob("*.md")}
        assert all("2025" <= entry.created <= entry.modified for entry in known.values())


def change_some(root: Path, chance: random.Random) -> None:
    """Edit, rename and delete a few notes."""
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
def test_commit_of_the_future_is_not_believed(repository: Repository, when: str) -> None:
    """A commit whose author's clock was over a day ahead says nothing about its notes."""
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
