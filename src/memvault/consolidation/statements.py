"""Extract statements from episodes: assertive sentences, and their stems without filler words.

Two statements have the same wording if their stems and signs are equal.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from typing import Any

from memvault.consolidation.proposals import Quote
from memvault.experience.episodes import Episode
from memvault.index.text.analyzer import Analyzer
from memvault.index.text.sentences import split_sentences
from memvault.named_tuple import NamedTuple
from memvault.vault.markdown import lines_with_code

Key = tuple[tuple[str, ...], tuple[str, ...]]

LEAST_WORDS = 3
"""The minimum number of content words of a statement; shorter sentences are headings or remarks."""
_MAX_LENGTH = 300
WEEKDAYS = {
    name + ending: day
    for names in (
        "monday tuesday wednesday thursday friday saturday sunday",
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "lunes martes miércoles jueves viernes sábado domingo",
    )
    for day, name in enumerate(names.split())
    for ending in ("", "s")
} | {"sonnabend": 5, "sonnabends": 5}
_IS = re.compile(r"(?i)\b(?:is|are|ist|sind|est|sont|es|son|está|están)\b")
_DIGIT_OR_WORD = re.compile(r"\d|[^\W\d_]+")
_TASK = re.compile(r"(?i)^(?:todo|fixme|xxx)\b")
_ADDRESS = re.compile(r"(?<!\w)\w+://\S+")
_FILLER_WORDS = frozenset(
    "a an the is are was were be been being am it its this that these those there here do does did "
    "i we you he she they my our your his her their us me them also just really very indeed again "
    "always please so simply actually note remember turn out".split()
)
_NEGATIONS = {
    **dict.fromkeys(
        "dont doesnt didnt isnt arent wasnt werent aint not never no none".split(), ("not",)
    ),
    **dict.fromkeys(("cant", "cannot", "couldnt"), ("can", "not")),
    **dict.fromkeys(("wont", "wouldnt"), ("will", "not")),
    **dict.fromkeys(("mustnt", "shouldnt"), ("should", "not")),
}
_SYNONYMS = {
    "require": "need",
    "execute": "run",
    "delete": "remove",
    "verify": "check",
    "begin": "start",
    "utilize": "use",
    "utilise": "use",
}
_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:[.,:]\d+)*")
_SIGNS = re.compile(
    r"[<>=≠≤≥$€£%°^|&~]|!=|\+\+?|#(?!\w)|(?<!\w)--?[A-Za-z]\b"
    r"|(?:(?<=\d)|(?<=\d ))[Pp]\.?[Mm]\b"  # distinguishes "6 pm" from "6 am"
)
_BULLET = re.compile(r"^\s*(?:[-*+>]|\d+[.)])\s+")
_LABEL = re.compile(r"(?i)^(?:lessons?(?: learned)?|learned|learning|note|reminder)\s*:\s*")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)")


class Statement(NamedTuple):
    """A sentence, and its stems and signs in order."""

    text: str
    key: Key

    @property
    def stems(self) -> tuple[str, ...]:
        """Return its stems without filler words."""
        return self.key[0]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a body, joined across lines, except code blocks and headings."""
    paragraph: list[str] = []
    for match, is_code in lines_with_code(f"{text}\n\n"):
        line = match[0].rstrip("\r\n")
        begins = _BULLET.match(line)
        if paragraph and (begins or is_code or not line.strip() or line.startswith("#")):
            yield from _split(" ".join(paragraph))
            paragraph = []
        if not (is_code or line.startswith("#")) and line.strip():
            paragraph.append(_BULLET.sub("", line).strip())


def _split(paragraph: str) -> Iterator[str]:
    for sentence in split_sentences(paragraph):
        plain = unmarked(sentence)
        if plain and not plain.endswith(("?", "？", ":")):
            yield plain


def unmarked(sentence: str) -> str:
    """Return a sentence on one line without labels, emphasis and repeated spaces."""
    plain = " ".join(sentence.split())
    if "*" in plain or "_" in plain:
        plain = _EMPHASIS.sub("", plain)
    return _LABEL.sub("", plain).strip()


def statement(sentence: str, analyzer: Analyzer, least: int = LEAST_WORDS) -> Statement | None:
    """Parse a sentence; None if it is a task, or too short or too long for a statement.

    ``least`` is the minimum number of content words. A negation counts as one, and so does a form
    of "be" with a weekday or a number, which acts like "falls on" or "costs".
    """
    if len(sentence) > _MAX_LENGTH or _TASK.match(sentence):
        return None
    stems = words(sentence, analyzer)
    telling = words(_ADDRESS.sub(" ", sentence), analyzer)
    count = sum(stem == "not" or stem not in analyzer.stop_stems for stem in telling)
    if count + _gives_value(sentence) < least:
        return None
    return Statement(sentence, (stems, signs(sentence)))


def _gives_value(sentence: str) -> bool:
    """Return whether a sentence has a form of "be", and a weekday or a number."""
    return bool(_IS.search(sentence)) and any(
        word.isdigit() or word.casefold() in WEEKDAYS for word in _DIGIT_OR_WORD.findall(sentence)
    )


def signs(text: str) -> tuple[str, ...]:
    """Return the numbers and then the meaningful signs in a statement, each in order."""
    return (*_NUMBER.findall(text), "", *_SIGNS.findall(text))


def words(text: str, analyzer: Analyzer) -> tuple[str, ...]:
    """Return the stems in a statement, in order.

    In English, filler words are omitted, and negations are replaced by ``not``.
    """
    stems = analyzer.sequence(text)
    if analyzer.language != "english":
        return tuple(stems)
    meanings = _replacements(analyzer)
    return tuple(word for stem in stems for word in meanings.get(stem, (stem,)))


@cache
def _replacements(analyzer: Analyzer) -> dict[str, tuple[str, ...]]:
    """Return the replacement for each stem that has one; filler words become empty."""
    spelled = {
        **{word: (meant,) for word, meant in _SYNONYMS.items()},
        **_NEGATIONS,
        **dict.fromkeys(_FILLER_WORDS, ()),
    }
    return {
        analyzer.sequence(word)[0]: tuple(analyzer.sequence(other)[0] for other in meant)
        for word, meant in spelled.items()
    }


_CLAIM = re.compile(r"(?i)\b(?:is|are|must|should|needs?|uses?|never|always|not)\b")
"""Matches English words that mark a context entry as a claim rather than a situation."""


class StatementCluster(NamedTuple):
    """A statement, the ids of its episodes, and its wordings with their episodes."""

    statement: Statement
    episodes: tuple[str, ...]
    quotes: tuple[Quote, ...] = ()


@cache
def _embedder() -> Any:
    from memvault.index.embedding.static import open_table

    return open_table()


@lru_cache(10_000)
def text_similarity(first: str, second: str) -> float:
    """Return the similarity of two statements, from 0 to 1, using the static embedding table."""
    vectors = _embedder().embed(sorted((first, second)))
    return float(_embedder().calibration.similarity(float(vectors[0] @ vectors[1])))


def claims(episode: Episode) -> Iterator[str]:
    """Yield an episode's parts that make a statement: its reflection, and some of its context.

    Most context entries only describe a situation.
    """
    yield episode.reflection
    yield from filter(_is_claim, episode.context)


def outcome_claims(episode: Episode) -> Iterator[str]:
    """Yield an episode's outcomes that make a statement; most only report a result."""
    texts = (outcome.get("text") for outcome in episode.outcomes)
    yield from (text for text in texts if isinstance(text, str) and _is_claim(text))


def clusters(
    episodes: Iterable[Episode],
    analyzer: Analyzer,
    texts_of: Callable[[Episode], Iterable[str]] = claims,
) -> list[StatementCluster]:
    """Return the statements of episodes, clustered by stems and signs.

    The wording that most episodes use represents a cluster.
    """
    episodes_by_statement: dict[Statement, set[str]] = defaultdict(set)
    statements_by_key: dict[Key, set[Statement]] = defaultdict(set)
    for episode in episodes:
        for text in texts_of(episode):
            for sentence in sentences(text):
                claim = statement(sentence, analyzer)
                if claim is not None:
                    episodes_by_statement[claim].add(episode.episode_id)
                    statements_by_key[claim.key].add(claim)
    return [
        StatementCluster(
            min(same, key=lambda each: (-len(episodes_by_statement[each]), each.text)),
            tuple(sorted(set().union(*(episodes_by_statement[each] for each in same)))),
            tuple(
                sorted(
                    Quote(each.text, name) for each in same for name in episodes_by_statement[each]
                )
            ),
        )
        for _, same in sorted(statements_by_key.items())
    ]


def _is_claim(context: str) -> bool:
    """Return whether a context entry is a claim; most only describe a situation."""
    return context.rstrip().endswith((".", "!", "。", "！")) or bool(_CLAIM.search(context))
