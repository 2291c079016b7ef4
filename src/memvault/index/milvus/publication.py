"""What an engine is told of a vault, in a row of its own: who sends it, and which rows are its."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

_GENERATION = re.compile(r"[0-9a-f]{1,40}")
_MOST = 1 << 40
"""What no number of memories, nor a uid, is above."""
NOTHING = "0"
"""The generation of a vault of which nothing is sent yet."""


class Publication(NamedTuple):
    """Who sends a vault (``holder``, an id; ``host``, its name), and what is in the engine of it.

    ``words`` and ``passages`` are the generations of rows that count, ``passages`` is empty where
    there are no vectors; ``documents`` are the words', ``memories`` the files'. ``removed``
    counts the memories that ever went, and ``gone`` are the last of them. ``state`` is another
    whenever anything is; ``made`` says by which version the rows were made, ``sent`` when.
    """

    publisher: str
    host: str
    name: str
    words: str = NOTHING
    passages: str = ""
    documents: int = 0
    memories: int = 0
    removed: int = 0
    gone: tuple[int, ...] = ()
    state: str = ""
    made: str = ""
    sent: str = ""

    @classmethod
    def from_json(cls, told: object) -> Self:
        """Read what an engine says; what makes no sense is left out: others may write there."""
        said: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
        made: dict[str, Any] = {}
        for name, default in cls("", "", "")._asdict().items():
            value = said.get(name)
            if isinstance(default, tuple):
                numbers = value if isinstance(value, list) else []
                made[name] = tuple(number for number in numbers if _is_number(number))
            elif isinstance(default, str):
                made[name] = value if isinstance(value, str) else ""
            else:
                made[name] = value if _is_number(value) else 0
        return cls(**made)

    def to_json(self) -> dict[str, Any]:
        """Return it as an engine keeps it."""
        return {**self._asdict(), "gone": list(self.gone)}

    @property
    def is_valid(self) -> bool:
        """Whether its generations could be some."""
        return all(map(_GENERATION.fullmatch, (self.words, self.passages or NOTHING)))

    def about(self) -> dict[str, Any]:
        """Return what a person is told of it."""
        return {"host": self.host, "sent": self.sent, "documents": self.documents}


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value < _MOST
