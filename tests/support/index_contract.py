"""The contract that recall expects from any index; subclass ``IndexContract`` to test another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import write
from memvault import clock
from memvault.index.protocol import (
    COMPLETE,
    Index,
    KeywordQuery,
    MatchLocation,
    SearchIndex,
    SentenceQuery,
    StaleView,
    VectorQuery,
    View,
)
from memvault.index.text.analyzer import query_analyzer
from memvault.workspace import Workspace

NOTES = {
    "fact/ports.md": ("ports", "Ports of the API", "The API listens on port 8080 behind nginx."),
    "fact/tea.md": ("tea", "Tea", "We drink green tea at four, with cake and lemon."),
    "issue/disk.md": ("disk", "Disk full", "The disk of db1 was full; the log of nginx grew."),
    "learning/retry.md": ("retry", "Retries", "Call retry_with_backoff, and cap the retries."),
    "context/zh.md": ("zh", "数据库", "我们的数据库是 PostgreSQL。"),
}
LONG = " ".join(f"Sentence {n} tells of thing{n} and of nothing else." for n in range(900))


def note(name: str, title: str, body: str, more: str = "") -> str:
    """Return the text of a memory file."""
    return f"---\nid: {name}-7k2m9q\ntitle: {title}\ntags: [t-{name}]\n{more}---\n\n{body}\n"


class IndexContract:
    """Tests of the guarantees of ``index.protocol``; ``opened`` opens the index under test."""

    def opened(self, root: Path) -> AbstractContextManager[SearchIndex[Any]]:
        """Open the index of a vault."""
        raise NotImplementedError(root)

    @pytest.fixture
    def notes(self, folder: Path) -> Path:
        """A vault with a few memories."""
        for path, (name, title, body) in NOTES.items():
            write(folder, path, note(name, title, body))
        return folder

    def seen(self, index: SearchIndex[Any], vectors: bool = True) -> View:
        """Refresh with all vectors."""
        view: View = index.refresh(vectors, COMPLETE)
        return view

    def found(self, view: View, query: str, **more: Any) -> list[str]:
        """Return the memIds found for a query's words, best first."""
        words, wholes, _ = query_analyzer(view.languages()).query(query)
        answer = view.keyword(KeywordQuery(words, wholes, **more))
        return [self.name(view, hit.uid) for hit in answer.hits]

    @staticmethod
    def name(view: View, uid: int) -> str:
        """Return a memory's memId without its random suffix."""
        record = view.record(uid)
        assert record is not None
        return record.mem_id.removesuffix("-7k2m9q")

    @staticmethod
    def uids(view: View) -> dict[str, int]:
        """Return every memory's uid by the beginning of its memId."""
        return {record.mem_id.removesuffix("-7k2m9q"): record.uid for record in view.records()}

    def test_keyword_search_covers_every_field(self, notes: Path) -> None:
        """Words in title, text, tags and identifiers, and Chinese words, are found."""
        with self.opened(notes) as index:
            view = self.seen(index)
            assert set(self.found(view, "nginx")) == {"disk", "ports"}
            assert self.found(view, "port")[0] == "ports"
            assert self.found(view, "t-tea")[0] == "tea"
            assert self.found(view, "retry_with_backoff")[0] == "retry"
            assert self.found(view, "数据库")[0] == "zh"
            assert self.found(view, "wombat") == []

    def test_search_respects_allowed_uids_and_limit(self, notes: Path) -> None:
        """A search returns only allowed memories, and no more than the limit."""
        with self.opened(notes) as index:
            view = self.seen(index)
            uids = self.uids(view)
            assert self.found(view, "nginx", allowed_uids={uids["disk"]}) == ["disk"]
            assert self.found(view, "nginx", allowed_uids=set()) == []
            assert len(self.found(view, "nginx tea retries", limit=2)) == 2

    def test_rarity_counts_all_memories(self, notes: Path) -> None:
        """A word's rarity is based on all memories, even if only some are allowed."""
        with self.opened(notes) as index:
            view = self.seen(index)
            words, wholes, _ = query_analyzer(view.languages()).query("nginx lemon")
            answer = view.keyword(KeywordQuery(words, wholes, explain=True))
            assert answer.document_count == len(NOTES)
            assert answer.idf[words[1][0]] > answer.idf[words[0][0]] > 0
            assert view.keyword(KeywordQuery(words, wholes, set())).idf == answer.idf
            for hit in answer.hits:
                assert hit.score == pytest.approx(sum(hit.terms.values()))

    def test_rarity_counts_memories_beyond_limit(self, notes: Path) -> None:
        """A word's rarity is based on all memories that contain it, even with a low limit."""
        for number in range(410):
            write(notes, f"fact/lamp{number}.md", note(f"lamp{number}", f"Lamp {number}", "Dim."))
        with self.opened(notes) as index:
            view = self.seen(index, vectors=False)
            words, wholes, _ = query_analyzer(view.languages()).query("lamp lemon")
            rarity = view.keyword(KeywordQuery(words, wholes, limit=2)).idf
            total = 410 + len(NOTES)
            assert rarity[words[0][0]] == pytest.approx(math.log((total + 1) / 410.5), abs=1e-4)
            assert rarity[words[1][0]] == pytest.approx(math.log((total + 1) / 1.5), abs=1e-4)

    def test_similarity_reflects_meaning(self, notes: Path) -> None:
        """Closer meanings have higher similarity; ``also`` is returned at any distance."""
        with self.opened(notes) as index:
            view = self.seen(index)
            uids = self.uids(view)
            near = view.nearest(VectorQuery("a hot drink in the afternoon", "english", None, 1))
            assert near.has_vectors
            assert near.waiting == 0
            assert [self.name(view, hit.uid) for hit in near.hits] == ["tea"]
            far = view.nearest(
                VectorQuery("a hot drink", "english", None, 1, frozenset({uids["disk"]}))
            )
            assert {self.name(view, hit.uid) for hit in far.hits} == {"tea", "disk"}
            similar = {hit.uid: hit.similarity for hit in far.hits}
            assert 0 <= similar[uids["disk"]] < similar[uids["tea"]] <= 1
            only = view.nearest(VectorQuery("a hot drink", "english", {uids["ports"]}, 3))
            assert [hit.uid for hit in only.hits] == [uids["ports"]]

    def test_vectors_are_added_on_request(self, notes: Path) -> None:
        """A view finds nothing by meaning until vectors are added to it."""
        query = VectorQuery("a hot drink in the afternoon", "english", None, 1)
        with self.opened(notes) as index:
            view = self.seen(index, vectors=False)
            assert not view.nearest(query).has_vectors
            view = index.with_vectors(view, COMPLETE)
            assert [self.name(view, hit.uid) for hit in view.nearest(query).hits] == ["tea"]

    def test_sentence_coverage_counts_query_words(self, notes: Path) -> None:
        """A memory that contains all words together covers them; one without any does not."""
        with self.opened(notes) as index:
            view = self.seen(index)
            uids = self.uids(view)
            words, _, _ = query_analyzer(view.languages()).query("green tea")
            asked = SentenceQuery("green tea", words, [1.0] * len(words))
            close = view.sentence_features(
                asked, {uids["tea"]: MatchLocation((0,)), uids["disk"]: MatchLocation((0,))}
            )
            assert (close[uids["tea"]].coverage, close[uids["disk"]].coverage) == (1.0, 0.0)
            assert close[uids["tea"]].proximity == 1.0

    def test_location_yields_passages_and_similarity(self, notes: Path) -> None:
        """A memory's best location yields its passages; each memory is most similar to itself."""
        write(notes, "fact/long.md", note("long", "Long", LONG))
        with self.opened(notes) as index:
            view = self.seen(index)
            uids = self.uids(view)
            near = view.nearest(
                VectorQuery("thing870 and nothing else", "english", {uids["long"]}, 1)
            ).hits[0]
            shown = dict(view.passages(uids["long"], MatchLocation((), near.passage)))
            assert near.passage in shown
            assert shown[near.passage].start <= shown[near.passage].end
            hits = view.nearest(
                VectorQuery("disk", "english", None, 9, frozenset(uids.values()))
            ).hits
            table = view.similarity_matrix({hit.uid: hit.passage for hit in hits})
            assert len(table) == len(hits)
            for row, line in enumerate(table):
                assert line[row] == max(line)
                assert all(0 <= value <= 1 for value in line)

    def test_memory_is_found_by_each_name(self, notes: Path) -> None:
        """A memory is found by its path, memId, memId prefix, title and alias."""
        write(notes, "fact/al.md", note("al", "Named", "x", "aliases: [Other name]\n"))
        with self.opened(notes) as index:
            view = self.seen(index, vectors=False)
            for name in ("fact/al.md", "al-7k2m9q", "al-7", "named", "Other name"):
                assert "al" in {self.name(view, entry.uid) for entry in view.find_by_name(name)}, (
                    name
                )

    def test_superseding_memories_are_found(self, notes: Path) -> None:
        """Superseding memories are found by the superseded memory's name and in the full list."""
        write(notes, "fact/new.md", note("new", "New", "x", "supersedes: tea-7k2m9q\n"))
        with self.opened(notes) as index:
            view = self.seen(index, vectors=False)
            for names in (["tea-7k2m9q"], None):
                assert [self.name(view, r.uid) for r in view.superseding(names)] == ["new"]
            assert view.superseding(["disk-7k2m9q"]) == []

    def test_each_memory_has_one_record(self, notes: Path) -> None:
        """Each memory has one record, with its header, its etag and its text."""
        with self.opened(notes) as index:
            view = self.seen(index, vectors=False)
            records = {record.path: record for record in view.records()}
            assert set(records) == set(NOTES)
            for path, (name, title, body) in NOTES.items():
                record = records[path]
                assert (record.title, record.tags) == (title, (f"t-{name}",))
                memory = view.text(record.uid)
                assert memory is not None
                assert (memory.body.strip(), memory.etag) == (body, record.etag)
                assert view.record(record.uid) == record
            assert view.record(10**9) is None

    @pytest.mark.parametrize("vectors", [True, False])
    def test_refresh_sees_every_change(self, notes: Path, vectors: bool) -> None:
        """The next refresh sees an edit, a new file, a rename and a deletion."""
        steps: list[tuple[Callable[[], object], str, list[str]]] = [
            (lambda: write(notes, "fact/tea.md", note("tea", "Tea", "Oolong.")), "oolong", ["tea"]),
            (lambda: write(notes, "n.md", note("n", "N", "A wombat.")), "wombat", ["n"]),
            (lambda: (notes / "n.md").rename(notes / "m.md"), "wombat", ["n"]),
            ((notes / "m.md").unlink, "wombat", []),
        ]
        with self.opened(notes) as index:
            self.seen(index, vectors)
            for change, query, expected in steps:
                change()
                view = self.seen(index, vectors)
                assert self.found(view, query) == expected
            assert self.found(view, "lemon") == []

    def test_view_rejects_text_changed_after_refresh(self, notes: Path) -> None:
        """A view raises an error for a file that has changed since; it never shows stale data."""
        with self.opened(notes) as index:
            view = self.seen(index, vectors=False)
            uids = self.uids(view)
            write(notes, "fact/tea.md", note("tea", "Tea", "Something else altogether."))
            (notes / "issue/disk.md").unlink()
            for name in ("tea", "disk"):
                with pytest.raises(StaleView):
                    view.text(uids[name])

    def test_filter_does_not_limit_semantic_results(self, notes: Path) -> None:
        """An allowed memory is found even if many other memories are nearer to the query."""
        for number in range(40):
            text = f"We drink green tea at four, cup {number}."
            write(notes, f"fact/t{number}.md", note(f"t{number}", f"Tea {number}", text))
        with self.opened(notes) as index:
            view = self.seen(index)
            key = self.uids(view)["disk"]
            answer = view.nearest(VectorQuery("drinking green tea", "english", {key}, 1))
            assert [hit.uid for hit in answer.hits] == [key]

    def test_search_as_of_past_never_shows_later_memories(self, notes: Path) -> None:
        """A view of an earlier time does not contain memories created later."""
        write(notes, "fact/late.md", note("late", "Late", "x", "created: 2999-01-01\n"))
        with self.opened(notes) as index:
            view = self.seen(index)
            then = index.at(view, clock.now() + timedelta(days=1))
            assert {self.name(then, r.uid) for r in then.records()} == {
                "ports",
                "tea",
                "disk",
                "retry",
                "zh",
            }

    def test_reopened_index_answers_the_same(self, notes: Path) -> None:
        """A process can answer from the index that an earlier process wrote."""
        with self.opened(notes) as index:
            first = self.found(self.seen(index), "nginx tea retries port")
        with self.opened(notes) as index:
            view = self.seen(index)
            assert self.found(view, "nginx tea retries port") == first
            assert view.missing == 0
            assert not view.notes

    def test_empty_vault_returns_empty_answers(self, folder: Path) -> None:
        """In an empty vault, every query returns an empty answer."""
        with self.opened(folder) as index:
            view = self.seen(index)
            assert list(view.records()) == []
            assert self.found(view, "anything") == []
            assert list(view.nearest(VectorQuery("anything", "english", None, 5)).hits) == []
            assert view.sentence_features(SentenceQuery("x", [("x",)], [1.0]), {}) == {}
            assert view.similarity_matrix({}) == []


@contextmanager
def local(root: Path) -> Iterator[Index]:
    """Open the local index of a vault."""
    workspace = Workspace(root)
    try:
        yield workspace.index
    finally:
        workspace.close()
