"""Content common to many memories: link lists, identifiers as titles, repeated passages."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import explained, parts, write
from memvault import Vault
from test_ranking import filler, memories, named


def test_ranking_link_list_is_below_real_answer(folder: Path, vault: Vault) -> None:
    """An index page whose links contain all the words ranks below the memory that answers."""
    topics = ["backup disk", "disk check", "restore a backup", "new disk", "broken backup", "fan"]
    links = "\n".join(f"- [[How to {topic} in the server, number {topic}]]" for topic in topics)
    write(folder, "index.md", f"# Index\n\n{links}\n")
    write(folder, "a.md", "# Tape\n\nThe backup of the server is on the second disk.\n")
    for number, text in enumerate(filler(0, 12)):
        write(folder, f"{number}.md", f"# Page {number}\n\n{text}\n")
    found = memories(vault, "which disk of the server has the backup")
    assert named(found)[0] == "Tape"
    index = next(entry for entry in found if entry["title"] == "Index")
    assert index["why"]["coverage"] == 0
    assert index["why"]["bm25"] > 0


@pytest.mark.parametrize("separator", ["", "\n", "\n## {}\n\n"], ids=["list", "lines", "sections"])
def test_short_link_page_ranks_below_answer(folder: Path, vault: Vault, separator: str) -> None:
    """A page with nothing but a few links and headings ranks below the memory that answers."""
    texts = {
        "Which database we use": "We chose PostgreSQL 16 for the orders service, for its locks.",
        "Database backups": "Nightly dumps go to the second data center for thirty days.",
        "Deploying the orders service": "Deploys run on Mondays with a blue-green switch.",
    }
    index = "# Orders service\n\n"
    for number, (title, text) in enumerate(texts.items()):
        write(folder, f"{number}.md", f"# {title}\n\n{text}\n")
        index += f"{separator.format(f'Part {number}')}- [[{number}|{title}]]\n"
    write(folder, "index.md", index)
    found = memories(vault, "which database does the orders service use")
    assert named(found)[0] == "Which database we use"
    page = next(entry for entry in found if entry["title"] == "Orders service")
    assert page["why"]["coverage"] < 1
    assert named(memories(vault, "database backups"))[0] == "Database backups"


@pytest.mark.parametrize("name", ["202403011230", "9f86d081884c", "V1StGXR8Z5jdHi6"])
def test_vectors_ignore_identifier_title(folder: Path, vault: Vault, name: str) -> None:
    """If a memory's title is only an identifier, its vector comes from the body alone."""
    text = "The boiler loses pressure when the valve is open.\n"
    write(folder, f"{name}.md", text)
    write(folder, "2025/2025-03-01.md", text)  # a daily note's title does not count as text either
    found = explained(vault, "heating with a leak", type="vector")
    assert len(found) == 2
    assert found[0]["why"]["cosine"] == found[1]["why"]["cosine"]


def test_ranking_shared_passage_counts_once(folder: Path, vault: Vault) -> None:
    """Of pages with the same passage one comes first, then other answers, then the rest."""
    shared = (
        "Options inherited from the parent command: set the clock with --clock, "
        "choose the environment with --environment, and show the log with --debug."
    )
    for number, text in enumerate(filler(0, 12)):
        write(folder, f"{number}.md", f"# Command {number}\n\n{text}\n\n## Options\n\n{shared}\n")
    write(
        folder, "a.md", "# Tests\n\nFor a test a fixture has an option for the time of the clock.\n"
    )
    found = memories(vault, "option to set the clock", limit=5)
    assert named(found).index("Tests") == 1
    assert len(found) == 5
    assert all("--clock" in entry["snippet"] for entry in found if entry["title"] != "Tests")


def bookmarks(*titles: str) -> str:
    """Return a list of links to other places."""
    return "\n".join(f"- [{title}](https://example.org/{title[:3]})" for title in titles)


def test_ranking_finds_bookmark_by_link_text(folder: Path, vault: Vault) -> None:
    """The text of web links in a list is searched like any other text."""
    write(
        folder,
        "db.md",
        "# Bookmarks\n\n"
        + bookmarks("PostgreSQL tuning guide", "Vacuum", "Replication", "RFC 7231", "Pooling"),
    )
    write(folder, "css.md", f"# Bookmarks\n\n{bookmarks('Grid', 'Flex', 'Layers', 'Sub', 'Box')}")
    write(folder, "bill.md", "# Bill\n\nThe bill 7231 of the plumber was paid.\n")
    for number, text in enumerate(filler(0, 12)):
        write(folder, f"{number}.md", f"# Page {number}\n\n{text}\n")
    for query in ("PostgreSQL tuning guide", "RFC 7231"):
        best = memories(vault, query)[0]
        assert (best["filePath"], best["strength"]) == ("db.md", "strong")
    found = explained(vault, "bookmarks")[:2]
    assert {entry["filePath"] for entry in found} == {"db.md", "css.md"}
    assert all("repeats" not in parts(entry) for entry in found)


def test_ranking_equal_link_lists_are_duplicates(folder: Path, vault: Vault) -> None:
    """Two pages with the same links are duplicates; pages with different links are not."""
    names = ("Boat", "Sail", "Anchor", "Harbour", "Rope", "Keel")
    for file, chosen in (
        ("a", names),
        ("b", names),
        ("c", ("Rye", "Oat", "Spelt", "Corn", "Bran")),
    ):
        links = "\n".join(f"- [[{name}]]" for name in chosen)
        write(folder, f"{file}.md", f"# Overview\n\n{links}\n")
    repeated = {
        entry["filePath"] for entry in explained(vault, "overview") if "repeats" in parts(entry)
    }
    assert len(repeated) == 1
    assert repeated < {"a.md", "b.md"}


@pytest.mark.parametrize("name", ["decade10", "0151 2345678", "2024 1000000", "rtx4090ti16gb"])
def test_vectors_include_meaningful_title(folder: Path, vault: Vault, name: str) -> None:
    """A product name, a phone number or a word with digits as title is part of the vector."""
    text = "The boiler loses pressure when the valve is open.\n"
    write(folder, "a.md", f"---\ntitle: '{name}'\n---\n{text}")
    write(folder, "2025/2025-03-01.md", text)  # a daily note's title does not count as text
    found = explained(vault, "heating with a leak", type="vector")
    assert found[0]["why"]["cosine"] != found[1]["why"]["cosine"]


SHARED = (
    "Set the clock of the server with the option --clock, choose the environment with "
    "--environment, and show its log with --debug."
)
TOPICS = (
    "Garden tools are in the shed behind the oak, next to the bicycles and the ladder.",
    "The dentist moved the appointment to Friday; bring the insurance card and the pictures.",
    "Boiler pressure drops when valve four is open; the plumber ordered spare parts.",
    "Paint for the kitchen is called oyster white; two cans are left in the cellar.",
    "Tyres were changed in October at the garage near the station, for forty euros.",
    "Invoices go to the accountant monthly; she prefers files with the name in the subject.",
)


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_ranking_larger_limit_only_appends_results(folder: Path, vault: Vault, mode: str) -> None:
    """A larger limit only appends results, even with repeated passages."""
    for number, text in enumerate(TOPICS):
        write(
            folder, f"cmd{number}.md", f"# Command {number}\n\n{text}\n\n## Options\n\n{SHARED}\n"
        )
        said = f"{text} The clock of server {number} is an option.\n"
        write(folder, f"own{number}.md", f"# Own {number}\n\n{said}")
    query = "option to set the clock of the server"
    whole = named(memories(vault, query, type=mode, limit=12))
    assert len(whole) == len(set(whole)) == 12
    for limit in range(1, 12):
        assert named(memories(vault, query, type=mode, limit=limit)) == whole[:limit]
    first = memories(vault, query, type=mode, limit=4)
    second = memories(vault, query, type=mode, limit=4, offset=4)
    assert named(first) + named(second) == whole[:8]


def test_ranking_replacement_stays_before_superseded_memory(folder: Path, vault: Vault) -> None:
    """A replacement that repeats a better answer's passage still precedes the replaced memory."""
    write(folder, "x.md", f"# Option to set the clock of the server\n\n{TOPICS[0]}\n\n{SHARED}\n")
    header = "---\ntitle: Decision\nsupersedes: Old clock\n---\n"
    write(folder, "n.md", f"{header}{TOPICS[1]}\n\n{SHARED}\n")
    old = "Set the clock of the server with option --old-clock and never otherwise."
    write(folder, "o.md", f"# Old clock\n\n{TOPICS[2]} {old}\n")
    for number, text in enumerate(filler(0, 12)):
        write(folder, f"{number}.md", f"# Page {number}\n\n{text}\n")
    found = named(memories(vault, "option to set the clock of the server"))
    assert found.index("Decision") < found.index("Old clock")
