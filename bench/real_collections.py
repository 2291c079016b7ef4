#!/usr/bin/env python3
"""Build the judged collections of bench/real from their notes and questions.

    python bench/real_collections.py OUTPUT [NAME ...] [--git-dir NAME=PATH]

Each folder of bench/real has questions, judgments and the source of its notes. The notes are read
from the given commit, fetched with git, or from an existing git directory.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault.model import RESERVED_FOLDERS
from memvault.vault.document import Document
from memvault.vault.memory_file import title_of

REAL = Path(__file__).resolve().parent / "real"
DAY = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")


class Source(NamedTuple):
    """The source of a collection's notes, from its ``source.json``.

    ``include`` and ``exclude`` are globs over the repository's paths: ``*`` matches within a
    folder, ``**/`` matches any number of folders. ``held_out`` marks a set that must not be used
    for fitting, ``folders`` marks a set whose notes keep their folders, and ``language`` is the
    notes' language.
    """

    repository: str
    commit: str
    include: list[str]
    exclude: list[str]
    license: str
    held_out: bool = False
    folders: bool = False
    language: str = "en"


class Counts(NamedTuple):
    """The counts of a built collection; ``unanswerable`` questions have no judgment."""

    notes: int
    characters: int
    questions: int
    unanswerable: int
    judgements: int


def read_source(folder: Path) -> Source:
    """Read the ``source.json`` of a collection.

    Raises:
        TypeError: if a key is missing or unknown.
    """
    return Source(**json.loads((folder / "source.json").read_text("utf-8")))


def fetch(source: Source, into: Path) -> Path:
    """Fetch one commit, without its history; return the git directory.

    Raises:
        subprocess.CalledProcessError: if git cannot fetch it.
    """
    git = ["git", "-C", str(into)]
    subprocess.run([*git, "init", "--quiet", "--bare"], check=True)
    wanted = [source.repository, source.commit]
    subprocess.run([*git, "fetch", "--quiet", "--depth=1", "--", *wanted], check=True)
    return into


def read_notes(source: Source, git_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield the notes of a commit as documents, sorted by path.

    Raises:
        subprocess.CalledProcessError: if the commit, or a path that matches an ``include``, is not
            found.
    """
    globs = [f":(glob){glob}" for glob in source.include]
    globs += [f":(exclude,glob){glob}" for glob in source.exclude]
    command = ["git", f"--git-dir={git_dir}", "archive", "--format=tar", source.commit, "--"]
    done = subprocess.run([*command, *globs], check=True, stdout=subprocess.PIPE)
    with tarfile.open(fileobj=io.BytesIO(done.stdout), encoding="utf-8") as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            if (file := archive.extractfile(member)) is not None:
                yield to_document(member.name, file.read(), source.folders)


def to_document(path: str, data: bytes, has_folder: bool) -> dict[str, Any]:
    """Return a note with its front matter's title and date, its folder if wanted, and its body."""
    note = Document.parse(data)
    header = note.header or {}
    day = DAY.match(str(header.get("date") or header.get("created")))
    metadata = {"date": day[0]} if day else {}
    if has_folder:
        metadata["folder"] = visible_folder(path)
    return {
        "_id": path,
        "title": title_of(header, note.text, path),
        "text": note.text,
        "metadata": metadata,
    }


def visible_folder(path: str) -> str:
    """Return the folder in a vault for a note at a path in its repository.

    Hidden folders lose their dots, and folders at the root that a vault reserves are moved to
    ``notes``.
    """
    parts = [part.lstrip(".") or "hidden" for part in path.split("/")[:-1]]
    return "/".join(["notes"] * (not parts or parts[0] in RESERVED_FOLDERS) + parts)


def read_judgements(folder: Path) -> dict[str, dict[str, int]]:
    """Read ``qrels.tsv``; return the grade of each document by question.

    Raises:
        ValueError: if a line is invalid, a pair is judged twice, or a grade is not 1 or 2.
    """
    judged: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        question, document, grade = line.split("\t")
        if grade not in ("1", "2") or document in judged.setdefault(question, {}):
            raise ValueError(f"invalid grade or judged twice: {line!r}")
        judged[question][document] = int(grade)
    return judged


def check(folder: Path, judged: Mapping[str, Mapping[str, int]]) -> tuple[int, int]:
    """Check questions against judgments; return the numbers of questions and of unanswerable ones.

    Raises:
        ValueError: if an id is used twice or not found, a question in the category ``none`` has a
            judgment, or another question has no answer.
    """
    lines = (folder / "queries.jsonl").read_text("utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    categories = {question["_id"]: question["metadata"]["category"] for question in questions}
    if len(categories) < len(questions):
        raise ValueError("two questions have one id")
    answered = {question for question, grades in judged.items() if 2 in grades.values()}
    expected = {name for name, category in categories.items() if category != "none"}
    if wrong := sorted((answered ^ expected) | (judged.keys() - expected)):
        raise ValueError(f"questions and judgements differ: {', '.join(wrong)}")
    return len(questions), len(questions) - len(expected)


def build(folder: Path, output: Path, git_dir: Path | None = None) -> Counts:
    """Write a collection's corpus, questions and judgments into a folder with its name.

    Raises:
        ValueError: as ``check``, and if a judged note is not found.
        subprocess.CalledProcessError: if git fails.
    """
    judged = read_judgements(folder)
    questions, unanswerable = check(folder, judged)
    source = read_source(folder)
    with tempfile.TemporaryDirectory() as work:
        documents = list(read_notes(source, git_dir or fetch(source, Path(work))))
    known = {document["_id"] for document in documents}
    if missing := sorted({name for grades in judged.values() for name in grades} - known):
        raise ValueError(f"judged notes not found: {', '.join(missing)}")
    target = output / folder.name
    target.mkdir(parents=True, exist_ok=True)
    with (target / "corpus.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in documents)
    for name in ("queries.jsonl", "qrels.tsv"):
        shutil.copyfile(folder / name, target / name)
    return Counts(
        len(documents),
        sum(len(document["text"]) for document in documents),
        questions,
        unanswerable,
        sum(map(len, judged.values())),
    )


def main() -> None:
    """Build the collections named on the command line, or all, and print their counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of bench/real")
    parser.add_argument(
        "--git-dir",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="read a collection's notes from this git directory",
    )
    given = parser.parse_args()
    folders = {path.parent.name: path.parent for path in sorted(REAL.glob("*/source.json"))}
    if wrong := [pair for pair in given.git_dir if "=" not in pair]:
        parser.error(f"--git-dir needs NAME=PATH, not {', '.join(wrong)}")
    git_dirs = dict(pair.split("=", 1) for pair in given.git_dir)
    if unknown := [name for name in (*given.names, *git_dirs) if name not in folders]:
        parser.error(f"not found in bench/real: {', '.join(unknown)}")
    for name in given.names or folders:
        git_dir = Path(git_dirs[name]) if name in git_dirs else None
        counts = build(folders[name], given.output, git_dir)
        counted = ", ".join(f"{count:,} {what}" for what, count in counts._asdict().items())
        print(f"{name}: {counted}", flush=True)


if __name__ == "__main__":
    main()
