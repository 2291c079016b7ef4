"""Find the files that a format does not read but a user would miss, and count the notes it reads.

Such files are non-empty, visible, and neither code nor settings: notes, documents, images,
recordings and other programs' data. Notes in hidden folders of agents' memories also count.
"""

from __future__ import annotations

from collections.abc import Collection

from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

TEXTS = (".md", ".markdown", ".txt", ".org")
"""Extensions of files that count as notes."""
MARKDOWN = TEXTS[:2]
_CODE = frozenset(
    "bash bat c cc cfg class code-workspace conf cpp cs csl css exe faiss go h hpp ini jar java js "
    "jsx kt lock log lua map mjs o php pl ps1 py pyc pyi rb rs scss sh so sql swift tmp toml ts "
    "tsx wasm yaml yml".split()
)
"""Extensions of code, settings and generated files."""
_JOURNALS = ("-wal", "-shm", "-journal")
"""Extensions of SQLite's journals."""
_HIDDEN_MEMORIES = lazy_pattern(r"/\.(?:mnemonics|claude)/")
_PROGRAM_FOLDERS = frozenset({"node_modules", "__pycache__"})
_PROGRAM_FILES = frozenset({"package.json", "package-lock.json", "makefile", "dockerfile"})


def missed_files(source: Source, claimed: Collection[str]) -> list[str]:
    """Return the unclaimed files that a user would miss, notes first."""
    others = [name for name in source.names if name not in claimed]
    missed_names = [name for name in others if _is_missed(source, name)]
    return sorted(missed_names, key=lambda name: not is_text(name))


def is_text(name: str) -> bool:
    """Return whether a file counts as a note."""
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
    """Return how many of a source's notes are claimed, and how many there are.

    Text files count as notes. If no text file is claimed, all claimed files count as notes, except
    code and settings.
    """
    claimed_notes = sum(map(is_text, claimed))
    claimed_notes = claimed_notes or sum(not _is_of_program(name) for name in claimed)
    missed_notes = sum(
        is_text(name) and not is_hidden(name) for name in missed_files(source, claimed)
    )
    return claimed_notes, claimed_notes + missed_notes
