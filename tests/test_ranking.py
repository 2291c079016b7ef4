"""The order of an answer: words that stand together, how new, important and dated a memory is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Run, write
from growth import Steps, check_growth
from memvault import Vault, open_vault


def memories(vault: Vault, query: str, **more: Any) -> list[dict[str, Any]]:
    """Recall with everything explained and return what is said of each memory."""
    result = vault.call("memory_recall", query=query, explain=True, **more)
    assert result["success"], result
    found: list[dict[str, Any]] = result["memories"]
    for entry in found:
        assert entry["score"] == pytest.approx(sum(parts(entry).values()), abs=1e-3)
    scores = [entry["score"] for entry in found]
    assert scores == sorted(scores, reverse=True)
    return found


def parts(entry: dict[str, Any]) -> dict[str, float]:
    """The parts of a memory's score."""
    found: dict[str, float] = entry["why"]["parts"]
    return found


def by_title(found: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The parts of each memory's score by its title."""
    return {entry["title"]: parts(entry) for entry in found}


def named(found: list[dict[str, Any]]) -> list[str]:
    """The titles, in order."""
    return [entry["title"] for entry in found]


def ranked_by(folder: Path, lines: str) -> None:
    """Write a [ranking] table, as a person would, while the vault is in use."""
    write(folder, "memvault.toml", f"version = 1\n\n[ranking]\n{lines}\n")


def filler(first: int, count: int = 40) -> list[str]:
    """Paragraphs that say nothing of what is asked for, others for each ``first``."""
    bread = (
        "Page {0}x says little of use. Page {0}y is about bread, page {0}z about cooks and rain."
    )
    return [bread.format(first + number) for number in range(count)]


def note(folder: Path, path: str, title: str, body: str, **header: object) -> None:
    """Write a memory with front matter."""
    front = "".join(f"{key}: {value}\n" for key, value in header.items())
    write(folder, path, f"---\n{front}---\n\n# {title}\n\n{body}\n")


@pytest.mark.parametrize("spaced", ["boiler| valve| pressure", "锅炉|阀门|压力", "회의| 시간"])
def test_words_that_stand_together_are_before_scattered_ones(
    folder: Path, vault: Vault, spaced: str
) -> None:
    """Of two long memories the one that says it in a sentence is before one with its words."""
    query, words = spaced.replace("|", ""), spaced.replace(" ", "").split("|")
    scattered, close = filler(100), filler(300)
    for place, word in enumerate(words):
        scattered[place * 15] += f" The {word} is old. A {word} is dear."
    close[20] += f" The {query} is old. The {query} is dear."
    write(folder, "a.md", "# Apart\n\n" + "\n\n".join(scattered))
    write(folder, "b.md", "# Together\n\n" + "\n\n".join(close))
    found = memories(vault, query)
    assert named(found) == ["Together", "Apart"]
    looked = by_title(found)
    assert looked["Together"]["proximity"] > 1.5 * looked["Apart"]["proximity"]
    assert looked["Together"]["adjacency"] > looked["Apart"]["adjacency"] == 0


def test_an_identifier_is_found_by_the_terms_inside_it(folder: Path, vault: Vault) -> None:
    """Asked for in words, a name in code counts as those words side by side."""
    body = "Compare digests with `slowEquals`, which takes the same time for any input."
    write(folder, "a.md", f"# Digests\n\n{body}\n")
    write(folder, "b.md", "# Slow tests\n\nWhere the count equals ten, the run is cut.\n")
    looked = by_title(memories(vault, "slow equals digest"))
    assert looked["Digests"]["adjacency"] > looked["Slow tests"]["adjacency"]
    assert next(iter(looked)) == "Digests"
    assert memories(vault, "slowEquals")[0]["title"] == "Digests"


def test_the_title_counts_with_every_sentence(folder: Path, vault: Vault) -> None:
    """A sentence that leaves out what the title has said holds the title's words all the same."""
    last = "The pilot boards at dawn."
    for title, first in (("Ships", "A harbour."), ("Harbour", "A ship.")):
        body = "\n\n".join([first, *filler(0), last])
        write(folder, f"{title}.md", f"# {title}\n\n{body}\n")
    looked = by_title(memories(vault, "harbour pilot"))
    assert looked["Harbour"]["proximity"] > looked["Ships"]["proximity"] > 0


def test_the_end_of_a_very_long_memory_is_looked_at(folder: Path, vault: Vault) -> None:
    """An answer after 5,000 sentences comes first, in a time that grows with their number."""
    write(folder, "b.md", "# Short\n\nThe keeper of the archive counts its sheets.\n")
    found: list[dict[str, Any]] = []

    def asked() -> None:
        found[:] = memories(vault, "who is the lighthouse keeper")

    def work(size: int) -> Steps:
        ordinary = (f"Sentence {number} tells of quite ordinary days." for number in range(size))
        told = f"{' '.join(ordinary)} The lighthouse keeper is Ismene."
        write(folder, "a.md", f"# Long\n\n{told}\n")
        memories(vault, "index first")
        yield asked

    check_growth(work, 1_250)
    assert named(found) == ["Long", "Short"]
    assert parts(found[0])["proximity"] > parts(found[1])["proximity"]
    assert "Ismene" in found[0]["snippet"]


SPELLINGS = {
    "Müllabfuhr": "The Müllabfuhr comes on Tuesdays.",
    "resumes": "The résumés lie in the attic.",
    "sign": "Ｔｈｅ ｓｉｇｎ is lit.",
    "подъем": "Подъём начинается в шесть.",
    "电梯的钥匙": "电梯的钥匙在厨房里。",
    "engine": "The engine idles.",
}


@pytest.mark.parametrize("query", SPELLINGS)
def test_every_spelling_is_looked_at_in_a_long_memory(
    folder: Path, vault: Vault, query: str
) -> None:
    """What a long memory says late counts the same in accented letters and other scripts."""
    said = SPELLINGS[query]
    write(folder, "a.md", "# Long\n\n" + "\n\n".join([*filler(0, 60), said]))
    write(folder, "b.md", f"# Short\n\n{said} {filler(900, 1)[0]}\n")
    found = memories(vault, query)
    looked = by_title(found)
    assert looked["Long"]["proximity"] == pytest.approx(looked["Short"]["proximity"], abs=1e-3)
    assert looked["Long"]["proximity"] > 0
    assert [entry["why"]["coverage"] for entry in found] == [1, 1]


STRANGE = {
    "chinese and japanese": "数据库使用红杉木。データベースの検索は速い！" * 300,
    "empty": "",
    "spaces": " \n\t\n ",
    "code": "```python\n" + "def widget(x):\n    return x != 1 or not x\n\n" * 300 + "```",
    "one line": "plainwords widget " * 5_600,
    "one word": "x" * 100_000,
    "signs": "!?" * 30_000,
    "emoji": "🚀👩‍💻" * 5_000,
    "marks": "e" + "\u0301" * 20_000,
    "table": "| a | widget | c |\n|---|---|---|\n" * 1_000,
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("query", ["widget 数据库", "!?", "🚀"])
def test_strange_bodies_do_not_break_recall(
    folder: Path, vault: Vault, kind: str, query: str
) -> None:
    """Whatever a memory holds, recall answers with scores in 0..1 that are explained."""
    write(folder, "a.md", f"# Widget\n\n{STRANGE[kind]}")
    write(folder, "b.md", "# Other 🚀\n\nA widget.\n")
    found = memories(vault, query)
    assert all(0 <= entry["score"] <= 1 for entry in found)
    if query.startswith("widget"):
        assert set(named(found)) == {"Widget", "Other 🚀"}


def test_each_part_can_be_switched_off(folder: Path, vault: Vault) -> None:
    """Recency, importance and dates are parts of a score until memvault.toml sets them 0."""
    note(folder, "a.md", "Shed", "The shed was painted green.", created="2023-05-07")
    write(folder, "b.md", "# Fence\n\nThe fence round the shed was painted white.\n")
    query = "what was painted in May 2023"
    every = {"recency", "importance", "date"}
    assert all(every <= parts(entry).keys() for entry in memories(vault, query))
    for one in sorted(every):
        ranked_by(folder, f"{one} = 0")
        found = memories(vault, query)
        assert len(found) == 2
        for entry in found:
            assert every & parts(entry).keys() == every - {one}
    ranked_by(folder, "recency = 0\nimportance = 0.0\ndate = 0\ndiversity = false")
    for entry in memories(vault, query):
        assert {"keyword", "static", "proximity", "adjacency", "soft_match"} <= parts(entry).keys()
        assert not parts(entry).keys() & {*every, "repeats"}


@pytest.mark.parametrize("paths", [("a.md", "b.md", "c.md"), ("c.md", "b.md", "a.md")])
@pytest.mark.parametrize(
    ("part", "headers"),
    [
        ("recency", [{"modified": f"{year}-11-01"} for year in (2026, 2025, 2024)]),
        ("importance", [{"importance": 0.9}, {}, {"importance": 0.1}]),
    ],
)
def test_the_newer_and_the_important_are_first(
    folder: Path, vault: Vault, paths: tuple[str, ...], part: str, headers: list[dict[str, object]]
) -> None:
    """Of memories that say the same the newest or most important is first, whatever its name."""
    for path, header in zip(paths, headers, strict=True):
        header = {"created": "2019-01-01", "modified": "2019-01-01", **header}
        note(folder, path, "Cellar", "The key to the cellar hangs by the door.", **header)
    for diversity in ("true", "false"):
        ranked_by(folder, f"diversity = {diversity}")
        found = memories(vault, "cellar key")
        assert found[0]["filePath"] == paths[0]
        assert parts(found[0])[part] > max(parts(entry)[part] for entry in found[1:])
    assert [entry["filePath"] for entry in found] == list(paths)


@pytest.mark.parametrize(
    "value", ["high", "true", "-3", "2", ".nan", "[1]", "null", "1" + "0" * 400]
)
def test_an_importance_that_is_none_counts_as_middling(
    folder: Path, vault: Vault, value: str
) -> None:
    """An importance outside 0..1 is no trouble and neither lifts nor sinks a memory."""
    note(folder, "a.md", "Cellar", "The key to the cellar.", importance=value)
    write(folder, "b.md", "# Cellars\n\nKeys to the cellars.\n")
    one, other = memories(vault, "cellar key")
    assert parts(one)["importance"] == parts(other)["importance"] > 0


def test_what_repeats_a_better_answer_makes_room(folder: Path, vault: Vault) -> None:
    """Of almost identical memories one stands before what is new, and none is lost."""
    body = "Deployments go out on Tuesdays after the smoke tests have passed on staging, at noon."
    for path, end in (("a", ""), ("b", " Always."), ("c", "")):
        write(folder, f"{path}.md", f"# Deployment day\n\n{body}{end}\n")
    write(folder, "d.md", "# Rollback\n\nA deployment day may end in a rollback; page the lead.\n")
    write(folder, "e.md", "# Cellar\n\nThe key hangs by the door.\n")
    found = memories(vault, "deployment day", limit=4)
    assert named(found)[:2] == ["Deployment day", "Rollback"]
    assert sorted(named(found)) == ["Deployment day"] * 3 + ["Rollback"]
    for entry in found:
        repeated = entry["title"] == "Deployment day" and entry is not found[0]
        assert ("repeats" in parts(entry)) == repeated
        assert not repeated or parts(entry)["repeats"] < 0
    assert memories(vault, "deployment day", limit=2) == found[:2]
    ranked_by(folder, "diversity = false")
    found = memories(vault, "deployment day", limit=4)
    assert named(found) == ["Deployment day"] * 3 + ["Rollback"]
    assert not any("repeats" in parts(entry) for entry in found)


def test_short_memories_that_differ_are_no_repeats(folder: Path, vault: Vault) -> None:
    """Memories of one form that say different things stand where their words put them."""
    for number, thing in enumerate("Anna Bruno Carla Dario".split()):
        write(
            folder, f"{number}.md", f"# {thing}\n\nThe birthday of {thing} is in week {number}7.\n"
        )
    found = memories(vault, "birthday of Carla")
    assert named(found)[0] == "Carla"
    assert not any("repeats" in parts(entry) for entry in found)


WRONG = [f"[ranking]\nrecency = {value}" for value in ("-0.1", "1.5", "7", "nan", "inf", "-inf")]
WRONG += [f"[ranking]\nimportance = {value}" for value in ('"much"', "true", "[0.1]", "2020-01-01")]
WRONG += [f"[ranking]\ndiversity = {value}" for value in ("2", '"no"', "[]")]
WRONG += ["ranking = 3", "[[ranking]]\ndate = 0.1", "[ranking.date]\nweight = 1"]
ENDLESS = [f"[ranking]\ndate = {value}" for value in ("9" * 5_000, "0x" + "f" * 5_000)]


@pytest.mark.parametrize("lines", WRONG + ENDLESS, ids=lambda lines: lines[:40])
def test_a_ranking_that_makes_no_sense_is_refused(folder: Path, run: Run, lines: str) -> None:
    """A weight of the wrong kind or size is one sentence that names it, with exit code 3."""
    write(folder, "memvault.toml", f"{lines}\n")
    ran = run("recall", "word")
    assert (ran.code, ran.out) == (3, "")
    first, *rest = ran.err.splitlines()
    assert first.startswith("error: ")
    assert "memvault.toml" in first
    assert len(first) < 500
    assert all(line.startswith("hint: ") for line in rest)
    key = lines.splitlines()[-1].split()[0]
    if lines in WRONG:
        assert (f"ranking.{key}" if lines.startswith("[ranking]") else "ranking") in first
    with open_vault(folder) as vault:
        assert vault.call("memory_recall", query="word")["error"]["code"] == "vault_unreadable"


def test_an_unknown_ranking_setting_is_only_told(folder: Path, run: Run) -> None:
    """A setting of a later version, or a slip of the pen, is a warning and changes nothing."""
    write(folder, "a.md", "# Word\n")
    before = run("recall", "word", "--explain", "--json").json["memories"]
    ranked_by(folder, "recencey = 0.5\ndate = 0.15")
    ran = run("recall", "word", "--explain", "--json")
    assert ran.code == 0
    assert ran.json["memories"] == before
    assert any("'ranking.recencey'" in line for line in ran.json["warnings"])


@pytest.fixture
def many(folder: Path, vault: Vault) -> Vault:
    """A vault of 250 memories that all speak of a storm, seven of them of a storm surge."""
    for number in range(250):
        surge = " A storm surge!" if number % 36 == 7 else " The surge of a storm." * (number % 3)
        text = f"Storm {number} hit {filler(number, 1 + number % 4)[0]}{surge}"
        write(folder, f"n{number:03}.md", f"# Note {number}\n\n{text}\n")
    write(folder, "other.md", "# Other\n\nBread.\n")
    return vault


def test_a_large_limit_returns_all_in_falling_order(many: Vault) -> None:
    """With room for all of them every memory with the word comes, once, in falling score."""
    found = memories(many, "storm", limit=300)
    assert sorted(named(found)) == sorted(f"Note {number}" for number in range(250))
    scores = [entry["score"] for entry in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("limit", [10, 31, 60, 199])
def test_a_smaller_limit_gives_the_first_of_a_larger_ones(many: Vault, limit: int) -> None:
    """How many are asked for changes neither the order nor the scores of the first."""
    whole = memories(many, "storm surge", limit=200)
    found = memories(many, "storm surge", limit=limit)
    assert named(found) == named(whole)[:limit]
    assert [entry["score"] for entry in found] == [entry["score"] for entry in whole[:limit]]


def test_phrases_are_held_by_all_that_is_returned(many: Vault) -> None:
    """Of very many memories with the words exactly those with the phrase come, however far down."""
    wanted = {f"Note {number}" for number in range(7, 250, 36)}
    for limit in (10, 300):
        assert set(named(memories(many, '"storm surge"', limit=limit))) == wanted
    assert memories(many, '"surge storm"', limit=300) == []


def test_no_candidates_are_no_trouble(folder: Path, vault: Vault) -> None:
    """Where nothing fits, in an empty vault or below a filter, the answer is an empty list."""
    assert memories(vault, "word in May 2023") == []
    write(folder, "a.md", "# Word\n\nA word.\n")
    assert memories(vault, "word in May 2023", tags=["none"]) == []
    assert memories(vault, '"word of a king" word') == []
