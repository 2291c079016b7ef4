"""Counts of a source's converted and omitted content, by type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from memvault.importers.items import TypeCount

_MAX_TYPES = 200
"""Maximum number of separately counted types; all other types are counted together."""
_MAX_TYPE = 80
"""Maximum length of a type name, which may come from an untrusted source."""
_OTHER = "other"
_EMPTY: tuple[object, ...] = (None, "", [], {}, False)


class ContentCounts:
    """Counts of a source's records, blocks and properties by type.

    A type is a singular noun in the program's terms: ``page``, ``block callout``, ``message
    property "attachments"``.
    """

    def __init__(self) -> None:
        self._converted: Counter[str] = Counter()
        self._omitted: Counter[str] = Counter()

    def converted(self, type_name: str, count: int = 1) -> None:
        """Count imported parts."""
        self._add(self._converted, type_name, count)

    def omitted(self, type_name: str, count: int = 1) -> None:
        """Count unsupported parts, which are not imported."""
        self._add(self._omitted, type_name, count)

    def unused_properties(
        self, owner: str, entry: Mapping[Any, Any], used: Collection[str]
    ) -> None:
        """Count the properties of a record that have a value but are not converted.

        ``used`` contains the converted keys, and the keys that matter only within the program.
        """
        for key, value in entry.items():
            if key not in used and value not in _EMPTY:
                self.omitted(f'{owner} property "{key}"')

    def clear(self) -> None:
        """Reset all counts."""
        self._converted.clear()
        self._omitted.clear()

    def items(self) -> Iterator[TypeCount]:
        """Yield the counts, largest first."""
        for counts, is_converted in ((self._converted, True), (self._omitted, False)):
            for type_name, count in counts.most_common():
                yield TypeCount(type_name, count, is_converted)

    @staticmethod
    def _add(counts: Counter[str], type_name: str, count: int) -> None:
        if not count:
            return
        if type_name in counts:  # the common case
            counts[type_name] += count
            return
        name = " ".join(type_name.split())
        if len(name) > _MAX_TYPE:
            name = f"{name[:_MAX_TYPE]}…"
        if name not in counts and len(counts) >= _MAX_TYPES:
            name = _OTHER
        counts[name] += count
