"""Pairs of a question or a comment and the corresponding code, for ``pairs.py``."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

from sources import clean, is_prose, read_python

Pair = tuple[str, str]
PASSAGE = 400
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`])")
_COMMENT = re.compile(
    r"^(?P<doc>(?:[ \t]*///?[^\n]*\n){1,40}|[ \t]*/\*\*.*?\*/[ \t]*\n)(?P<code>(?:[^\n]+\n){2,25})",
    re.MULTILINE | re.DOTALL,
)
_MARKS = re.compile(r"^[ \t]*(?:///?!?|/?\*+/?)[ \t]?|\*/", re.MULTILINE)
_NAMED = re.compile(
    r"\b(fn|struct|enum|trait|class|function|impl|macro|method|type)\s+([A-Za-z_]\w+)"
)
_ASKED_CODE = (
    "What is the purpose of the {} {}?|How does the {} {} work?|What does the {} {} do?|"
    "How do you use the {} {}?|What happens in the {} {}?|How is the {} {} implemented?|{} {}"
).split("|")


def asked_code(kind: str, name: str, chance: random.Random) -> str:
    """Return a question about a piece of code."""
    spoken = name if chance.random() < 0.7 else " ".join(identifier_words(name))
    return chance.choice(_ASKED_CODE).format(*chance.choice(((spoken, kind), (kind, spoken))))


def identifier_words(name: str) -> list[str]:
    """Split an identifier into words."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name) or [name]


def python_code(paths: list[Path], chance: random.Random) -> Iterator[Pair]:
    """Yield docstrings and questions with functions' code."""
    paths = paths.copy()
    chance.shuffle(paths)
    for lines, nodes in read_python(paths[:4_000]):
        found: list[Pair] = []
        for node in nodes:
            doc = ast.get_docstring(node)
            kind = (
                "class" if isinstance(node, ast.ClassDef) else chance.choice(("function", "method"))
            )
            body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            if doc and len(doc) > 20:
                bare = "\n".join(
                    [lines[node.lineno - 1], *lines[node.body[0].end_lineno or 0 : node.end_lineno]]
                )
                start = clean(doc.split("\n\n")[0])[:250]
                if len(bare) > 120:
                    found.append((start, bare[: 2 * PASSAGE]))
                found.append(
                    (asked_code(kind, node.name, chance), f"{node.name}: {clean(doc)[:PASSAGE]}")
                )
            if len(body) > 120 and not node.name.startswith("__") and chance.random() < 0.5:
                found.append((asked_code(kind, node.name, chance), body[: 2 * PASSAGE]))
        yield from chance.sample(found, min(16, len(found)))


def commented(text: str, chance: random.Random) -> Iterator[Pair]:
    """Yield documentation comments, and questions, with the code below them."""
    for match in _COMMENT.finditer(text):
        doc = clean(_MARKS.sub("", match["doc"]))
        code = match["code"]
        if (
            not 30 < len(doc) < 1_500
            or not is_prose(doc[:200])
            or "icense" in doc
            or len(code) < 80
        ):
            continue
        named = _NAMED.search(code)
        first = SENTENCE.split(doc)[0][:250]
        whole = (match["doc"] + code)[: 2 * PASSAGE]
        if named and chance.random() < 0.5:
            yield (
                asked_code(named[1], named[2], chance),
                chance.choice((whole, code[: 2 * PASSAGE])),
            )
        elif chance.random() < 0.3:
            yield first, whole
        else:
            yield first, code[: 2 * PASSAGE]
