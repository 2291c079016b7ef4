"""Features of memories and the scores computed from them: shares, weights, parts that add up."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import write
from memvault.index.protocol import (
    COMPLETE,
    DISTINCTIVE_BIT,
    MemoryRecord,
    SentenceFeatures,
    SentenceQuery,
    View,
)
from memvault.index.text.analyzer import Analyzer, analyzer, query_analyzer
from memvault.index.text.sentence_blocks import encode_blocks, split_memory
from memvault.index.text.sentence_features import compute
from memvault.model import Memory
from memvault.recall import features
from memvault.recall.answer import FAIR, STRONG, RecallRequest
from memvault.recall.dates import DateConstraint
from memvault.recall.features import FeatureRow, columns, evidence
from memvault.recall.query import parse
from memvault.recall.ranking import (
    Ranked,
    answer_probability,
    group_duplicates,
    prefer_newer,
    rank,
)
from memvault.recall.retrieve import fuse, retrieve
from memvault.recall.weights import RankingWeights, constants, weights_by_signal
from memvault.settings.vault_settings import RankingSettings
from memvault.vault.date_ranges import DateRange
from memvault.workspace import Workspace

QUERY = "which harbour has a crane"
THINGS = "storm harbour engine garden lantern river crane roof".split()


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """A view of a vault of some seventy memories."""
    root = tmp_path_factory.mktemp("compared") / "vault"
    write(root, "memvault.toml", "version = 1\n")
    for one in THINGS:
        for other in THINGS:
            body = f"The {one} is beside the {other}. " * (1 + len(one) % 3)
            write(root, f"{one}/{other}.md", f"# The {one}\n\n{body}\n")
    for number in range(8):
        write(root, f"{number}.md", f"# Note {number}\n\nBread for {number} people.\n")
    with closing(Workspace(root)) as workspace:
        yield workspace.index.refresh(True, COMPLETE)


def rows(view: View, keys: list[int]) -> list[FeatureRow]:
    """Compute the features of memories for a query."""
    query = parse(QUERY, query_analyzer(view.languages()))
    candidates = retrieve(view, query, RecallRequest(QUERY), None)
    return features.compute(view, query, candidates, keys)


def numbers(row: FeatureRow) -> list[float]:
    """The features of a memory, with each term as one number."""
    shares = [value for value in row[2:-1] if isinstance(value, float)]
    sentences = [value for value in row.sentences if isinstance(value, float)]
    return [*shares, *sentences, *sorted(row.sentences.term_ids)]


@given(st.data())
def test_ranking_features_do_not_depend_on_other_memories(view: View, data: st.DataObject) -> None:
    """A memory's features are the same computed alone, with some others or with all."""
    keys = [record.uid for record in view.records()]
    complete = {row.uid: row for row in rows(view, keys)}
    assert sorted(complete) == sorted(keys)
    some = data.draw(st.lists(st.sampled_from(keys), min_size=1, unique=True))
    computed = rows(view, some)
    assert [row.uid for row in computed] == some
    for row in computed:
        assert numbers(row) == pytest.approx(numbers(complete[row.uid]), abs=1e-6)
        assert row.record == complete[row.uid].record


def test_ranking_omits_missing_memories(view: View) -> None:
    """A key missing from the view is omitted, and a repeated key counts once."""
    known = next(view.records()).uid
    assert [row.uid for row in rows(view, [10**9, known, known])] == [known]


def test_ranking_keyword_score_is_relative_to_best(view: View) -> None:
    """The best keyword score is 1 relative to other hits and below 1 relative to the maximum."""
    found = rows(view, [record.uid for record in view.records()])
    assert max(row.keyword for row in found) == 1
    for row in found:
        assert 0 <= row.bm25 < 1
        assert (row.bm25 > 0) == (row.keyword > 0)
        assert row.sentences.proximity <= row.sentences.coverage <= 1


ENGLISH = ("english",)


def compared(
    query: str, *bodies: str, title: str = "", rarity: float = 1.0
) -> list[SentenceFeatures]:
    """Compare memories with a query, without vectors."""
    words, _, identifiers = query_analyzer(ENGLISH).query(query)
    english = analyzer("english")
    blocks = [
        encode_blocks(
            split_memory(Memory("a.md", "a", title, "context", (), "", "", {}, body, "etag")),
            english,
        )
        for body in bodies
    ]
    return compute(SentenceQuery(query, words, [rarity] * len(words), identifiers), blocks)


nouns = ["ship", "harbour", "storm", "lantern", "rope"]
fillers = ["bread", "cook", "the", "of"]
sentence_words = st.lists(st.sampled_from(nouns + fillers), min_size=1, max_size=6)
stories = st.lists(sentence_words, max_size=8)
rarities = st.lists(st.floats(0.1, 9), min_size=len(nouns), max_size=len(nouns))


@given(
    st.lists(st.sampled_from(nouns), min_size=1, max_size=5, unique=True),
    stories,
    sentence_words,
    rarities,
)
def test_ranking_sentence_features_match_manual_count(
    query: list[str], told: list[list[str]], title: list[str], weights: list[float]
) -> None:
    """Each feature equals the share of words and word pairs counted manually."""
    long = " and so it went on from one day to the next, as it always had in all of these years"
    body = "\n".join(f"{' '.join(sentence)}{long}{long}." for sentence in told)
    english = analyzer("english")
    memory = Memory("a.md", "a", " ".join(title), "context", (), "", "", {}, body, "etag")
    words = [(stem_of(english, word),) for word in query]
    asked = SentenceQuery(" ".join(query), words, weights[: len(query)])
    (found,) = compute(asked, [encode_blocks(split_memory(memory), english)])
    rarity = dict(zip(query, weights, strict=False))

    def share(held: set[str]) -> float:
        return sum(rarity[word] for word in held & set(query)) / sum(rarity.values())

    assert found.coverage == pytest.approx(share({*title, *chain.from_iterable(told)}), abs=1e-5)
    assert found.title_coverage == pytest.approx(share(set(title)), abs=1e-5)
    together = max((share({*title, *sentence}) for sentence in told), default=share(set(title)))
    assert found.proximity == pytest.approx(together, abs=1e-5)
    assert (found.soft_match, found.title_soft_match) == (None, None)
    if len(query) == 1:
        assert found.adjacency is None
        return
    wanted = list(pairwise(query))
    own = [[word for word in text if word not in ("the", "of")] for text in [title, *told]]
    held = {pair for text in own for pair in pairwise(text)}
    rare = {pair: rarity[pair[0]] + rarity[pair[1]] for pair in wanted}
    got = sum(rare[pair] for pair in wanted if pair in held)
    assert found.adjacency == pytest.approx(got / sum(rare.values()), abs=1e-5)


def stem_of(analyzing: Analyzer, word: str) -> str:
    """Return the stem of a word."""
    return analyzing.words(word)[0][0]


@given(st.lists(st.sampled_from([*nouns, *fillers, "don't", "café", "北京烤鸭", "v2"]), min_size=1))
def test_ranking_exact_sentence_has_full_coverage(words: list[str]) -> None:
    """A query in a memory's exact words matches all of them, adjacent and in order."""
    text = " ".join(words)[:120]
    (found,) = compared(text, f"{text}\n{'Bread. ' * 90}")
    if query_analyzer(ENGLISH).query(text)[0]:
        assert found.coverage == found.proximity == pytest.approx(1.0)
        # A repeated word is matched at its first position.
        if len(set(text.split())) == len(text.split()):
            assert found.adjacency is None or found.adjacency == pytest.approx(1.0)


def test_ranking_measures_each_memory_independently() -> None:
    """The result for one memory does not depend on the memories measured with it."""
    bodies = ["", "A ship in a storm.", "Bread.\n\n" * 900 + "The storm took the ship.", "漢字"]
    assert compared("ship storm", *bodies) == [compared("ship storm", body)[0] for body in bodies]
    assert compared("ship storm") == []


NOW = datetime(2026, 6, 1, tzinfo=UTC)
FITS = sorted(weights_by_signal())


def record_of(path: str, size: int, day: str, importance: object) -> MemoryRecord:
    """The record of a memory."""
    header = {"importance": importance, "created": day}
    memory = Memory(path, "a", "T", "context", (), day, day, header, "", "etag")
    return MemoryRecord.from_memory(0, size, memory, "english")


shares = st.floats(0, 1, allow_subnormal=False)
cosines = st.floats(-1, 1, allow_subnormal=False)
deviations = st.floats(-9, 30, allow_subnormal=False)
sizes = st.integers(0, 10_000_000)
stamps = st.sampled_from(
    ["", "soon", "2023-05-07", "0001-01-01", "9999-12-31", "2026-01-01T10:00Z"]
)
row_paths = st.sampled_from(["a.md", "2024-03-03.md", "journal/2026/11-05.md", "2023-W07.md"])
values = st.sampled_from([None, "high", True, -1, 2, 0, 0.3, 1, float("nan"), 10**400, [0.5]])
measures = st.builds(
    SentenceFeatures,
    shares,
    shares,
    st.none() | shares,
    shares,
    st.none() | cosines,
    st.none() | cosines,
    st.frozensets(st.integers(0, 8), max_size=8),
    st.none() | shares,
)
candidates = st.lists(
    st.builds(
        FeatureRow,
        st.just(0),
        st.builds(record_of, row_paths, sizes, stamps, values),
        shares,
        shares,
        st.none() | cosines,
        st.none() | cosines,
        measures,
        st.none() | deviations,
        st.none() | deviations,
        st.none() | cosines,
    ),
    max_size=12,
).map(lambda every: [entry._replace(uid=key) for key, entry in enumerate(every)])
fitted = st.sampled_from(FITS).map(lambda name: weights_by_signal()[name])
rankings = st.builds(
    RankingSettings, recency=shares, importance=shares, date=shares, diversity=st.booleans()
)
asked = st.none() | st.tuples(st.dates(), st.dates(), shares).map(
    lambda every: DateConstraint(DateRange(min(every[:2]), max(every[:2])), 1 + 5 * every[2])
)


@given(candidates, fitted, rankings, asked)
@example([], weights_by_signal()["static"], RankingSettings(), None)
def test_ranking_keeps_every_candidate(
    entries: list[FeatureRow],
    fit: RankingWeights,
    ranking: RankingSettings,
    row_days: DateConstraint | None,
) -> None:
    """Every candidate is ranked once, scores descend within 0..1, and the parts add up to them."""
    ranked = rank(entries, fit, ranking, NOW, row_days)
    assert sorted(entry.row.uid for entry in ranked) == list(range(len(entries)))
    scores = [entry.score for entry in ranked]
    assert scores == sorted(scores, reverse=True)
    for entry in ranked:
        assert -1e-9 <= entry.score <= 1 + 1e-9
        assert entry.score == pytest.approx(sum(entry.parts.values()), abs=1e-9)
        assert all(
            (part >= 0) | (name in ("repeats", "number", "length"))
            for name, part in entry.parts.items()
        )
        assert ("date" in entry.parts) == bool(row_days and ranking.date)
        assert ranking.diversity or "repeats" not in entry.parts
    if ranked:
        assert "repeats" not in ranked[0].parts


@pytest.mark.parametrize(
    ("sizes", "first"),
    [((50_000, 900), 1), ((900, 50_000), 0), ((799, 20), 0), ((2_000_000, 1_000_000), 0)],
)
def test_ranking_longer_of_equal_matches_ranks_lower(sizes: tuple[int, int], first: int) -> None:
    """Of memories that match equally, shorter ones rank first; below 800 bytes all are equal."""
    measured = SentenceFeatures(1, 1, 1, 0, 0, 0, frozenset())
    rows = [
        FeatureRow(uid, record_of(f"{uid}.md", size, "", None), 1, 1, 0.5, 0.5, measured)
        for uid, size in enumerate(sizes)
    ]
    ranking = RankingSettings(diversity=False)
    ranked = rank(rows, weights_by_signal()["static"], ranking, NOW, None)
    assert ranked[0].row.uid == first


@given(candidates)
def test_ranking_features_are_between_0_and_1(entries: list[FeatureRow]) -> None:
    """Each feature of each candidate is in 0..1, and the best by a relative feature has 1."""
    for name, column in columns(entries).items():
        assert len(column) == len(entries)
        assert all(0 <= value <= 1 for value in column)
        if name in ("static", "transformer", "tokens", "soft_match"):
            assert max(column) == 1


def test_ranking_missing_tokens_are_estimated() -> None:
    """A memory without stored tokens scores like others with the same cosine."""
    record, measured = (
        record_of("a.md", 9, "", None),
        SentenceFeatures(0, 0, 0, 0, 0, 0, frozenset()),
    )
    entries = [
        FeatureRow(key, record, 0, 0, 0.1, 0.1, measured, 0.0, float(key), key / 10)
        for key in range(5)
    ]
    known = columns(entries)
    entries[2] = entries[2]._replace(tokens=None)
    assert columns(entries)["tokens"] == pytest.approx(known["tokens"])
    assert "tokens" not in columns([entry._replace(tokens=None) for entry in entries])


@pytest.mark.parametrize("name", FITS)
def test_ranking_weights_are_positive_and_known(name: str) -> None:
    """Each set of weights has existing features, positive weights and only its own signals."""
    measured = SentenceFeatures(1, 1, 1, 1, 1, 1, frozenset())
    full = FeatureRow(0, record_of("a.md", 9, "", None), 1, 1, 1, 1, measured, 8.0, 8.0, 1.0)
    fit = weights_by_signal()[name]
    assert fit.parts.keys() <= columns([full]).keys()
    assert min(fit.parts.values()) > 0
    assert ("transformer" in fit.parts) == (name in ("transformer", "tokens", "multilingual"))
    assert ("tokens" in fit.parts) == (name in ("tokens", "multilingual"))
    assert ("static" in fit.parts) == (name in ("static", "multilingual"))
    assert answer_probability(evidence(full, 5), fit, 0) >= STRONG
    nothing = SentenceFeatures(0, 0, 0, 0, 0, 0, frozenset())
    bare = full._replace(
        keyword=0,
        bm25=0,
        static_cosine=0.0,
        transformer_cosine=0.0,
        sentences=nothing,
        static_z=0.0,
        transformer_z=0.0,
        tokens=0.0,
    )
    if name != "none":  # keyword search finds no memory without the words
        assert answer_probability(evidence(bare, 5), fit, 0) < FAIR


@given(candidates, fitted, st.integers(0, 50), st.floats(0, 1))
def test_ranking_answer_probability_is_between_0_and_1(
    entries: list[FeatureRow], fit: RankingWeights, words: int, behind: float
) -> None:
    """An answer probability is in 0..1 and does not grow with the distance to the top hit."""
    for entry in entries:
        told = evidence(entry, words)
        assert 0 <= answer_probability(told, fit, behind) <= answer_probability(told, fit, 0) <= 1


row_days = st.sampled_from(["2026-01-01", "2026-01-02T10:00:00Z", "2026-01-03", "2026-02-01", ""])


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[Ranked], list[list[float]]]:
    """Generate ranked memories, and the similarities of the first of them."""
    scores = sorted(draw(st.lists(shares, max_size=8)), reverse=True)
    ranked = []
    for key, score in enumerate(scores):
        kept = record_of(
            draw(row_paths.filter(lambda path: path == "a.md") | row_paths), 9, draw(row_days), None
        )
        covered = draw(st.sampled_from([0, 0.5, 0.75, 0.85, 1]))
        held = SentenceFeatures(covered, covered, None, 0, None, None, frozenset({4}))
        found = FeatureRow(key, kept, 0.0, 0.0, None, None, held)
        ranked.append(Ranked(found, score, {"keyword": score}))
    count = draw(st.integers(0, len(ranked)))
    alike = [[1.0] * count for _ in range(count)]
    for one in range(count):
        for other in range(one):
            alike[one][other] = alike[other][one] = draw(st.sampled_from([0, 0.2, 0.3, 0.5, 0.9]))
    return ranked, alike


def day_of(entry: Ranked) -> str:
    """Return a memory's day as comparable text."""
    known = {
        "2024-03-03.md": "2024-03-03",
        "journal/2026/11-05.md": "2026-11-05",
        "2023-W07.md": "2023-02-19",
    }
    kept = entry.row.record
    return known.get(kept.path, kept.modified)


@given(answers())
@example(([], []))
def test_ranking_prefers_newer_of_two_similar_memories(
    drawn: tuple[list[Ranked], list[list[float]]],
) -> None:
    """No memory is lost or falls in score; a newer one rises above its nearest older one."""
    before, alike = drawn
    after, newer = prefer_newer(before, alike)
    keys = [entry.row.uid for entry in after]
    assert sorted(keys) == list(range(len(before)))
    assert [entry.score for entry in after] == sorted(
        (entry.score for entry in after), reverse=True
    )
    risen = set()
    for entry in after:
        was = before[entry.row.uid]
        assert entry.score == pytest.approx(sum(entry.parts.values()), abs=1e-9)
        assert entry.score >= was.score
        if entry.score > was.score:
            risen.add(entry.row.uid)
            assert entry.parts["newer"] == entry.score - was.score
        else:
            assert entry == was
    for old, new in newer.items():
        assert day_of(before[new]) > day_of(before[old])
        assert keys.index(new) < keys.index(old)
        held, less = (before[key].row.sentences.coverage for key in (old, new))
        assert less >= 0.9 * held or held < 0.8
    for new in risen:
        assert any(
            nearest(alike, old, new) and day_of(before[new]) > day_of(before[old]) for old in newer
        )
    rest = [key for key in keys if key not in risen]
    assert rest == sorted(rest)


def nearest(alike: list[list[float]], one: int, other: int) -> bool:
    """Return whether each of two memories is most similar to the other."""
    like = alike[one][other]
    return one != other and all(
        like >= 0.95 * value
        for own in (one, other)
        for place, value in enumerate(alike[own])
        if place != own
    )


def two(
    old: float, new: float, alike: float, words: tuple[range, range] = (range(9), range(9))
) -> list[int]:
    """Order an older and a newer memory with given scores and words; return their uids."""
    ranked = []
    for key, (score, day) in enumerate([(old, "2026-01-01"), (new, "2026-02-01")]):
        term_ids = frozenset(4 * word for word in words[key])
        held = SentenceFeatures(0, 0, None, 0, None, None, term_ids)
        row = FeatureRow(key, record_of("a.md", 9, day, None), 0, 0, None, None, held)
        ranked.append(Ranked(row, score, {}))
    return [entry.row.uid for entry in prefer_newer(ranked, [[1, alike], [alike, 1]])[0]]


@pytest.mark.parametrize(
    ("old", "new", "alike", "order"),
    [
        (0.8, 0.7, 0.9, [1, 0]),
        (0.8, 0.7, 0.1, [0, 1]),
        (0.8, 0.3, 0.9, [0, 1]),
        (0.7, 0.8, 0.9, [1, 0]),
    ],
)
def test_ranking_newer_memory_rises_only_on_same_topic(
    old: float, new: float, alike: float, order: list[int]
) -> None:
    """Dissimilar memories, and one that barely matches the question, keep their rank."""
    assert two(old, new, alike) == order


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ((range(10), range(8, 30)), [1, 0]),
        ((range(10), range(9, 30)), [0, 1]),
        ((range(40), range(39, 45)), [1, 0]),
        ((range(0), range(9)), [0, 1]),
    ],
)
def test_ranking_newer_memory_rises_only_with_shared_words(
    words: tuple[range, range], order: list[int]
) -> None:
    """Memories with similar vectors but few words in common are not compared."""
    assert two(0.8, 0.7, 0.9, words) == order


keywords_of = st.dictionaries(
    st.integers(1, 30), st.floats(0, 1, allow_subnormal=False), max_size=12
)


cosines_of = st.dictionaries(
    st.integers(1, 30), st.floats(-1, 1, allow_subnormal=False), max_size=12
)


@given(keywords_of, cosines_of, st.floats(0, 1, allow_subnormal=False))
def test_ranking_fusion_is_monotonic(
    keyword: dict[int, float], cosine: dict[int, float], weight: float
) -> None:
    """Scores are in 0..1, and a hit better by both signals never ranks lower."""
    fused = fuse(keyword, cosine, weight)
    assert {uid for uid, _ in fused} == keyword.keys() | cosine.keys()
    assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)
    for uid, score in fused:
        assert 0 <= score <= 1 + 1e-9
        for other, other_score in fused:
            more_words = keyword.get(uid, 0.0) >= keyword.get(other, 0.0)
            nearer = cosine.get(uid, -2.0) >= cosine.get(other, -2.0)
            if more_words and nearer:
                assert score >= other_score - 1e-9


TERMS = st.lists(st.integers(0, 12) | st.integers(0, 3).map(lambda n: n | DISTINCTIVE_BIT))


@given(st.lists(TERMS | st.sampled_from([list(range(n)) for n in range(8, 14)]), max_size=12))
def test_ranking_duplicates_equal_full_comparison(texts: list[list[int]]) -> None:
    """A memory joins the first group that nearly shares its terms and has the same numbers."""

    def alike(one: list[int], other: list[int]) -> bool:
        shared = len({*one} & {*other})
        enough = shared >= constants().duplicate_overlap * len({*one, *other})
        distinctive = [[term for term in text if term & DISTINCTIVE_BIT] for text in (one, other)]
        return enough and bool(one) and distinctive[0] == distinctive[1]

    groups: list[list[int]] = []
    for place, own in enumerate(texts):
        group = next((found for found in groups if alike(own, texts[found[0]])), None)
        if group is None:
            groups.append([place])
        else:
            group.append(place)
    memories = [
        SentenceFeatures(0, 0, 0, 0, 0, 0, frozenset(text), None, [array("I", text)])
        for text in texts
    ]
    assert group_duplicates(memories) == groups


@pytest.mark.parametrize(
    ("query", "text", "others"),
    [
        ("4.1.4", "version 4.1.4 is out", ["version 4.1.1 is out", "version 4.4.1 is out"]),
        ("10.0.1.1", "it answers on 10.0.1.1", ["it answers on 10.0.1.10", "on 1.10.0.1"]),
        ("v4.1", "release 4.1 is stable", ["release 4.2 is stable", "release 1.4 is stable"]),
        ("4.1", "release v4.1 is stable", ["release v4.2 is stable", "release v1.4 is stable"]),
        ("ticket E-1234", "see E-1234", ["see E-4321", "see 1234-E"]),
        ("16 GB", "it has 16GB", ["it has 61GB"]),
        ("16GB", "it has 16 GB", ["it has 61 GB"]),
    ],
)
def test_ranking_number_coverage_needs_exact_identifier(
    query: str, text: str, others: list[str]
) -> None:
    """A version, address or quantity matches only exactly, in any of its usual spellings."""
    right, *wrong = (found.number_coverage for found in compared(query, text, *others))
    assert right == 1.0
    assert all(value is not None and value < 1 for value in wrong)
