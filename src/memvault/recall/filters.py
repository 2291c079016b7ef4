"""Filters on memories: by type, tags, dates and safe expressions.

An expression such as ``area == 'main' and 'db' in tags and created < '2026-01-01'`` is parsed with
Python's grammar and compiled to a closure; it is never executed as Python. A name refers to a value
in the front matter, and a comparison with a missing value is false. ``created`` and ``modified``
are compared as dates and times; a date means the whole day, as 2026-01 means the whole month. Two
names are only compared if both are known, so that a text without quotes is not taken for a name.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import UsageError
from memvault.index.protocol import MemoryRecord
from memvault.model import MemoryType
from memvault.vault.file_names import normalize_title
from memvault.vault.paths import normal_type

_TYPE_SYNONYMS = {
    "architectural-decision": "adr architecture",
    "context": "background general misc note other",
    "conventions-pattern": "convention rule style",
    "episode": "event experience",
    "issue": "bug defect error incident problem ticket",
    "learning": "gotcha insight knowledge lesson til",
    "procedure": "how-to howto playbook recipe runbook workflow",
}
"""Names that other programs use for the memory types, in the singular."""
_MODES = ("hybrid", "keyword", "vector", "tag")
_MAX_SUGGESTIONS = 2
_MAX_UNKNOWN_TAGS = 10
"""The maximum number of unknown tags to suggest alternatives for: each is compared with every tag
of the vault."""


def unknown_value_notes(
    records: Sequence[MemoryRecord], filters: Filters, types: Iterable[MemoryType]
) -> list[str]:
    """Return a note for each type and tag in the filters that no memory has."""
    known = list(dict.fromkeys([entry.name for entry in types] + [r.memory_type for r in records]))
    notes = []
    kind = filters.memory_type
    if kind and kind.lower() in _MODES and kind.lower() not in known:
        word = kind.lower()
        notes.append(f"there is no memory type {kind!r}; --mode {word} searches so")
    elif kind and not _has(records, Filters(memory_type=kind)) and not _is_among(kind, known):
        notes.append(
            f"there is no memory type {kind!r}; {_hint(_similar_types(kind, known), 'types')}"
        )
    missing = _unknown_tags(records, filters.tags)
    tags = sorted({entry for record in records for entry in record.tags}) if missing else []
    notes += [
        f"there is no tag {tag!r}; {_hint(_similar_names(tag.lstrip('#'), tags), 'tags')}"
        for tag in missing[:_MAX_UNKNOWN_TAGS]
    ]
    if len(missing) > _MAX_UNKNOWN_TAGS:
        notes.append(f"{len(missing) - _MAX_UNKNOWN_TAGS:,} more of the tags are on no memory")
    return notes


def _unknown_tags(records: Iterable[MemoryRecord], tags: Iterable[str]) -> list[str]:
    """Return the tags that no memory has."""
    known = {tag for record in records for tag in tagged(record)}
    return [tag for tag in tags if normal_tag(tag) not in known]


def _has(records: Iterable[MemoryRecord], filters: Filters) -> bool:
    test = filters.predicate()
    return test is None or any(map(test, records))


def _is_among(kind: str, known: Iterable[str]) -> bool:
    return normalize_title(kind).replace("_", "-").replace(" ", "-") in map(normalize_title, known)


def _hint(suggestions: list[str], command: str) -> str:
    return (
        f"did you mean {' or '.join(suggestions)}?"
        if suggestions
        else f"memvault {command} shows what is"
    )


def types_meant(kind: str, records: Iterable[MemoryRecord], declared: Iterable[str]) -> list[str]:
    """Return the known types that a new type may be meant as, the most used of a vault first.

    There are none if a memory has the type or it is declared, or if no known type is close.
    """
    used = Counter(record.memory_type for record in records)
    known = list(dict.fromkeys([*(name for name, _ in used.most_common()), *declared]))
    return [] if _is_among(kind, known) else _similar_types(kind, known, only_close=True)


def _similar_types(kind: str, known: list[str], only_close: bool = False) -> list[str]:
    word = normalize_title(kind)
    forms = (word, word.removesuffix("s"))
    synonyms = [name for name, words in _TYPE_SYNONYMS.items() if {*forms} & {*words.split()}]
    return [name for name in synonyms if name in known] or _similar_names(kind, known, only_close)


def _similar_names(name: str, known: list[str], only_close: bool = False) -> list[str]:
    """Return the nearest names.

    These are similar ones, else those that have the name, without a plural "s", as one of their
    words, else the single most similar one. With ``only_close`` they are very similar, else have
    the name as their last word, so that a name of its own, such as "contact", has none.
    """
    word = normalize_title(name)
    by_form = {normalize_title(entry): entry for entry in known}
    cutoff, first_word = (0.8, -1) if only_close else (0.7, 0)
    similar = get_close_matches(word, list(by_form), n=_MAX_SUGGESTIONS, cutoff=cutoff)
    stem = word.removesuffix("s")
    containing = [entry for entry in by_form if stem in entry.split("-")[first_word:]]
    chosen = similar or containing
    if not chosen and not only_close:
        chosen = get_close_matches(word, list(by_form), n=1)
    return [by_form[entry] for entry in chosen[:_MAX_SUGGESTIONS]]


Values = Mapping[str, Any]
Test = Callable[[Values], Any]

_MAX_LENGTH = 2_000
_MAX_NODES = 200
_ALLOWED = (
    "allowed are names, literals, == != < <= > >= in not in, and or not, "
    "and .startswith() .endswith() .contains() .lower()"
)
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d)?)?", re.ASCII)
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_METHODS: dict[str, Callable[..., Any]] = {
    "startswith": lambda text, part: text.startswith(part),
    "endswith": lambda text, part: text.endswith(part),
    "contains": operator.contains,
    "lower": lambda text: text.lower(),
}


class Filters(NamedTuple):
    """Conditions that a memory must satisfy to be found; an empty field is no condition.

    ``passes`` is an additional predicate of the calling code.
    """

    memory_type: str = ""
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    expression: str = ""
    passes: Callable[[MemoryRecord], bool] | None = None

    def predicate(self) -> Callable[[MemoryRecord], bool] | None:
        """Return a predicate on records, or None if every memory passes.

        Raises:
            UsageError: the expression is not allowed.
        """
        if self == Filters():
            return None
        since = clock.iso(self.since) if self.since else ""
        until = clock.iso(self.until) if self.until else "9999"
        kind = _kebab(self.memory_type) if self.memory_type else ""
        tags = set(map(normal_tag, self.tags))
        matches = compile_expression(self.expression) if self.expression.strip() else None

        def passes(record: MemoryRecord) -> bool:
            return (
                (not kind or kind == _kebab(record.memory_type))
                and (not tags or tags <= tagged(record))
                and since <= clock.first_moment(record.modified) <= until
                and (matches is None or matches(values_of(record)))
                and (self.passes is None or self.passes(record))
            )

        return passes

    def passing(self, records: Iterable[MemoryRecord]) -> Iterable[MemoryRecord]:
        """Return the records of all memories of a view that pass.

        Raises:
            UsageError: the expression is not allowed, or compares with a name that none of the
                memories has.
        """
        test = self.predicate()
        if test is None:
            return records
        if comparisons := _name_comparisons(self.expression):
            records = list(records)
            known = set(_NAMES).union(*(record.metadata for record in records))
            for comparison, names in comparisons:
                unknown = next((name for name in names if name not in known), None)
                if unknown is not None:
                    quoted = ast.unparse(_Constants({unknown: unknown}).visit(comparison))
                    raise UsageError(
                        f"The filter compares with {unknown}, which is no key of any memory",
                        f"did you mean {quoted}?",
                    )
        return filter(test, records)


def normal_tag(tag: str) -> str:
    """Return a tag in the form in which tags are compared."""
    return tag.casefold().strip("#/")


def tagged(record: MemoryRecord) -> set[str]:
    """Return the tags by which a memory is found, in lower case: its own and their parents."""
    names = set()
    for tag in record.tags:
        name = tag.casefold()
        while name:
            names.add(name)
            name = name.rpartition("/")[0]
    return names


@lru_cache(1_024)
def _kebab(name: str) -> str:
    try:
        return normal_type(name)
    except UsageError:
        return name


def values_of(record: MemoryRecord) -> dict[str, Any]:
    """Return the values of the names in an expression for one memory."""
    return {
        **record.metadata,
        "id": record.mem_id,
        "memId": record.mem_id,
        "title": record.title,
        "type": record.memory_type,
        "memory_type": record.memory_type,
        "memoryType": record.memory_type,
        "tags": list(record.tags),
        "created": record.created,
        "modified": record.modified,
        "path": record.path,
        "filePath": record.path,
    }


_NAMES = (
    *("id", "memId", "title", "type", "memory_type", "memoryType"),
    *("tags", "created", "modified", "path", "filePath"),
)
"""The names in an expression that every memory has."""


class _Constants(ast.NodeTransformer):
    """Replaces names in an expression by constants."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._values[node.id]) if node.id in self._values else node


def _name_comparisons(text: str) -> list[tuple[ast.expr, list[str]]]:
    """Return each part of an expression that compares names, with those that may be texts first."""
    found: list[tuple[ast.expr, list[str]]] = []
    for node in ast.walk(_parse(text)) if text.strip() else ():
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            parts = zip(node.ops, sides, sides[1:], strict=False)
            for operator_type, left, right in parts:
                is_in = isinstance(operator_type, ast.In | ast.NotIn)
                holds_texts = isinstance(right, ast.Name) and is_in
                first, second = _names_in(right), _names_in(left)
                if first and second:
                    names = second + first if holds_texts else first + second
                    found.append((node, names))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found.append((node, [name for entry in node.args for name in _names_in(entry)]))
    return found


def _names_in(node: ast.expr) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def compile_expression(text: str) -> Callable[[Values], bool]:
    """Compile an expression to a predicate on a memory's values.

    Raises:
        UsageError: the expression cannot be parsed, or contains anything that is not allowed.
    """
    test = _safe(_compile(_parse(text)))
    return lambda values: bool(test(values))


def _parse(text: str) -> ast.expr:
    """Parse an expression, with the words of JSON for true, false and null; raises as above."""
    if len(text) > _MAX_LENGTH:
        raise UsageError("The filter is longer than 2,000 characters", "shorten it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise UsageError(f"The filter {shown!r} cannot be read", _ALLOWED) from error
    if sum(1 for _ in ast.walk(tree)) > _MAX_NODES:
        raise UsageError("The filter has too many parts", "shorten it")
    parsed: ast.Expression = _Constants({"true": True, "false": False, "null": None}).visit(tree)
    return parsed.body


def _compile(node: ast.expr) -> Test:
    match node:
        case ast.Constant(value=str() | int() | float() | bool() | None as value):
            return lambda _: value
        case ast.Name(id=name):
            return lambda values: values.get(name)
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            parts = [_compile(element) for element in elements]
            return lambda values: [part(values) for part in parts]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _safe(_compile(operand))
            return lambda values: not inner(values)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return lambda _: -number
        case ast.BoolOp(op=kind, values=operands):
            enough = all if isinstance(kind, ast.And) else any
            tests = [_safe(_compile(operand)) for operand in operands]
            return lambda values: enough(test(values) for test in tests)
        case ast.Compare(left=first, ops=operators, comparators=others):
            return _comparison(first, operators, others)
        case ast.Call(func=ast.Attribute(value=subject, attr=name), args=arguments, keywords=[]):
            return _call(subject, name, arguments)
    raise UsageError(f"The filter may not hold {ast.unparse(node)!r}", _ALLOWED)


def _safe(test: Test) -> Test:
    """Wrap a test, or an operand of and, or, not, so that mismatched types make it false."""

    def safe(values: Values) -> Any:
        try:
            return test(values)
        except (TypeError, AttributeError):
            return False

    return safe


def _comparison(first: ast.expr, operators: list[ast.cmpop], others: list[ast.expr]) -> Test:
    for operator_type in operators:
        if type(operator_type) not in _COMPARISONS:
            raise UsageError("The filter may not hold 'is'; write ==", _ALLOWED)
    pairs = [
        (_COMPARISONS[type(operator_type)], *_sides(left, right))
        for operator_type, left, right in zip(operators, (first, *others), others, strict=False)
    ]
    asks_for_none = any(
        isinstance(side, ast.Constant) and side.value is None for side in (first, *others)
    )

    def compared(values: Values) -> bool:
        for test, left, right in pairs:
            operands = left(values), right(values)
            if None in operands and not asks_for_none:
                return False
            if not test(*operands):
                return False
        return True

    return compared


def _sides(left: ast.expr, right: ast.expr) -> tuple[Test, Test]:
    """Compile both sides of a comparison; ``created`` and ``modified`` are compared as times."""
    match left, right:
        case (ast.Name(id="created" | "modified") as name, ast.Constant(value=str() as text)):
            return _times(name, text)
        case (ast.Constant(value=str() as text), ast.Name(id="created" | "modified") as name):
            actual, expected = _times(name, text)
            return expected, actual
    return _compile(left), _compile(right)


def _times(name: ast.Name, text: str) -> tuple[Test, Test]:
    expected, length = _moment(text)
    actual = _compile(name)
    if length is None:
        return lambda values: clock.first_moment(actual(values)), lambda _: expected
    return lambda values: clock.local(actual(values), length), lambda _: expected


def _moment(text: str) -> tuple[str, int | None]:
    """Return a moment in the format of records, and how many characters of theirs to compare.

    Raises:
        UsageError: the text is not a time.
    """
    plain = text.strip()
    rest = "-01-01"[len(plain) - 4 :] if _DATE.fullmatch(plain) else ""
    moment = clock.parse(plain + rest, None)
    if moment is None:
        shown = plain if len(plain) <= 40 else f"{plain[:40]}..."
        raise UsageError(
            f"The filter compares a time with {shown!r}, which is not a time",
            "write '2026-01-31', or '2026-01-31T10:00:00Z'",
        )
    return (plain, len(plain)) if _DATE.fullmatch(plain) else (clock.iso(moment), None)


def _call(subject: ast.expr, name: str, arguments: list[ast.expr]) -> Test:
    arity = 0 if name == "lower" else 1
    if name not in _METHODS or len(arguments) != arity:
        raise UsageError(
            f"The filter may not hold .{name}() with {len(arguments)} values", _ALLOWED
        )
    method, inner = _METHODS[name], _compile(subject)
    parts = [_compile(argument) for argument in arguments]
    return lambda values: method(inner(values), *(part(values) for part in parts))
