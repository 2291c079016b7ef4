"""Cut snippets: short excerpts that show why a memory was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from operator import itemgetter

from memvault.index.text.analyzer import Analyzer, fold
from memvault.index.text.passages import split_passages
from memvault.index.text.sentences import sentence_ends, split_sentences
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Passage
from memvault.named_tuple import NamedTuple
from memvault.recall.query import Query
from memvault.vault.markdown import lines_with_code, mask_comments

_FENCE = lazy_pattern(r"[ \t>]*(?:```|~~~)")
_RULE = lazy_pattern(r"[\s|:+=*_-]*")
"""Matches a blank line, a delimiter row of a table, or a horizontal rule."""
_ITEM = lazy_pattern(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_HEADING = lazy_pattern(r"[ ]{0,3}#{1,6}[ \t]+")
_QUOTE = lazy_pattern(r"\A(?:[ \t]*+>)++[ \t]?")
_CELLS = lazy_pattern(r"(?<!\\)\|")
_BEFORE_SPEAKER = lazy_pattern(r"\n(?=[A-Z][\w.'-]{0,20}(?: [\w.'-]{1,20}){0,2}: \S)")
_SPACE = lazy_pattern(r"\s+")
_HEADER = lazy_pattern(
    r"\A\s*+(?:---|\+\+\+)[ \t]*\n"
    r"(?:(?:[\w-]++[ \t]*[:=]|[ \t]|-[ \t]).*\n)*+(?:---|\+\+\+)[ \t]*$",
    re.MULTILINE,
)
"""Matches a header that was pasted into a body."""
_DEFINITION = lazy_pattern(
    r"[ ]{0,3}\[[^\[\]\n^][^\[\]\n]*+\]:[ \t]*+"
    r"<?[^\s<>/.#]*+[/.#][^\s<>]*+>?(?:[ \t]+[\"'(].*)?[ \t]*"
)
"""Matches a link reference definition, such as ``[guide]: https://example.org``."""
_BADGE = lazy_pattern(r"\[!\[[^\[\]\n]*+\]\([^()\n]*+\)\]\([^()\n]*+\)")
_LINKS = lazy_pattern(
    r"(?:[\s|·•,;]|!?\[[^\[\]\n]*+\]\([^)\n]*+\)|!?\[\[[^\[\]\n]*+\]\]|<?https?://\S++)*+"
)
"""Matches a line that contains only links and images."""
_LINK = lazy_pattern(r"!?\[[^\[\]\n]*+\]\([^()\n]*+\)|!?\[\[[^\[\]\n]*+\]\]")


class TextUnit(NamedTuple):
    """A piece of text on one line; ``is_alone`` is false only for sentences of a paragraph."""

    text: str
    is_alone: bool


def units(text: str) -> list[TextUnit]:
    """Return the units of a body in document order."""
    result: list[TextUnit] = []
    block: list[str] = []
    last = ""
    has_header = text.lstrip().startswith(("---", "+++"))
    prose = _prose(_HEADER.sub("", text) if has_header else text)
    for kind, line in (*_lines(prose if prose.strip() else text), ("", "")):
        continues = last == "text" or (last == "item" and line[:1] in (" ", "\t"))
        if block and not (kind == "text" and continues):
            result += (unit for unit in _unit_text(last, block) if unit.text)
            block = []
        if kind:
            last = last if block else kind
            block.append(line)
    return result


def _prose(text: str) -> str:
    """Return text without its badges, and with its comments replaced by spaces."""
    return _BADGE.sub("", mask_comments(text))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield lines with their kind; blank lines, rules and fences yield empty strings."""
    for match, is_code in lines_with_code(text):
        line = match[0].rstrip("\r\n")
        bare = line if is_code else _QUOTE.sub("", line, count=1)
        if is_code and (_FENCE.match(line) or not line.strip()):
            yield "", ""
        elif is_code:
            yield "code", line
        elif _RULE.fullmatch(bare):
            yield "", ""
        else:
            yield _kind(bare), bare


def _kind(line: str) -> str:
    if line.lstrip().startswith("|"):
        return "row"
    if _HEADING.match(line):
        return "heading"
    if line.lstrip().startswith("[") and _DEFINITION.fullmatch(line):
        return "definition"
    return "item" if _ITEM.match(line) else "text"


def _unit_text(kind: str, block: list[str]) -> Iterator[TextUnit]:
    if kind == "text":
        for part in _BEFORE_SPEAKER.split("\n".join(block)):
            yield from (TextUnit(_line(sentence), False) for sentence in split_sentences(part))
    elif kind == "row":
        cells = (_line(cell.replace("\\|", "|")) for cell in _CELLS.split(block[0]))
        yield TextUnit(" | ".join(cell for cell in cells if cell), True)
    elif kind in ("code", "definition"):
        yield TextUnit(_line(block[0]), True)
    else:
        mark = _ITEM if kind == "item" else _HEADING
        yield TextUnit(_line(mark.sub("", " ".join(block), count=1)), True)


def _line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


_MAX_LENGTH = 240
_MIN_SENTENCE = 20
"""Minimum length of the sentence at the start of a snippet that contains no query words."""
_SEPARATOR = " / "
"""The separator between two units that are not sentences of one paragraph."""
_TermSpan = tuple[int, int, frozenset[str]]
"""Start and end of a word, and its query terms."""
_WORDS = lazy_pattern(r"\S+")
_HEADINGS = lazy_pattern(r"^[ ]{0,3}#{1,6}[ \t].*$", re.MULTILINE)
_LOCATING_WORDS = 4
"""The number of leading words used to locate a snippet in the body, if they are all on one line."""
_NO_RARITY: Mapping[str, float] = {}
_MAX_PASSAGES = 8
_MAX_PLACES = 400


class Snippet(NamedTuple):
    """A passage or a one-line snippet.

    ``is_cut`` is whether the passage begins within a sentence, and ``place`` is its start position
    in the body.
    """

    text: str
    is_cut: bool = False
    place: int = 0


def make_snippet(
    body: str,
    passages: Sequence[tuple[int, Passage]],
    query: Query,
    analyzer: Analyzer,
    nearest: int | None,
    rarity: Mapping[str, float] = _NO_RARITY,
) -> Snippet:
    """Return a snippet of about 240 characters, starting at a sentence with query words.

    List items, table rows and lines of code are separate units. ``rarity`` is the idf of each word
    of the query; a rare word counts more than a common one.
    """
    passage = best_passage(body, passages, query, analyzer, nearest, rarity)
    passage_units = units(passage.text)
    text = _best_units(passage_units, _term_weights(query, rarity), analyzer)
    if passage.is_cut and passage_units and text.startswith(passage_units[0].text[:_MIN_SENTENCE]):
        text = f"… {text}"
    return Snippet(text, place=_find_words(body, text, passage.place))


def best_passage(
    body: str,
    passages: Sequence[tuple[int, Passage]],
    query: Query,
    analyzer: Analyzer,
    near: int | None,
    rarity: Mapping[str, float] = _NO_RARITY,
) -> Snippet:
    """Return the complete text of the passage that matches a query best.

    It is the passage among ``passages`` with the most query terms, weighted by ``rarity``. If no
    passage contains a query term, it is the passage ``near``, which is the nearest by vector, or
    else the first passage.
    """
    candidates = [passage for _, passage in passages] or split_passages(body)[:1]
    nearest = next((passage for number, passage in passages if number == near), None)
    with_text = [
        entry for entry in candidates if _prose(_without_headings(body, entry)).strip()
    ] or candidates  # not only headings, comments and badges
    weights = _term_weights(query, rarity)
    best, max_weight = with_text[0], 0.0
    for passage in _preselect(body, with_text, query, nearest):
        terms = analyzer.list_terms(body[passage.start : passage.end])
        weight = sum(_weight(weights.keys() & kind, weights) for kind in terms)
        weight += 0.5 if passage == nearest else 0.0
        if weight > max_weight:
            best, max_weight = passage, weight
    text = _without_headings(body, best) or body[best.start : best.end]
    return Snippet(text, _is_within_sentence(body, best.start), best.start)


def _find_words(body: str, snippet: str, start: int) -> int:
    """Return the position after ``start`` of a snippet's first words, or ``start`` if not found.

    White space in snippets is normalized, so only as many leading words as necessary are searched
    for.
    """
    words = snippet.removeprefix("… ").split(" ", _LOCATING_WORDS)
    for count in (_LOCATING_WORDS, 2, 1):
        position = body.find(" ".join(words[:count]), start)
        if position >= 0:
            return position
    return start


def _is_within_sentence(body: str, position: int) -> bool:
    """Return whether a position is inside a sentence, not at the start of a line or sentence."""
    before = body[max(0, position - _MAX_LENGTH) : position].rstrip(" \t")
    if not before or before.endswith("\n"):
        return False
    return max(sentence_ends(before), default=0) < len(before)


def _term_weights(query: Query, rarity: Mapping[str, float]) -> dict[str, float]:
    """Map each query term to its rarity, relative to the mean of the query's words."""
    names = {whole: whole for whole in query.wholes} | query.term_names()
    rarities = [rarity[name] for name in dict.fromkeys(names.values()) if rarity.get(name)]
    mean = sum(rarities) / len(rarities) if rarities else 1.0
    return {term: (rarity.get(name) or mean) / mean for term, name in names.items()}


def _weight(terms: Iterable[str], weights: Mapping[str, float]) -> float:
    return fsum(weights[term] for term in terms)  # the sum does not depend on the order


def _preselect(
    body: str, passages: list[Passage], query: Query, nearest: Passage | None
) -> list[Passage]:
    """Select the passages to analyze.

    If there are many, select the ones that contain the most prefixes of query words.
    """
    if len(passages) <= _MAX_PASSAGES:
        return passages
    hint = query.hint()

    def count_hints(passage: Passage) -> int:
        return len(set(hint.findall(fold(body[passage.start : passage.end]))))

    ranked = sorted(passages, key=count_hints, reverse=True)[:_MAX_PASSAGES]
    return [entry for entry in passages if entry in ranked or entry == nearest]


def _without_headings(body: str, passage: Passage) -> str:
    """Return a passage's text without its headings, which are returned separately."""
    return _HEADINGS.sub("", body[passage.start : passage.end]).strip()


def _best_units(units: Sequence[TextUnit], weights: Mapping[str, float], analyzer: Analyzer) -> str:
    """Return the text of the adjacent units whose distinct terms have the highest total weight.

    Units that contain only links count only if no other unit contains a term.
    """
    prose = [unit for unit in units if not _is_links(unit.text)]
    if prose and len(prose) < len(units):
        in_links = any(_matched_terms(unit.text, weights, analyzer) for unit in units)
        in_prose = any(_matched_terms(unit.text, weights, analyzer) for unit in prose)
        units = units if in_links and not in_prose else prose
    matched = [_matched_terms(unit.text, weights, analyzer) for unit in units]
    first, last, best = _first_sentence(units), len(units), frozenset[str]()
    for start, _ in filter(itemgetter(1), enumerate(matched)):
        covered: frozenset[str] = frozenset()
        length = 0
        for index in range(start, len(units)):
            length += len(units[index].text) + 1
            if length > _MAX_LENGTH and index > start:
                break
            covered |= matched[index]
            if _weight(covered, weights) > _weight(best, weights):
                first, last, best = start, index, covered
    while best and frozenset().union(*matched[first + 1 : last + 1]) == best:
        first += 1
    if best and len(units[first].text) > _MAX_LENGTH:
        return _window(units[first].text, weights, analyzer)
    return _join(units[first:], last - first)


def _is_links(text: str) -> bool:
    """Return whether a unit contains only links, images or a link definition."""
    return _LINKS.fullmatch(text) is not None or _DEFINITION.fullmatch(text) is not None


def _first_sentence(units: Sequence[TextUnit]) -> int:
    """Return the number of the first unit that is a sentence of a paragraph, or 0."""
    is_sentence = (
        not unit.is_alone and not _is_links(unit.text) and len(unit.text) >= _MIN_SENTENCE
        for unit in units
    )
    return next((index for index, holds in enumerate(is_sentence) if holds), 0)


def _matched_terms(text: str, weights: Mapping[str, float], analyzer: Analyzer) -> frozenset[str]:
    stems, wholes = analyzer.list_terms(text)
    return frozenset(weights.keys() & {*stems, *wholes})


def _join(units: Sequence[TextUnit], last: int) -> str:
    """Join units on one line; after the required ones, append only sentences."""
    text = ""
    continues = False
    previous: TextUnit | None = None
    for index, unit in enumerate(units):
        apart = previous is not None and (unit.is_alone or previous.is_alone)
        if index > last and apart:
            continues = previous is not None and not previous.is_alone
            break
        text += f"{(_SEPARATOR if apart else ' ') if previous else ''}{unit.text}"
        if len(text) > _MAX_LENGTH:
            end = text.rfind(" ", _MAX_LENGTH // 2, _MAX_LENGTH)
            return f"{text[: end if end > 0 else _MAX_LENGTH]} …"
        previous = unit
    return f"{text} …" if continues else text


def _window(text: str, weights: Mapping[str, float], analyzer: Analyzer) -> str:
    """Extract the range with the highest total weight of distinct terms from a long sentence."""
    words = list(_WORDS.finditer(text))
    hits = [(*word.span(), _matched_terms(word[0], weights, analyzer)) for word in words]
    if any(word.end() - word.start() > _MAX_LENGTH for word in words):
        hits = _find_unspaced(text, weights) or hits
    first_hit, stop = _densest([hit for hit in hits if hit[2]], weights)
    if stop <= _MAX_LENGTH:
        start = 0
    elif first_hit + _MAX_LENGTH >= len(text):
        start = max(0, len(text) - _MAX_LENGTH)
    else:
        start = max(0, first_hit - _MAX_LENGTH // 6)
    start = _outside_link(text, start, first_hit)
    word_start = next((word.start() for word in words if word.start() >= start), start)
    start = word_start if word_start - start < _MAX_LENGTH // 6 else start
    end = max((word.end() for word in words if word.end() <= start + _MAX_LENGTH), default=0)
    if end <= start:
        end = min(len(text), start + _MAX_LENGTH)
    cut = text[start:end].strip()
    return f"{'… ' if start > 0 else ''}{cut}{' …' if end < len(text.rstrip()) else ''}"


def _outside_link(text: str, position: int, first_hit: int) -> int:
    """Return the start of the link that contains a position, or its end if the start is far away.

    Returns the position itself if no link contains it, or if that end is beyond ``first_hit``.
    """
    for match in _LINK.finditer(text):
        if match.start() < position < match.end():
            if position - match.start() < _MAX_LENGTH // 3:
                return match.start()
            return match.end() if match.end() <= first_hit else position
    return position


def _densest(hits: Sequence[_TermSpan], weights: Mapping[str, float]) -> tuple[int, int]:
    """Return the start and end of the range whose distinct terms have the highest total weight."""
    best, max_weight = (0, 0), 0.0
    for first, (start, _, _) in enumerate(hits):
        covered: set[str] = set()
        for _, end, terms in hits[first:]:
            if end - start > _MAX_LENGTH:
                break
            covered |= terms
            weight = _weight(covered, weights)
            if weight > max_weight:
                best, max_weight = (start, end), weight
    return best


def _find_unspaced(text: str, weights: Mapping[str, float]) -> list[_TermSpan]:
    """Return the positions of terms in text without spaces between words."""
    lowered = text.lower()
    if len(lowered) != len(text):
        return []
    spans: list[_TermSpan] = []
    for term in weights:
        position = lowered.find(term)
        while position >= 0 and len(spans) < _MAX_PLACES:
            spans.append((position, position + len(term), frozenset((term,))))
            position = lowered.find(term, position + len(term))
    return sorted(spans)


def coverage(text: str, query: Query, analyzer: Analyzer) -> float:
    """Return the share of a query's words that are in a string, in 0..1."""
    if not query.words:
        return 0.0
    stems = analyzer.terms(text).stems
    return sum(any(stem in stems for stem in word) for word in query.words) / len(query.words)


def beginning(body: str) -> str:
    """Return the first words of a body on one line."""
    text = _HEADINGS.sub("", body[: _MAX_LENGTH * 4])
    parts = units(text) or units(body[: _MAX_LENGTH * 4])
    return _join(parts[_first_sentence(parts) :], len(parts))
