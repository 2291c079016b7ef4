"""The files of a source that a kind does not read, and how many of its notes it reads.

A user would miss a file that is not hidden, is not empty, and is neither code nor settings: a note,
a document, a picture, a recording, or another program's data.
"""

from __future__ import annotations

from collections.abc import Collection

from memvault.importers.source import Source

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
_PROGRAM_FOLDERS = frozenset({"node_modules", "__pycache__"})
_PROGRAM_FILES = frozenset({"package.json", "package-lock.json", "makefile", "dockerfile"})


def missed(source: Source, claimed: Collection[str]) -> list[str]:
    """Return the files that a kind does not claim and a user would miss, notes first."""
    names = [name for name in source.visible if name not in claimed and _is_missed(source, name)]
    return sorted(names, key=lambda name: not name.lower().endswith(TEXTS))


def _is_missed(source: Source, name: str) -> bool:
    *folders, file = name.lower().split("/")
    ending = file.rpartition(".")[2]
    if ending in _CODE or file.endswith(_JOURNALS) or file in _PROGRAM_FILES:
        return False
    if not _PROGRAM_FOLDERS.isdisjoint(folders):
        return False
    try:
        return source.size(name) > 0
    except (OSError, ValueError):  # deleted since it was listed
        return False


def coverage(source: Source, claimed: Collection[str]) -> tuple[int, int]:
    """Return how many of a source's note files are claimed, and how many it has.

    Texts are note files, and if none of them is claimed, all claimed files are.
    """
    own = sum(name.lower().endswith(TEXTS) for name in claimed) or len(claimed)
    others = sum(name.lower().endswith(TEXTS) for name in missed(source, claimed))
    return own, own + others
