"""Notes as people write them in Obsidian are understood: their tags, aliases and links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import write
from made_secrets import MADE
from memvault import Vault
from memvault.settings.vault_settings import Settings
from memvault.store.memory_store import MemoryStore
from memvault.vault.markdown import tags
from wrong_vaults import examined, told

TAGGED = {
    "#work": ["work"],
    "On #y1984 and #1984, #12-3.": ["y1984", "12-3"],
    "# Heading\n##x\n#x\n": ["x"],
    "a#b https://a.org/#c [d](#e) [[f#g]] (#h)": [],
    "`#a` ``#b`` %%#c%% #d": ["d"],
    "```\n#include <a>\n```\n#café, #日本/東京。 #🐝! #a_b-c/": [
        "café",
        "日本/東京",
        "🐝",
        "a_b-c/",
    ],
    "#!/bin/sh #% # ## #": [],
}


@pytest.mark.parametrize("text", TAGGED)
def test_tags_in_a_text_are_those_that_obsidian_shows(text: str) -> None:
    """Not numbers, headings, code, comments, or what stands behind the # of an address."""
    assert [match[1] for match in tags(text)] == TAGGED[text]


@pytest.fixture
def notes(folder: Path, vault: Vault) -> Vault:
    """A vault with three notes that are tagged in their text, their header, and both."""
    write(folder, "text.md", "The bees are fine. #Project/active and #bees\n")
    write(folder, "header.md", "---\ntags: [project/done]\n---\n\nThe wasps are gone.\n")
    write(folder, "both.md", "---\ntags: [Bees]\n---\n\n#bees #projects `#no`\n")
    return vault


def listed(vault: Vault, *tags: str) -> set[str]:
    """Return the files that a listing with some tags has."""
    found = vault.call("memory_recall", isAll=True, tags=list(tags))
    return {entry["filePath"] for entry in found["memories"]}


def test_tags_in_the_text_count_as_those_in_the_header(notes: Vault, folder: Path) -> None:
    """A filter finds both, nested or not, results show both once, and no file is changed."""
    before = {path: path.read_bytes() for path in folder.glob("*.md")}
    assert listed(notes, "bees") == {"text.md", "both.md"}
    assert listed(notes, "#PROJECT/") == {"text.md", "header.md"}
    assert listed(notes, "project/active", "bees") == {"text.md"}
    assert listed(notes, "proj") == set()
    assert listed(notes, "no") == set()
    found = notes.call("memory_recall", query="project", type="tag")["memories"]
    assert {entry["filePath"] for entry in found} == {"text.md", "header.md"}
    shown = notes.call("memory_recall", isAll=True)["memories"]
    assert {entry["filePath"]: entry["tags"] for entry in shown} == {
        "text.md": ["Project/active", "bees"],
        "header.md": ["project/done"],
        "both.md": ["Bees", "projects"],
    }
    found = notes.call("memory_recall", query="x", filter="'bees' in tags", type="keyword")
    assert found["success"]
    assert {path: path.read_bytes() for path in folder.glob("*.md")} == before


def resolved(folder: Path, link: str) -> set[str]:
    """Return the files that Obsidian follows a link to: by their name, or by an alias."""
    found = set()
    for path in folder.rglob("*.md"):
        memory = MemoryStore(folder, Settings()).read(path.relative_to(folder).as_posix())
        if link.casefold() in map(str.casefold, (path.stem, *memory.aliases)):
            found.add(memory.path)
    return found


def remembered(vault: Vault, title: str, content: str = "They sting.") -> dict[str, Any]:
    """Remember something; return the result."""
    return vault.call("memory_remember", title=title, content=content, memoryType="fact")


@pytest.mark.parametrize(
    ("title", "content", "aliases"),
    [
        ("Use PostgreSQL", "Yes.", ["Use PostgreSQL"]),
        ('Say: "yes", [no] #1', "Yes.", ['Say: "yes", [no] #1']),
        ("Über uns", "# Über uns\n\nYes.", ["Über uns"]),
        ("蜜蜂", "Yes.", None),
        ("Bees", "Yes.", None),
        ("BEES", "# BEES", None),
    ],
)
def test_a_link_with_the_title_resolves_in_obsidian(
    vault: Vault, folder: Path, title: str, content: str, aliases: list[str] | None
) -> None:
    """What is remembered has its title as an alias where its file is not called so."""
    made = remembered(vault, title, content)
    assert resolved(folder, title) == {made["filePath"]}
    assert vault.call("memory_show", memId=made["memId"])["metadata"].get("aliases") == aliases


def test_of_two_memories_with_one_title_both_are_called_by_it(vault: Vault, folder: Path) -> None:
    """The second file gets another name, which the title is not, whatever its case."""
    paths = {remembered(vault, "Bees")["filePath"] for _ in range(2)}
    assert resolved(folder, "Bees") == paths


def test_the_alias_follows_the_title(vault: Vault, folder: Path) -> None:
    """A memory that gets another title keeps its other aliases, and loses its old title."""
    made = remembered(vault, "Use PostgreSQL")
    path = folder / made["filePath"]
    path.write_text(path.read_text("utf-8").replace("[Use PostgreSQL]", "[Use PostgreSQL, PG]"))
    for title, aliases in {
        "Use MariaDB": ["Use MariaDB", "PG"],
        "use-postgresql": ["PG"],
        "Use PG": ["Use PG", "PG"],
    }.items():
        vault.call(
            "memory_remember",
            title=title,
            content="No.",
            memoryType="fact",
            filePath=made["filePath"],
        )
        shown = vault.call("memory_show", memId=made["memId"])
        assert shown["metadata"]["aliases"] == aliases
    vault.call("memory_undo")
    assert "[Use PG, PG]" not in path.read_text("utf-8")


def test_a_title_with_a_secret_is_not_said_twice(vault: Vault, folder: Path) -> None:
    """The name of its file masks it, and no alias repeats it."""
    token = MADE["GitHub token"][1]()
    made = remembered(vault, f"The key is {token}")
    assert (folder / made["filePath"]).read_text("utf-8").count(token) == 1


@pytest.fixture
def called(folder: Path, vault: Vault) -> Vault:
    """A vault with notes that have other names: in a list, as a text, as a single alias."""
    write(folder, "n/a.md", "---\ntitle: Bees\naliases: [Apis, Honey makers]\n---\n\nThey hum.\n")
    write(folder, "n/b.md", "---\naliases: Vespa, Yellow jackets\n---\n\n# Wasps\n\nThey sting.\n")
    write(folder, "n/c.md", "---\nalias: Apis\nsupersedes: [[yellow jackets]]\n---\n\n# Ants\n")
    write(folder, "n/d.md", "---\nsupersedes_not: 1\n---\n\n# Vespa\n\nA scooter.\n")
    return vault


def test_an_alias_is_a_name(called: Vault) -> None:
    """It names one memory, whatever its case; a title goes first, and shared ones are told."""
    for name, path in {
        "honey makers": "n/a.md",
        "Yellow jackets": "n/b.md",
        "Vespa, Yellow jackets": "n/b.md",
        "vespa": "n/d.md",
    }.items():
        assert called.call("memory_show", memId=name)["filePath"] == path
    found = called.call("memory_show", memId="apis")["candidates"]
    assert {entry["filePath"] for entry in found} == {"n/a.md", "n/c.md"}


def test_an_alias_names_what_is_superseded(called: Vault) -> None:
    """What a header replaces may go by any of its names."""
    found = called.call("memory_recall", query="wasps that sting")["memories"]
    said = {entry["filePath"]: entry.get("supersededBy", "") for entry in found}
    assert said["n/b.md"].startswith("c-")
    assert told(examined(called)) == set()


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "vector"])
def test_an_alias_is_searched_like_the_title(called: Vault, mode: str) -> None:
    """Its words find the memory, though they stand nowhere else."""
    (found, *_) = called.call("memory_recall", query="honey makers", type=mode)["memories"]
    assert found["filePath"] == "n/a.md"


def test_the_title_among_the_aliases_counts_once(vault: Vault, folder: Path) -> None:
    """What remember writes for Obsidian moves no score."""
    scores = []
    for aliases in ("", "aliases: [Use  PostgreSQL]\n"):
        write(folder, "a.md", f"---\ntitle: Use PostgreSQL\n{aliases}---\n\nOur database.\n")
        write(folder, "b.md", "---\ntitle: Use SQLite\n---\n\nFor tests of PostgreSQL's users.\n")
        found = vault.call("memory_recall", query="postgresql database", explain=True)["memories"]
        scores.append([(entry["score"], entry["why"]["parts"]) for entry in found])
    assert scores[0] == scores[1]
