"""Filter expressions, such as ``area == 'main' and 'db' in tags and created < '2026-01-01'``.

An expression is parsed with Python's grammar and compiled to a closure; it is never executed as
Python. A name refers to a value in the front matter, and a comparison with a missing value is
false. ``created`` and ``modified`` are compared as dates and times; a date means the whole day, as
2026-01 means the whole month. Two names are compared only if both are known, so that unquoted text
is not mistaken for a name.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from memvault import clock
from memvault.errors import UsageError
from memvault.index.protocol import MemoryRecord

Values = Mapping[str, Any]
Test = Callable[[Values], Any]

_MAX_LENGTH = 2_000
_MAX_NODES = 200
_ALLOWED = (
    "use only names, literals, == != < <= > >= in not in, and or not, "
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
_NAMES = (
    *("id", "memId", "title", "type", "memory_type", "memoryType"),
    *("tags", "created", "modified", "path", "filePath"),
)
"""The names that every memory has."""


class _Constants(ast.NodeTransformer):
    """A transformer that replaces names in an expression with constants."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self._values[node.id]) if node.id in self._values else node


def check_names(text: str, records: Iterable[MemoryRecord]) -> Iterator[MemoryRecord]:
    """Yield all records, and then check that the names used in comparisons are known.

    Raises:
        UsageError: if the expression is invalid, or no memory has one of the names.
    """
    comparisons = _name_comparisons(text)
    unknown_names = {name for _, names in comparisons for name in names}.difference(_NAMES)
    for record in records:
        unknown_names.difference_update(record.metadata)
        yield record
    for comparison, names in comparisons:
        unknown = next((name for name in names if name in unknown_names), None)
        if unknown is not None:
            quoted = ast.unparse(_Constants({unknown: unknown}).visit(comparison))
            raise UsageError(
                f"The filter compares with {unknown}, which is not a metadata key of any memory",
                f"did you mean {quoted}?",
            )


def _name_comparisons(text: str) -> list[tuple[ast.expr, list[str]]]:
    """Return each comparison between names, listing its probable unquoted strings first."""
    comparisons: list[tuple[ast.expr, list[str]]] = []
    for node in ast.walk(_parse(text)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            parts = zip(node.ops, sides, sides[1:], strict=False)
            for operator_type, left, right in parts:
                is_in = isinstance(operator_type, ast.In | ast.NotIn)
                holds_texts = isinstance(right, ast.Name) and is_in
                first, second = _names_in(right), _names_in(left)
                if first and second:
                    names = second + first if holds_texts else first + second
                    comparisons.append((node, names))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            comparisons.append((node, [name for entry in node.args for name in _names_in(entry)]))
    return comparisons


def _names_in(node: ast.expr) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def compile_expression(text: str) -> Callable[[Values], bool]:
    """Compile an expression to a predicate on a memory's values.

    Raises:
        UsageError: if the expression is invalid or contains unsupported syntax.
    """
    test = _safe(_compile(_parse(text)))
    return lambda values: bool(test(values))


def _parse(text: str) -> ast.expr:
    """Parse an expression, accepting JSON's true, false and null; raises ``UsageError``."""
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
    raise UsageError(f"The filter must not contain {ast.unparse(node)!r}", _ALLOWED)


def _safe(test: Test) -> Test:
    """Wrap a test, or an operand of and, or, not, so that it is false if types do not match."""

    def safe(values: Values) -> Any:
        try:
            return test(values)
        except (TypeError, AttributeError):
            return False

    return safe


def _comparison(first: ast.expr, operators: list[ast.cmpop], others: list[ast.expr]) -> Test:
    for operator_type in operators:
        if type(operator_type) not in _COMPARISONS:
            raise UsageError("The filter must not contain 'is'; write ==", _ALLOWED)
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
    """Return a time in the format of records, and the number of characters to compare.

    Raises:
        UsageError: if the text is not a time.
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
            f"Filters do not support .{name}() with {len(arguments)} argument(s)", _ALLOWED
        )
    method, inner = _METHODS[name], _compile(subject)
    parts = [_compile(argument) for argument in arguments]
    return lambda values: method(inner(values), *(part(values) for part in parts))
