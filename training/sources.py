"""Read, clean and write the sources of training text, for ``texts.py`` and ``pairs.py``."""

from __future__ import annotations

import argparse
import ast
import gzip
import json
import re
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

SHARE = Path("/usr/share")
DICTIONARIES = ("gcide", "foldoc", "jargon")
_SPACE = re.compile(r"\s+")
_ROFF = re.compile(r"\\f[A-Z]|\\&|\\\(..|\\\[..?\]|\\s[-+]?\d")
_ENTRY = re.compile(r"\n(?=\S)")


def clean(text: str) -> str:
    """Put text on one line."""
    return _SPACE.sub(" ", text).strip()


def is_prose(text: str) -> bool:
    """Return whether a text is mostly words."""
    letters = sum(char.isalpha() or char == " " for char in text)
    return len(text) > 24 and letters > 0.8 * len(text) and text.count(" ") >= 3


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


def manual_pages() -> list[Path]:
    """Return the manual pages of the first eight sections."""
    return sorted((SHARE / "man").glob("man[1-8]/*.gz"))


def html_manuals() -> list[Path]:
    """Return the HTML pages of the installed manuals."""
    return [path for part in ("doc", "R") for path in sorted((SHARE / part).rglob("*.html"))]


def dictionary_files(name: str) -> list[Path]:
    """Return a dictd dictionary's file, if it is installed."""
    return sorted((SHARE / "dictd").glob(f"{name}.dict.dz"))


def entries(path: Path) -> list[str]:
    """Split a dictd dictionary."""
    return _ENTRY.split(unzipped(path))


def read_text(path: Path, longest: int) -> str:
    """Return the beginning of a file's text, or an empty string if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace")[:longest]
    except OSError:
        return ""


def read_manuals(paths: Iterable[Path], kept: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield manual pages without roff markup and requests, except for those that are kept."""
    for path in paths:
        try:
            lines = unzipped(path).splitlines()
        except OSError:
            continue
        lines = [
            line if line.startswith(kept) else re.sub(r"^\.[A-Z]{1,2} ", "", line) for line in lines
        ]
        text = "\n".join(
            line for line in lines if line.startswith(kept) or not line.startswith((".", "'"))
        )
        yield _ROFF.sub("", text).replace("\\-", "-")


def sources() -> list[Path]:
    """Return Python files of the standard library and of installed packages."""
    found = []
    for key in ("stdlib", "purelib"):
        found += sorted(Path(sysconfig.get_paths()[key]).rglob("*.py"))
    return [path for path in dict.fromkeys(found) if "test" not in path.as_posix()]


def read_python(
    paths: Sequence[Path],
) -> Iterator[tuple[list[str], list[ast.FunctionDef | ast.ClassDef]]]:
    """Yield the lines of Python files, and the functions and classes in them."""
    for path in paths:
        try:
            text = path.read_text("utf-8")
            tree = ast.parse(text)
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        nodes = [
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        yield text.splitlines(), nodes


def write(
    doc: str | None, gather: Callable[[int], Sequence[str | tuple[str, str]]], what: str
) -> None:
    """Write gathered values as one JSON value per line, and print their number."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    gathered = gather(options.seed)
    lines = (json.dumps(value, ensure_ascii=False) for value in gathered)
    options.output.write_text("\n".join(lines) + "\n", "utf-8")
    size = sum(len("".join(value)) for value in gathered) / 1e6
    print(f"{len(gathered):,} {what}, {size:.1f} million characters")
