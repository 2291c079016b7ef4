"""Answers reflect the current files, through any change, reindex or kill."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from conftest import SOAK, Run, examples, index_of, lie_still, refused, soak_only, titles, write
from killing import Killing
from memvault import Vault, open_vault
from memvault.index.local.index_files import INDEX
from memvault.index.local.manifest import Manifest
from memvault.index.protocol import COMPLETE, MemoryRecord
from memvault.recall.answer import RecallRequest
from memvault.recall.search import Search
from memvault.workspace import Workspace

Ask = Callable[..., list[str]]


class Asked(NamedTuple):
    """A question, and its results before and after an edit."""

    question: dict[str, Any]
    before: list[str]
    after: list[str]


class Case(NamedTuple):
    """Files, changes to them, and questions."""

    files: dict[str, str]
    edit: Callable[[Path], object]
    asked: Asked


def _timed(file: Path, text: str, seconds: int | None = None) -> None:
    """Write a text and set its file time to another one, or back, as some programs do."""
    before = file.stat().st_mtime_ns
    file.write_text(text, "utf-8")
    when = before if seconds is None else seconds * 10**9
    os.utime(file, ns=(when, when))


def _replaced(file: Path, text: str) -> None:
    """Replace a file through a rename, with the same size and time."""
    fresh = file.with_name(".saving")
    shutil.copy2(file, fresh)
    _timed(fresh, text)
    fresh.rename(file)


def _swapped(one: Path, two: Path) -> None:
    aside = one.with_suffix(".swap")
    one.rename(aside)
    two.rename(one)
    aside.rename(two)


def _header(line: str) -> str:
    return f"---\n{line}\n---\n\n# Header\n\nheaderword\n"


CASES = {
    "added": Case(
        {},
        lambda root: write(root, "deep/er/x.md", "# X\n\nquagga\n"),
        Asked({"query": "quagga"}, [], ["X"]),
    ),
    "old words edited away": Case(
        {"a.md": "# A\n\nokapi\n"},
        lambda root: write(root, "a.md", "# A\n\nsomething else\n"),
        Asked({"query": "okapi"}, ["A"], []),
    ),
    "renamed": Case(
        {"old-name.md": "the wombat\n"},
        lambda root: (root / "old-name.md").rename(root / "new-name.md"),
        Asked({"query": "wombat"}, ["old-name"], ["new-name"]),
    ),
    "deleted": Case(
        {"c.md": "# C\n\nnumbat\n"},
        lambda root: (root / "c.md").unlink(),
        Asked({"query": "numbat"}, ["C"], []),
    ),
    "folder moved to another type": Case(
        {"fact/d.md": "# D\n\nbilby\n"},
        lambda root: (root / "fact").rename(root / "procedure"),
        Asked({"query": "bilby", "memoryType": "procedure"}, [], ["D"]),
    ),
    "folder moved out of the memories": Case(
        {"episode/e.md": "# E\n\nquokka\n"},
        lambda root: (root / "episode").rename(root / "templates"),
        Asked({"query": "quokka"}, ["E"], []),
    ),
    "only a tag edited": Case(
        {"tag.md": _header("tags: [red]")},
        lambda root: write(root, "tag.md", _header("tags: [blue]")),
        Asked({"query": "headerword", "tags": ["blue"]}, [], ["Header"]),
    ),
    "only the type edited": Case(
        {"kind.md": _header("memory_type: issue")},
        lambda root: write(root, "kind.md", _header("memory_type: learning")),
        Asked({"query": "headerword", "memoryType": "issue"}, ["Header"], []),
    ),
    "only the title edited": Case(
        {"title.md": _header("title: Dugong")},
        lambda root: write(root, "title.md", _header("title: Narwhal")),
        Asked({"query": "narwhal"}, [], ["Narwhal"]),
    ),
    "same size and time": Case(
        {"f.md": "# F\n\nwalrus\n"},
        lambda root: _timed(root / "f.md", "# F\n\nbeluga\n"),
        Asked({"query": "beluga"}, [], ["F"]),
    ),
    "time set to 1970": Case(
        {"g.md": "# G\n\nwalrus\n"},
        lambda root: _timed(root / "g.md", "# G\n\nmarmot\n", 0),
        Asked({"query": "marmot"}, [], ["G"]),
    ),
    "time set to the future": Case(
        {"h.md": "# H\n\nwalrus\n"},
        lambda root: _timed(root / "h.md", "# H\n\njerboa\n", 4_000_000_000),
        Asked({"query": "jerboa"}, [], ["H"]),
    ),
    "replaced by rename with the same size and time": Case(
        {"i.md": "# I\n\nwalrus\n"},
        lambda root: _replaced(root / "i.md", "# I\n\nlinsan\n"),
        Asked({"query": "linsan"}, [], ["I"]),
    ),
    "two files swapped": Case(
        {"one.md": "the margay\n", "two.md": "the ocelot\n"},
        lambda root: _swapped(root / "one.md", root / "two.md"),
        Asked({"query": "margay"}, ["one"], ["two"]),
    ),
    "edited twice at once": Case(
        {"j.md": "# J\n\nwalrus\n"},
        lambda root: [write(root, "j.md", f"# J\n\n{word}\n") for word in ("shrews", "genets")],
        Asked({"query": "genets"}, [], ["J"]),
    ),
}


@pytest.fixture(params=["warm", "cold"])
def ask(request: pytest.FixtureRequest, folder: Path, run: Run) -> Iterator[Ask]:
    """Query a vault that is kept open, or a new process each time."""

    def cold(**question: Any) -> list[str]:
        ran = run("call", "memory_recall", json.dumps({"type": "keyword", **question}))
        assert ran.code == 0, ran
        return titles(ran.json)

    if request.param == "cold":
        yield cold
        return
    with open_vault(folder) as vault:

        def warm(**question: Any) -> list[str]:
            return titles(vault.call("memory_recall", **{"type": "keyword", **question}))

        yield warm


@pytest.mark.parametrize("name", CASES)
def test_recall_sees_change_immediately(folder: Path, ask: Ask, name: str) -> None:
    """The recall right after a change answers from the changed files."""
    files, edit, asked = CASES[name]
    write(folder, "other.md", "# Other\n\nheaderword of another kind\n")
    for path, text in files.items():
        write(folder, path, text)
    assert ask(**asked.question) == asked.before
    edit(folder)
    assert ask(**asked.question) == asked.after


@pytest.mark.parametrize("stays_open", [True, False])
def test_recall_sees_changes_to_old_files(folder: Path, vault: Vault, stays_open: bool) -> None:
    """All kinds of changes are detected in files that were indexed long ago."""

    def answers(asked: Asked) -> list[str]:
        with open_vault(folder) as fresh:
            asking = vault if stays_open else fresh
            return titles(asking.call("memory_recall", **{"type": "keyword", **asked.question}))

    for case in CASES.values():
        for path, text in case.files.items():
            write(folder, path, text)
    lie_still(folder)  # old enough that file times are reliable
    for case in CASES.values():
        assert answers(case.asked) == case.asked.before, case
    for case in CASES.values():
        case.edit(folder)
    for case in CASES.values():
        assert answers(case.asked) == case.asked.after, case


def test_recall_sees_edits_of_same_size_and_time(folder: Path, vault: Vault) -> None:
    """A file that changes between recalls without changing size or time is never stale."""
    for number in range(100, 160):
        file = write(folder, "fast.md", f"# Fast\n\nround{number}\n")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        found = vault.call("memory_recall", query=f"round{number}", type="keyword")
        assert titles(found) == ["Fast"]
        old = vault.call("memory_recall", query=f"round{number - 1}", type="keyword")
        assert titles(old) == []


_APPENDING = """
import sys, time
print("ready", flush=True)
while True:
    with open(sys.argv[1], "a") as log:
        log.write("The boiler was checked again at %s.\\n" % time.time())
    time.sleep(0.004)
"""


def test_recall_finds_growing_file(folder: Path, vault: Vault) -> None:
    """A file that another program keeps appending to stays in the results, with current text."""
    for number in range(150):
        write(folder, f"n{number}.md", f"# Note {number}\n\nThe boiler of house {number} is new.\n")
    log = write(folder, "log.md", "# Boiler log\n\nThe boiler was checked.\n")
    vault.call("memory_recall", query="boiler")
    command = [sys.executable, "-c", _APPENDING, str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout
        writer.stdout.readline()
        try:
            for mode in ("keyword", "hybrid") * 3:
                found = vault.call("memory_recall", query="boiler log", type=mode, limit=3)
                assert "Boiler log" in titles(found), mode
                assert "warnings" not in found
        finally:
            writer.kill()


def no_scores(query: str, texts: Sequence[str]) -> list[float]:
    """Fail, because no test reranks."""
    raise AssertionError(query, texts)


def test_recall_shows_file_changed_during_search(folder: Path) -> None:
    """A file changed after the refresh is shown with its new title, text and snippet."""
    write(folder, "log.md", "# Old title\n\nThe boiler was checked.\n")
    with closing(Workspace(folder)) as workspace:
        view = workspace.index.refresh(True, COMPLETE)
        write(folder, "log.md", "# New title\n\nA preface.\n\nThe boiler was replaced.\n")
        search = Search(view, RecallRequest("boiler"), workspace.settings.ranking, True)
        (found,) = search.results(no_scores)
        assert (found.memory.title, found.snippet) == ("New title", "The boiler was replaced.")
        assert found.line_number == 5
        assert not search.stale
        (folder / "log.md").unlink()
        search = Search(view, RecallRequest("boiler"), workspace.settings.ranking, True)
        assert (search.results(no_scores), len(search.stale)) == ([], 1)


def test_semantic_recall_sees_changes_immediately(folder: Path, vault: Vault) -> None:
    """Semantic recall finds memories that were just written, not those that were just deleted."""
    write(folder, "cats.md", "# Cats\n\nThe cat sleeps on the sofa all day.\n")
    write(folder, "ships.md", "# Ships\n\nThe vessel left the harbour.\n")
    assert titles(vault.call("memory_recall", query="a pet at home", type="vector"))[0] == "Cats"
    write(folder, "ships.md", "# Dogs\n\nThe dog is a pet that lives at home with people.\n")
    assert titles(vault.call("memory_recall", query="a pet at home", type="vector"))[0] == "Dogs"
    (folder / "ships.md").unlink()
    assert titles(vault.call("memory_recall", query="a pet at home", type="vector")) == ["Cats"]


def test_deleted_index_is_rebuilt_identically(folder: Path, ask: Ask) -> None:
    """After ``rm -r`` of the index, the same question has the same answer."""
    write(folder, "a.md", "# Kept\n\nwombat\n")
    for _ in range(3):
        assert ask(query="wombat") == ["Kept"]
        shutil.rmtree(index_of(folder))


def test_copied_vault_uses_its_own_files(folder: Path, tmp_path: Path) -> None:
    """A copy of a vault, index included, answers from its own files, as does the original."""
    for number in range(5):
        write(folder, f"n{number}.md", f"# Note {number}\n\nword{number} shared\n")
    copy = tmp_path / "copy"
    with open_vault(folder) as vault:
        assert len(titles(vault.call("memory_recall", query="shared"))) == 5
        shutil.copytree(folder, copy)
        write(copy, "n0.md", "# Note 0\n\nchanged\n")
        (copy / "n1.md").unlink()
        write(copy, "n9.md", "# Note 9\n\nshared again\n")
        with open_vault(copy) as other:
            for mode in ("keyword", "hybrid"):
                found = titles(other.call("memory_recall", query="shared", type=mode))
                assert {"Note 2", "Note 3", "Note 4", "Note 9"} <= set(found)
                assert "Note 1" not in found
            assert titles(other.call("memory_recall", query="word0", type="keyword")) == []
            assert len(titles(other.call("memory_list"))) == 5
        assert titles(vault.call("memory_recall", query="word0", type="keyword")) == ["Note 0"]


WORDS = ["alpha", "beta", "gamma", "delta"]
NAMES = [f"{folder}n{number}.md" for folder in ("", "issue/", "fact/deep/") for number in range(3)]
Step = tuple[str, str, str, str]
steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "tag", "delete", "rename", "ask", "reopen"]),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join),
    ),
    min_size=3,
    max_size=20,
)


def _state(vault: Vault) -> dict[str, Any]:
    found: dict[str, Any] = {"list": vault.call("memory_list")}
    for query in (*WORDS, "alpha delta", "issue"):
        result = vault.call("memory_recall", query=query, type="keyword", limit=50)
        found[query] = sorted(result["memories"], key=lambda entry: str(entry["filePath"]))
    return found


def _grown(root: Path, taken: list[Step]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Play steps with recalls in between; return the results of this index and of a rebuilt one."""
    (root / "memvault.toml").write_text("version = 1\n", "utf-8")
    vault = open_vault(root)
    for kind, name, other, text in taken:
        file = root / name
        if kind in ("write", "tag"):
            header = f"---\ntags: [{text.split()[0]}]\n---\n" if kind == "tag" else ""
            write(root, name, f"{header}# {text[:5]}\n\n{text}\n")
        elif kind == "delete":
            file.unlink(missing_ok=True)
        elif kind == "rename" and file.exists():
            (root / other).parent.mkdir(parents=True, exist_ok=True)
            file.replace(root / other)
        elif kind == "reopen":
            vault.close()
            vault = open_vault(root)
        elif kind == "ask":
            vault.call("memory_recall", query=text)
    with vault:
        grown = _state(vault)
        assert vault.call("vault_reindex")["success"]
        return grown, _state(vault)


def _without_scores(state: dict[str, Any]) -> dict[str, Any]:
    return {
        key: [{k: v for k, v in entry.items() if k != "score"} for entry in value]
        if isinstance(value, list)
        else value
        for key, value in state.items()
    }


@settings(max_examples=examples(40))
@given(steps)
def test_incremental_index_finds_same_as_rebuilt(taken: list[Step]) -> None:
    """After any sequence of changes, the index lists and finds the same as a rebuilt one."""
    with tempfile.TemporaryDirectory() as root:
        grown, rebuilt = _grown(Path(root), taken)
    assert _without_scores(grown) == _without_scores(rebuilt)


@soak_only
@settings(max_examples=examples(20), phases=[Phase.explicit, Phase.generate])
@example(
    [
        ("write", "n0.md", "", "beta"),
        ("ask", "", "", "beta"),
        ("write", "n0.md", "", "alpha"),
        ("write", "n1.md", "", "alpha alpha alpha"),
    ]
)
@given(steps)
def test_incremental_index_scores_same_as_rebuilt(taken: list[Step]) -> None:
    """Scores depend only on the current files, not on the edits that led to them."""
    with tempfile.TemporaryDirectory() as root:
        grown, rebuilt = _grown(Path(root), taken)
    assert grown == rebuilt


_LINES = [
    *("# Alpha", "beta gamma delta.", "alpha of the beta #topic", "Gamma\n=====", "Delta\n---"),
    *("```\ncode alpha\n```", "```", "~~~", "<div>\nbeta\n</div>", "<!-- gamma", "-->", "%%"),
    *("| alpha | beta |\n|---|---|\n| gamma | [[Second]] |", "[a]: second.md", "see [a] and [^1]"),
    *(
        "[^1]: delta [[Third]]",
        "---\ntags: [delta]\naliases: [Gamma]\n---",
        "- alpha\n  - beta",
        "",
    ),
    *("[[Second|beta]] ![[third.md]]", "> gamma\n> delta", "    indented alpha", "$$ beta", ""),
]


def _indexed(root: Path) -> list[tuple[Any, ...]]:
    """Return the index's rows that do not depend on when a file was indexed."""
    with closing(sqlite3.connect(index_of(root) / INDEX / "manifest.db")) as manifest:
        return manifest.execute(
            "SELECT path, size, mtime, etag, mem_id, title, tags, metadata, problem, language, "
            "l_title, l_headings, l_body, l_tags, l_identifier, folded, part_hash, names, links, "
            "(SELECT count(*) FROM aliases WHERE uid = memories.uid), "
            "(SELECT group_concat(passages || hex(counts) || hex(codes)) FROM blocks "
            "WHERE place >> 20 = memories.uid) "
            "FROM memories JOIN links USING (uid) ORDER BY path"
        ).fetchall()


def test_edits_of_long_notes_are_indexed_like_new_notes(folder: Path, vault: Vault) -> None:
    """After edits within and after its indexed part, a note is found and linked as if new."""
    rng = random.Random(5)
    with (folder / "memvault.toml").open("a") as file:
        file.write("[index]\ncharacters = 150\n")
    lines = {name: rng.choices(_LINES, k=30) for name in ("first.md", "second.md", "third.md")}
    for _ in range(examples(25)):
        for name, parts in lines.items():
            for _ in range(rng.randint(0, 2)):
                place = rng.choice((rng.randrange(len(parts) + 1), len(parts)))
                parts[place : place + rng.choice((0, 0, 1, 20))] = rng.choices(_LINES, k=2)
            write(folder, name, "\n".join(parts) + "\n")
        grown = _state(vault), _indexed(folder)
        assert vault.call("vault_reindex")["success"]
        assert grown == (_state(vault), _indexed(folder))


def test_line_appended_to_long_note_keeps_its_terms(folder: Path, vault: Vault) -> None:
    """A line after the indexed part changes a note's links and size, but no keyword file."""
    with (folder / "memvault.toml").open("a") as file:
        file.write("[index]\ncharacters = 150\n")
    write(folder, "other.md", "# Other\n")
    log = write(folder, "log.md", "# Log\n\n" + "The boiler was checked.\n" * 20)
    assert titles(vault.call("memory_recall", query="boiler", type="keyword")) == ["Log"]
    keyword = index_of(folder) / INDEX / "keyword"
    files = {file.name: file.stat().st_mtime_ns for file in keyword.iterdir()}
    with log.open("a") as file:
        file.write("See [[Other]].\n")
    assert titles(vault.call("memory_recall", query="boiler", type="keyword")) == ["Log"]
    assert {file.name: file.stat().st_mtime_ns for file in keyword.iterdir()} == files
    shown = vault.call("memory_show", memId="log.md")
    assert "See [[Other]]." in json.dumps(shown)
    assert "Log" in json.dumps(vault.call("memory_backlinks", memId="other.md"))
    write(folder, "log.md", log.read_text().replace("boiler", "kettle", 1))
    assert titles(vault.call("memory_recall", query="kettle", type="keyword")) == ["Log"]


def test_scores_do_not_depend_on_indexing_order(folder: Path, vault: Vault) -> None:
    """Memories indexed one call at a time score the same as when indexed together."""
    for number in range(16):
        words = " ".join(f"w{number}x{place}" for place in range(60 + 23 * number))
        write(folder, f"n{number:02}.md", f"# Note {number}\n\nalpha {'beta ' * number}{words}\n")
        vault.call("memory_recall", query="alpha", type="keyword")
    question = {"query": "alpha beta", "type": "keyword", "limit": 50, "explain": True}
    one_by_one = vault.call("memory_recall", **question)["memories"]
    assert vault.call("vault_reindex")["success"]
    assert vault.call("memory_recall", **question)["memories"] == one_by_one


@pytest.mark.parametrize("moment", [-1e10, 0.0, 1.4e10])
def test_index_accepts_any_file_time(vault: Vault, folder: Path, moment: float) -> None:
    """Files with times before 1970 or after 2262 are memories too."""
    file = write(folder, "a.md", "# A\n\nzebra\n")
    os.utime(file, (moment, moment))
    assert titles(vault.call("memory_recall", query="zebra")) == ["A"]


_REINDEXING = """
from memvault import open_vault

def work(root):
    with open_vault(root) as vault:
        assert vault.call("vault_reindex")["success"]
"""


def _filled(folder: Path, count: int) -> None:
    for number in range(count):
        write(folder, f"n/{number}.md", f"# Note {number}\n\ncommon word{number}\n")
    with open_vault(folder) as vault:
        _is_whole(vault, count)


def _is_whole(vault: Vault, count: int) -> None:
    found = vault.call("memory_recall", query="common", type="keyword", limit=500)
    assert len(titles(found)) == count
    near = vault.call("memory_recall", query="common word", type="vector", limit=500)
    assert len(titles(near)) == count
    assert "warnings" not in near


@pytest.mark.promise("R28")
def test_concurrently_replaced_index_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the index is removed while it is read, the call reads its replacement."""
    _filled(folder, 3)
    index = index_of(folder) / INDEX
    with open_vault(folder) as vault:
        _is_whole(vault, 3)
        real = Manifest.visit_records

        def replaced(self: Manifest, visit: Callable[[Iterator[MemoryRecord]], Any]) -> Any:
            monkeypatch.setattr(Manifest, "visit_records", real)
            index.rename(index.with_name("moved"))
            journal = index / "manifest.db-journal"  # in place of another process's journal
            journal.mkdir(parents=True)
            try:
                return real(self, visit)
            finally:
                journal.rmdir()

        monkeypatch.setattr(Manifest, "visit_records", replaced)
        assert len(titles(vault.call("memory_list"))) == 3


def test_state_of_replaced_index_is_read(folder: Path) -> None:
    """After another process has replaced the index, the new one's state is used."""
    _filled(folder, 3)
    with closing(Workspace(folder)) as workspace:
        workspace.index.refresh(True, COMPLETE)
        index = index_of(folder) / INDEX
        index.rename(index.with_name("moved"))
        (index / "manifest.db-journal").mkdir(parents=True)
        (index / "manifest.db-journal").rmdir()
        found = workspace.index.status()
    assert (found.static.vectors, found.static.waiting) in ((3, 0), (0, 3))


def test_killed_reindex_keeps_old_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reindex killed before any change has lost nothing, and the next refresh finds all."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # the work is done in forks
    _filled(folder, 5)
    index = index_of(folder)
    places = []

    with Killing(folder, _REINDEXING, index) as reindexing:
        for kind in ("open", "os.rename", "os.rmdir", "sql COMMIT"):
            for place in reindexing.everywhere(kind, 24 if SOAK else 3):
                places.append(place)
                kept = {path.stat().st_ino for path in index.glob("index*/manifest.db")}
                with open_vault(folder) as vault:
                    _is_whole(vault, 5)
                assert (index / INDEX / "manifest.db").stat().st_ino in kept, place
    assert sum(place.startswith("os.rename") for place in places) >= 2
    assert len(places) >= 6
    with open_vault(folder) as vault:
        assert vault.call("vault_reindex")["indexed"] == 5
    assert {path.name for path in index.iterdir()} <= {"vault", "lock", INDEX, "deep"}


def test_recall_reads_old_index_during_reindex(folder: Path) -> None:
    """A recall during a reindex neither waits nor indexes: it reads the old index."""
    _filled(folder, 120)
    seen = []

    def others(what: str, done: int, total: int) -> None:
        with open_vault(folder) as vault:
            assert vault.call("vault_status")["index"]["state"] == "current"
            _is_whole(vault, 120)
            seen.append(what)

    making = Workspace(folder, others)
    making.index.rebuild()
    making.close()
    assert "indexing" in seen
    with open_vault(folder) as vault:
        _is_whole(vault, 120)


@soak_only
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource limits")
def test_full_disk_for_vectors_is_reported(folder: Path, run: Run, deep_now: None) -> None:
    """If deep vectors don't fit on the disk, reindex reports it and recall adds a note."""
    for number in range(20):
        parts = (f"## Part {part}\n\ncommon word{part}\n" for part in range(20))
        write(folder, f"n/{number}.md", "\n".join([f"# Note {number}\n", *parts]))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        # All other files are smaller.
        resource.setrlimit(resource.RLIMIT_FSIZE, (140_000, before[1]))
        refused(run("reindex"), 1)
        found = run("recall", "common", "--json").json
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found["count"], found
    assert "only the built-in table was used" in found["warnings"][0]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource limits")
def test_reindex_keeps_old_index_if_disk_is_full(folder: Path, run: Run) -> None:
    """A reindex on a full disk fails with one sentence, and the vault keeps working."""
    _filled(folder, 60)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    index = index_of(folder)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
        refused(run("reindex"), 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name for path in index.iterdir()} <= {"vault", "lock", INDEX, "deep"}
    with open_vault(folder) as vault:
        assert vault.call("vault_status")["index"]["state"] == "current"
        _is_whole(vault, 60)


_OTHER_VERSION = """
import sys
from memvault.index.text import passages
passages.VERSION += 1
from memvault.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.promise("R94")
def test_two_versions_share_a_vault(folder: Path) -> None:
    """A recall by one version neither rebuilds nor removes the index of the other."""
    _filled(folder, 5)

    def other(*words: str) -> None:
        line = [sys.executable, "-c", _OTHER_VERSION, "--vault", str(folder), *words]
        subprocess.run(line, check=True, capture_output=True)

    def own() -> str:
        with open_vault(folder) as vault:
            assert len(titles(vault.call("memory_recall", query="common", type="keyword"))) == 5
            return str(vault.call("vault_status")["index"]["state"])

    index = index_of(folder)
    own()
    other("recall", "common")
    kept = {path: path.stat().st_ino for path in index.glob("index*/manifest.db")}
    assert len(kept) == 2
    for _ in range(2):
        assert own() == "current"
        other("recall", "common")
    assert {path: path.stat().st_ino for path in index.glob("index*/manifest.db")} == kept


@pytest.mark.promise("R94")
def test_index_of_unused_version_is_deleted(folder: Path) -> None:
    """Another version's index is deleted if it has not been used for 30 days."""
    _filled(folder, 3)
    index = index_of(folder)
    names = {"index": 31, "index-9.1.1.1": 31, "index-9.1.1.2": 29, "index-9.1.1.1.new": 31}
    for name, days in names.items():
        write(index, f"{name}/manifest.db", "")
        then = time.time() - days * 86_400
        os.utime(index / name, (then, then))
    mine = write(index, "index of mine/x", "")
    with open_vault(folder) as vault:
        _is_whole(vault, 3)
    assert all((index / name).exists() for name in names), "looked through once a day"
    for path in (mine.parent, index / INDEX):
        then = time.time() - 40 * 86_400
        os.utime(path, (then, then))
    with open_vault(folder) as vault:
        _is_whole(vault, 3)
        assert vault.call("vault_status")["index"]["state"] == "current"
    left = {name for name in names if (index / name).exists()}
    assert left == {"index-9.1.1.2"}
    assert mine.exists()
    assert time.time() - (index / INDEX).stat().st_mtime < 3_600
