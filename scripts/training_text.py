#!/usr/bin/env python3
"""Gather the text that the built-in embedder is trained on, from what packages carry.

    python scripts/training_text.py OUTPUT.jsonl [--seed 1]

Reads what is installed and leaves out what is not. The shipped table was
trained with these Debian packages: wordnet-base, dict-gcide, dict-foldoc,
dict-jargon, fortunes, manpages, manpages-dev, man pages of the base system,
python3-doc, git-doc, postgresql-doc-15, sqlite3-doc, linux-doc, debian-policy,
debian-reference-en, developers-reference, r-doc-html, maxima-doc and
gnuplot-doc; with the docstrings and code of Python's standard library and of
the installed packages; and with conversation and questions made from templates
here. Nothing of an evaluation set is read.

One JSON string a line; shuffled, without repeats, the same for the same
packages and seed.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import html
import json
import random
import re
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from training_templates import conversation, questions

SHARE = Path("/usr/share")
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
_SPACE = re.compile(r"\s+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'])")
_ROFF = re.compile(r"\\f[A-Z]|\\&|\\\(..|\\\[..?\]|\\s[-+]?\d")


def clean(text: str) -> str:
    """Put a text on one line."""
    return _SPACE.sub(" ", text).strip()


def is_prose(text: str) -> bool:
    """Say whether a text is mostly words."""
    letters = sum(char.isalpha() or char == " " for char in text)
    return len(text) > 24 and letters > 0.8 * len(text) and text.count(" ") >= 3


def pieces(text: str, chance: random.Random) -> Iterator[str]:
    """Yield a text's sentences, and runs of them of several lengths."""
    sentences = [part for part in _SENTENCE.split(clean(text)) if part]
    place = 0
    while place < len(sentences):
        count = chance.choice((1, 1, 1, 2, 3, 6))
        run = " ".join(sentences[place : place + count])[:LONGEST]
        if is_prose(run):
            yield run
        place += count


def unzipped(path: Path) -> str:
    """Read a compressed text."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        return file.read()


def wordnet() -> Iterator[str]:
    """Yield glosses with their words, and examples alone."""
    for name in ("noun", "verb", "adj", "adv"):
        path = SHARE / "wordnet" / f"data.{name}"
        if not path.is_file():
            continue
        for line in path.read_text("utf-8", "replace").splitlines():
            if " | " not in line:
                continue
            head, gloss = line.split(" | ", 1)
            fields = head.split()
            words = [fields[4 + 2 * number] for number in range(int(fields[3], 16))]
            lemma = re.sub(r"\([a-z]+\)$", "", words[0]).replace("_", " ")
            meaning, *examples = gloss.split('; "')
            yield f"{lemma}: {clean(meaning)}"
            yield from (clean(example.strip('" ;')) for example in examples)


def dictionaries(chance: random.Random) -> Iterator[str]:
    """Yield definitions of the dictd dictionaries."""
    for name in ("gcide", "foldoc", "jargon"):
        path = SHARE / "dictd" / f"{name}.dict.dz"
        if path.is_file():
            for entry in re.split(r"\n(?=\S)", unzipped(path)):
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
    for path in sorted((SHARE / "man").glob("man[1-8]/*.gz")):
        try:
            text = unzipped(path)
        except OSError:
            continue
        lines = (re.sub(r"^\.[A-Z]{1,2} ", "", line) for line in text.splitlines())
        kept = "\n".join(line for line in lines if not line.startswith((".", "'")))
        plain = _ROFF.sub("", kept).replace("\\-", "-").replace('"', "")
        for paragraph in re.split(r"\n\s*\n", plain):
            yield from pieces(paragraph, chance)


def documents(chance: random.Random) -> Iterator[str]:
    """Yield paragraphs of HTML manuals, headings with what follows them."""
    pages = sorted((SHARE / "doc").rglob("*.html")) + sorted((SHARE / "R").rglob("*.html"))
    chance.shuffle(pages)
    for path in pages[:6_000]:
        try:
            text = path.read_text("utf-8", "replace")[:300_000]
        except OSError:
            continue
        plain = html.unescape(_TAGS.sub("", _BREAK.sub("\n\n", text)))
        for paragraph in re.split(r"\n\s*\n", plain):
            yield from pieces(paragraph, chance)


def sources() -> list[Path]:
    """Return Python files of the standard library and of installed packages."""
    found = []
    for key in ("stdlib", "purelib"):
        found += sorted(Path(sysconfig.get_paths()[key]).rglob("*.py"))
    return [path for path in dict.fromkeys(found) if "test" not in path.as_posix()]


def python_text(chance: random.Random) -> tuple[list[str], list[str]]:
    """Return docstrings' prose, and functions' code."""
    prose: list[str] = []
    code: list[str] = []
    files = sources()
    chance.shuffle(files)
    for path in files[:4_000]:
        try:
            text = path.read_text("utf-8")
            tree = ast.parse(text)
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        lines = text.splitlines()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
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


def main() -> None:
    """Write the text and say how much there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    texts = gather(options.seed)
    lines = (json.dumps(text, ensure_ascii=False) for text in texts)
    options.output.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{len(texts):,} texts, {sum(map(len, texts)) / 1e6:.1f} million characters")


if __name__ == "__main__":
    main()
