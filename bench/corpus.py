#!/usr/bin/env python3
"""Write a folder of realistic memories from English prose that is installed on this machine.

Sources: the docstrings of Python's standard library, pydoc's topics, and, if present,
``/usr/share/doc`` and ``/usr/share/common-licenses``. Only sentences are used, without code,
tables, markup and repeated license texts. The same machine, count and seed produce the same files.

    python bench/corpus.py FOLDER COUNT [--seed N]

Prints JSON: the written files, queries about them, and further memories for benchmarks to remember.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gzip
import json
import random
import re
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

TYPES = (
    "architectural-decision design-decision learning user-preference project-preference issue "
    "context recurring-pattern conventions-pattern episode fact procedure"
).split()
HEADINGS = ("Context", "Decision", "Reason", "What happened", "Trade-offs", "Steps", "Evidence")
OPENINGS = ("how do we handle", "why did we choose", "what is known about", "notes on", "when does")
PLAIN_WORDS = frozenset(
    """a about after all also an and any are as at be because been before but by can does each for
    from had has have how if in into is it its may more most must no not of on one only or other
    out shall should so some such than that the their them then there these they this to under up
    use used using was were what when where which while who will with within without would you your
    """.split()
)
IDS = "0123456789abcdefghjkmnpqrstvwxyz"
SPARE = 200
MAX_SENTENCES = 90_000
MAX_FILE = 300_000
FIRST_DAY = datetime(2024, 1, 1, 8, tzinfo=UTC)

_BLOCK = re.compile(r"\n[ \t]*\n|\n[ \t]*(?:[-*+o\u2022]|\d+[.)])[ \t]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z])")
_NOT_PROSE = re.compile(r"[<>{}|=\\^~\[\]_@#/\u0080-\uffff]|::|>>>|\.\.|--")
_DOC_NAME = re.compile(r"(?i)(?:readme|news|faq|todo|bugs|changelog|copyright)|.*\.(?:txt|rst|md)")
_WORD = re.compile(r"[a-z]+")


class Draft(NamedTuple):
    """A memory without its front matter."""

    title: str
    body: str
    words: int


def docstrings(path: Path) -> str:
    """Return all docstrings of a module, as blocks of text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library contains invalid escapes
            tree = ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
    return "\n\n".join(text for text in found if text)


def plain_text(path: Path) -> str:
    """Return the beginning of a text file, compressed or not; empty if it cannot be read."""
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                data = packed.read(MAX_FILE)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_FILE)
    except (OSError, EOFError):
        return ""
    return data.decode("utf-8", "replace")


def sources() -> list[Path]:
    """List the prose files in a deterministic order that a seed can shuffle."""
    library = Path(sysconfig.get_paths()["stdlib"])
    modules = [
        path
        for path in library.rglob("*.py")
        if not {"site-packages", "dist-packages", "test", "tests"} & set(path.parts)
    ]
    documents = [
        path
        for path in Path("/usr/share/doc").glob("*/*")
        if _DOC_NAME.match(path.name.removesuffix(".gz")) and path.is_file()
    ]
    licenses = [path for path in Path("/usr/share/common-licenses").glob("*") if path.is_file()]
    return sorted({path.resolve() for path in (*modules, *documents, *licenses)})


def texts(chance: random.Random) -> Iterator[str]:
    """Yield the text of every source, in a shuffled order."""
    with contextlib.suppress(ImportError):  # some systems omit pydoc
        from pydoc_data.topics import topics

        yield from (text for _, text in sorted(topics.items()))
    files = sources()
    chance.shuffle(files)
    for path in files:
        yield docstrings(path) if path.suffix == ".py" else plain_text(path)


def is_prose(sentence: str) -> bool:
    """Return whether a text is one English sentence."""
    words = sentence.split()
    if not 6 <= len(words) <= 45 or not sentence[0].isupper() or sentence[-1] not in ".!?":
        return False
    if _NOT_PROSE.search(sentence):
        return False
    letters = sum(char.isalpha() or char == " " for char in sentence)
    plain = sum(word.lower().strip(",.;:") in PLAIN_WORDS for word in words)
    return letters >= 0.92 * len(sentence) and plain >= 0.2 * len(words)


def passages(chance: random.Random) -> list[list[str]]:
    """Return runs of one to four adjacent sentences, without repeating a sentence."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for text in texts(chance):
        # A line with only a dot is the blank line of Debian's copyright files.
        for block in _BLOCK.split(re.sub(r"(?m)^ \.$", "", text)):
            joined = " ".join(block.replace("`", "").split())
            run: list[str] = []
            for sentence in _SENTENCE.split(joined):
                key = "".join(_WORD.findall(sentence.lower()))
                if key not in seen and is_prose(sentence):
                    seen.add(key)
                    run.append(sentence)
            found += [run[start : start + 4] for start in range(0, len(run), 4)]
        if len(seen) >= MAX_SENTENCES:
            break
    chance.shuffle(found)
    return found


def content_words(text: str) -> list[str]:
    """Return the distinct content words in text, in order."""
    found = (word for word in _WORD.findall(text.lower()) if len(word) > 3)
    return list(dict.fromkeys(word for word in found if word not in PLAIN_WORDS))


def drafts(pool: list[list[str]], chance: random.Random) -> Iterator[Draft]:
    """Yield memories of 80 to 250 words indefinitely, reshuffling the pool when it is exhausted."""
    while True:
        chance.shuffle(pool)
        rest = iter(pool)
        paragraphs: list[str] = []
        words, wanted = 0, chance.randint(80, 235)
        for run in rest:
            kept = []
            for sentence in run:
                size = len(sentence.split())
                if words < wanted and words + size <= 250:
                    kept.append(sentence)
                    words += size
            if kept:
                paragraphs.append(" ".join(kept))
            if words >= wanted:
                yield Draft(title_of(paragraphs[0], chance), build_map(paragraphs, chance), words)
                paragraphs, words, wanted = [], 0, chance.randint(80, 235)


def title_of(text: str, chance: random.Random) -> str:
    """Return a title from a passage's first words that does not end in a function word."""
    words = re.sub(r"[^A-Za-z0-9' -]", "", text).split()[: chance.randint(5, 9)]
    while len(words) > 3 and words[-1].lower() in PLAIN_WORDS:
        words.pop()
    return " ".join(words)


def build_map(paragraphs: list[str], chance: random.Random) -> str:
    """Join paragraphs into a body, and insert up to three headings into every second body."""
    if chance.random() < 0.5:
        return "\n\n".join(paragraphs)
    sections = min(3, len(paragraphs))
    starts = {number * len(paragraphs) // sections for number in range(sections)}
    names = chance.sample(HEADINGS, k=sections)
    parts = []
    for number, paragraph in enumerate(paragraphs):
        if number in starts:
            parts.append(f"## {names.pop()}")
        parts.append(paragraph)
    return "\n\n".join(parts)


def file_text(draft: Draft, slug: str, memory_type: str, tags: list[str], seed: str) -> str:
    """Return the content of a memory's file."""
    chance = random.Random(seed)
    created = FIRST_DAY + timedelta(milliseconds=chance.randrange(700 * 86_400_000))
    modified = created + timedelta(milliseconds=chance.randrange(30 * 86_400_000))
    header = {
        "id": f"{slug[:40].rstrip('-')}-{''.join(chance.choices(IDS, k=6))}",
        "memory_type": memory_type,
        "tags": f"[{', '.join(tags)}]",
        "created": created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "modified": modified.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    lines = "\n".join(f"{key}: {value}" for key, value in header.items())
    return f"---\n{lines}\n---\n\n# {draft.title}\n\n{draft.body}\n"


def query_about(draft: Draft, chance: random.Random) -> str:
    """Return a question as a person would ask it, with words from one memory."""
    paragraphs = [part for part in draft.body.split("\n\n") if not part.startswith("#")]
    words = content_words(chance.choice(paragraphs))[:20]
    picked = set(chance.sample(words, k=min(len(words), chance.randint(2, 5))))
    return f"{chance.choice(OPENINGS)} {' '.join(word for word in words if word in picked)}"


def write(folder: Path, count: int, seed: int) -> dict[str, object]:
    """Write ``count`` memories below a folder and return the data for benchmarks."""
    chance = random.Random(seed)
    pool = passages(chance)
    common = Counter(word for run in pool for word in content_words(" ".join(run)))
    names = [word for word, _ in common.most_common(300) if 5 <= len(word) <= 10]
    stream = drafts(pool, chance)
    taken: set[Path] = set()
    queries: list[str] = []
    words = 0
    for number in range(count):
        draft = next(stream)
        slug = "-".join(_WORD.findall(draft.title.lower()))[:100].strip("-")
        memory_type = chance.choice(TYPES)
        path = folder / memory_type / f"{slug}.md"
        if path in taken:
            path = path.with_name(f"{slug}-{number}.md")
        taken.add(path)
        about = set(content_words(draft.body))
        fitting = [name for name in names if name in about] or names[:10]
        tags = chance.sample(fitting, k=min(len(fitting), chance.randint(2, 4)))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file_text(draft, slug, memory_type, tags, f"{seed} {number}"), "utf-8")
        words += draft.words
        if number % max(1, count // SPARE) == 0:
            queries.append(query_about(draft, chance))
    chance.shuffle(queries)
    return {
        "memories": count,
        "words": words,
        "sentences": sum(len(run) for run in pool),
        "queries": queries,
        "spare": [
            [draft.title, draft.body] for draft, _ in zip(stream, range(SPARE), strict=False)
        ],
    }


def main() -> None:
    """Read the arguments, write the memories and print the data."""
    parser = argparse.ArgumentParser(description="Write realistic memories from installed prose")
    parser.add_argument("folder", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(json.dumps(write(given.folder, given.count, given.seed)))


if __name__ == "__main__":
    main()
