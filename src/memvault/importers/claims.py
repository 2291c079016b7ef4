"""The files of a source that a kind does not read, and how many of its notes it reads.

A user would miss a file that is not hidden, is not empty, and is neither code nor settings: a note,
a document, a picture, a recording, or another program's data. Notes in hidden folders of agents'
memories are missed, too.
"""

from __future__ import annotations

from collections.abc import Collection

from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

TEXTS = (".md", ".markdown", ".txt", ".org")
"""Endings of files that count as notes, whichever program wrote them."""
MARKDOWN = TEXTS[:2]
_CODE = frozenset(
    "bash bat c cc cfg class code-workspace conf cpp cs csl css exe faiss go h hpp ini jar java js "
    "jsx kt lock log lua map mjs o php pl ps1 py pyc pyi rb rs scss sh so sql swift tmp toml ts "
    "tsx wasm yaml yml".split()
)
"""Endings of code, settings and files that programs generate."""
_JOURNALS = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite writes beside a database."""
_HIDDEN_MEMORIES = lazy_pattern(r"/\.(?:mnemonics|claude)/")
_PROGRAM_FOLDERS = frozenset({"node_modules", "__pycache__"})
_PROGRAM_FILES = frozenset({"package.json", "package-lock.json", "makefile", "dockerfile"})


def missed(source: Source, claimed: Collection[str]) -> list[str]:
    """Return the unclaimed files that a user may want, notes first."""
    others = [name for name in source.names if name not in claimed]
    missed_names = [name for name in others if _is_missed(source, name)]
    return sorted(missed_names, key=lambda name: not is_text(name))


def is_text(name: str) -> bool:
    """Return whether a file counts as a note, whichever program wrote it."""
    return name.lower().endswith(TEXTS)


def is_hidden(name: str) -> bool:
    """Return whether a file is hidden or in a hidden folder."""
    return "/." in f"/{name}"


def _is_missed(source: Source, name: str) -> bool:
    if is_hidden(name) and not (is_text(name) and _HIDDEN_MEMORIES.search(f"/{name}")):
        return False
    try:
        return not _is_of_program(name) and source.size(name) > 0
    except (OSError, ValueError):  # deleted since it was listed
        return False


def _is_of_program(name: str) -> bool:
    *folders, file = name.lower().split("/")
    if file.rpartition(".")[2] in _CODE or file.endswith(_JOURNALS) or file in _PROGRAM_FILES:
        return True
    return not _PROGRAM_FOLDERS.isdisjoint(folders)


def coverage(source: Source, claimed: Collection[str]) -> tuple[int, int]:
    """Return how many of a source's note files are claimed, and how many it has.

    Texts are note files. If none of them is claimed, all claimed files are, except settings.
    """
    claimed_notes = sum(map(is_text, claimed))
    claimed_notes = claimed_notes or sum(not _is_of_program(name) for name in claimed)
    missed_notes = sum(is_text(name) and not is_hidden(name) for name in missed(source, claimed))
    return claimed_notes, claimed_notes + missed_notes
