#!/usr/bin/env python3
"""Gather training text for the built-in embedder from installed packages.

    python training/texts.py OUTPUT.jsonl [--seed 1]

Sources that are not installed are omitted. The shipped table was trained with these Debian
packages: wordnet-base, dict-gcide, dict-foldoc, dict-jargon, fortunes, manpages, manpages-dev, man
pages of the base system, python3-doc, git-doc, postgresql-doc-15, sqlite3-doc, linux-doc,
debian-policy, debian-reference-en, developers-reference, r-doc-html, maxima-doc and gnuplot-doc;
with the docstrings and code of Python's standard library and of the installed packages; and with
conversations and questions generated from templates (``templates.py``). No evaluation set is read.

Writes one JSON string per line, shuffled and without repeats. The same packages and the same seed
give the same output.
"""

from __future__ import annotations

import ast
import html
import random
import re
from collections.abc import Iterable, Iterator

from sources import (
    DICTIONARIES,
    SHARE,
    clean,
    dictionary_files,
    entries,
    html_manuals,
    is_prose,
    manual_pages,
    read_manuals,
    read_python,
    read_text,
    sources,
    wordnet,
    write,
)
from templates import conversation, questions

LONGEST = 1_100
BUDGET = {
    "wordnet": 60_000,
    "dictionaries": 40_000,
    "fortunes": 10_000,
    "manuals": 15_000,
    "documents": 60_000,
    "docstrings": 25_000,
    "code": 20_000,
    "conversation": 60_000,
    "questions": 40_000,
}
_TAGS = re.compile(r"<(script|style|pre)\b.*?</\1>|<[^>]+>", re.DOTALL | re.IGNORECASE)
_BREAK = re.compile(r"</?(?:p|li|h[1-6]|div|td|dd|dt|br|tr)\b[^>]*>", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'])")


def pieces(text: str, chance: random.Random) -> Iterator[str]:
    """Yield a document's sentences, and runs of them of several lengths."""
    sentences = [part for part in _SENTENCE.split(clean(text)) if part]
    place = 0
    while place < len(sentences):
        count = chance.choice((1, 1, 1, 2, 3, 6))
        run = " ".join(sentences[place : place + count])[:LONGEST]
        if is_prose(run):
            yield run
        place += count


def dictionaries(chance: random.Random) -> Iterator[str]:
    """Yield definitions of the dictd dictionaries."""
    for name in DICTIONARIES:
        for path in dictionary_files(name):
            for entry in entries(path):
                yield from pieces(re.sub(r"\[[^\]]*\]|[{}\\]", "", entry), chance)


def fortunes(chance: random.Random) -> Iterator[str]:
    """Yield quotations and exchanges."""
    for path in sorted((SHARE / "games" / "fortunes").glob("*.u8")):
        for entry in path.read_text("utf-8", "replace").split("\n%\n"):
            if len(entry) < LONGEST:
                yield clean(entry)
            else:
                yield from pieces(entry, chance)


def manuals(chance: random.Random) -> Iterator[str]:
    """Yield the prose of manual pages."""
    for text in read_manuals(manual_pages()):
        for paragraph in re.split(r"\n\s*\n", text.replace('"', "")):
            yield from pieces(paragraph, chance)


def documents(chance: random.Random) -> Iterator[str]:
    """Yield paragraphs of HTML manuals, and headings with the following text."""
    pages = html_manuals()
    chance.shuffle(pages)
    for path in pages[:6_000]:
        text = read_text(path, 300_000)
        plain = html.unescape(_TAGS.sub("", _BREAK.sub("\n\n", text)))
        for paragraph in re.split(r"\n\s*\n", plain):
            yield from pieces(paragraph, chance)


def python_text(chance: random.Random) -> tuple[list[str], list[str]]:
    """Return docstrings' prose, and functions' code."""
    prose: list[str] = []
    code: list[str] = []
    files = sources()
    chance.shuffle(files)
    for lines, nodes in read_python(files[:4_000]):
        for node in nodes:
            doc = ast.get_docstring(node)
            if doc:
                prose += pieces(doc.split("\n\n")[0], chance)
                prose.append(f"{node.name}: {clean(doc)[:300]}")
            body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            if len(body) > 80:
                code.append(body[: chance.choice((300, 600, LONGEST))])
    return prose, code


def sample(texts: Iterable[str], count: int, chance: random.Random) -> list[str]:
    """Return up to ``count`` different texts of a source."""
    different = sorted({text for text in texts if len(text) > 3})
    return chance.sample(different, min(count, len(different)))


def gather(seed: int) -> list[str]:
    """Return all training text, shuffled."""
    chance = random.Random(seed)
    glosses = list(wordnet())
    prose, code = python_text(chance)
    found = {
        "wordnet": glosses,
        "dictionaries": dictionaries(chance),
        "fortunes": fortunes(chance),
        "manuals": manuals(chance),
        "documents": documents(chance),
        "docstrings": prose,
        "code": code,
        "conversation": conversation(chance, glosses, BUDGET["conversation"]),
        "questions": questions(chance, glosses, prose, BUDGET["questions"]),
    }
    texts: list[str] = []
    for name, source in found.items():
        chosen = sample(source, BUDGET[name], chance)
        print(f"{name}: {len(chosen):,}")
        texts += chosen
    texts = list(dict.fromkeys(texts))
    chance.shuffle(texts)
    return texts


if __name__ == "__main__":
    write(__doc__, gather, "texts")
