"""Three-way merge of header values by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memvault.named_tuple import NamedTuple
from memvault.vault import header_dates

_COUNT, _RATE = "usage_count", "success_rate"
_LINKS = ("supersedes", "conflict_with")
"""Keys for which a single link is equivalent to a list with that link."""


class MergedHeader(NamedTuple):
    """Merged header values, and the dropped values as ``key: value``."""

    values: dict[str, Any]
    dropped_values: list[str]


def merge_headers(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> MergedHeader:
    """Merge three headers key by key; our keys come first, then theirs."""
    return _merged(base, ours, theirs, _is_newer(theirs, ours), "")


def _merged(
    base: Mapping[str, Any],
    ours: Mapping[str, Any],
    theirs: Mapping[str, Any],
    newer: bool,
    above: str,
) -> MergedHeader:
    values: dict[str, Any] = {}
    lost: list[str] = []
    for key in dict.fromkeys((*ours, *theirs)):
        old, here, there = base.get(key), ours.get(key), theirs.get(key)
        if here == there or there == old:
            value = here
        elif here == old or here is None:  # Deleted on one side and changed on the other: keep it.
            value = there
        elif there is None:
            value = here
        elif isinstance(here, Mapping) and isinstance(there, Mapping):
            earlier = old if isinstance(old, Mapping) else {}
            below = _merged(earlier, here, there, newer, f"{above}{key}.")
            value = below.values
            lost += below.dropped_values
        elif _is_list(key, here) and _is_list(key, there):
            value = _merge_lists(_listed(old), _listed(here), _listed(there))
        else:
            value = _chosen(key, old, here, there, newer)
            if key not in (_COUNT, _RATE) and not header_dates.is_modified_key(key):
                lost.append(f"{above}{key}: {there if value == here else here}")
        if value is not None:
            values[key] = value
    return MergedHeader(values, lost)


def _chosen(key: str, old: Any, here: Any, there: Any, newer: bool) -> Any:
    if header_dates.is_modified_key(key):
        here_time, there_time = header_dates.parse(here), header_dates.parse(there)
        if here_time is not None and there_time is not None:
            return there if here_time < there_time else here
    if key == _COUNT and all(type(count) is int for count in (here, there)):
        return max(0, here + there - (old if type(old) is int else 0))
    if key == _RATE and all(isinstance(rate, int | float) for rate in (old, here, there)):
        # Both sides recorded outcomes since ``old``, so the changes of the rate are added up.
        return min(1.0, max(0.0, round(here + there - old, 6)))
    return there if newer else here


def _is_newer(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    moments = header_dates.time_in(theirs, "modified"), header_dates.time_in(ours, "modified")
    return all(moments) and moments[0] > moments[1]


def _is_list(key: str, value: Any) -> bool:
    return isinstance(value, list) or (key in _LINKS and isinstance(value, str))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _merge_lists(old: list[Any], here: list[Any], there: list[Any]) -> list[Any]:
    from_here = [entry for entry in here if entry in there or entry not in old]
    return from_here + [entry for entry in there if entry not in here and entry not in old]
