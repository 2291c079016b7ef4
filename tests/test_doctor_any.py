"""Whatever a vault holds, doctor looks at it, fixes what it can once, and undo takes that back."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, refused, write
from memvault import open_vault
from memvault.git.index_file import paths
from memvault.vault.markdown import has_conflict_markers
from wrong_vaults import MARKS, examined, files

STEMS = ("bee", "Bee", "bee 2", "bee (1)", "bee-2", "wasp", "be\u0301e", "b\u00e9e", "\U0001f41d")
COPIED = (".sync-conflict-20260102-101112-ABCDEFG", " (Anna's conflicted copy 2026-01-02)", "")
FOLDERS = ("", "fact/", "Fact/", "agents/main/goals/", "templates/", "sub/deep/")
NAMES = ("bee", "wasp", "gone", "[[bee]]", "fact/bee.md", "", "x" * 300)

names = st.builds(
    lambda folder, stem, copied: f"{folder}{stem}{copied}.md",
    st.sampled_from(FOLDERS),
    st.sampled_from(STEMS),
    st.sampled_from(COPIED),
)
values = st.one_of(
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(NAMES), max_size=3),
    st.integers(),
    st.none(),
)
keys = st.sampled_from(
    ("id", "title", "memory_type", "created", "modified", "supersedes", "conflict_with", "aliases")
)
types = st.sampled_from(("fact", "Fact", "Design Decision", "poem", "agents", "../x"))
dates = st.sampled_from(("2026-01-01", "2999-01-01", "never", "9999-12-31T23:59:59Z"))


def header(entries: dict[str, object]) -> str:
    """Return a header with JSON values, which are YAML too."""
    import json

    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in entries.items())
    return f"---\n{lines}---\n\n"


headers = st.builds(
    lambda entries, kind, made: header(
        {
            **entries,
            **({"memory_type": kind} if kind else {}),
            **({"created": made} if made else {}),
        }
    ),
    st.dictionaries(keys, values, max_size=4),
    st.none() | types,
    st.none() | dates,
)
bodies = st.sampled_from(
    ("", "Same.\n", "Other.\n", f"{MARKS}", "[[bee]] [[gone]] ![[x.png]]\n", "# Title\n\nText.\n")
)
contents = st.one_of(
    st.builds(lambda head, body: (head + body).encode(), headers, bodies),
    st.builds(lambda head, body: (head + body).encode("utf-16"), headers, bodies),
    st.sampled_from((b"", b"---\na: [\n---\n", bytes(range(8)) * 200, b"T\xfcr", b"---\nid: x\n")),
    st.binary(max_size=60),
)


@given(st.dictionaries(names, contents, max_size=8))
def test_whatever_a_vault_holds(
    tmp_path_factory: pytest.TempPathFactory, held: dict[str, bytes]
) -> None:
    """Doctor never fails, a second --fix changes nothing, no file is lost, undo gives all back."""
    root = tmp_path_factory.mktemp("any")
    write(root, "memvault.toml", "version = 1\n")
    for path, data in held.items():
        write(root, path, data)
    before = files(root)
    with open_vault(root) as vault:
        found = examined(vault, limit=1_000)
        assert files(root) == before
        fixed = examined(vault, fix=True, limit=1_000)
        after = files(root)
        again = examined(vault, fix=True, limit=1_000)
        assert again["fixed"] == []
        assert again["findings"] == fixed["findings"]
        assert files(root) == after
        trashed = vault.call("trash_list")["total"]
        assert len(after) + trashed == len(before)
        assert bool(fixed["fixed"]) == any(entry["fix"] for entry in found["findings"]) or any(
            "is not fixed" in note for note in fixed["warnings"]
        )
        if "changeId" in fixed:
            assert vault.call("memory_undo", change=fixed["changeId"])["success"]
        assert files(root) == before


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"DIRC" + data))
def test_whatever_an_index_of_git_holds(data: bytes) -> None:
    """Bytes that are no index of git end the look at them, and nothing else."""
    try:
        for count, _ in enumerate(paths(data)):
            assert count < 1_000
    except (ValueError, IndexError, struct.error):
        pass


@given(st.text(alphabet="<>=| \nab`", max_size=200))
def test_marks_are_looked_for_in_any_text(text: str) -> None:
    """Whatever stands between marks, a text without one of the three is in no conflict."""
    if has_conflict_markers(text):
        assert all(mark in text for mark in ("<<<<<<<", "=======", ">>>>>>>"))


def test_only_with_nothing_named_fixes_nothing(run: Run, folder: Path) -> None:
    """An empty --only, as of a variable that is not set, is refused and fixes nothing."""
    write(folder, "a.md", "---\nid: note-abc123\n---\n\nOne.\n")
    write(folder, "b.md", "---\nid: note-abc123\n---\n\nTwo.\n")
    assert "only names no code" in refused(run("doctor", "--fix", "--only", ""), 2)
    assert "note-abc123" in (folder / "b.md").read_text("utf-8")


@pytest.mark.parametrize("version", [2, 4])
def test_a_crafted_index_of_git_costs_no_more_than_it_grows(version: int) -> None:
    """Four times the entries take about four times the work, however long their paths claim to be.

    Before, each path of version 4 was the whole one before it and more.
    """
    few, many = (_bytes_made(_index(version, entries)) for entries in (2_000, 8_000))
    assert few > 0
    assert many < 5 * few


def _index(version: int, entries: int) -> bytes:
    """Return an index each of whose paths is the one before, with ten bytes more."""
    entry = bytes(60) + b"\0\x0a" + (b"\0" if version == 4 else b"") + b"aaaaaaaaaa\0"
    whole = entry if version == 4 else entry + bytes(-len(entry) % 8 or 0)
    return struct.pack(">4sII", b"DIRC", version, entries) + whole * entries


def _bytes_made(data: bytes) -> int:
    """Return how many bytes of paths are made of an index before it ends or is refused."""
    made = 0
    with contextlib.suppress(ValueError, IndexError, struct.error):
        for path in paths(data):
            made += len(path)
    return made
