"""The one Whoosh field type of the keyword index, importable because Whoosh pickles its schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from whoosh.fields import FieldType
from whoosh.formats import Existence


class Bag(FieldType):  # type: ignore[misc]  # Whoosh's classes are only partly typed
    """Terms already counted: no analyser, no positions, the count as the posting's weight."""

    def __init__(self) -> None:
        super().__init__(format=Existence(), analyzer=None, scorable=True)

    def index(
        self,
        value: Counter[str],
        **kwargs: Any,  # noqa: ARG002  # Whoosh's signature
    ) -> Iterator[tuple[bytes, int, float, bytes]]:
        """Yield (term, count, weight, nothing) for each term."""
        for term, count in value.items():
            yield term.encode("utf-8", "replace"), count, float(count), b""
