"""The description of a published index, stored in a separate row in the engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self

from memvault.named_tuple import NamedTuple

_GENERATION = re.compile(r"[0-9a-f]{1,40}")
_MAX_NUMBER = 1 << 40
"""An upper limit for memory counts and for uids."""
NOTHING = "0"
"""The generation of rows of an unpublished vault."""


class Publication(NamedTuple):
    """The machine that publishes a vault, and the state of the vault's rows in the engine.

    ``publisher`` is the machine's id, and ``host`` is its name. ``words`` and ``passages`` are the
    current generations of rows; ``passages`` is empty if there are no vectors. ``documents`` is the
    number of documents in the keyword index, and ``memories`` is the number of files. ``removed``
    counts all memories ever removed, and ``recently_removed`` has the uids of the most recent ones.
    ``state`` changes with every change of the index, ``version`` is the program version that
    computed the rows, and ``published_at`` is the time of the upload.
    """

    publisher: str
    host: str
    name: str
    words: str = NOTHING
    passages: str = ""
    documents: int = 0
    memories: int = 0
    removed: int = 0
    recently_removed: tuple[int, ...] = ()
    state: str = ""
    version: str = ""
    published_at: str = ""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Parse a value from an engine; invalid fields are replaced by defaults.

        Others may write to the engine, so nothing in it is trusted.
        """
        values: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
        fields: dict[str, Any] = {}
        for name, default in cls("", "", "")._asdict().items():
            value = values.get(name)
            if isinstance(default, tuple):
                numbers = value if isinstance(value, list) else []
                fields[name] = tuple(number for number in numbers if _is_number(number))
            elif isinstance(default, str):
                fields[name] = value if isinstance(value, str) else ""
            else:
                fields[name] = value if _is_number(value) else 0
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        """Return the value that the engine stores."""
        return {**self._asdict(), "recently_removed": list(self.recently_removed)}

    @property
    def is_valid(self) -> bool:
        """Return whether the publication's generations are well-formed."""
        return all(map(_GENERATION.fullmatch, (self.words, self.passages or NOTHING)))

    def about(self) -> dict[str, Any]:
        """Return the fields to show to a user."""
        return {"host": self.host, "sent": self.published_at, "documents": self.documents}


def vector_generation(manifest: int) -> str:
    """Return the generation of a manifest's vectors."""
    return f"{manifest:x}"


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < _MAX_NUMBER
