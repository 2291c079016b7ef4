"""Agent Zero's memory, version 0.9 (python/helpers/memory.py): LangChain's FAISS store.

The store pickles a docstore and a mapping from positions to ids. The classes here replace
LangChain's classes of the same names; LangChain's ``Document`` is a pydantic model.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from conftest import write


class Document:
    """A replacement for langchain_core.documents.base.Document."""

    def __init__(self, page_content: str, **metadata: Any) -> None:
        self.page_content = page_content
        self.metadata = metadata

    def __getstate__(self) -> dict[str, Any]:
        fields = {"__pydantic_fields_set__": set(self.__dict__), "__pydantic_private__": None}
        return {"__dict__": dict(self.__dict__), "__pydantic_extra__": None, **fields}


class InMemoryDocstore:
    """A replacement for langchain_community.docstore.in_memory.InMemoryDocstore."""

    def __init__(self, documents: dict[str, Document]) -> None:
        self._dict = documents


class _Trap:
    """An object that creates a file when unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self._file,)


def make(folder: Path) -> Path:
    """Write a store with two memories, a chunk of a knowledge file, and a malicious pickle."""
    when = "2026-01-05 10:00:00"
    documents = {
        "x1": Document("The user's name is Ana.", id="x1", area="main", timestamp=when),
        "x2": Document("# Problem\nThe disk is full.", id="x2", area="solutions"),
        "x3": Document("A manual", id="x3", area="main", knowledge_source=True),
    }
    stored = (InMemoryDocstore(documents), dict(enumerate(documents)), _Trap(folder / "trapped"))
    write(folder, "memory/default/index.pkl", pickle.dumps(stored))
    write(folder, "memory/default/index.faiss", b"IxFI")
    write(folder, "memory/default/embedding.json", "{}")
    return folder / "memory"
