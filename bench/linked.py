#!/usr/bin/env python3
"""Add links, headings, tags and embeds to the memories of ``corpus.py``, as in Obsidian.

    python bench/corpus.py FOLDER COUNT &&
    python bench/linked.py FOLDER [--seed N]

The same files and seed produce the same links. One in ten notes has no links, one in twenty links
is broken, and a few notes are linked to by many others, like an index note.
"""

from __future__ import annotations

import argparse
import posixpath
import random
from pathlib import Path

FORMS = (
    "[[{stem}]]",
    "[[{stem}|another name]]",
    "[[{stem}#Decision]]",
    "[[{path}]]",
    "![[{stem}#^block]]",
    "[a note]({beside})",
    "[[missing {number}]]",
    "[a page](https://example.org/{number})",
)
WEIGHTS = (8, 3, 3, 2, 1, 2, 1, 1)
TAGS = ("project/active", "project/done", "idea", "reading/books", "people")
PER_NOTE = 6


def linked(text: str, path: str, paths: list[str], chance: random.Random) -> str:
    """Return a note's text with a section of links and tags."""
    lines = ["", "## Related", ""]
    for number in range(chance.randint(1, PER_NOTE)):
        target = paths[int(len(paths) * chance.random() ** 3)]
        form = chance.choices(FORMS, WEIGHTS)[0]
        place = target.removesuffix(".md")
        beside = posixpath.relpath(target, posixpath.dirname(path))
        written = form.format(
            stem=posixpath.basename(place), path=place, beside=beside, number=number
        )
        lines.append(f"- See {written} for more. #{chance.choice(TAGS)}")
    return "\n".join([text.rstrip("\n"), *lines, ""])


def main() -> None:
    """Read the arguments and rewrite the notes."""
    parser = argparse.ArgumentParser(description="Add links to the memories of a folder")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    files = sorted(given.folder.rglob("*.md"))
    paths = [file.relative_to(given.folder).as_posix() for file in files]
    for file, path in zip(files, paths, strict=True):
        if chance.random() >= 0.1:
            text = file.read_text("utf-8")
            file.write_text(linked(text, path, paths, chance), "utf-8")


if __name__ == "__main__":
    main()
