#!/usr/bin/env python3
"""Gather pairs of a query and a passage that answers it from installed packages.

    python training/pairs.py OUTPUT.jsonl [--seed 1]

A pair is a heading and the text below it, a sentence and the paragraph that contains it, a word and
its definition, a documentation comment and the code below it, or a question and a conversation
created from a template. ``train_static_embedder.py --questions`` learns from the pairs which texts
belong together. No evaluation set is read.

Sources that are not installed are reported and skipped. The pairs for the shipped table were
gathered on Debian 12 from:

- the Debian packages listed in ``texts.py``, and the HTML and manual pages of other installed
  packages (valgrind, nodejs, libxslt1-dev and small ones);
- Rust 1.95.0, installed with rustup and its component rust-docs, which contains the books and, as
  HTML pages, the source code of the standard library. If several toolchains are installed, only one
  is read, preferably a stable one. Toolchains are searched for in ``RUSTUP_HOME``, then in Debian's
  package rust-doc;
- the headers (``*.h``) below /usr/include, mainly from nodejs, llvm-14-dev, linux-libc-dev,
  libc6-dev, libstdc++-12-dev, libx11-dev, libicu-dev, libpython3.11-dev, libssl-dev and valgrind;
- the scripts of npm and corepack below /usr/lib/node_modules (nodejs);
- Python 3.11.7's standard library, and the packages installed for the running Python: memvault's
  dependencies, test tools and linters, and PyTorch with its dependencies.

Only the same files and the same seed give the same pairs. A machine with other packages, or other
versions of them, gives different pairs and therefore a different table.

The output has one JSON array of two strings per line. Pairs from one file are adjacent, so that a
batch contains similar passages, which are hard to tell apart.
"""

from __future__ import annotations

import html
import os
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from code_pairs import PASSAGE, SENTENCE, Pair, commented, python_code
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
    read_text,
    sources,
    wordnet,
    write,
)
from templates import exchanges

Sourced = tuple[str, Pair]  # the name of its source
Files = dict[str, list[Path]]

RUST_BOOKS = (
    "book reference nomicon cargo clippy rust-by-example edition-guide embedded-book "
    "rustc rustdoc error_codes"
).split()
PAGES = ("HTML manuals", "Rust's books")
CODE = ("Rust's library", "C and C++ headers", "JavaScript")
RUN = 8
BUDGET = {
    "headings": 70_000,
    "sentences": 50_000,
    "manuals": 12_000,
    "wordnet": 30_000,
    "dictionaries": 15_000,
    "python": 30_000,
    "comments": 45_000,
    "conversation": 50_000,
}
_DROP = re.compile(r"<(script|style|nav|head)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_HEADING = re.compile(r"<(h[1-6]|dt)\b[^>]*>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(r"</?(?:p|li|h[1-6]|div|td|dd|dt|br|tr|pre)\b[^>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[^>]+>")
_NUMBER = re.compile(r"^(?:chapter |appendix |section )?[\dA-Z]?[\d.]+\s+", re.IGNORECASE)
_ASKED = (
    "{}|{}|{}|{}|how do I {}|what is {}|how does {} work|explain {}|what are {}|"
    "What does the documentation say about {}?|How can I use {}?|Tell me about {}|"
    "What is the purpose of {}?|When should I use {}?"
).split("|")


def rust() -> Path | None:
    """Return the documentation of one Rust toolchain, preferably a stable one."""
    home = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
    found = sorted(home.glob("toolchains/*/share/doc/rust/html"))
    found.sort(key=lambda path: not path.parents[3].name.startswith("stable"))
    found += sorted((SHARE / "doc").glob("rust*/html"))
    return next((path for path in found if (path / "src").is_dir()), None)


def installed() -> Files:
    """Return the files of each source; empty if it is not installed."""
    docs = rust()
    books = [docs / part for part in RUST_BOOKS] if docs else []
    return {
        "HTML manuals": html_manuals(),
        "Rust's books": [path for book in books for path in sorted(book.rglob("*.html"))],
        "manual pages": manual_pages(),
        "WordNet": sorted((SHARE / "wordnet").glob("data.*")),
        **{name: dictionary_files(name) for name in DICTIONARIES},
        "Python": sources(),
        "Rust's library": sorted((docs / "src").rglob("*.rs.html")) if docs else [],
        "C and C++ headers": sorted(Path("/usr/include").rglob("*.h")),
        "JavaScript": sorted(Path("/usr/lib/node_modules").rglob("*.js")),
    }


def passage(sentences: list[str], start: int) -> str:
    """Join sentences from a position on, up to a passage's length."""
    text = sentences[start][: 2 * PASSAGE]
    for sentence in sentences[start + 1 :]:
        if len(text) + len(sentence) > PASSAGE:
            break
        text = f"{text} {sentence}"
    return text


def taken_out(text: str, title: str, chance: random.Random) -> Iterator[Pair]:
    """Yield a sentence and the sentences around it, sometimes including itself."""
    sentences = [part for part in SENTENCE.split(text) if part]
    for start in range(0, len(sentences) - 2, 5):
        around = sentences[start : start + 5]
        query = chance.choice(around)
        if 30 < len(query) < 250 and is_prose(query):
            if chance.random() < 0.9:
                around.remove(query)
            rest = passage(around, 0)
            if len(rest) > 60:
                yield query, f"{title}\n{rest}" if title and chance.random() < 0.4 else rest


def plain(text: str) -> str:
    """Strip a page's tags; blocks become paragraphs."""
    return html.unescape(_TAG.sub("", _BLOCK.sub("\n\n", text)))


def page(text: str, chance: random.Random) -> tuple[list[Pair], list[Pair]]:
    """Return an HTML page's pairs of heading and passage, and of sentence and passage."""
    match = _TITLE.search(text)
    title = clean(re.split(r" [—-] | &#8212; |\|", html.unescape(match[1]))[0]) if match else ""
    text = _DROP.sub("", text)
    marks = list(_HEADING.finditer(text))
    headed: list[Pair] = []
    around: list[Pair] = []
    for place, mark in enumerate(marks):
        name = _NUMBER.sub("", clean(plain(mark[2]).replace("¶", "").replace("§", "")))
        end = marks[place + 1].start() if place + 1 < len(marks) else len(text)
        body = clean(plain(text[mark.end() : end]).replace("¶", ""))
        if not is_prose(body[:PASSAGE]) or len(body) < 60:
            continue
        sentences = [part for part in SENTENCE.split(body) if part]
        around += taken_out(body, name if chance.random() < 0.5 else title, chance)
        if 3 < len(name) < 120 and any(char.isalpha() for char in name):
            topic = name if chance.random() < 0.6 or title in name else f"{name} {title}"
            start = chance.choice((0, 0, 0, min(1, len(sentences) - 1), len(sentences) // 2))
            answer = passage(sentences, start)
            if chance.random() < 0.4 and title and title not in topic:
                answer = f"{title}\n{answer}"
            elif chance.random() < 0.15:
                answer = f"{name}\n{answer}"
            headed.append((chance.choice(_ASKED).format(topic), answer))
    return headed, around


def pages(files: Files, chance: random.Random) -> tuple[list[Sourced], list[Sourced]]:
    """Return all HTML manuals' pairs, a file's together."""
    paths = [(name, path) for name in PAGES for path in files[name]]
    chance.shuffle(paths)
    headed: list[Sourced] = []
    around: list[Sourced] = []
    for name, path in paths[:9_000]:
        if "translations" in path.parts:
            continue
        first, second = page(read_text(path, 200_000), chance)
        headed += [(name, pair) for pair in chance.sample(first, min(40, len(first)))]
        around += [(name, pair) for pair in chance.sample(second, min(16, len(second)))]
    return headed, around


def manuals(paths: list[Path], chance: random.Random) -> Iterator[Pair]:
    """Yield a manual page's description of its subject, and its sections."""
    for text in read_manuals(paths, (".SH",)):
        sections = re.split(r"^\.SH +", text, flags=re.MULTILINE)
        name = next((clean(part[5:]) for part in sections if part[:4] == "NAME"), "")
        for part in sections:
            head, _, body = part.partition("\n")
            body = clean(body)
            if head.strip('" ') == "DESCRIPTION" and name and is_prose(body[:PASSAGE]):
                sentences = SENTENCE.split(body)
                about = name.split(" - ", 1)[-1]
                yield chance.choice(_ASKED).format(about), passage(sentences, 0)
                yield name, passage(sentences, min(1, len(sentences) - 1))
            yield from list(taken_out(body, "", chance))[:3]


def words(chance: random.Random) -> Iterator[Pair]:
    """Yield WordNet's words with their meanings, and examples with the meaning."""
    lemma = meaning = ""
    for text in wordnet():
        if ": " in text:
            lemma, meaning = text.split(": ", 1)
            if len(meaning) > 12:
                yield (
                    chance.choice((lemma, lemma, f"what is {lemma}", f"meaning of {lemma}")),
                    meaning,
                )
        elif meaning and chance.random() < 0.5 and len(text) > 15:
            yield text, f"{lemma}: {meaning}"


def dictionary(paths: list[Path], chance: random.Random) -> Iterator[Pair]:
    """Yield headwords with their entries."""
    for path in paths:
        for entry in entries(path):
            head, _, body = entry.partition("\n")
            body = clean(re.sub(r"\[[^\]]*\]|[{}\\]", "", body))
            head = clean(re.sub(r"[\\/{}].*", "", head))
            if 2 < len(head) < 40 and is_prose(body[:PASSAGE]) and len(body) > 50:
                sentences = SENTENCE.split(body)
                yield chance.choice(_ASKED).format(head), passage(sentences, 0)
                yield from list(taken_out(body, head, chance))[:2]


def comments(files: Files, chance: random.Random) -> Iterator[Sourced]:
    """Yield pairs from Rust, C++ and JavaScript."""
    paths = [(name, path) for name in CODE for path in files[name]]
    chance.shuffle(paths)
    for name, path in paths:
        text = read_text(path, 400_000)
        if path.suffix == ".html":
            text = html.unescape(
                _TAG.sub("", re.sub(r"<a[^>]*data-nosnippet[^>]*>\d+</a>", "", text))
            )
        found = list(commented(text, chance))
        most = 40 if path.suffix == ".html" else 16
        yield from ((name, pair) for pair in chance.sample(found, min(most, len(found))))


def sample(pairs: Iterable[Sourced], count: int, chance: random.Random) -> list[Sourced]:
    """Return up to ``count`` different pairs, in runs of adjacent ones."""
    different: dict[Pair, str] = {}
    for name, (query, answer) in pairs:
        if query.strip() and answer.strip():
            different.setdefault((clean(query), answer.strip()), name)
    every = [(name, pair) for pair, name in different.items()]
    runs = [every[start : start + RUN] for start in range(0, len(every), RUN)]
    chance.shuffle(runs)
    return [pair for run in runs[: count // RUN] for pair in run]


def sourced(name: str, pairs: Iterable[Pair]) -> Iterator[Sourced]:
    """Yield a source's pairs with its name."""
    return ((name, pair) for pair in pairs)


def tell(kind: str, names: Iterable[str], files: Files, chosen: list[Sourced]) -> None:
    """Print the sources of a kind of pairs, or that it is not installed."""
    given = Counter(name for name, _ in chosen)
    print(f"{kind}: {len(chosen):,} pairs")
    for name in names:
        told = f"{len(files[name]):,} files found, {given[name]:,} pairs"
        print(f"    {name}: {told if files[name] else 'not found'}", flush=True)


def gather(seed: int) -> list[Pair]:
    """Return all pairs, in shuffled runs."""
    chance = random.Random(seed)
    files = installed()
    headed, around = pages(files, chance)
    glosses = list(wordnet())  # the templates use its words
    spoken = exchanges(chance, glosses, BUDGET["conversation"]) if glosses else ()
    defined = (sourced(name, dictionary(files[name], chance)) for name in DICTIONARIES)
    found: dict[str, tuple[tuple[str, ...], Iterable[Sourced]]] = {
        "headings": (PAGES, headed),
        "sentences": (PAGES, around),
        "manuals": (
            ("manual pages",),
            sourced("manual pages", manuals(files["manual pages"], chance)),
        ),
        "wordnet": (("WordNet",), sourced("WordNet", words(chance))),
        "dictionaries": (DICTIONARIES, chain.from_iterable(defined)),
        "python": (("Python",), sourced("Python", python_code(files["Python"], chance))),
        "comments": (CODE, comments(files, chance)),
        "conversation": (("WordNet",), sourced("WordNet", spoken)),
    }
    runs: list[list[Sourced]] = []
    for kind, (names, source) in found.items():
        chosen = sample(source, BUDGET[kind], chance)
        tell(kind, names, files, chosen)
        runs += [chosen[start : start + RUN] for start in range(0, len(chosen), RUN)]
    chance.shuffle(runs)
    return [pair for run in runs for _, pair in run]


if __name__ == "__main__":
    write(__doc__, gather, "pairs")
