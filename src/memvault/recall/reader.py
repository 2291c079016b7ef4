"""Reads the memories of an answer, each once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from memvault.index.analysis import DEFAULT_LANGUAGE, Analyser, analyser
from memvault.index.protocol import StaleView, View
from memvault.model import Memory, is_example
from memvault.recall.query import Query


class Reader:
    """Reads hits' files, each once; one that does not hold the query's phrases is no hit."""

    def __init__(self, view: View, query: Query, last: bool) -> None:
        self.view = view
        self._query = query
        self._last = last
        self._read: dict[int, Memory | None] = {}

    def read(self, key: int) -> Memory | None:
        """Return a hit's memory; None where it cannot be read or does not fit.

        Raises:
            Stale: the file has changed since the look, and there is time to look again.
        """
        if key not in self._read:
            self._read[key] = self._fitting(key)
        return self._read[key]

    def analyser(self, key: int) -> Analyser:
        """Return the analyser of the language as which a memory is indexed."""
        record = self.view.record(key)
        return analyser(record.language if record is not None else DEFAULT_LANGUAGE)

    def first(self, keys: Iterable[int], count: int) -> dict[int, Memory]:
        """Return the first hits that can be read and fit, in their order."""
        read = ((key, self.read(key)) for key in keys)
        return dict(islice(((key, memory) for key, memory in read if memory is not None), count))

    def _fitting(self, key: int) -> Memory | None:
        try:
            memory = self.view.text(key)
        except StaleView:
            if self._last:
                return None
            raise
        if memory is None or is_example(memory.metadata):
            return None
        return memory if self._query.has_phrases(f"{memory.title}\n{memory.body}") else None
