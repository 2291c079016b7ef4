"""Interfaces of a keyword index and of static vectors, independent of their storage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Protocol

from memvault.files.plain_files import FileStamp
from memvault.index.embedding.arrays import Matrix
from memvault.index.keyword.bm25f import KeywordDocument, Segment
from memvault.index.protocol import KeywordQuery
from memvault.index.vectors.nearest import ScoredPassages


class KeywordStore(Protocol):
    """The keyword index of a commit."""

    def apply(self, removed: Iterable[int], added: Sequence[KeywordDocument]) -> KeywordStore:
        """Remove memories and add documents; return the index to commit."""

    def files(self) -> dict[str, FileStamp]:
        """Return the states of its files, by name."""

    def candidates(self, query: KeywordQuery) -> list[Segment]:
        """Return the documents most likely to match a query's terms, as input for ``bm25f``."""

    def close(self) -> None:
        """Close open files."""


class Vectors(Protocol):
    """The static vectors of one index's memories."""

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """Return the vector and hash of one passage of each memory, except removed memories."""

    def search(
        self, query: Matrix, limit: int, also: Set[int], among: Set[int] | None
    ) -> ScoredPassages:
        """Return the passages of the nearest memories and of ``also``, or all passages.

        ``among`` contains the memories to search, or None for all.
        """


class KeywordBackend(Protocol):
    """The part of a backend that opens keyword indexes."""

    def open_keyword(self, folder: Path | None, files: Iterable[str]) -> KeywordStore:
        """Open the keyword index of a commit's files in a folder, or an empty one."""

    def create_keyword(self, folder: Path) -> KeywordStore:
        """Create an empty keyword index in an empty folder."""
