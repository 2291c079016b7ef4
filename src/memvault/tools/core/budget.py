"""Fit a result into a token budget: cut its lists or text, and shorten other long values.

A tool's ``paged_keys`` specifies the lists or the text that may make its result long. They are cut
after the last entry or line that fits, and ``next`` is the offset of the rest. All other values are
shortened, and a warning lists their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memvault import sanitize
from memvault.errors import MemvaultError
from memvault.named_tuple import NamedTuple

MAX_CHARACTERS = 12
"""Maximum number of characters per token of the budget, because the tokenizer ignores spaces."""
_LONGEST, _SHORTEST = 8_000, 8
"""Maximum and minimum length of a shortened string."""
_ENTRY_LENGTH = 25
"""A nested list keeps at most one entry per this many characters of the maximum text length."""
_MIN_KEYS = 24
"""Minimum number of keys to keep in a shortened nested object."""
_NAMES = frozenset(
    "memId filePath etag id eventId changeId factId episodeId procedureId proposalId requestId "
    "skillId spaceId messageId confirmToken".split()
)
"""Keys whose values a caller needs for its next call, so they are not shortened."""
_MAX_NAME = 300
_MAX_DEPTH = 12
_NOTE_ROOM = 60
"""Tokens reserved for the warning about shortened values."""
_BOUNDARIES = ("\n", ". ", "。", " ")
"""Preferred truncation points, best first: the end of a line, a sentence or a word."""
_LARGE = 10**9

Present = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A function that returns the visible form of a result, for example with secrets masked."""


AdjustCut = Callable[[str, int, int], tuple[int, int]]
"""A function that adjusts the bounds of a part of the text so that they split no secret."""


def keep_bounds(_: str, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of a part unchanged, for callers that may see secrets."""
    return start, end


class PageRequest(NamedTuple):
    """The requested part of a result, and the keys under which the result may be long.

    ``offset`` is the number of entries or characters skipped; ``newest_last`` lists are cut at
    their beginning. With ``continues``, a call with ``next`` as its offset returns the rest;
    ``continuation_hint`` describes another way to get it.
    """

    keys: tuple[str, ...]
    offset: int = 0
    newest_last: bool = False
    continues: bool = True
    continuation_hint: str = ""
    adjust_cut: AdjustCut = keep_bounds


def count(value: Any) -> int:
    """Return the number of tokens of a value as JSON."""
    return _count_tokens(sanitize.safe_json(value))


def _count_tokens(text: str) -> int:
    from memvault.index.embedding import tokenizer

    try:
        return tokenizer.count_tokens(text)
    except MemvaultError:  # Without the tokenizer, return too little rather than fail.
        return len(text.encode("utf-8", "replace")) // 2


def cost(value: Any, room: int) -> int:
    """Return the number of tokens of a value as JSON, or ``room + 1`` if it is far too long."""
    text = sanitize.safe_json(value)
    return room + 1 if len(text) > room * MAX_CHARACTERS else _count_tokens(text)


def fits(value: Any, room: int) -> bool:
    """Return whether a value as JSON fits into ``room`` tokens and the limit of characters."""
    return cost(value, room) <= room


def prefix_length(text: str, room: int) -> int:
    """Return how many characters of the text fit, up to the end of a line, sentence or word."""
    clip = text[: max(1, room * MAX_CHARACTERS)]
    if len(clip) == len(text) and fits(text, room):
        return len(text)
    low, high = 0, len(clip)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(clip[:middle], room) else (low, middle - 1)
    for boundary in _BOUNDARIES:
        end = clip.rfind(boundary, low // 2, low)
        if end >= 0:
            return end + len(boundary)
    return max(1, low)


def skip(
    result: Mapping[str, Any],
    keys: Sequence[str],
    offset: int,
    length: int,
    adjust_cut: AdjustCut = keep_bounds,
) -> tuple[dict[str, Any], int]:
    """Return the part of a result from an offset on, and the offset.

    Text is cut to the given length; ``length`` 0 means the rest. ``adjust_cut`` may move the text's
    offset.
    """
    present = [key for key in keys if key in result]
    if not present:
        return dict(result), offset
    value = result[present[0]]
    if isinstance(value, str):
        end = min(len(value), offset + length) if length else len(value)
        offset, end = adjust_cut(value, offset, end)
        part = value[offset:end]
        past = {"message": f"It has only {len(value):,} characters"}
        return {
            **result,
            present[0]: part,
            "totalLength": result.get("totalLength", len(value)),
            **({"next": end} if part and end < len(value) else {}),
            **(past if value and not part else {}),
        }, offset
    total = sum(len(result[key]) for key in present)
    remaining, parts = offset, {}
    for key in present:
        parts[key] = result[key][remaining:]
        remaining = max(0, remaining - len(result[key]))
    past = {"message": f"The result has only {total:,} {'entry' if total == 1 else 'entries'}"}
    return {**result, **parts, "total": total, **(past if offset >= total > 0 else {})}, offset


def fit(
    result: Mapping[str, Any], budget: int, request: PageRequest, present: Present
) -> Mapping[str, Any]:
    """Return the visible form of a result, cut to at most ``budget`` tokens."""
    keys = [key for key in request.keys if key in result]
    text = keys and isinstance(result[keys[0]], str)
    if len(sanitize.safe_json(result)) <= budget * MAX_CHARACTERS:
        shown = present(result)
        if fits(shown, budget):
            return shown
    if text:
        return _cut_text(result, keys[0], budget, request, present)
    shown = present(result)
    return (
        _cut_lists(shown, keys, budget, request)
        if keys
        else shortened(shown, budget, request.continuation_hint)
    )


def _cut_text(
    result: Mapping[str, Any], key: str, budget: int, request: PageRequest, present: Present
) -> Mapping[str, Any]:
    """Cut the text under a key; offsets refer to the text before ``present`` is applied."""
    text, total = result[key], result.get("totalLength", request.offset + len(result[key]))
    others = present({**result, key: ""})
    others = shortened(others, budget // 2, "use budget 0 for the full result")
    room = budget - count({**others, "next": _LARGE, "totalLength": total})
    while True:
        _, end = request.adjust_cut(text, 0, prefix_length(text, max(1, room)))
        part = present({**result, key: text[:end]})[key]
        cut_result = {**others, key: part, "totalLength": total}
        if "length" in others:
            cut_result["length"] = end
        if end < len(text) and request.continues:
            cut_result["next"] = request.offset + end
        if room <= 1 or fits(cut_result, budget):
            return cut_result
        room = room * 3 // 4


def _cut_lists(
    shown: Mapping[str, Any], keys: Sequence[str], budget: int, request: PageRequest
) -> Mapping[str, Any]:
    """Cut lists after the last entry that fits; a first entry that does not fit is shortened."""
    entries = [(key, entry) for key in keys for entry in shown[key]]
    if request.newest_last:
        entries.reverse()
    others = {key: value for key, value in shown.items() if key not in keys}
    others = shortened(others, budget // 2, request.continuation_hint)
    room = budget - count({**others, **dict.fromkeys(keys, ()), "next": _LARGE, "more": _LARGE})
    kept_count, used = 0, 0
    for _, entry in entries:
        used += count([entry]) if fits(entry, room) else room + 1
        if used > room:
            break
        kept_count += 1
    if entries and not kept_count:
        others, entries = _shorten_first(others, entries, room, request)
        kept_count = 1
    while True:
        cut_result = _assemble(shown, others, entries, keys, kept_count, request)
        if kept_count <= 1 or fits(cut_result, budget):
            break
        kept_count -= 1
    return (
        cut_result
        if fits(cut_result, budget)
        else shortened(cut_result, budget, request.continuation_hint)
    )


def _shorten_first(
    others: Mapping[str, Any], entries: list[tuple[str, Any]], room: int, request: PageRequest
) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Shorten the first entry, and add a warning that explains how to read all of it."""
    key, first = entries[0]
    note = f"the first of {key} is shortened"
    note = f"{note}; {request.continuation_hint}" if request.continuation_hint else note
    short = _shorten(first, room - count(note) - 12)
    return _with_warning(others, note), [(key, short), *entries[1:]]


def _assemble(
    shown: Mapping[str, Any],
    others: Mapping[str, Any],
    entries: Sequence[tuple[str, Any]],
    keys: Sequence[str],
    kept_count: int,
    request: PageRequest,
) -> dict[str, Any]:
    """Return a result with the first ``kept_count`` of its entries, in the order of its keys."""
    part = list(entries[:kept_count])
    if request.newest_last:
        part.reverse()
    lists = {key: [entry for name, entry in part if name == key] for key in keys}
    cut_result = {key: lists.get(key, others.get(key)) for key in shown} | {
        key: value for key, value in others.items() if key not in shown
    }
    if "count" in shown and shown["count"] == len(entries):
        cut_result["count"] = kept_count
    dropped = len(entries) - kept_count
    if not dropped:
        return cut_result
    if not request.continues:
        note = f"{kept_count} of {len(entries)} {keys[0]} are shown"
        return _with_warning(
            cut_result,
            f"{note}; {request.continuation_hint}" if request.continuation_hint else note,
        )
    if "brief" in request.keys:
        cut_result["more"] = shown.get("more", 0) + dropped
    elif "totalMessages" not in shown:
        cut_result.setdefault("total", request.offset + len(entries))
    return {**cut_result, "next": request.offset + kept_count}


def shortened(shown: Mapping[str, Any], budget: int, rest: str = "") -> dict[str, Any]:
    """Return a result with its longest values shortened, and a warning that lists them."""
    if fits(shown, budget):
        return dict(shown)
    short = _shorten(shown, budget - _NOTE_ROOM)
    names = ", ".join(key for key in shown if short[key] != shown[key])
    note = f"shortened: {names}"
    noted = _with_warning(short, f"{note}; {rest}" if rest else note)
    return noted if fits(noted, budget) else short


def _with_warning(result: Mapping[str, Any], note: str) -> dict[str, Any]:
    return {**result, "warnings": [*result.get("warnings", ()), note]}


def _shorten(value: Any, room: int) -> Any:
    """Return a value with its long strings and nested lists shortened until it fits."""
    length = _LONGEST
    while True:
        short = _limited(value, length, max(0, length // _ENTRY_LENGTH), _MAX_DEPTH)
        if length <= _SHORTEST or fits(short, room):
            return short
        length = length * 4 // 5


def _limited(value: Any, length: int, entries: int, depth: int) -> Any:
    """Return a value whose strings and lists are limited to these lengths, down to a depth."""
    if isinstance(value, str):
        if len(value) <= length:
            return value
        return f"{value[:length]}… ({len(value):,} characters)" if length > _ENTRY_LENGTH else "…"
    if isinstance(value, list | tuple):
        # A list at the top level of the result keeps at least one entry.
        entries = max(entries, depth == _MAX_DEPTH - 1)
        return [
            _limited(part, length, entries, depth - 1) for part in value[: entries * (depth > 0)]
        ]
    if isinstance(value, Mapping):
        most = _LARGE if depth == _MAX_DEPTH else max(_MIN_KEYS, entries) if depth > 0 else 0
        return {
            _limited(key, max(length, 100), entries, depth): _limited_value(
                key, part, length, entries, depth - 1
            )
            for key, part in list(value.items())[:most]
        }
    return value if len(str(value)) <= max(length, 25) else None


def _limited_value(key: str, value: Any, length: int, entries: int, depth: int) -> Any:
    """Return the value of a key, limited as in ``_limited``; front matter is left out entirely."""
    if key in _NAMES and isinstance(value, str) and len(value) <= _MAX_NAME:
        return value
    # Front matter may have any keys; an episode's metadata has the keys that its type requires.
    is_front_matter = key == "metadata" and "skillsUsed" not in value
    if is_front_matter and len(sanitize.safe_json(value)) > length:
        return {}
    return _limited(value, length, entries, depth)
