"""Items to review are listed and answered with one key each; a vault's statistics are correct."""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, index_of, refused, succeeded, vault_files, write
from episodes import put
from made_secrets import made
from memvault import Vault
from memvault.index.text.near_copies import near_copies, sketch
from terminal import at_terminal

SAME = "The meeting room on the second floor has a projector and a whiteboard.\n"


@pytest.fixture
def troubled(folder: Path) -> Path:
    """A vault with one item of each kind to review."""
    write(folder, "a/plan.md", "---\nid: plan-7k2m9q\n---\n\n# Plan\n\nWe use SQLite.\n")
    write(
        folder,
        "a/plan-2.md",
        "---\nid: plan-8k2m9q\nconflict_with: ['[[plan-7k2m9q]]']\n---\n\n"
        "# Plan\n\nWe use DuckDB.\n",
    )
    write(folder, "key.md", f"# Key\n\n{made('GitHub token')[1]}\n")
    write(folder, "room.md", f"# Room\n\n{SAME}")
    write(folder, "copy.md", f"# Room\n\n{SAME}")
    write(folder, "old.md", "---\nid: old-7k2m9q\nvalid_to: 2020-01-01\n---\n\n# Old price\n\n12\n")
    write(folder, "broken.md", "---\na: [\n---\n\nText.\n")
    return folder


def test_review_lists_each_item_once(run: Run, troubled: Path) -> None:
    """Each item is listed once, with its kind, file and reason; --kind selects one kind."""
    said = succeeded(run("review", "--json")).json
    found = [(item["kind"], item["filePath"]) for item in said["items"]]
    assert ("conflict", "a/plan-2.md") in found
    assert ("secret", "key.md") in found
    assert ("duplicate", "room.md") in found or ("duplicate", "copy.md") in found
    assert ("outdated", "old.md") in found
    assert ("finding", "broken.md") in found
    assert len(found) == said["total"] == 5
    conflict = said["items"][0]
    assert conflict["other"]["filePath"] == "a/plan.md"
    only = succeeded(run("review", "--kind", "outdated")).out
    assert "It expired on 2020-01-01" in only
    assert "broken" not in only
    assert "kind" in refused(run("review", "--kind", "nothing"), 2)


def test_review_of_healthy_vault_is_one_line(run: Run, folder: Path) -> None:
    """A vault with nothing to review gets one line."""
    write(folder, "a.md", "# A\n\nFine.\n")
    assert succeeded(run("review")).out == "Nothing to review\n"


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX-only")
def test_review_answers_with_single_keys_and_undoes_together(
    run: Run, troubled: Path, tmp_path: Path
) -> None:
    """One key keeps one of two copies, allows a secret or drops an item; one undo reverts all."""
    before = vault_files(troubled)
    code, shown = at_terminal(troubled, "review", answer=[*"x2a1ts"], asked="q quit: ")
    assert code == 0, shown
    assert "Press one of the keys above" in shown
    assert "We use SQLite." in shown
    assert "4 of 5 answered" in shown
    assert not (troubled / "a/plan-2.md").exists()
    assert (troubled / "a/plan.md").exists()
    assert "secrets: allowed" in (troubled / "key.md").read_text("utf-8")
    assert (troubled / "room.md").exists() != (troubled / "copy.md").exists()
    assert not (troubled / "old.md").exists()
    succeeded(run("undo"))
    assert vault_files(troubled) == before


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX-only")
@pytest.mark.parametrize("end", ["q", "\x03", "\x04"])
def test_review_keeps_answers_after_any_exit(run: Run, troubled: Path, end: str) -> None:
    """Enter and arrow keys answer nothing; after q, Ctrl-C or Ctrl-D, one undo reverts all."""
    before = vault_files(troubled)
    keys = ("\x1b[A", "1\r\n", end)
    code, shown = at_terminal(troubled, "review", answer=keys, asked="q quit: ")
    assert code == 0, shown
    assert "1 of 5 answered" in shown
    assert "[2/5]" in shown
    assert "[3/5]" not in shown
    assert not (troubled / "a/plan.md").exists()
    succeeded(run("undo"))
    assert vault_files(troubled) == before


def test_review_finds_near_duplicates(run: Run, folder: Path) -> None:
    """A copy with some changed words is found; filled-in templates and short notes are not."""
    words = [f"word{number}" for number in range(120)]
    write(folder, "one.md", f"# One\n\n{' '.join(words)}\n")
    write(folder, "two.md", f"# Two\n\n{' '.join([*words[:60], 'other', *words[61:]])}\n")
    write(folder, "far.md", f"# Far\n\n{' '.join(words[::3])}\n")
    steps = "Check the fuel, the oil, the brakes, the lights, the tyres, the belts and the water."
    for number in range(30):
        write(folder, f"check/{number}.md", f"# Check {number}\n\n{steps} {steps} Car {number}.\n")
    said = succeeded(run("review", "--json")).json
    assert [(item["kind"], item["filePath"]) for item in said["items"]] in (
        [("duplicate", "one.md")],
        [("duplicate", "two.md")],
    )
    assert re.search(r"It shares 9\d% of its phrases with (one|two).md", said["items"][0]["reason"])


def test_review_duplicates_follow_every_change(run: Run, folder: Path) -> None:
    """Stored results are used only for the same texts and settings, and if they are undamaged."""
    words = [f"word{number}" for number in range(120)]

    def reviewed() -> list[tuple[str, str]]:
        items = succeeded(run("review", "--kind", "duplicate", "--json")).json["items"]
        return [(item["filePath"], item["other"]["filePath"]) for item in items]

    def check(*expected: tuple[str, str]) -> None:
        assert reviewed() == reviewed() == list(expected)
        (stored := index_of(folder) / "review").unlink()
        assert reviewed() == list(expected)
        for damaged in (b"", stored.read_bytes()[:-9] + b'A": null}}', b"x" + stored.read_bytes()):
            stored.write_bytes(damaged)
            assert reviewed() == list(expected)

    def text(name: str, *replaced: int, encoding: str = "utf-8") -> None:
        body = " ".join("ärger" if at in replaced else word for at, word in enumerate(words))
        path = folder / f"{name}.md"
        path.write_bytes(f"---\ncreated: 2024-01-0{name[0]}\n---\n\n{body}\n".encode(encoding))
        os.utime(path, (int(name[0]) * 100_000_000,) * 2)

    text("1")
    text("2", 60)
    check(("2.md", "1.md"))
    text("3")
    check(("2.md", "1.md"), ("3.md", "1.md"))
    text("1", *range(0, 120, 3))
    check(("3.md", "2.md"))
    (folder / "2.md").rename(folder / "moved.md")
    check(("3.md", "moved.md"))
    (folder / "moved.md").unlink()
    check()
    text("4", *range(0, 120, 3), encoding="cp1252")
    check(("4.md", "1.md"))
    write(folder, "memvault.toml", 'version = 1\nencoding = "cp437"\n')
    check()


TEXTS = st.lists(st.lists(st.integers(0, 9), max_size=80), max_size=25)


def changed(texts: list[list[int]], copies: list[tuple[int, int, int]]) -> list[str]:
    """Return texts, and copies of some of them with one word replaced and the beginning removed."""
    every = [[str(word) for word in text] for text in texts]
    for copied, place, start in copies:
        if copied < len(every):
            every.append([*every[copied][start:place], "other", *every[copied][place + 1 :]])
    return [" ".join(text) for text in every]


COPIES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 70), st.integers(0, 5)), max_size=30)


@given(st.builds(changed, TEXTS, COPIES))
def test_review_near_duplicates_equal_full_comparison(texts: list[str]) -> None:
    """Each text is compared with every earlier one by the phrases found in at most 20 texts."""
    sketches = [array("I", sketch(text)) for text in texts]
    frequency = Counter(phrase for phrases in sketches for phrase in phrases)
    counted = [{phrase for phrase in row if frequency[phrase] <= 20} for row in sketches]
    expected = []
    for number, own in enumerate(counted):
        shares = []
        for other, theirs in enumerate(counted[:number]):
            enough = len(own & theirs) >= 0.7 * max(len(own), len(theirs))
            sample = sorted(own | theirs)[:64]
            if min(len(own), len(theirs)) >= 12 and enough:
                share = sum(phrase in own & theirs for phrase in sample) / len(sample)
                shares.append((share, -other))
        if shares and max(shares)[0] >= 0.7:
            expected.append((number, -max(shares)[1], max(shares)[0]))
    assert list(near_copies([row.tobytes() for row in sketches])) == expected


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX-only")
def test_review_y_key_writes_consolidation_proposal(run: Run, folder: Path) -> None:
    """Each proposal is an item; y writes it with its ID, and it is not proposed again."""
    for place in ("Oslo", "Rome"):
        put(folder, place, [f"A day in {place}"], reflection="The tests need the Docker daemon.")
    proposed = succeeded(run("consolidate", "--json")).json["facts"][0]
    item = succeeded(run("review", "--json")).json["items"][0]
    assert (item["kind"], item["title"]) == ("proposal", proposed["factText"])
    assert item["proposalId"] == proposed["proposalId"]
    assert item["reason"] == "A new fact, from 2 episodes"
    before = vault_files(folder)
    code, shown = at_terminal(folder, "review", answer="y", asked="s skip")
    assert code == 0, shown
    assert "1 of 1 answered" in shown
    assert succeeded(run("fact", "recall", "Docker", "--json")).json["facts"]
    assert succeeded(run("review")).out == "Nothing to review\n"
    succeeded(run("undo"))
    assert vault_files(folder) == before


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX-only")
def test_review_quits_immediately_and_masks_secrets(troubled: Path) -> None:
    """Pressing Q quits without a change, and secrets are masked on the screen."""
    before = vault_files(troubled)
    code, shown = at_terminal(troubled, "review", "--kind", "secret", answer="q", asked="s skip")
    assert code == 0
    assert "[masked: GitHub token]" in shown
    assert "Nothing was changed" in shown
    assert "reviewed" not in shown
    assert vault_files(troubled) == before


def test_stats_count_vault_contents(run: Run, folder: Path, vault: Vault) -> None:
    """Memories, types, tags, links, growth and stale items are counted, as JSON and as bars."""
    write(folder, "fact/a.md", "---\ntags: [x, y]\n---\n\n# A\n\n[[B]] and [[C]], [[C]]\n")
    write(folder, "fact/b.md", "---\ntags: [x]\n---\n\n# B\n\n[[C]]\n")
    write(folder, "C.md", "# C\n")
    old = "2020-05-05T00:00:00.000Z"
    write(folder, "D.md", f"---\ncreated: {old}\nmodified: {old}\n---\n\n# D\n")
    vault.remember("E", "New.", memory_type="fact", supersedes="B")
    said = vault.call("vault_stats")
    assert (said["memories"], said["links"], said["unlinked"], said["superseded"]) == (5, 5, 1, 1)
    assert said["types"] == [{"name": "fact", "count": 3}, {"name": "context", "count": 2}]
    assert said["tags"] == [{"name": "x", "count": 2}, {"name": "y", "count": 1}]
    assert said["months"][0]["count"] == 1
    assert said["months"][-1]["count"] == 5
    assert said["days"][-1]["count"] == 1
    most_linked = {entry["title"]: entry["count"] for entry in said["mostLinked"]}
    assert [*most_linked] == ["C", "B"]
    for title, count in most_linked.items():
        assert count == vault.backlinks(title)["total"] == 2
    assert [entry["title"] for entry in said["oldest"]] == ["D"]
    shown = succeeded(run("stats")).out
    assert "5 memories" in shown
    assert all(len(line) <= 40 for line in shown.splitlines() if "▇" in line)
    assert "   3  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇  fact" in shown


def test_stats_list_ties_in_same_order_after_edits(folder: Path, vault: Vault) -> None:
    """Equal counts and times are listed by name, regardless of the order of indexing."""
    header = "---\nmodified: 2020-05-05T00:00:00.000Z\n"
    for name in ("z", "a"):
        text = f"{header}memory_type: {name}\ntags: [{name}]\n---\n\n[[a]] [[z]]\n"
        write(folder, f"{name}.md", text)
        said = vault.stats()
    for key in ("mostLinked", "oldest", "types", "tags"):
        names = [entry.get("title") or entry.get("name") for entry in said[key]]
        assert names == ["a", "z"], key


def test_stats_count_recalls_only_for_typed_memories(run: Run, folder: Path, vault: Vault) -> None:
    """A recalled fact is listed and no longer stale; a recalled note stays stale."""
    header = "---\nmodified: 2020-05-05T00:00:00.000Z\n---\n\n"
    write(folder, "fact/tea.md", f"{header}# Tea\n\nTea is served at four.\n")
    write(folder, "note.md", f"{header}# Tea room\n\nThe tea room is at the lake.\n")
    vault.recall("tea")
    said = vault.call("vault_stats")
    assert [entry["title"] for entry in said["mostRecalled"]] == ["Tea"]
    assert [entry["title"] for entry in said["oldest"]] == ["Tea room"]
    shown = succeeded(run("stats")).out
    assert "Most recalled episodes, facts and procedures:" in shown
    assert "Stale, not changed for a year:" in shown


def test_stats_of_empty_vault_are_zero(vault: Vault) -> None:
    """In a vault without memories, every number is zero."""
    said = vault.call("vault_stats")
    assert (said["memories"], said["tags"], said["mostLinked"]) == (0, [], [])
