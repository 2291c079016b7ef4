"""Statements in episodes, and an index that finds statements with the same meaning.

Among thousands of statements, those that are longer or shorter versions of a new one are found by a
few of their words, as with a prefix filter (Chaudhuri, Ganti and Kaushik 2006). Sort the words of
both statements in one global order: the first word of the shorter one is then among the first three
words of the longer one, which has at most two more. So a statement is indexed by its first three
words only, whatever its length.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from memvault.consolidation.proposals import Quote
from memvault.experience.episodes import Episode
from memvault.index.text.analyzer import Analyser
from memvault.index.text.sentences import split_sentences
from memvault.vault.markdown import lines_with_code

Key = tuple[tuple[str, ...], tuple[str, ...]]

LEAST_WORDS = 3
"""The minimum number of content words of a statement; fewer are a heading or a remark."""
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
_LIMITING_WORDS = frozenset(
    "not without unless except only if when while until before after but hardly rarely seldom "
    "sometimes often usually almost nearly partly barely less more fewer most least than too "
    "from to over under above below no may might could should can must stop cease".split()
)
_NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:[.,:]\d+)*")
_SIGNS = re.compile(
    r"[<>=≠≤≥$€£%°^|&~]|!=|\+\+?|#(?!\w)|(?<!\w)--?[A-Za-z]\b"
    r"|(?:(?<=\d)|(?<=\d ))[Pp]\.?[Mm]\b"  # "6 pm" is not a longer version of "6 am"
)
_MARKED_WORD = re.compile(r"`[^`]+`|(?<!\w)(?:\w*[A-Z0-9][\w.:/-]*|\w+[./:_@]\w[\w./:_@-]*)")
_BULLET = re.compile(r"^\s*(?:[-*+>]|\d+[.)])\s+")
_LABEL = re.compile(r"(?i)^(?:lessons?(?: learned)?|learned|learning|note|reminder)\s*:\s*")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)")


class Statement(NamedTuple):
    """A sentence, its stems and signs in order, and the stems that a paraphrase must keep."""

    text: str
    key: Key
    fixed: frozenset[str]

    @property
    def stems(self) -> tuple[str, ...]:
        """Its stems without filler words."""
        return self.key[0]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, joined across lines, except code blocks and headings."""
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
    return _LABEL.sub("", _EMPHASIS.sub("", " ".join(sentence.split()))).strip()


def statement(sentence: str, analyser: Analyser, least: int = LEAST_WORDS) -> Statement | None:
    """Parse a sentence; None if it is too short or too long for a statement, or is a task.

    ``least`` is the minimum number of content words; a negation counts as one, and so does a form
    of "be" that gives a weekday or a number, as "falls on" or "costs" would.
    """
    if len(sentence) > _MAX_LENGTH or _TASK.match(sentence):
        return None
    stems = words(sentence, analyser)
    telling = words(_ADDRESS.sub(" ", sentence), analyser)
    count = sum(stem == "not" or stem not in analyser.stop_stems for stem in telling)
    if count + _gives_value(sentence) < least:
        return None
    names = words(" ".join(_MARKED_WORD.findall(sentence)), analyser)
    limits = _limiting_stems(analyser) if analyser.language == "english" else frozenset(stems)
    return Statement(sentence, (stems, signs(sentence)), limits.intersection(stems).union(names))


def _gives_value(sentence: str) -> bool:
    """Return whether a sentence has a form of "be", and a weekday or a number."""
    return bool(_IS.search(sentence)) and any(
        word.isdigit() or word.casefold() in WEEKDAYS for word in _DIGIT_OR_WORD.findall(sentence)
    )


def signs(text: str) -> tuple[str, ...]:
    """Return the numbers, then the meaningful signs of a text, each in order."""
    return (*_NUMBER.findall(text), "", *_SIGNS.findall(text))


def words(text: str, analyser: Analyser) -> tuple[str, ...]:
    """Return a text's stems in order.

    In English, filler words are left out, and negations are replaced by ``not``.
    """
    stems = analyser.sequence(text)
    if analyser.language != "english":
        return tuple(stems)
    meanings = _replacements(analyser)
    return tuple(word for stem in stems for word in meanings.get(stem, (stem,)))


@cache
def _replacements(analyser: Analyser) -> dict[str, tuple[str, ...]]:
    """Return the replacement for each stem that has one; filler words are replaced by nothing."""
    spelled = {
        **{word: (meant,) for word, meant in _SYNONYMS.items()},
        **_NEGATIONS,
        **dict.fromkeys(_FILLER_WORDS, ()),
    }
    return {
        analyser.sequence(word)[0]: tuple(analyser.sequence(other)[0] for other in meant)
        for word, meant in spelled.items()
    }


@cache
def _limiting_stems(analyser: Analyser) -> frozenset[str]:
    return frozenset(analyser.sequence(word)[0] for word in _LIMITING_WORDS)


_MIN_SIMILARITY = 0.75
"""The minimum similarity of two wordings; the static table gives about 0.86 to the same words."""
_MAX_DROPPED = 2
_WORDS_PER_DROPPED = 4
_MAX_COMPARED = 1_000
"""The maximum number of statements compared with one; only artificial input has more candidates."""
_MAX_CANDIDATES = 20
"""The maximum number of candidate statements whose similarity to one is computed."""
_CLAIM = re.compile(r"(?i)\b(?:is|are|must|should|needs?|uses?|never|always|not)\b")
"""Words that make a context a claim, not just a situation; other languages need a full stop."""

_Word = tuple[int, str, int]
_Place = tuple[_Word, tuple[str, ...], int]
"""A word, the statement's signs, and its number of words."""


class StatementCluster(NamedTuple):
    """A statement, the ids of the episodes that make it, its other wordings, and its quotes."""

    statement: Statement
    episodes: tuple[str, ...]
    wordings: tuple[str, ...]
    quotes: tuple[Quote, ...] = ()


@cache
def _embedder() -> Any:
    from memvault.index.embedding.static import open_table

    return open_table()


@lru_cache(10_000)
def text_similarity(first: str, second: str) -> float:
    """Return the similarity of two texts in 0..1 by the static embedding table."""
    vectors = _embedder().embed(sorted((first, second)))
    return float(_embedder().calibration.similarity(float(vectors[0] @ vectors[1])))


class StatementIndex:
    """An index of statements that finds the one with the same meaning as another.

    ``alike`` returns the similarity of two texts in 0..1; the default uses the static embedding
    table.
    """

    def __init__(self, alike: Callable[[str, str], float] = text_similarity) -> None:
        self._alike = alike
        self._exact: dict[Key, Statement] = {}
        self._by_first: defaultdict[_Place, list[Statement]] = defaultdict(list)
        self._by_prefix: defaultdict[_Place, list[Statement]] = defaultdict(list)

    def add(self, new: Statement) -> None:
        """Add a statement."""
        if new.key not in self._exact:
            self._exact[new.key] = new
            stems, signs = new.key
            early = [(word, signs, len(stems)) for word in _prefix(stems)]
            self._by_first[early[0]].append(new)
            for place in early:
                self._by_prefix[place].append(new)

    def find(self, wanted: Statement) -> Statement | None:
        """Return the indexed statement with the same meaning, or the most similar of several."""
        if wanted.key in self._exact:
            return self._exact[wanted.key]
        candidates = islice(self._candidates(wanted), _MAX_CANDIDATES)
        measured = [
            (-self._alike(wanted.text, other.text), other.key, other) for other in candidates
        ]
        best = min(measured, default=None)
        return best[2] if best and -best[0] >= _MIN_SIMILARITY else None

    def _candidates(self, wanted: Statement) -> Iterator[Statement]:
        """Yield the indexed statements that shorten a statement, or that it shortens."""
        stems, signs = wanted.key
        early, count, dropped = _prefix(stems), len(stems), range(1, _MAX_DROPPED + 1)
        shorter = (self._by_first.get((word, signs, count - n)) for n in dropped for word in early)
        longer = (self._by_prefix.get((early[0], signs, count + n)) for n in dropped)
        for other in islice(chain.from_iterable(filter(None, shorter)), _MAX_COMPARED):
            if shortens(other, wanted):
                yield other
        for other in islice(chain.from_iterable(filter(None, longer)), _MAX_COMPARED):
            if shortens(wanted, other):
                yield other


def claims(episode: Episode) -> Iterator[str]:
    """Yield the texts of an episode that state something: its reflection, and some of its context.

    Most entries of a context only name a situation.
    """
    yield episode.reflection
    yield from filter(_is_claim, episode.context)


def outcome_claims(episode: Episode) -> Iterator[str]:
    """Yield the texts of an episode's outcomes that state something; most name a result."""
    texts = (outcome.get("text") for outcome in episode.outcomes)
    yield from (text for text in texts if isinstance(text, str) and _is_claim(text))


def clusters(
    episodes: Iterable[Episode],
    analyser: Analyser,
    texts_of: Callable[[Episode], Iterable[str]] = claims,
) -> list[StatementCluster]:
    """Return the statements of episodes, each once.

    Of several wordings of the same statement, the one in most episodes is chosen, and of those the
    shorter one.
    """
    makers: dict[Statement, set[str]] = defaultdict(set)
    by_words: dict[Key, set[str]] = defaultdict(set)
    for episode in episodes:
        for text in texts_of(episode):
            for sentence in sentences(text):
                candidate = statement(sentence, analyser)
                if candidate is not None:
                    makers[candidate].add(episode.episode_id)
                    by_words[candidate.key].add(episode.episode_id)
    ordered = sorted(
        makers,
        key=lambda candidate: (
            -len(by_words[candidate.key]),
            len(candidate.stems),
            candidate.key,
            -len(makers[candidate]),
            candidate.text,
        ),
    )
    known = StatementIndex()
    members: dict[Statement, list[Statement]] = {}
    for candidate in ordered:
        leader = known.find(candidate)
        if leader is None:
            known.add(candidate)
            leader = candidate
        members.setdefault(leader, []).append(candidate)
    found = []
    for leader, same in members.items():
        ids = set().union(*(makers[candidate] for candidate in same))
        other_wordings = {
            candidate.key: candidate.text for candidate in same if candidate.key != leader.key
        }
        quotes = sorted(
            {Quote(candidate.text, name) for candidate in same for name in makers[candidate]}
        )
        wordings = tuple(other_wordings.values())
        found.append(StatementCluster(leader, tuple(sorted(ids)), wordings, tuple(quotes)))
    return found


def _is_claim(context: str) -> bool:
    """Return whether an entry of the context is a claim; most only name a situation."""
    return context.rstrip().endswith((".", "!", "。", "！")) or bool(_CLAIM.search(context))


def shortens(shorter: Statement, longer: Statement) -> bool:
    """Return whether a statement is another one without one or two omissible words.

    One word in four may be omitted, and at most two; never a name, a number, or a word that negates
    or limits.
    """
    max_dropped = min(_MAX_DROPPED, len(longer.stems) // _WORDS_PER_DROPPED)
    if (
        not 0 < len(longer.stems) - len(shorter.stems) <= max_dropped
        or len(shorter.stems) < LEAST_WORDS
    ):
        return False
    dropped = Counter(longer.stems) - Counter(shorter.stems)
    remaining = iter(longer.stems)
    in_order = all(stem in remaining for stem in shorter.stems)
    return in_order and not any(stem in longer.fixed or stem.isdigit() for stem in dropped)


def _prefix(stems: tuple[str, ...]) -> list[_Word]:
    """Return a statement's first words in the global order, which starts with the longest."""
    seen: Counter[str] = Counter()
    words = []
    for stem in stems:
        words.append((-len(stem), stem, seen[stem]))
        seen[stem] += 1
    return sorted(words)[: _MAX_DROPPED + 1]
