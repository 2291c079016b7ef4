"""The order of results: adjacent words, newer and important memories first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Run, explained, index_of, parts, recalled, sampled, succeeded, write
from growth import Steps, check_growth
from memvault import Vault, open_vault
from memvault.files.lock import FileLock


def memories(vault: Vault, query: str, **more: Any) -> list[dict[str, Any]]:
    """Recall; check that parts add up to scores in descending order; return the memories."""
    found = explained(vault, query, **more)
    for entry in found:
        assert entry["score"] == pytest.approx(sum(parts(entry).values()), abs=1e-3)
    scores = [entry["score"] for entry in found]
    assert scores == sorted(scores, reverse=True)
    return found


def by_title(found: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The parts of each memory's score by its title."""
    return {entry["title"]: parts(entry) for entry in found}


def proximities(found: list[dict[str, Any]]) -> dict[str, float]:
    """The number of the question's words that each memory has close together, by title."""
    return {entry["title"]: entry["why"]["proximity"] for entry in found}


def named(found: list[dict[str, Any]]) -> list[str]:
    """The titles, in order."""
    return [entry["title"] for entry in found]


def ranked_by(folder: Path, lines: str) -> None:
    """Write a [ranking] table while the vault is in use."""
    write(folder, "memvault.toml", f"version = 1\n\n[ranking]\n{lines}\n")


def filler(first: int, count: int = 40) -> list[str]:
    """Paragraphs without relevant content, different for each ``first``."""
    bread = (
        "Page {0}x says little of use. Page {0}y is about bread, page {0}z about cooks and rain."
    )
    return [bread.format(first + number) for number in range(count)]


def note(folder: Path, path: str, title: str, body: str, **header: object) -> None:
    """Write a memory with front matter."""
    front = "".join(f"{key}: {value}\n" for key, value in header.items())
    write(folder, path, f"---\n{front}---\n\n# {title}\n\n{body}\n")


@pytest.mark.parametrize("spaced", ["boiler| valve| pressure", "锅炉|阀门|压力", "회의| 시간"])
def test_ranking_words_in_one_sentence_rank_higher(folder: Path, vault: Vault, spaced: str) -> None:
    """Of two long memories, the one with the words in one sentence ranks first."""
    query, words = spaced.replace("|", ""), spaced.replace(" ", "").split("|")
    scattered, close = filler(100), filler(300)
    for place, word in enumerate(words):
        scattered[place * 15] += f" The {word} is old. A {word} is dear."
    close[20] += f" The {query} is old. The {query} is dear."
    write(folder, "a.md", "# Apart\n\n" + "\n\n".join(scattered))
    write(folder, "b.md", "# Together\n\n" + "\n\n".join(close))
    found = memories(vault, query)
    assert named(found) == ["Together", "Apart"]
    looked, near = by_title(found), proximities(found)
    assert near["Together"] > 1.5 * near["Apart"]
    assert looked["Together"]["adjacency"] > looked["Apart"]["adjacency"] == 0


def test_ranking_identifier_matches_its_words(folder: Path, vault: Vault) -> None:
    """An identifier in code matches a query for its words as if they were adjacent."""
    body = "Compare digests with `slowEquals`, which takes the same time for any input."
    write(folder, "a.md", f"# Digests\n\n{body}\n")
    write(folder, "b.md", "# Slow tests\n\nWhere the count equals ten, the run is cut.\n")
    looked = by_title(memories(vault, "slow equals digest"))
    assert looked["Digests"]["adjacency"] > looked["Slow tests"]["adjacency"]
    assert next(iter(looked)) == "Digests"
    assert memories(vault, "slowEquals")[0]["title"] == "Digests"


def test_ranking_title_counts_toward_every_sentence(folder: Path, vault: Vault) -> None:
    """Title words count toward every sentence, even if the sentence omits them."""
    last = "The pilot boards at dawn."
    for title, first in (("Ships", "A harbour."), ("Harbour", "A ship.")):
        body = "\n\n".join([first, *filler(0), last])
        write(folder, f"{title}.md", f"# {title}\n\n{body}\n")
    near = proximities(memories(vault, "harbour pilot"))
    assert near["Harbour"] > near["Ships"] > 0


def test_ranking_scores_all_of_a_very_long_memory(folder: Path, vault: Vault) -> None:
    """An answer after 5,000 sentences ranks first, in time linear in their number."""
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
    near = proximities(found)
    assert near["Long"] > near["Short"]
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
def test_ranking_long_memory_matches_every_spelling(folder: Path, vault: Vault, query: str) -> None:
    """Late text in a long memory counts equally with accents and in other scripts."""
    said = SPELLINGS[query]
    write(folder, "a.md", "# Long\n\n" + "\n\n".join([*filler(0, 60), said]))
    write(folder, "b.md", f"# Short\n\n{said} {filler(900, 1)[0]}\n")
    found = memories(vault, query)
    near = proximities(found)
    assert near["Long"] == pytest.approx(near["Short"], abs=1e-3)
    assert near["Long"] > 0
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


@sampled(3)
@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("query", ["widget 数据库", "!?", "🚀"])
def test_ranking_handles_unusual_content(folder: Path, vault: Vault, kind: str, query: str) -> None:
    """Recall returns scores in 0..1 for memories with any content."""
    write(folder, "a.md", f"# Widget\n\n{STRANGE[kind]}")
    write(folder, "b.md", "# Other 🚀\n\nA widget.\n")
    found = memories(vault, query)
    assert all(0 <= entry["score"] <= 1 for entry in found)
    if query.startswith("widget"):
        assert set(named(found)) == {"Widget", "Other 🚀"}


def test_ranking_features_can_be_disabled(folder: Path, vault: Vault) -> None:
    """Recency, importance and dates each count until memvault.toml sets them to 0."""
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
        assert {"keyword", "static", "coverage", "adjacency", "soft_match"} <= parts(entry).keys()
        assert not parts(entry).keys() & {*every, "repeats"}


def test_ranking_vectors_setting_scales_vector_weight(folder: Path, vault: Vault) -> None:
    """``vectors`` multiplies the weight of vectors relative to the others; 0 disables them."""
    write(folder, "a.md", "# Shed\n\nThe shed was painted green.\n")

    def ratio(factor: str) -> float:
        ranked_by(folder, f"vectors = {factor}")
        (entry,) = memories(vault, "green shed")
        return parts(entry).get("static", 0.0) / parts(entry)["keyword"]

    assert ratio("2") == pytest.approx(2 * ratio("1.0"), rel=0.01)
    assert ratio("0") == 0


@pytest.mark.parametrize("paths", [("a.md", "b.md", "c.md"), ("c.md", "b.md", "a.md")])
@pytest.mark.parametrize(
    ("part", "headers"),
    [
        ("recency", [{"modified": f"{year}-11-01"} for year in (2026, 2025, 2024)]),
        ("importance", [{"importance": 0.9}, {}, {"importance": 0.1}]),
    ],
)
def test_ranking_newer_or_more_important_memory_is_first(
    folder: Path, vault: Vault, paths: tuple[str, ...], part: str, headers: list[dict[str, object]]
) -> None:
    """Of equal memories the newest or most important is first, regardless of its name."""
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
def test_ranking_invalid_importance_is_neutral(folder: Path, vault: Vault, value: str) -> None:
    """An importance outside 0..1 neither raises nor lowers a memory's rank."""
    note(folder, "a.md", "Cellar", "The key to the cellar.", importance=value)
    write(folder, "b.md", "# Cellars\n\nKeys to the cellars.\n")
    one, other = memories(vault, "cellar key")
    assert parts(one)["importance"] == parts(other)["importance"] > 0


def test_ranking_duplicates_move_down(folder: Path, vault: Vault) -> None:
    """Of near-duplicates one ranks above distinct results, and the others are kept below."""
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


def test_ranking_short_similar_memories_are_not_duplicates(folder: Path, vault: Vault) -> None:
    """Short memories with the same form but different facts rank by their words."""
    for number, thing in enumerate("Anna Bruno Carla Dario".split()):
        body = f"The birthday of {thing} is in week {number}7."
        write(folder, f"{number}.md", f"# {thing}\n\n{body}\n")
    found = memories(vault, "birthday of Carla")
    assert named(found)[0] == "Carla"
    assert not any("repeats" in parts(entry) for entry in found)


@pytest.fixture
def many(folder: Path, vault: Vault) -> Vault:
    """A vault of 250 memories about a storm, seven of them about a storm surge."""
    for number in range(250):
        surge = " A storm surge!" if number % 36 == 7 else " The surge of a storm." * (number % 3)
        text = f"Storm {number} hit {filler(number, 1 + number % 4)[0]}{surge}"
        write(folder, f"n{number:03}.md", f"# Note {number}\n\n{text}\n")
    write(folder, "other.md", "# Other\n\nBread.\n")
    return vault


def test_ranking_limit_returns_prefix_of_full_list(many: Vault) -> None:
    """A limit changes only how many results there are, and no memory appears twice."""
    every = named(memories(many, "storm surge", limit=300))
    assert sorted(every) == sorted(f"Note {number}" for number in range(250))
    whole = memories(many, "storm surge", limit=200)
    assert named(whole)[:10] == every[:10]
    for limit in (10, 31, 60, 199):
        found = memories(many, "storm surge", limit=limit)
        assert named(found) == named(whole)[:limit], limit
        assert [e["score"] for e in found] == [e["score"] for e in whole[:limit]], limit


def test_ranking_phrase_query_returns_only_phrase_matches(many: Vault) -> None:
    """A quoted phrase returns exactly the memories that contain it, even among very many."""
    wanted = {f"Note {number}" for number in range(7, 250, 36)}
    for limit in (10, 300):
        assert set(named(memories(many, '"storm surge"', limit=limit))) == wanted


def test_ranking_without_candidates_is_empty(folder: Path, vault: Vault) -> None:
    """An empty vault, or a filter without a match, returns an empty list."""
    assert memories(vault, "word in May 2023") == []
    write(folder, "a.md", "# Word\n\nA word.\n")
    assert memories(vault, "word in May 2023", tags=["none"]) == []


REST = {
    "Bread": "Rye bread needs flour, water, salt and time.",
    "Crane": "The harbour crane was painted red in autumn.",
    "Choir": "The choir meets in the old school on Thursdays.",
}
OLD = "Our office is in Berlin, on the third floor of the old mill."
NEW = "Our office has moved to Madrid, on the ground floor of a bank."
QUESTION = "in which city is our office"


def dated(folder: Path, name: str, title: str, body: str, day: str) -> None:
    """Write a memory with a date."""
    header = f"id: {name}\ncreated: {day}\nmodified: {day}"
    write(folder, f"{name}.md", f"---\n{header}\n---\n\n# {title}\n\n{body}\n")


def write_others(folder: Path) -> None:
    """Write memories about other things, newer than all others."""
    for title, body in REST.items():
        dated(folder, title.lower(), title, body, "2026-05-01")


def offices(folder: Path, old: str = "2026-01-01", new: str = "2026-03-01") -> None:
    """Write where the office is, where it has moved, and newer memories about other things."""
    write_others(folder)
    dated(folder, "office-1", "Office", OLD, old)
    dated(folder, "office-2", "Office", NEW, new)


def newer_of(vault: Vault, query: str, **more: Any) -> dict[str, str]:
    """Recall; return each memory's id, in order, with the id of a newer one."""
    return {entry["memId"]: entry.get("newer", "") for entry in recalled(vault, query, **more)}


@pytest.mark.parametrize("days", [("2026-01-01", "2026-03-01"), ("2026-03-01", "2026-01-01")])
def test_ranking_older_memory_refers_to_newer_one(
    folder: Path, run: Run, days: tuple[str, str]
) -> None:
    """The older of two memories refers to the newer one, and a third memory is not marked."""
    offices(folder, *days)
    newer, older = ("office-2", "office-1") if days[0] < days[1] else ("office-1", "office-2")
    found = succeeded(run("recall", QUESTION, "--json")).json["memories"]
    marks = {entry["memId"]: entry.get("newer") for entry in found}
    assert list(marks)[:2] == [newer, older]
    assert marks.pop(older) == newer
    assert set(marks.values()) == {None}
    shown = succeeded(run("recall", QUESTION)).out
    assert shown.count("newer: ") == 1
    assert f"newer: {newer}" in shown


@pytest.mark.parametrize(
    ("header", "newer"),
    [
        ("superseded_by: office-1", ""),
        ("superseded_by: office-3", "office-3"),
        ("valid_to: 2026-04-01", ""),
        ("valid_from: 2999-01-01", ""),
    ],
)
def test_ranking_newer_memory_is_a_valid_one(
    folder: Path, vault: Vault, header: str, newer: str
) -> None:
    """No memory refers to a newer one that it supersedes or that is not valid today."""
    offices(folder)
    dated(folder, "office-3", "Lease", "The lease in Rome began in April.", "2026-04-01")
    path = folder / "office-2.md"
    path.write_text(path.read_text().replace("id:", f"{header}\nid:"))
    assert newer_of(vault, QUESTION)["office-1"] == newer


def test_ranking_daily_note_is_dated_by_its_name(folder: Path, vault: Vault) -> None:
    """A daily note's age comes from the date in its name, not from its file time."""
    write_others(folder)
    write(folder, "2024-01-05.md", f"---\nid: old\n---\n\n{OLD}\n")
    dated(folder, "office-2", "Office", NEW, "2024-02-01")
    assert list(newer_of(vault, QUESTION).items())[:2] == [("office-2", ""), ("old", "office-2")]


def test_ranking_prefers_front_matter_date_over_file_time(folder: Path, vault: Vault) -> None:
    """A file's age comes from its front matter, not from the time of its checkout."""
    write_others(folder)
    write(folder, "new.md", f"---\nid: new\ncreated: 2025-08-01\n---\n# Office\n\n{NEW}\n")
    write(folder, "old.md", f"---\nid: old\ncreated: 2024-02-10\n---\n# Office\n\n{OLD}\n")
    assert list(newer_of(vault, QUESTION).items())[:2] == [("new", ""), ("old", "new")]


def test_ranking_ignores_file_times_for_newer_marks(folder: Path, vault: Vault) -> None:
    """A note without a date in its header or name is never newer, so touching it is harmless."""
    write_others(folder)
    write(folder, "new.md", f"---\nid: new\n---\n# Office\n\n{NEW}\n")
    write(folder, "old.md", f"---\nid: old\ncreated: 2020-05-05\n---\n# Office\n\n{OLD}\n")
    assert set(newer_of(vault, QUESTION).values()) == {""}


@pytest.mark.parametrize("query", ["is", "the of and is it"])
def test_ranking_stop_word_query_matches_only_titles(
    folder: Path, vault: Vault, query: str
) -> None:
    """A query of stop words has only weak matches, unless a title equals it."""
    for number, text in enumerate(filler(0, 12)):
        write(folder, f"{number}.md", f"# Page {number} is it\n\n{text} It is of the house.\n")
    assert {entry["strength"] for entry in memories(vault, query)} <= {"weak"}
    assert memories(vault, query, strict=True) == []
    assert vault.call("memory_forget", query=query)["candidates"] == []
    write(folder, "band.md", f"# {query}\n\nA band from London.\n")
    assert memories(vault, query)[0]["strength"] != "weak"


MEANT = [
    ("db1", "db2", "{} has the address 10.0.1.17 and runs Postgres.", "address of db1"),
    ("note w0n0", "note w1n0", "The text of {}.", "w0n0"),
    ("2025 budget", "2026 budget", "The {} is 40,000 euros.", "budget 2025"),
    ("2nd floor", "3rd floor", "The printer on the {} takes A3.", "printer on the 2nd floor"),
    ("Anna", "Bruno", "The birthday of {} is in spring.", "birthday of Anna"),
    ("C# style", "C++ style", "The formatter of {} runs at each commit.", "C# style"),
    ("C++ style", "C# style", "The formatter of {} runs at each commit.", "formatter of C++ style"),
]


@pytest.mark.parametrize(("one", "other", "text", "query"), MEANT, ids=[row[0] for row in MEANT])
def test_ranking_newer_similar_memory_does_not_outrank_match(
    folder: Path, vault: Vault, one: str, other: str, text: str, query: str
) -> None:
    """A newer memory with similar wording about something else does not outrank the match."""
    write_others(folder)
    dated(folder, "meant", one, text.format(one), "2026-01-01")
    dated(folder, "other", other, text.format(other), "2026-03-01")
    found = newer_of(vault, query)
    assert next(iter(found)) == "meant"
    assert found["meant"] == ""


def test_ranking_other_subject_is_not_a_newer_version(folder: Path, vault: Vault) -> None:
    """Memories that share a word but not a subject are not compared by age."""
    write_others(folder)
    dated(folder, "office-1", "Office", OLD, "2026-01-01")
    dated(folder, "plants", "Plants", "The plants in the office need water.", "2026-03-01")
    found = newer_of(vault, QUESTION)
    assert next(iter(found)) == "office-1"
    assert set(found.values()) == {""}


@pytest.mark.parametrize(
    ("tags", "others", "is_newer"),
    [
        ("office, lease", "lease", True),
        ("Home/Office", "home", True),
        ("home/office", "home/garden", False),
        ("mill", "harbor", False),
        ("mill", "", True),
    ],
)
def test_ranking_memory_with_other_tags_is_not_a_newer_version(
    folder: Path, vault: Vault, tags: str, others: str, is_newer: bool
) -> None:
    """Of two projects' memories on one subject, told apart by tags, neither replaces the other."""
    write_others(folder)
    for number, (text, own) in enumerate(((OLD, tags), (NEW, others)), 1):
        header = f"id: office-{number}\ntags: [{own}]\ncreated: 2026-0{number}-01\n"
        write(folder, f"office-{number}.md", f"---\n{header}---\n\n# Office\n\n{text}\n")
    assert newer_of(vault, QUESTION)["office-1"] == ("office-2" if is_newer else "")


CHINESE = [
    ("家庭医生", "我们的家庭医生是周医生,在河边诊所,周一到周五看诊,电话预约。", "2024-05-01"),
    ("换家庭医生了", "周医生退休,现在找吴医生,在东门诊所,网上预约。", "2025-11-01"),
    ("钢琴课", "小雨的钢琴课在星期六上午,一小时一百五十元。", "2025-12-01"),
    ("阳台的花", "茉莉每三天浇一次水,冬天搬进屋里。", "2025-12-02"),
    ("修车", "车子送到北门的修理厂,换机油三百元,两个小时。", "2025-12-03"),
    ("奶奶的汤", "排骨先焯水,加莲藕,小火慢炖,最后放盐。", "2025-12-04"),
    ("春游", "四月去植物园,早上七点集合,自带午饭。", "2025-12-05"),
]


def test_ranking_newest_of_several_versions_is_first(folder: Path, vault: Vault) -> None:
    """Of more than two versions of a value, the newest ranks first, and the others are marked."""
    write_others(folder)
    for month, floor in enumerate(("first", "second", "third", "fourth"), 1):
        text = f"Our office is on the {floor} floor."
        dated(folder, f"floor-{month}", f"Floor {month}", text, f"2026-0{month}-01")
    found = newer_of(vault, "which floor is our office on")
    assert next(iter(found)) == "floor-4"
    assert [name for name, newer in found.items() if newer == "floor-4"] != []


def test_ranking_newer_session_does_not_outrank_match(folder: Path, vault: Vault) -> None:
    """Of two long memories, such as sessions, the better match is first, regardless of dates."""
    rest = "We read the logs, ran the tests and wrote down what each of them printed. " * 20
    first = f"{OLD} {rest}"
    second = f"Our office has plants, on the third floor of the new mill. {rest}"
    dated(folder, "office-1", "Session on Monday", first, "2026-01-01")
    dated(folder, "office-2", "Session on Friday", second, "2026-02-01")
    best, *_ = memories(vault, QUESTION)
    assert best["memId"] == "office-1"
    assert "newer" not in best


def test_ranking_chinese_query_finds_newer_memory(folder: Path, vault: Vault) -> None:
    """A Chinese question gets the newer answer, and newer unrelated memories rank lower."""
    for number, (title, body, day) in enumerate(CHINESE):
        dated(folder, f"note-{number}", title, body, day)
    found = newer_of(vault, "我们的家庭医生是谁")
    assert list(found)[:2] == ["note-1", "note-0"]
    assert {key: newer for key, newer in found.items() if newer} == {"note-0": "note-1"}
    found = newer_of(vault, "茉莉多久浇一次水")
    assert next(iter(found)) == "note-3"
    assert found["note-3"] == ""


@pytest.mark.parametrize("mode", ["keyword", "vector", "tag"])
def test_single_signal_ranking_does_not_mark_newer_memories(
    folder: Path, vault: Vault, mode: str
) -> None:
    """In keyword, vector and tag mode, no result is marked as having a newer version."""
    offices(folder)
    assert set(newer_of(vault, QUESTION, type=mode).values()) <= {""}


def test_ranking_date_query_ignores_newer_memories(folder: Path, vault: Vault) -> None:
    """A question about January does not return March first."""
    offices(folder)
    found = newer_of(vault, "our office in January 2026")
    assert next(iter(found)) == "office-1"
    assert set(found.values()) == {""}


@pytest.mark.parametrize("indexed", [0, 1, 2], ids=["neither", "the older", "both"])
def test_ranking_unindexed_memory_is_compared_by_age(folder: Path, indexed: int) -> None:
    """If the index cannot be written, a memory read from its file is still compared by age."""
    offices(folder)
    kept = {path: path.read_bytes() for path in folder.glob("office-*.md")}
    for path in sorted(kept)[indexed:]:
        path.unlink()
    with open_vault(folder) as vault:
        assert newer_of(vault, QUESTION)
    with FileLock(index_of(folder) / "lock"), open_vault(folder) as vault:
        for path in sorted(kept)[indexed:]:
            path.write_bytes(kept[path])
        found = list(newer_of(vault, QUESTION).items())
    assert found[:2] == [("office-2", ""), ("office-1", "office-2")]


def repeats(found: list[dict[str, Any]]) -> list[str]:
    """The paths that were moved down as repeats."""
    return [entry["filePath"] for entry in found if "repeats" in entry["why"]["parts"]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The key to room 1 hangs on hook 1.", "The key to room 2 hangs on hook 2."),
        ("Guests may enter the engine room.", "Guests may not enter the engine room."),
    ],
)
def test_ranking_number_or_negation_is_not_a_duplicate(
    folder: Path, vault: Vault, one: str, other: str
) -> None:
    """Memories that differ in a number or a negation are not duplicates."""
    write(folder, "a.md", f"# Rule\n\n{one}\n")
    write(folder, "b.md", f"# Rule\n\n{other}\n")
    assert repeats(explained(vault, "which room and hook may guests enter")) == []


def test_ranking_correction_comes_first(folder: Path, vault: Vault) -> None:
    """Of two memories that differ only in a number, the newer one is first."""
    for name, day, limit in (("a", "2025-02-01", 100), ("b", "2026-11-01", 250)):
        header = f"created: {day}\nmodified: {day}\ntitle: Rate limit of the public API\n"
        write(folder, f"{name}.md", f"---\n{header}---\n\nThe limit is {limit} per minute.\n")
    assert explained(vault, "how many requests per minute")[0]["filePath"] == "b.md"


def test_ranking_older_duplicate_moves_down(folder: Path, vault: Vault) -> None:
    """Of two duplicates, the older one moves down."""
    for name, day in (("a", "2025-02-01"), ("b", "2026-03-01")):
        header = f"created: {day}\nmodified: {day}\ntitle: Lunch\n"
        write(folder, f"{name}.md", f"---\n{header}---\n\nTuesday lunch is at the harbour.\n")
    found = explained(vault, "Tuesday lunch")
    assert [entry["filePath"] for entry in found] == ["b.md", "a.md"]
    assert repeats(found) == ["a.md"]


def test_ranking_shared_tag_is_not_a_duplicate(folder: Path, vault: Vault) -> None:
    """Memories found by the same tag are compared by their text, not by the tag."""
    for name, body in (("a", "It runs on port 4222."), ("b", "Consumers acknowledge late.")):
        write(folder, f"{name}.md", f"---\ntags: [messaging]\n---\n\n# Note {name}\n\n{body}\n")
    found = explained(vault, "messaging")
    assert len(found) == 2
    assert repeats(found) == []


def test_ranking_rare_word_has_more_coverage(folder: Path, vault: Vault) -> None:
    """A match of the question's rare word has more coverage than one of a common word."""
    for number in range(12):
        write(folder, f"{number}.md", f"# Note {number}\n\nA client wrote letter {number}.\n")
    write(folder, "limit.md", "# Limit\n\nToo much throttling.\n")
    found = {entry["title"]: entry for entry in explained(vault, "client throttling", limit=20)}
    assert found["Limit"]["why"]["coverage"] > 0.6 > found["Note 3"]["why"]["coverage"] > 0
    assert next(iter(found)) == "Limit"


def test_ranking_daily_note_answers_date_query(folder: Path, vault: Vault) -> None:
    """A query for a date finds that day's note, regardless of its text."""
    write(folder, "journal/2026-03-04.md", "Bread was baked.\n")
    write(folder, "journal/2026-03-05.md", "The roof was mended.\n")
    first, *rest = explained(vault, "2026-03-04")
    assert first["filePath"] == "journal/2026-03-04.md"
    assert first["strength"] != "weak"
    assert all(entry["why"]["chance"] <= first["why"]["chance"] for entry in rest)


def test_ranking_adjacency_spans_stop_words(folder: Path, vault: Vault) -> None:
    """Words on both sides of a stop word count as adjacent if the text has the same phrase."""
    write(folder, "a.md", "# Form\n\nThe date of birth comes last.\n")
    write(folder, "b.md", "# Date\n\nOf the two, a birth is the first.\n")
    found = {entry["title"]: parts(entry) for entry in explained(vault, "date of birth")}
    assert found["Form"]["adjacency"] > found["Date"]["adjacency"] == 0


def test_ranking_single_word_query_can_score_high(folder: Path, vault: Vault) -> None:
    """A match of a one-word query is not penalized for lacking adjacent words."""
    write(folder, "a.md", "# Parsing\n\nThe zebra.\n")
    (found,) = explained(vault, "zebra")
    assert found["score"] >= 0.9
    assert "adjacency" not in parts(found)


def test_ranking_tag_counts_toward_coverage(folder: Path, vault: Vault) -> None:
    """A memory's tags count toward coverage like its text."""
    body = "# {}\n\nIt runs on port 4222.\n"
    write(folder, "a.md", "---\ntags: [messaging]\n---\n\n" + body.format("NATS"))
    write(folder, "b.md", body.format("Redis"))
    first, second = explained(vault, "messaging")
    assert (first["title"], second["title"]) == ("NATS", "Redis")
    assert first["why"]["coverage"] == 1
    assert second["why"]["coverage"] == 0


def test_ranking_synonym_is_a_closer_match(folder: Path, vault: Vault) -> None:
    """If no memory has a query word, one with a synonym ranks first."""
    write(folder, "a.md", "# Evening\n\nThe physician calls at seven.\n")
    write(folder, "b.md", "# Morning\n\nThe plumber calls at nine.\n")
    first, second = explained(vault, "doctor")
    assert (first["title"], second["title"]) == ("Evening", "Morning")
    assert parts(first)["soft_match"] > parts(second)["soft_match"]
    assert first["why"]["coverage"] == second["why"]["coverage"] == 0


@pytest.mark.parametrize("title", ["type", "context", "importance"])
def test_ranking_ignores_front_matter_keys_and_types(
    folder: Path, vault: Vault, title: str
) -> None:
    """Type names and front matter keys match only if a memory's text contains them."""
    write(
        folder, "context/a.md", "---\nimportance: 0.5\nmemory_type: context\n---\n\n# A\n\nRye.\n"
    )
    write(folder, "b.md", f"# B\n\nThe {title} is plain.\n")
    first, second = explained(vault, title)
    assert (first["title"], first["why"]["coverage"]) == ("B", 1)
    assert second["why"]["coverage"] == 0
