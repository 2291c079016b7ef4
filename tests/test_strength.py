"""Recall answers every question and states how well memories match; strict omits weak ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from conftest import Run, explained, index_of, recalled, titles, write
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.recall import answer
from memvault.tools.core.render import rounded_down
from test_ranking import filler

FERRY = "The ferry to Aldern leaves at nine from the northern pier."
FEW = {
    "Ferry": FERRY,
    "Bread": "Rye bread needs flour, water, salt and time.",
    "Crane": "The harbour crane was painted red in autumn.",
    "Choir": "The choir meets in the old school on Thursdays.",
}
STRONG = "when does the ferry to Aldern leave from the northern pier"
POSTGRES = "# PostgreSQL\n\nOur database is PostgreSQL 16.\n"
WEAK = "quarterly revenue of the company's shareholders in percent"


@pytest.fixture
def harbour(folder: Path, vault: Vault) -> Vault:
    """A vault with a few unrelated memories."""
    for title, text in FEW.items():
        write(folder, f"{title.lower()}.md", f"# {title}\n\n{text}\n")
    return vault


def test_recall_result_starts_with_best_strength(harbour: Vault, run: Run) -> None:
    """The first key is the best strength, and each memory has its own."""
    found = run("recall", STRONG, "--json").json
    assert [*found][:3] == ["success", "best", "memories"]
    assert found["best"] == found["memories"][0]["strength"] == "strong"
    assert run("recall", WEAK, "--json").json["best"] == "none"
    assert harbour.call("memory_recall", query=STRONG, tags=["none"])["best"] == "none"
    searched = harbour.call("memory_search", query=STRONG)
    assert searched["best"] == searched["results"][0]["strength"] == "strong"
    assert "best" not in harbour.call("memory_recall", isAll=True)


@pytest.mark.parametrize("name", ["strong", "fair"])
def test_displayed_probability_agrees_with_strength(name: str) -> None:
    """A probability just below the minimum of a strength is displayed as below it."""
    minimum = {"strong": answer.STRONG, "fair": answer.FAIR}[name]
    assert float(rounded_down(minimum)) == minimum
    assert float(rounded_down(minimum - 0.0001)) < minimum
    assert [rounded_down(number / 100) for number in range(101)] == [
        f"{number / 100:.2f}" for number in range(101)
    ]


@pytest.mark.usefixtures("harbour")
def test_recall_output_warns_if_all_matches_are_weak(run: Run) -> None:
    """Each result shows its strength and probability, and a first line warns of weak matches."""
    first, *_ = run("recall", STRONG).out.splitlines()
    (shown, *_) = run("recall", STRONG, "--json").json["memories"]
    assert first == f"1. Ferry  strong {rounded_down(shown['probability'])}  context"
    above, first, *_ = run("recall", WEAK).out.splitlines()
    assert above.startswith("No memory is likely to answer this")
    assert re.search(r"  weak 0\.0\d  context$", first)
    assert run("search", WEAK).out.splitlines()[0].startswith("No memory is likely")


def test_recall_reports_words_that_no_memory_contains(harbour: Vault, run: Run) -> None:
    """If no memory matches well, recall reports the query words that none contains."""
    query = "when did Zebulon's boat see the ferries in 2031?"
    answer = harbour.call("memory_recall", query=query)
    assert answer["absentWords"] == ["Zebulon", "2031"]
    above, *_ = run("recall", query).out.splitlines()
    assert 'no memory contains "Zebulon" or "2031"' in above
    query = "how are whales weighed in spring"
    assert harbour.call("memory_recall", query=query)["absentWords"] == [
        "whales",
        "weighed",
        "spring",
    ]
    assert "absentWords" not in harbour.call("memory_recall", query=STRONG)


def test_date_words_are_not_reported_as_absent(harbour: Vault) -> None:
    """The words of a date are not absent words, because recall compares the date itself."""
    query = "whales between June and September 2020"
    assert harbour.call("memory_recall", query=query)["absentWords"] == ["whales"]


def test_strict_omits_weak_matches(harbour: Vault) -> None:
    """Strict only removes weak results, and an empty answer suggests the next step."""
    whole = harbour.call("memory_recall", query=STRONG)["memories"]
    strict = harbour.call("memory_recall", query=STRONG, strict=True)["memories"]
    assert strict == [entry for entry in whole if entry["strength"] != "weak"]
    assert strict
    nothing = harbour.call("memory_recall", query=WEAK, strict=True)
    assert (nothing["best"], nothing["memories"]) == ("none", [])
    assert "strict" in nothing["message"]


def test_load_omits_weak_matches(harbour: Vault) -> None:
    """Weak memories are loaded only if a threshold allows them; other matches are counted."""
    (found,) = harbour.call("memory_load", query=STRONG)["memories"]
    assert (found["text"], found["strength"]) == (f"# Ferry\n\n{FERRY}", "strong")
    nothing = harbour.call("memory_load", query=WEAK)
    assert nothing["memories"] == []
    assert "search with `memory_recall` to see the closest" in nothing["message"]
    assert harbour.call("memory_load", query=WEAK, threshold=0)["memories"]
    for number in range(3):
        text = f"Ferry {number}: {FERRY}"
        assert harbour.call("memory_save", text=text)["success"]
    found = harbour.call("memory_load", query=STRONG, limit=2)
    assert len(found["memories"]) == 2
    assert "2 more match; increase the limit" in found["warnings"][0]


def test_forget_preview_omits_weak_matches(harbour: Vault) -> None:
    """A forget preview lists the real matches and omits those that only share a word."""
    found = harbour.call("memory_forget", query=STRONG)
    (shown,) = found["candidates"]
    assert (shown["title"], shown["strength"]) == ("Ferry", "strong")
    nothing = harbour.call("memory_forget", query=WEAK)
    assert (nothing["candidates"], nothing["confirmRequired"]) == ([], True)
    assert "nothing to forget" in nothing["message"]
    assert titles(harbour.call("memory_list", limit=9)) != []


def test_context_omits_weak_matches(harbour: Vault) -> None:
    """The context block contains the memories that match the task, and a note counts the rest."""
    found = harbour.call("context", task=STRONG)
    assert "northern pier" in found["context"]
    assert "choir" not in found["context"]
    nothing = harbour.call("context", task=WEAK)
    assert nothing["context"] == ""
    assert "search with `memory_recall` to see them" in nothing["warnings"][0]


def test_compound_refuses_a_weak_match(harbour: Vault, folder: Path) -> None:
    """A weak match is not changed; the error lists the candidates with their probability."""
    refused = harbour.call("memory_compound", query=WEAK, modifications="x")
    assert refused["error"]["code"] == "ambiguous"
    assert {entry["strength"] for entry in refused["candidates"]} == {"weak"}
    assert harbour.call("memory_compound", query=STRONG, modifications="Also at ten.")["success"]
    assert "Also at ten." in (folder / "ferry.md").read_text("utf-8")


@pytest.mark.parametrize("how", [{"mode": "replace"}, {"section": "Timetable"}])
def test_compound_replaces_text_only_by_name(
    harbour: Vault, folder: Path, how: dict[str, str]
) -> None:
    """Words from a memory are enough to append to it; replacing its text needs its name."""
    file, before = folder / "ferry.md", (folder / "ferry.md").read_bytes()
    for words in (STRONG, "ferry leaves Aldern"):
        refused = harbour.call("memory_compound", query=words, modifications="x", **how)
        assert refused["error"]["code"] == "ambiguous"
        assert "is not the name of a memory" in refused["error"]["message"]
        assert refused["candidates"][0]["title"] == "Ferry"
        assert file.read_bytes() == before
    for name in ("ferry.md", "FERRY", refused["candidates"][0]["memId"]):
        assert harbour.call("memory_compound", query=name, modifications="x", **how)["success"]


@pytest.mark.parametrize("query", ['""', "« »", "-", "?!", "…", "->", "the of and"])
def test_query_without_words_has_no_match(harbour: Vault, query: str) -> None:
    """Quotes, punctuation and stop words match no memory, and a note says so."""
    for tool in ("memory_recall", "memory_search"):
        found = harbour.call(tool, query=query)
        assert found["best"] == "none"
        (note,) = found["warnings"]
        assert note.startswith("there is nothing to search for")
    assert harbour.call("memory_forget", query=query)["candidates"] == []
    assert harbour.call("memory_compound", query=query, modifications="x")["success"] is False


def test_quoted_punctuation_is_searched(harbour: Vault, folder: Path) -> None:
    """A phrase of punctuation matches the memories that contain it."""
    write(folder, "arrow.md", "# Types\n\nA function is written as int -> str.\n")
    found = harbour.call("memory_recall", query='"->"')
    assert titles(found) == ["Types"]
    assert "warnings" not in found


def test_facts_and_episodes_have_a_strength(harbour: Vault, run: Run) -> None:
    """Recalled facts and episodes have the same strength label as memories."""
    harbour.call("store_fact", fact="The bridge at Aldern is closed")
    harbour.call("store_episode", actions=["Crossed the bridge at Aldern"])
    (fact,) = harbour.call("recall_fact", query="is the bridge at Aldern closed")["facts"]
    assert fact["strength"] == "strong"
    similar = run("call", "recall_similar_experience", json.dumps({"query": "crossed a bridge"}))
    assert [entry["strength"] for entry in similar.json["episodes"]] == ["strong"]


TEXTS = {
    "Releases": "Releases go out on Tuesdays after the stand-up.",
    "Bread": "Rye bread needs flour, water, salt and time.",
    "Shed": "The garden shed was painted red in autumn.",
    "Choir": "The choir meets in the old school on Thursdays.",
    "Müll": "Die Müllabfuhr kommt am Dienstag.",
}


def fill(root: Path, count: int = len(TEXTS)) -> None:
    """Write memories, every second one with a tag."""
    write(root, "memvault.toml", "version = 1\n")
    for number, (title, text) in enumerate(list(TEXTS.items())[:count]):
        tags = "---\ntags: [even]\n---\n\n" * (number % 2 == 0)
        write(root, f"{number}.md", f"{tags}# {title}\n\n{text}\n")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """A vault of five memories."""
    root = tmp_path_factory.mktemp("small") / "vault"
    fill(root)
    with open_vault(root) as vault:
        yield vault


@given(st.text(min_size=1).filter(lambda text: text.strip() and not set(text) & set('"“„«')))
@example("when do we ship")
@example("the of and")
@example("?!")
@example("🚀")
@example("数据库")
@example("xyzzy frobnicate")
@example("what did I do on 2019-01-01")
@example("last week")
def test_recall_returns_at_least_three_results(small: Vault, query: str) -> None:
    """With five memories, at least three are returned, each with a strength, best first."""
    found = recalled(small, query)
    assume(all("strength" in entry for entry in found))  # A filter alone lists memories.
    assert len(found) >= 3
    assert len({entry["memId"] for entry in found}) == len(found)
    assert {entry["strength"] for entry in found} <= {"strong", "fair", "weak"}
    scores = [entry["score"] for entry in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_recall_works_in_vault_with_one_or_two_memories(
    folder: Path, vault: Vault, count: int
) -> None:
    """A vault with fewer than three memories returns all of them, the right one first."""
    fill(folder, count)
    found = recalled(vault, "when do we ship")
    assert len(found) >= min(count, 3)
    assert found[0]["title"] == "Releases"


def test_recall_minimum_respects_limit_filter_and_strict(small: Vault) -> None:
    """A limit, filter, quotes or strict still narrows the results, before the minimum."""
    query = "xyzzy frobnicate"
    assert len(recalled(small, query, limit=1)) == 1
    even = recalled(small, query, tags=["even"])
    assert {entry["title"] for entry in even} == {"Releases", "Shed", "Müll"}
    assert recalled(small, query, tags=["none"]) == []
    assert recalled(small, query, strict=True) == []
    assert recalled(small, query, threshold=0.9) == []


def test_recall_minimum_skips_examples_and_unreadable_files(folder: Path, vault: Vault) -> None:
    """An example or an unreadable file does not count toward the three minimum results."""
    fill(folder)
    write(folder, "example.md", "---\nstatus: example\n---\n\n# Ship\n\nWe ship ships.\n")
    write(folder, "bad.md", b"---\n\xff\xfe: [\n---\n\n# Ship\n\nWe ship ships.\n")
    found = recalled(vault, "when do we ship")
    assert len(found) >= 3
    assert "example.md" not in {entry["filePath"] for entry in found}


def test_keyword_recall_can_be_empty(folder: Path, run: Run) -> None:
    """Keyword mode has no nearest results, so its answer can be empty."""
    fill(folder)
    assert run("recall", "xyzzy", "--mode", "keyword", "--json").json["memories"] == []
    assert len(run("recall", "xyzzy", "--mode", "vector", "--json").json["memories"]) >= 3


def test_recall_minimum_includes_unindexed_files(folder: Path) -> None:
    """While another process holds the index lock, new files still count as nearest results."""
    fill(folder, 2)
    with open_vault(folder) as vault:
        assert len(recalled(vault, "when do we ship")) == 2
    with FileLock(index_of(folder) / "lock"), open_vault(folder) as vault:
        fill(folder)
        assert len(recalled(vault, "xyzzy frobnicate")) >= 3
        assert recalled(vault, "who painted the shed red")[0]["title"] == "Shed"


@pytest.mark.parametrize("query", ["明天天气怎么样", "今日の天気は", "오늘 날씨 어때", "🎉🔥"])
def test_unknown_script_matches_no_memory(
    folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """In an English vault, a question in another script does not match notes by script alone."""
    monkeypatch.setenv("MEMVAULT_DEEP", "now")
    for number, text in enumerate(filler(0, 30)):
        write(folder, f"{number}.md", f"# Page {number}\n\n{text}\n")
    write(folder, "passport.md", "# 护照\n\n护照放在书桌的抽屉里，有效期到二〇二八年。\n")
    found = recalled(vault, query)
    assert {entry["strength"] for entry in found} <= {"weak"}
    assert recalled(vault, "护照放在哪里")[0]["title"] == "护照"


def test_strength_of_changed_memory_does_not_need_its_vectors(
    folder: Path, deep_now: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed memory still answers a question before its transformer vectors are computed."""
    for number in range(12):
        write(folder, f"{number}.md", f"# Idea {number}\n\nA thought about gardens and kites.\n")
    write(folder, "pg.md", POSTGRES)
    with open_vault(folder) as vault:
        assert vault.recall("which database")["memories"][0]["strength"] == "strong"
        monkeypatch.setenv("MEMVAULT_DEEP", "auto")
        write(folder, "pg.md", f"---\ntags: [new]\n---\n\n{POSTGRES}")
        with FileLock(index_of(folder) / "deep" / "following.lock"):  # no embedding process runs
            found = explained(vault, "which database")
    assert found[0]["title"] == "PostgreSQL"
    assert "deep" in found[0]["why"]
    assert found[0]["strength"] != "weak"


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("שלום עולם", "זהו פתק קצר על הגינה."),
        ("日本語ノート", "これは庭についての短いメモです。"),
        ("Привет, мир", "Короткая заметка о саде."),
    ],
)
def test_memory_with_the_query_as_title_is_strong(
    folder: Path, deep_now: None, title: str, text: str
) -> None:
    """In a vault in English, a memory is a strong match for its title in another language."""
    for number in range(24):
        write(folder, f"{number}.md", f"# Idea {number}\n\nA thought about gardens and kites.\n")
    write(folder, "other.md", f"# {title}\n\n{text}\n")
    with open_vault(folder) as vault:
        first = vault.recall(title)["memories"][0]
    assert (first["title"], first["strength"]) == (title, "strong")
