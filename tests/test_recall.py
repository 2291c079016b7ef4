"""Results of recall in any script, language and mode."""

from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, explained, index_of, recalled, sampled, succeeded, titles, write
from episodes import put
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.index.keyword.bm25f import (
    FIELDS,
    KeywordDocument,
    QueryTerm,
    memory_segment,
    score,
)
from memvault.index.keyword.keyword_index import find_terms
from memvault.index.local.snapshot import Snapshot
from memvault.index.text.analyzer import query_analyzer
from memvault.index.text.languages import detect_language
from memvault.model import Memory
from memvault.recall import recall_counts
from memvault.recall.answer import RELEVANT
from test_consolidate import consolidated

MODES = ("tag", "keyword", "vector", "hybrid")


def ask(vault: Vault, query: str, **more: Any) -> list[str]:
    """Recall by keyword, unless another type is given; return titles."""
    return titles(vault.call("memory_recall", **{"type": "keyword", "query": query, **more}))


FOUND = {
    "getUserName": ["getUserName", "getusername", "user name", "username get", "getUserName()"],
    "parse_http_header": ["parse_http_header", "http header", "PARSE_HTTP_HEADER", "parsing"],
    "HTTPServerError": ["HTTPServerError", "httpservererror", "server error", "http"],
    "v1.2.3": ["v1.2.3", "V1.2.3"],
    "src/memvault/index/sync.py": ["sync.py", "index/sync.py", "memvault sync"],
    "C++ and C#": ["C++", "c#"],
    "user@example.org": ["user@example.org", "example.org"],
    "--dry-run": ["--dry-run", "dry run", "dry-run"],
    "数据库使用红杉木": ["数据库", "红杉", "杉", "使用 数据库"],
    "データベースの検索": ["データベース", "検索", "索"],
    "데이터베이스를 검색한다": ["데이터베이스", "검색", "검"],
    "ฐานข้อมูล": ["ฐานข้อมูล"],
    "Crème brûlée, naïve Übergrößen": [
        "creme brulee",
        "CRÈME",
        "naive",
        "ubergroßen",
        "Übergrößen",
    ],
    "Łukasz Jørgensen, Yıldız, Đorđe, Þór": [
        "lukasz",
        "jorgensen",
        "Yildiz",
        "YILDIZ",
        "dorde",
        "thor",
    ],
    "12,870 $ and 1,284.50 € and 443,993": [
        "12870",
        "12,870",
        "1284.50",
        "1,284.50",
        "993",
    ],
    "12870 units": ["12,870"],
    "71.870 € und 5'300 Franken": ["71870", "5300", "5'300"],
    "Ёлка и Йод": ["елка", "ёлка", "Йод"],
    "Launch 🚀 with 👩‍💻": ["🚀", "👩‍💻"],
    "the databases were migrated": ["database", "migrating", "migrate databases"],
    "don’t panic": ["don't panic", "dont panic"],
    "ＦＵＬＬ ｗｉｄｔｈ １２３": ["full width", "123"],
    "αβγ Όμηρος": ["όμηρος", "ομηρος"],
}


@pytest.mark.parametrize("text", FOUND)
def test_recall_finds_spelling_variants(folder: Path, vault: Vault, text: str) -> None:
    """Identifiers, unspaced scripts, accents, symbols and word forms match whole and in part."""
    write(folder, "target.md", f"# Target\n\nSome text before {text} and after.\n")
    write(folder, "other.md", "# Other\n\nNothing of the kind: 木 の 가 1.4 zip.\n")
    for query in FOUND[text]:
        assert ask(vault, query)[:1] == ["Target"], query
    assert ask(vault, text)[:1] == ["Target"]


@pytest.mark.parametrize("query", ["getUser", "v4.5.6", "红木", "sync.pyc", "x"])
def test_recall_without_match_is_empty(folder: Path, vault: Vault, query: str) -> None:
    """A search without a match succeeds with an empty list and a message."""
    write(folder, "a.md", "# A\n\nv1.2.3 数据库使用红杉木 gotten\n")
    result = vault.call("memory_recall", query=query, type="keyword")
    assert (result["success"], result["memories"], result["count"]) == (True, [], 0)
    assert result["message"]


@pytest.mark.parametrize("word", ["Résumé", "데이터베이스", "élève", "が行", "naïveté"])
@pytest.mark.parametrize("forms", [("NFD", "NFC"), ("NFC", "NFD"), ("NFD", "NFD")])
def test_recall_matches_any_unicode_normal_form(
    folder: Path, vault: Vault, word: str, forms: tuple[Any, Any]
) -> None:
    """Text in either Unicode normal form is found by a query in the other."""
    stored, asked = (unicodedata.normalize(form, word) for form in forms)
    write(folder, "a.md", f"# A\n\nthe word {stored} here\n")
    assert ask(vault, asked) == ["A"]
    assert ask(vault, f'"{asked} here"') == ["A"]


def test_recall_matches_quoted_phrase_exactly(folder: Path, vault: Vault) -> None:
    """Quoted words match together and in order, in any case and across line breaks."""
    write(folder, "a.md", "# A\n\nThe quick brown\nfox jumps.\n")
    write(folder, "b.md", "# B\n\nThe brown quick fox.\n")
    assert set(ask(vault, "quick brown")) == {"A", "B"}
    for mode in ("keyword", "hybrid", "vector"):
        assert ask(vault, '"Quick brown FOX"', type=mode) == ["A"]
        assert ask(vault, "“quick brown”", type=mode) == ["A"]
        assert ask(vault, '"quick brown" "fox jumps"', type=mode) == ["A"]
        assert vault.call("memory_recall", query='"quick brown"', type=mode).get("warnings") is None
    assert set(ask(vault, 'quick "unclosed')) == {"A", "B"}


def test_recall_searches_words_of_phrase_that_no_memory_contains(
    folder: Path, vault: Vault
) -> None:
    """A quoted phrase that occurs nowhere is searched as plain words, with a note."""
    write(folder, "a.md", "# Queue\n\nAda decided against Kafka, the queue of Apache.\n")
    write(folder, "b.md", "# Bread\n\nRye bread needs flour.\n")
    for mode in ("keyword", "hybrid", "vector"):
        answer = vault.call(
            "memory_recall", query='who decided against "Apache Kafka"?', type=mode, limit=1
        )
        assert titles(answer) == ["Queue"]
        assert "as a phrase" in answer["warnings"][0]
    nothing = vault.call("memory_recall", query='"wombat burrow"', type="keyword")
    assert (titles(nothing), nothing.get("warnings")) == ([], None)


def test_recall_finds_notes_of_a_folder_by_its_name(folder: Path, vault: Vault) -> None:
    """A question that mentions a folder, such as a project, finds the notes in it first."""
    for project in ("puckline", "verso", "tillhouse"):
        write(folder, f"projects/{project}/retro.md", "# Retro\n\nReviews took too long.\n")
    for mode in ("keyword", "hybrid"):
        answer = vault.call("memory_recall", query="what the retro of verso said", type=mode)
        assert answer["memories"][0]["filePath"] == "projects/verso/retro.md"


@pytest.mark.parametrize("mode", ["keyword", "hybrid"])
def test_recall_ignores_type_folder_names(folder: Path, mode: str) -> None:
    """A folder named after a built-in or configured type is not a subject of the notes in it."""
    write(folder, "memvault.toml", 'version = 1\n[[types]]\nname = "runbook"\n')
    other = "---\nmemory_type: learning\n---\n\n"
    write(folder, "runbook/a.md", f"{other}# Backup\n\nCopy the disk at night.\n")
    write(folder, "issue/b.md", f"{other}# Restore\n\nCopy the disk by day.\n")
    write(folder, "sub/runbook/c.md", "# Mirror\n\nCopy the disk by hand.\n")
    write(folder, "notes/d.md", "# Filing\n\nA runbook is reviewed like an issue.\n")
    with open_vault(folder) as vault:
        for query in ("runbook", "issue"):
            found = vault.call("memory_recall", query=query, type=mode)["memories"]
            assert found[0]["title"] == "Filing", query
            assert all(entry["strength"] == "weak" for entry in found[1:]), query
        if mode == "keyword":
            assert titles(vault.call("memory_recall", query="issue", type=mode)) == ["Filing"]


def test_forget_requires_complete_quoted_phrase(folder: Path, vault: Vault) -> None:
    """Forgetting by a quoted phrase that no memory contains deletes nothing."""
    write(folder, "a.md", "# Queue\n\nAda decided against Kafka, the queue of Apache.\n")
    vault.call("memory_forget", query='Ada and "Apache Kafka"', confirm=True)
    assert (folder / "a.md").exists()


def test_recall_searches_all_fields(folder: Path, vault: Vault) -> None:
    """Title, headings, body, tags, aliases, other front matter and file name are searched."""
    header = "tags: [ornithology]\naliases: [Mockingbird]\nauthor: Harper Lee\nmemory_type: fact"
    text = f"---\n{header}\n---\n\n# Finches\n\n## Migration\n\nThey fly south.\n"
    write(folder, "notes/atticus.md", text)
    write(folder, "other.md", "# Other\n\nUnrelated.\n")
    for query in "finch migration south ornithology mockingbird harper atticus.md".split():
        assert ask(vault, query) == ["Finches"], query


def test_recall_ranks_better_match_first(folder: Path, vault: Vault) -> None:
    """A title match ranks above a body match, and more matching words above fewer."""
    write(folder, "a.md", "# Backup plan\n\nEvery night.\n")
    write(folder, "b.md", f"# Other\n\n{'Many other words. ' * 20} A backup is mentioned.\n")
    write(folder, "c.md", "# Third\n\nBackups of plans of the building.\n")
    for mode in ("keyword", "hybrid"):
        assert ask(vault, "backup plan", type=mode)[0] == "Backup plan"
    assert ask(vault, "backup plan") == ["Backup plan", "Third", "Other"]


LATE = {
    "english": ("Plain sentences about nothing. " * 6_500, "The zebrafish swims.", "zebrafish"),
    "paragraphs": ("Plain sentences about nothing.\n\n" * 6_300, "A zebrafish.", "zebrafish"),
    "one line": ("plainwords " * 18_000, "the zebrafish", "zebrafish"),
    "headings": ("".join(f"# {n}\n\nPlain words.\n\n" for n in range(9_000)), "A zebra.", "zebra"),
    "chinese": ("今天天气很好我们去公园散步。" * 14_300, "最后提到蓝鲸。", "蓝鲸"),
    "chinese lines": ("今天天气很好我们去公园散步。\n\n" * 12_500, "最后提到蓝鲸。", "蓝鲸"),
}


@sampled(2)
@pytest.mark.parametrize("kind", LATE)
def test_recall_finds_last_word_of_long_memory(folder: Path, vault: Vault, kind: str) -> None:
    """A word at the end of 200,000 characters is found, and the snippet shows it."""
    filler, end, query = LATE[kind]
    write(folder, "long.md", f"# Long\n\n{filler}\n\n{end}\n")
    write(folder, "short.md", "# Short\n\nSomething else.\n")
    for mode in ("keyword", "hybrid"):
        found = recalled(vault, query, type=mode)
        assert found[0]["title"] == "Long"
        assert query in found[0]["snippet"]
        assert len(found[0]["snippet"]) < 400
        assert "\n" not in found[0]["snippet"]


def test_snippet_shows_query_words(folder: Path, vault: Vault) -> None:
    """The snippet shows the passage with most of the query's words, not the beginning."""
    filler = "\n\n".join(
        f"Paragraph {number} says little of use to anyone." for number in range(90)
    )
    text = f"# Long\n\nA harbour.\n\n{filler}\n\nThe harbour pilot boards at dawn.\n\n{filler}\n"
    write(folder, "long.md", text)
    assert "harbour pilot" in recalled(vault, "pilot in the harbour")[0]["snippet"]


@pytest.mark.parametrize("filler", ["今天天气很好。", "天気がいいので、", "a/b-c.", "ไปเที่ยวสวน"])
def test_snippet_works_in_text_without_spaces(folder: Path, vault: Vault, filler: str) -> None:
    """In a long line without spaces, the snippet shows the query's words."""
    write(folder, "long.md", f"# Long\n\n{filler * 50}数据库红杉木{filler * 10}\n")
    assert "红杉" in recalled(vault, "红杉", type="keyword")[0]["snippet"]


@pytest.fixture
def library(folder: Path, vault: Vault) -> Vault:
    """A vault with memories of several types, tags and dates."""
    for number, (kind, tags, day) in enumerate(
        [
            ("issue", "[db, Slow]", "2026-01-10"),
            ("issue", "[web]", "2026-02-10"),
            ("learning", "[db]", "2026-03-10"),
            ("learning", "[db, web]", "2026-04-10"),
        ]
    ):
        header = (
            f"memory_type: {kind}\ntags: {tags}\nmodified: {day}T12:00:00Z\narea: a{number % 2}"
        )
        write(
            folder, f"n{number}.md", f"---\n{header}\nrank: {number}\n---\n\n# N{number}\n\nsame\n"
        )
    return vault


FILTERED: list[tuple[dict[str, Any], str]] = [
    ({"memoryType": "issue"}, "01"),
    ({"tags": ["db"]}, "023"),
    ({"tags": ["#DB", "web"]}, "3"),
    ({"tags": ["slow"]}, "0"),
    ({"since": "2026-02-10"}, "123"),
    ({"since": "2026-02-10T12:00:00.001Z"}, "23"),
    ({"until": "2026-02-10"}, "01"),
    ({"until": "2026-02-10T11:00:00+00:00"}, "0"),
    ({"since": "2026-02-01", "until": "2026-03-31"}, "12"),
    ({"since": "1d"}, ""),
    ({"until": "1d"}, "0123"),
    ({"filter": "area == 'a1'"}, "13"),
    ({"filter": "rank >= 2 and 'web' in tags"}, "3"),
    ({"filter": "rank < 1 or type == 'learning'"}, "023"),
    ({"filter": "not (rank in [0, 1])"}, "23"),
    ({"filter": "1 <= rank < 3"}, "12"),
    ({"filter": "missing == 1"}, ""),
    ({"filter": "rank == rank and created == created"}, "0123"),
    ({"filter": "area in tags or rank == area"}, ""),
    ({"filter": "(rank == 1) == true"}, "1"),
    ({"filter": "missing > 1 or title.lower().endswith('3')"}, "3"),
    ({"filter": "path.startswith('n') and tags.contains('web')"}, "13"),
    ({"filter": "modified < '2026-03'"}, "01"),
    ({"memoryType": "learning", "tags": ["web"], "filter": "area == 'a1'"}, "3"),
    ({"memoryType": "nothing"}, ""),
]


@pytest.mark.parametrize(("chosen", "numbers"), FILTERED, ids=lambda value: str(value)[:40])
def test_recall_filters_work_the_same_in_every_mode(
    library: Vault, chosen: dict[str, Any], numbers: str
) -> None:
    """A filter passes the same memories in every mode, in lists and with isAll."""
    wanted = {f"N{number}" for number in numbers}
    for mode in ("keyword", "vector", "hybrid"):
        assert set(ask(library, "same", type=mode, **chosen)) == wanted
    assert set(ask(library, "db web slow", type="tag", **chosen)) == wanted
    assert set(titles(library.call("memory_list", **chosen))) == wanted
    assert set(titles(library.call("memory_recall", isAll=True, **chosen))) == wanted


@pytest.mark.parametrize("text", [r"title == '\d'", "0in tags", "'a' == title or 1or 2"])
def test_recall_filter_does_not_print_python_warnings(run: Run, text: str) -> None:
    """An unusual filter expression gives a result or an error, never a Python warning."""
    ran = run("list", "--filter", text, "--json")
    assert (ran.code, ran.err) == (0, "")


@pytest.fixture
def texts(folder: Path, vault: Vault) -> Vault:
    """A vault with a dozen short memories."""
    things = "storm harbour engine garden lantern river".split()
    for number, one in enumerate(things):
        for other in things[number + 1 :]:
            body = f"The {one} and the {other} of the {one}."
            write(folder, f"{one}-{other}.md", f"# The {one}, {other}\n\n{body}\n")
    return vault


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
def test_recall_scores_descend_and_explanations_add_up(texts: Vault, mode: str) -> None:
    """Scores are in 0..1, never rise down the list and equal the sum of the explained parts."""
    for query in ("storm", "harbour engine lantern", "a ship at sea", "river getUserName"):
        found = recalled(texts, query, type=mode, explain=True, limit=50)
        scores = [entry["score"] for entry in found]
        assert scores == sorted(scores, reverse=True)
        for entry in found:
            why = entry["why"]
            assert 0 <= entry["score"] <= 1
            assert entry["score"] == pytest.approx(sum(why["parts"].values()), abs=1e-3)
            assert why.get("bm25", 0.0) == pytest.approx(
                sum(why.get("terms", {}).values()), abs=1e-3
            )
            assert 0 <= why.get("similarity", 0.0) <= 1
            assert 0 <= why["coverage"] <= 1


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
def test_recall_limit_and_threshold_only_shorten_the_list(texts: Vault, mode: str) -> None:
    """A limit returns a prefix of the full list; threshold and strict only remove results."""
    asked: dict[str, Any] = {"query": "storm harbour", "type": mode, "explain": True}
    whole = recalled(texts, limit=50, **asked)
    assert len(whole) >= 9
    assert len(recalled(texts, **asked)) == min(10, len(whole))
    for limit in (1, 3, 200):
        assert recalled(texts, limit=limit, **asked) == whole[:limit]
    for entry in (whole[0], whole[3], whole[-1]):
        threshold = entry["why"]["chance"] - 1e-4  # displayed chances are rounded
        reached = [other for other in whole if other["why"]["chance"] >= threshold]
        assert recalled(texts, limit=50, threshold=threshold, **asked) == reached
    strict = recalled(texts, limit=50, strict=True, **asked)
    assert strict == [entry for entry in whole if entry["why"]["chance"] >= RELEVANT]


def test_recall_all_returns_every_memory(folder: Path, vault: Vault) -> None:
    """With isAll every memory is returned, newest change first; full adds the exact content."""
    for number in range(12):
        header = f"---\nmodified: 2026-01-{number + 1:02}T00:00:00Z\n---\n"
        write(folder, f"n{number}.md", f"{header}\n# N{number}\n\nbody {number}\n")
    found = recalled(vault, "", isAll=True, full=True)
    assert [entry["title"] for entry in found] == [f"N{number}" for number in range(11, -1, -1)]
    assert found[0]["content"] == "\n# N11\n\nbody 11\n"
    assert len(recalled(vault, "", isAll=True, limit=2)) == 2
    assert "content" not in recalled(vault, "body")[0]
    assert recalled(vault, "N3", type="keyword", full=True)[0]["content"] == "\n# N3\n\nbody 3\n"


def test_recall_by_tag_ranks_by_shared_tags(library: Vault) -> None:
    """Recall by tag needs no query: most shared tags first, then the newest change."""
    assert ask(library, "web db", type="tag") == ["N3", "N2", "N1", "N0"]
    assert ask(library, "#Slow,db", type="tag") == ["N0", "N3", "N2"]
    assert ask(library, "same", type="tag") == []


@pytest.mark.parametrize("mode", MODES)
def test_recall_never_returns_deleted_memory(folder: Path, vault: Vault, mode: str) -> None:
    """A memory deleted by any program is never returned, even if it was found before."""
    for number in range(4):
        write(folder, f"n{number}.md", f"---\ntags: [word]\n---\n\n# N{number}\n\nword\n")
    for number in range(4):
        assert set(ask(vault, "word", type=mode)) == {f"N{rest}" for rest in range(number, 4)}
        (folder / f"n{number}.md").unlink()
    assert ask(vault, "word", type=mode) == []


def test_recall_respects_language_type_and_ignore_settings(folder: Path) -> None:
    """The stemming language, custom type folders and ignored paths come from memvault.toml."""
    write(folder, "runbook/a.md", "# A\n\nDie Häuser wurden gekauft.\n")
    write(folder, "drafts/b.md", "# B\n\nEin Haus.\n")
    write(folder, "notes/c-draft.md", "# C\n\nEin Haus.\n")
    write(folder, "memvault.toml", 'version = 1\nlanguage = "english"\n')
    with open_vault(folder) as vault:
        assert set(ask(vault, "haus")) == {"B", "C"}
        assert titles(vault.call("memory_list", memoryType="runbook")) == []
    own = '[[types]]\nname = "runbook"\ndescription = "What to do when"\n'
    first = 'language = "german"\nignore = ["drafts", "*-draft.md"]\n'
    write(folder, "memvault.toml", f"version = 1\n{first}\n{own}")
    with open_vault(folder) as vault:
        assert ask(vault, "das haus kaufen") == ["A"]
        assert ask(vault, "gekaufte") == ["A"]
        assert titles(vault.call("memory_list")) == ["A"]
        assert titles(vault.call("memory_list", memoryType="runbook")) == ["A"]
        types = {entry["name"]: entry for entry in vault.call("memory_list_types")["types"]}
        assert types["runbook"] == {
            "name": "runbook",
            "description": "What to do when",
            "count": 1,
        }


def test_title_lookup_ignores_case_and_unicode_normalization(vault: Vault, folder: Path) -> None:
    """Titles in any script match in any case and in any Unicode normal form."""
    write(folder, "a.md", "# Über uns\n\nzebra\n")
    write(folder, "b.md", "# ÉCOLE\n\nzebra\n")
    for name in ("über uns", "ÜBER UNS", "U\u0308ber uns"):
        assert vault.call("memory_show", memId=name)["filePath"] == "a.md"
        assert vault.call("memory_forget", query=name)["candidates"][0]["filePath"] == "a.md"
    assert vault.call("memory_show", memId="e\u0301cole")["filePath"] == "b.md"
    with FileLock(index_of(folder) / "lock"):
        write(folder, "c.md", "# Größe\n\nzebra\n")
        assert vault.call("memory_show", memId="GRÖSSE")["filePath"] == "c.md"


def test_recall_reads_each_file_once_for_missing_phrase(
    folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file without the quoted phrase is read only once for it."""
    for number in range(40):
        write(folder, f"{number}.md", f"# Note {number}\n\nstorm over the river {number}\n")
    write(folder, "last.md", "# Last\n\nA storm river.\n")
    vault.call("memory_recall", query="storm")
    read: list[int] = []
    original = Snapshot.text

    def counted(self: Snapshot, key: int, accept_changed: bool = False) -> Memory | None:
        read.append(key)
        return original(self, key, accept_changed)

    monkeypatch.setattr(Snapshot, "text", counted)
    assert len(explained(vault, '"storm river"')) == 1
    assert len(read) == len(set(read)) > 0


def test_recall_indexes_long_memory_up_to_a_limit(folder: Path, run: Run) -> None:
    """Only the start of a memory, up to a configurable limit, is indexed, but all of its links."""
    write(folder, "memvault.toml", "[index]\ncharacters = 1_000\n")
    write(folder, "target.md", "# Target\n")
    filler = "Nothing of interest happened today.\n" * 60
    write(folder, "log.md", f"# Log\n\nThe harbour opened.\n{filler}The [[target]] lamp.\n")
    for mode in ("keyword", "hybrid"):
        found = succeeded(run("recall", "harbour", "--mode", mode, "--strict", "--json")).json
        assert titles(found) == ["Log"]
    assert titles(succeeded(run("recall", "lamp", "--mode", "keyword", "--json")).json) == []
    assert len(succeeded(run("backlinks", "target", "--json")).json["backlinks"]) == 1
    write(folder, "line.md", f"# Line\n\nThe quay opened. {filler.replace(chr(10), ' ')}\n")
    found = succeeded(run("recall", "quay", "--mode", "keyword", "--json")).json
    assert titles(found) == ["Line"]
    write(folder, "memvault.toml", "[index]\ncharacters = 0\n")
    found = succeeded(run("recall", "lamp", "--mode", "keyword", "--json")).json
    assert titles(found) == ["Log"]


SENTENCES = {
    "danish": "Vi mødes på kontoret om mandagen, men hvis nogen er syg, skal de blive hjemme.",
    "dutch": "De sleutels liggen in de kast bij de deur, en de buurvrouw heeft er ook een.",
    "english": "The keys are in the cupboard by the door, and the neighbour has one of them too.",
    "finnish": "Avaimet ovat kaapissa oven vieressä, mutta naapurilla on myös yksi niistä.",
    "french": "Les clés sont dans le placard près de la porte, et la voisine en a une aussi.",
    "german": "Die Schlüssel liegen im Schrank neben der Tür, und die Nachbarin hat auch einen.",
    "greek": "Τα κλειδιά είναι στο ντουλάπι δίπλα στην πόρτα και η γειτόνισσα έχει ένα.",
    "hungarian": "A kulcsok a szekrényben vannak az ajtó mellett, de a szomszédnak is van egy.",
    "italian": "Le chiavi sono nell'armadio vicino alla porta, e anche la vicina ne ha una.",
    "norwegian": "Nøklene ligger i skapet ved døra, men naboen har også en hvis dere trenger den.",
    "portuguese": "As chaves estão no armário ao lado da porta, e a vizinha também tem uma.",
    "romanian": "Cheile sunt în dulapul de lângă ușă, iar vecina are și ea una pentru noi.",
    "russian": "Ключи лежат в шкафу у двери, но и у соседки есть один, если мы её попросим.",
    "spanish": "Las llaves están en el armario junto a la puerta, y la vecina también tiene una.",
    "swedish": "Nycklarna ligger i skåpet vid dörren, men grannen har också en om vi inte är där.",
    "tamil": "சாவிகள் கதவுக்கு அருகில் உள்ள அலமாரியில் இருக்கின்றன.",
    "turkish": "Anahtarlar kapının yanındaki dolapta, ama komşuda da bir tane var.",
    "arabic": "المفاتيح في الخزانة بجانب الباب، وعند الجارة أيضا واحدة إذا احتجنا إليها.",
}
MEMORIES = {
    "Garten": "Die Gartenstühle stehen im Schuppen hinter dem Haus und sind noch nicht gestrichen.",
    "Ferienhaus": "Die Schluessel fuer das Haus haengen bei Frau Moeller an der Tuer.",
    "Luz": "La contratación de la luz se hizo con la cooperativa, y la factura llega en papel.",
    "Cuarto": "La habitacion de los ninos esta sin pintar desde que la compramos.",
    "Vacances": "L'école est fermée en été, et nous avons réservé une maison près de la mer.",
    "Réunion": "Les décisions d'aujourd'hui seront envoyées par la présidente à tous les voisins.",
    "Iskola": "Az iskolában a szülői értekezletek kedden vannak, de csak ha nincs szünet.",
    "备用钥匙": "一把在楼下水果店王姐那里,一把放在车后备箱。",
    "鍵": "予備の鍵は玄関の靴箱の上に置いてあります。",
    "Casting": "The mould for the die is made of steel, and it will last for ten thousand parts.",
    "Plants": "The ferns die when they are watered too often, so let them dry for a week.",
}
ANSWERS = [
    ("Gartenstuhl", "Garten"),
    ("wo ist der Gartenstuhl", "Garten"),
    ("Gartenstuehle", "Garten"),
    ("gartenstuhle", "Garten"),
    ("gestrichene Stühle im Garten", "Garten"),
    ("Schlüssel", "Ferienhaus"),
    ("wo hängt der Schlüssel von Möller", "Ferienhaus"),
    ("contratacion", "Luz"),
    ("contrataciones de luz", "Luz"),
    ("cuándo llegan las facturas", "Luz"),
    ("habitación", "Cuarto"),
    ("las habitaciones del niño", "Cuarto"),
    ("l'été", "Vacances"),
    ("fermer les écoles l’été", "Vacances"),
    ("ecole fermee", "Vacances"),
    ("d'école", "Vacances"),
    ("aujourd'hui", "Réunion"),
    ("aujourd’hui", "Réunion"),
    ("qu'est-ce que le président envoie à la voisine", "Réunion"),
    ("iskolai értekezlet", "Iskola"),
    ("szulo iskola", "Iskola"),
    ("钥匙在哪里", "备用钥匙"),
    ("水果店", "备用钥匙"),
    ("果蔬店在楼里", "备用钥匙"),
    ("鍵はどこ", "鍵"),
    ("玄関", "鍵"),
    ("steel die", "Casting"),
    ("dying fern", "Plants"),
    ("why does the fern die", "Plants"),
]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a vault of memories in seven languages."""
    folder = tmp_path_factory.mktemp("mixed")
    write(folder, "memvault.toml", "version = 1\n")
    for number, (title, text) in enumerate(MEMORIES.items()):
        write(folder, f"{number}.md", f"# {title}\n\n{text}\n")
    return folder


@pytest.mark.parametrize("language", SENTENCES)
def test_language_is_detected_from_one_sentence(language: str) -> None:
    """Each language with a stemmer is detected from one sentence."""
    assert detect_language(SENTENCES[language]) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def main(argv: list[str]) -> int:\n    return run(argv) or 0",
        "SELECT id, name FROM users u JOIN orders o USING (user_id)",
        "BC-7QK2-118",
        "一把在楼下水果店王姐那里",
        "Zürich",
        "x = α * β + γ",
    ],
)
def test_language_of_code_and_numbers_is_not_detected(text: str) -> None:
    """Code, names, numbers and scripts without a stemmer have no detected language."""
    assert detect_language(text) == ""


@pytest.mark.parametrize(("query", "title"), ANSWERS)
def test_recall_finds_each_language_in_mixed_vault(mixed: Path, query: str, title: str) -> None:
    """Each language's endings, accents, elisions and digraphs match in a mixed vault."""
    with open_vault(mixed) as vault:
        for mode in ("keyword", "hybrid"):
            found = titles(vault.call("memory_recall", query=query, type=mode))
            assert found[:1] == [title], mode


def test_recall_uses_stop_words_of_query_language() -> None:
    """A stop word in one language can be the only significant word in another."""
    both = query_analyzer(("english", "german"))
    assert [word[0] for word in both.query("was the die cast")[0]] == ["die", "cast"]
    assert [word[0] for word in both.query("wer hat die Form gegossen")[0]] == ["form", "gegossen"]
    assert [word[0] for word in both.query("die")[0]] == ["die"]


def test_recall_counts_forms_of_a_query_word_once() -> None:
    """Two spellings of a query word in one memory have the weight of one."""
    documents = [
        KeywordDocument(1, {"body": Counter({"haus": 1, "hause": 1})}),
        KeywordDocument(2, {"body": Counter({"haus": 1, "garten": 1})}),
        KeywordDocument(3, {"body": Counter({"garten": 1, "tor": 1})}),
    ]
    wanted = [QueryTerm(("haus", "hause"), FIELDS)]
    segments = [memory_segment(documents)]
    found = find_terms(segments, wanted)
    scores, rarity, _ = score(segments, found, {"body": 6.0}, explain=False)
    assert scores[0] == scores[1]
    assert len(scores) == 2
    assert set(rarity) == {"haus"}


def test_recall_uses_vault_language_if_undetected(folder: Path, vault: Vault) -> None:
    """A note too short to detect uses the language of most memories, now and later."""
    write(folder, "a.md", f"# Schlüssel\n\n{SENTENCES['german']}\n")
    write(folder, "b.md", "# Kindergarten\n\nAbholzeiten Kindergärten\n")
    query = {"query": "Abholzeit", "type": "keyword"}
    assert titles(vault.call("memory_recall", **query)) == ["Kindergarten"]
    write(folder, "c.md", "# Läden\n\nÖffnungszeiten Bäckereien\n")
    assert titles(vault.call("memory_recall", query="Bäckerei", type="keyword")) == ["Läden"]


def test_recall_without_writable_index_stems_by_language(folder: Path, vault: Vault) -> None:
    """A memory read from its file is stemmed in its own language."""
    write(folder, "a.md", f"# Keys\n\n{SENTENCES['english']}\n")
    assert titles(vault.call("memory_recall", query="key", type="keyword")) == ["Keys"]
    with FileLock(index_of(folder) / "lock"):
        write(folder, "b.md", "# Kauf\n\nDie Häuser wurden von der Gemeinde gekauft.\n")
        assert titles(vault.call("memory_recall", query="das Haus", type="keyword")) == ["Kauf"]
    assert titles(vault.call("memory_recall", query="das Haus", type="keyword")) == ["Kauf"]


def test_recall_language_setting_applies_to_every_memory(folder: Path, run: Run) -> None:
    """If a vault sets its language, no memory's language is detected."""
    write(folder, "a.md", "# Kauf\n\nDie Häuser wurden von der Gemeinde gekauft.\n")
    assert "Kauf" in run("recall", "Haus", "--mode", "keyword").out
    write(folder, "memvault.toml", 'version = 1\nlanguage = "english"\n')
    assert "Kauf" not in run("recall", "Haus", "--mode", "keyword").out


def test_recall_explanation_lists_each_word_once(folder: Path, vault: Vault) -> None:
    """A word searched in several forms appears in the explanation by its first form."""
    write(folder, "a.md", f"# Luz\n\n{SENTENCES['spanish']} La contratación fue en papel.\n")
    (hit,) = explained(vault, "vecinas contratacion", type="keyword")
    assert list(hit["why"]["terms"]) == ["vecin", "contratacion"]


def test_recalled_memory_is_not_archived(vault: Vault, folder: Path) -> None:
    """Recall, show, load and the context for a task all protect a memory from consolidation."""
    said = {
        "recalled": "Zebras sleep standing in the afternoon",
        "shown": "Whales sing below the ice",
        "loaded": "Owls turn their heads far round",
        "queried": "Bees dance to tell of flowers",
        "told": "Crabs walk sideways on the beach",
    }
    for name, text in said.items():
        put(folder, name, importance=0.1, days=120, reflection=text)
    assert len(consolidated(vault)["forgotten"]) == 5
    vault.call("memory_recall", query=said["recalled"], limit=1)
    vault.call("memory_show", memId="shown-id")
    vault.call("memory_load", memId="loaded-id")
    vault.call("memory_load", query=said["queried"], limit=1)
    vault.call("context", task=said["told"])
    counts = recall_counts.counts(folder)
    assert counts.keys() >= {f"{name}-id" for name in said}
    assert consolidated(vault)["forgotten"] == []


def test_recall_of_uncounted_memory_writes_nothing(folder: Path, vault: Vault) -> None:
    """Lists, and recalls of types that are never forgotten, are not counted."""
    write(folder, "learning/a.md", "---\nid: a-id\n---\n\nCats purr at night\n")
    put(folder, "e", reflection="Dogs bark at noon")
    vault.call("memory_recall", query="cats purr", type="keyword")
    vault.call("memory_recall", isAll=True)
    vault.call("memory_show", memId="a-id")
    vault.call("memory_load", memId="a-id")
    assert not list(folder.glob(".memvault/access.*"))


def test_recall_without_writable_counts_still_works(vault: Vault, folder: Path) -> None:
    """If the recall count cannot be written, recall works and gives no warning."""
    put(folder, "e", reflection="Dogs bark at noon")
    (folder / ".memvault").mkdir(exist_ok=True)
    (folder / ".memvault/access.jsonl").mkdir()
    found = vault.call("memory_recall", query="dogs bark")
    assert [entry["memId"] for entry in found["memories"]] == ["e-id"]
    assert "warnings" not in found
