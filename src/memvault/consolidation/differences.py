"""Find differences between two statements: in numbers, weekdays, negation, or subject.

"The left oven" and "the right oven" have similar vectors, and so do a statement and its negation.
Statements with similar vectors are therefore also compared word by word. Words for numbers,
weekdays, negation and change are recognized in English, German, French and Spanish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise

from memvault.consolidation.statements import WEEKDAYS, text_similarity
from memvault.index.text.analyzer import Analyzer
from memvault.named_tuple import NamedTuple

_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|[%€$£]|[^\W\d_]\w*(?:\.\w+)*|\w+")
_POSSESSIVE = re.compile(r"['’]s\b")
_NOT = re.compile(r"n['’]t\b")
_UNITS = {
    word: value
    for words in (
        "one two three four five six seven eight nine ten eleven twelve",
        "_ zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "_ deux trois quatre cinq _ sept huit neuf dix onze douze",
        "_ dos tres cuatro cinco seis siete ocho nueve diez _ doce",
    )
    for value, word in enumerate(words.split(), 1)
    if word != "_"
} | dict(zip("fifteen sixteen eighteen hundred".split(), (15, 16, 18, 100), strict=True))
_TENS = {
    word: value * 10
    for words in (
        "twenty thirty forty fifty sixty seventy eighty ninety",
        "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
        "vingt trente quarante cinquante soixante _ _ _",
        "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    )
    for value, word in enumerate(words.split(), 2)
    if word != "_"
}
_SYMBOLS = frozenset("%€$£")
_HALVES = {"am": "am", "a.m": "am", "pm": "pm", "p.m": "pm"}
_BE = frozenset(
    "is are was were ist sind war waren est sont était étaient es son era eran está están".split()
)
"""Verbs before which a number belongs to the subject, as in "logs from 2023 are archived"."""
_NEGATIONS = frozenset(
    "not never no none nobody nothing without cannot nicht kein keine keinen keinem keiner nie "
    "niemals ohne pas jamais aucun aucune sans nunca jamás ningún ninguna sin".split()
)
_CEASED = re.compile(
    r"(?i)\bno longer\b|\bnot? (?:\w+ ){0,4}any ?more\b|n['’]t (?:\w+ ){0,4}any ?more\b"
    r"|\b(?:has |have )?(?:stopped|ceased) (?=\w+ing\b)|\bstopped being\b|\bnicht mehr\b"
    r"|\bkein\w* (?:\w+ ){0,3}mehr\b"
    r"|\bn(?:e |['’])(?:\w+ ){1,3}plus\b|\bya no\b|\bdej(?:ó|aron) de\b"
)
_CHANGED = re.compile(
    r"(?i)\b(?:now|nowadays|these days|from now on|as of|since then|instead|has become|switched"
    r"|replaced|moved to|changed to|took over|jetzt|inzwischen|mittlerweile|neuerdings|ab sofort"
    r"|seit|stattdessen|künftig|maintenant|désormais|dorénavant|depuis|ahora|desde|en adelante)\b"
)
_CHANGE_WORDS = frozenset(
    "now nowadays these since then instead longer anymore more any stopped ceased become "
    "switched replaced moved changed jetzt inzwischen mittlerweile neuerdings sofort seit "
    "stattdessen künftig mehr maintenant désormais dorénavant depuis plus ahora desde ya".split()
)
_OBSERVED = re.compile(
    r"(?i)\b(?:was|were|took|had|lasted|measured|counted|sold|got|found|today|yesterday|this time"
    r"|war|waren|dauerte|hatte|heute|gestern|était|étaient|avait|hier|fue|fueron|tardó|ayer|hoy)\b"
)
"""Matches words that indicate an observation, such as how long a run took, rather than a rule."""
_MIN_SHARED = 2
_MIN_DICE = 0.5
_SYNONYM = 0.5
"""The minimum similarity of two synonyms, such as large and big, whose similarity is 0.62."""


class Number(NamedTuple):
    """A number with the adjacent words, which identify its unit.

    Content words are stems. If the word after the number is a function word, ``after`` also
    contains the next content word. Words of change such as "now" are omitted. ``half`` is AM or PM
    for a time.
    """

    value: str
    before: str
    after: str
    half: str = ""


class Wording(NamedTuple):
    """A parsed statement: its content words in order, and its distinguishing features.

    ``content`` contains stems; ``spelled`` maps each stem to its original word. ``neighbors``
    contains pairs of adjacent content words, where the first modifies the second.
    """

    content: tuple[str, ...]
    spelled: Mapping[str, str]
    neighbors: frozenset[tuple[str, str]]
    names: frozenset[str]
    numbers: tuple[Number, ...]
    weekdays: frozenset[int]
    negated: bool
    changed: bool
    observed: bool


@lru_cache(50_000)
def wording(text: str, analyzer: Analyzer) -> Wording:
    """Parse a statement."""
    ceased = _CEASED.search(text)
    plain = _CEASED.sub(" ", text) if ceased else text
    tokens = _TOKEN.findall(_NOT.sub(" not", _POSSESSIVE.sub("", plain)))
    stems = [_content(token, analyzer) for token in tokens]
    content = tuple(dict.fromkeys(filter(None, stems)))
    names = {
        stem
        for index, (token, stem) in enumerate(zip(tokens, stems, strict=True))
        if stem and _is_name(token, index, analyzer.language)
    }
    negations = sum(token.casefold() in _NEGATIONS for token in tokens)
    return Wording(
        content,
        {stem: token.casefold() for token, stem in zip(tokens, stems, strict=True) if stem},
        frozenset((first, second) for first, second in pairwise(stems) if first and second),
        frozenset(names),
        tuple(_numbers(tokens, stems)),
        frozenset(WEEKDAYS[low] for token in tokens if (low := token.casefold()) in WEEKDAYS),
        (negations + bool(ceased)) % 2 == 1,
        bool(ceased or _CHANGED.search(text)),
        bool(_OBSERVED.search(text)),
    )


def _content(token: str, analyzer: Analyzer) -> str:
    """Return a content word's stem; empty for function words, numbers, weekdays and negations."""
    low = token.casefold()
    special = low in WEEKDAYS or low in _UNITS or low in _TENS or low in _HALVES
    if special or token[0].isdigit() or low in _NEGATIONS or low in _CHANGE_WORDS:
        return ""
    stems = [stem for stem in analyzer.sequence(token) if stem not in analyzer.stop_stems]
    return " ".join(stems)


def _is_name(token: str, index: int, language: str) -> bool:
    inner = any(char.isupper() or char.isdigit() for char in token[1:])
    capital = token[0].isupper() and index > 0 and language != "german"
    return inner or capital or (len(token) == 1 and index > 0 and token.isupper())


def _numbers(tokens: list[str], stems: list[str]) -> Iterable[Number]:
    """Yield numbers in digits or words; "twenty-five" is one number."""
    pairs = list(zip(tokens, stems, strict=True))
    pairs = [pair for pair in pairs if pair[0].casefold() not in _CHANGE_WORDS]
    tokens, stems = [token for token, _ in pairs], [stem for _, stem in pairs]
    index = 0
    while index < len(tokens):
        low, start = tokens[index].casefold(), index
        value = str(_UNITS.get(low, _TENS.get(low, "")))
        if low in _TENS and index + 1 < len(tokens):
            unit = _UNITS.get(tokens[index + 1].casefold(), 0)
            if 0 < unit < 10:
                value, index = str(_TENS[low] + unit), index + 1
        if low[0].isdigit():
            value = low.replace(",", ".").removesuffix(":00").lstrip("0") or "0"
        index += 1
        if value:
            half = _HALVES.get(tokens[index].casefold(), "") if index < len(tokens) else ""
            index += bool(half)
            after = stems[index] if index < len(tokens) else ""
            if index < len(tokens) and not after:
                following = next(filter(None, stems[index + 1 :]), "")
                after = f"{tokens[index].casefold()} {following}".rstrip()
            before = stems[start - 1] or tokens[start - 1].casefold() if start else ""
            yield Number(value, before, after, half)


def different_numbers(one: Wording, other: Wording) -> bool:
    """Return whether numbers with the same unit, or of the same kind of thing, differ."""
    mine, theirs = dict.fromkeys(one.numbers), dict.fromkeys(other.numbers)  # without duplicates
    return any(
        not any(_is_equal(number, candidate) for candidate in same)
        for number in mine
        if (same := [candidate for candidate in theirs if _corresponds(number, candidate, one)])
    )


def _is_equal(number: Number, other_number: Number) -> bool:
    halves = {number.half, other_number.half} - {""}
    return number.value == other_number.value and len(halves) < 2


def _corresponds(number: Number, other_number: Number, context: Wording) -> bool:
    is_name = other_number.before == number.before and number.before in context.content
    return is_name or _has_same_unit(number, other_number, context)  # a name such as "ticket 12"


def _has_same_unit(number: Number, other_number: Number, context: Wording) -> bool:
    before, after = other_number.before == number.before, other_number.after == number.after
    if after and number.after in {"", *context.content, *_SYMBOLS}:
        return True
    if before and number.before in _SYMBOLS:
        return True
    role = number.before not in {"", *context.content} and number.after.split(" ")[0] not in _BE
    return before and after and role  # as in "at 6 in the morning"


def _other_amount(one: Wording, other: Wording) -> bool:
    """Return whether exactly one number differs, and it has the same unit in both statements."""
    mine = [each for each in one.numbers if not any(_is_equal(each, n) for n in other.numbers)]
    theirs = [each for each in other.numbers if not any(_is_equal(each, n) for n in one.numbers)]
    same = [each for each in theirs if mine and _has_same_unit(mine[0], each, one)]
    return len(mine) == len(theirs) == len(same) == 1


def share(one: Wording, other: Wording) -> float:
    """Return the Dice coefficient of two statements' content words."""
    total = len(one.content) + len(other.content)
    return 2 * len({*one.content} & {*other.content}) / total if total else 0.0


def other_object(one: Wording, other: Wording) -> bool:
    """Return whether different words modify the same word: "left oven", "right oven"."""
    mine, theirs = {*one.content} - {*other.content}, {*other.content} - {*one.content}
    shared = {*one.content} & {*other.content}
    return any(
        what == thing and text_similarity(one.spelled[which], other.spelled[that]) < _SYNONYM
        for which, what in sorted(one.neighbors)
        if which in mine and what in shared
        for that, thing in sorted(other.neighbors)
        if that in theirs
    )


def other_name(one: Wording, other: Wording) -> bool:
    """Return whether each statement has a name that the other one lacks."""
    return bool(one.names - {*other.content} and other.names - {*one.content})


def are_incompatible(one: Wording, other: Wording) -> bool:
    """Return whether statements differ in meaning, however similar they are."""
    days = one.weekdays and other.weekdays and one.weekdays != other.weekdays
    # In less similar statements, the roles of words are unclear.
    nearly = share(one, other) >= _MIN_DICE
    return bool(
        days
        or different_numbers(one, other)
        or other_name(one, other)
        or (nearly and (one.negated != other.negated or other_object(one, other)))
    )


def contradiction(earlier: Wording, later: Wording) -> str:
    """Return the kind of contradiction between two statements, or an empty string.

    The kinds are ``weekday``, ``number``, ``negation``, and ``value`` for a changed subject or
    object, which requires a word such as "now" in the later statement.
    """
    shared = {*earlier.content} & {*later.content}
    common = share(earlier, later)
    if common < _MIN_DICE or (len(shared) < _MIN_SHARED and common < 1):
        return ""
    if other_object(earlier, later):
        return ""
    days = earlier.weekdays and later.weekdays and earlier.weekdays != later.weekdays
    numbers = different_numbers(earlier, later)
    negation = earlier.negated != later.negated
    if _other_subject(earlier, later) or other_name(earlier, later):
        return "value" if later.changed and not (days or numbers or negation) else ""
    if days:
        events = earlier.observed and later.observed and not later.changed
        return "" if events else "weekday"
    if numbers:
        observed = (earlier.observed or later.observed) and not later.changed
        amount = _other_amount(earlier, later)
        return "number" if amount and not (observed or negation) else ""
    mine = [earlier.spelled[stem] for stem in earlier.content if stem not in shared]
    theirs = [later.spelled[stem] for stem in later.content if stem not in shared]
    if negation:  # "do not pass" and "fail" agree
        return "negation" if later.changed or not (mine and theirs) else ""
    replaced = later.changed and mine and theirs
    return "value" if replaced and not _has_synonym(mine, theirs) else ""


def _other_subject(one: Wording, other: Wording) -> bool:
    """Return whether the first content words differ, and neither is in the other statement."""
    first, second = one.content[0], other.content[0]
    apart = first not in other.content and second not in one.content
    return apart and text_similarity(one.spelled[first], other.spelled[second]) < _SYNONYM


def _has_synonym(some: Iterable[str], others: Iterable[str]) -> bool:
    return any(text_similarity(one, other) >= 0.3 for one in some for other in others)
