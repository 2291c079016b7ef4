"""Whatever is asked, recall gives at least the three nearest, and says how well they fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import Run, index_of, titles, write
from memvault import Vault, open_vault
from memvault.files.lock import FileLock

TEXTS = {
    "Releases": "Releases go out on Tuesdays after the stand-up.",
    "Bread": "Rye bread needs flour, water, salt and time.",
    "Shed": "The garden shed was painted red in autumn.",
    "Choir": "The choir meets in the old school on Thursdays.",
    "Müll": "Die Müllabfuhr kommt am Dienstag.",
}


def filled(root: Path, count: int = len(TEXTS)) -> None:
    """Write some memories, every second one with a tag."""
    write(root, "memvault.toml", "version = 1\n")
    for number, (title, text) in enumerate(list(TEXTS.items())[:count]):
        tags = "---\ntags: [even]\n---\n\n" * (number % 2 == 0)
        write(root, f"{number}.md", f"{tags}# {title}\n\n{text}\n")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """A vault of five memories."""
    root = tmp_path_factory.mktemp("small") / "vault"
    filled(root)
    with open_vault(root) as vault:
        yield vault


def recalled(vault: Vault, query: str, **more: Any) -> list[dict[str, Any]]:
    """Recall and return what was found."""
    result = vault.call("memory_recall", query=query, **more)
    assert result["success"], result
    found: list[dict[str, Any]] = result["memories"]
    return found


@given(st.text(min_size=1).filter(lambda text: text.strip() and not set(text) & set('"“„«')))
@example("when do we ship")
@example("the of and")
@example("?!")
@example("🚀")
@example("数据库")
@example("xyzzy frobnicate")
@example("what did I do on 2019-01-01")
@example("last week")
def test_no_question_goes_without_an_answer(small: Vault, query: str) -> None:
    """Of five memories three come at least, each once, with a strength and a falling score."""
    found = recalled(small, query)
    assert len(found) >= 3
    assert len(set(titles({"success": True, "memories": found}))) == len(found)
    assert {entry["strength"] for entry in found} <= {"strong", "fair", "weak"}
    scores = [entry["score"] for entry in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_smallest_vault_answers(folder: Path, vault: Vault, count: int) -> None:
    """All of what there is where that is less than three; the right one is first."""
    filled(folder, count)
    found = recalled(vault, "when do we ship")
    assert len(found) >= min(count, 3)
    assert found[0]["title"] == "Releases"


def test_what_was_asked_for_narrows_the_answer(small: Vault) -> None:
    """A limit, a filter, quotes and strict still cut; the nearest are of what is left."""
    query = "xyzzy frobnicate"
    assert len(recalled(small, query, limit=1)) == 1
    even = recalled(small, query, tags=["even"])
    assert {entry["title"] for entry in even} == {"Releases", "Shed", "Müll"}
    assert recalled(small, query, tags=["none"]) == []
    assert recalled(small, query, strict=True) == []
    assert recalled(small, query, threshold=0.9) == []
    assert recalled(small, '"xyzzy frobnicate"') == []


def test_what_cannot_be_shown_is_not_counted(folder: Path, vault: Vault) -> None:
    """An example and an unreadable file are not among the three, and take nobody's place."""
    filled(folder)
    write(folder, "example.md", "---\nstatus: example\n---\n\n# Ship\n\nWe ship ships.\n")
    write(folder, "bad.md", b"---\n\xff\xfe: [\n---\n\n# Ship\n\nWe ship ships.\n")
    found = recalled(vault, "when do we ship")
    assert len(found) >= 3
    assert "example.md" not in {entry["filePath"] for entry in found}


def test_without_vectors_what_holds_a_word_answers(folder: Path, run: Run) -> None:
    """Keywords alone find nothing that is nearest: an empty answer is theirs to give."""
    filled(folder)
    assert run("recall", "xyzzy", "--mode", "keyword", "--json").json["memories"] == []
    assert len(run("recall", "xyzzy", "--mode", "vector", "--json").json["memories"]) >= 3


def test_what_is_not_indexed_yet_is_among_the_nearest(folder: Path) -> None:
    """While another process holds the index, new files are as near as indexed ones."""
    filled(folder, 2)
    with open_vault(folder) as vault:
        assert len(recalled(vault, "when do we ship")) == 2
    with FileLock(index_of(folder) / "lock"), open_vault(folder) as vault:
        filled(folder)
        assert len(recalled(vault, "xyzzy frobnicate")) >= 3
        assert recalled(vault, "who painted the shed red")[0]["title"] == "Shed"
