"""Which days a memory is of, and how near they are to those that a question asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from memvault.index.protocol import MemoryRecord
from memvault.model import Memory
from memvault.recall.values import ScoredMemory
from memvault.vault.daily import DateRange, dates_in_path, note_days, parse_date_range


def memory_days(entry: MemoryRecord | Memory) -> list[DateRange]:
    """Return the days that a memory is of: its own first, then when it was made and changed."""
    return [*declared_dates(entry), *(_day(text) for text in (entry.created, entry.modified))]


def declared_dates(entry: MemoryRecord | Memory) -> list[DateRange]:
    """Return the days in a memory's name and in its header's ``date``."""
    said = entry.metadata.get("date")
    found = [
        dates_in_path(entry.path),
        parse_date_range(str(said).strip()[:10]) if isinstance(said, str | int) else None,
    ]
    return [days for days in found if days is not None]


def effective_date(entry: MemoryRecord | Memory) -> str:
    """Return the day that a memory is of, or when it was changed, for comparing as text.

    Where only the file's own time says so it is the day: files that were copied
    together are not one newer than the other.
    """
    days = declared_dates(entry)
    if days:
        return max(span.last for span in days).isoformat()
    is_told = entry.metadata.get("modified") or entry.metadata.get("created")
    return entry.modified if is_told else entry.modified[:10]


def date_proximity(entry: MemoryRecord | Memory, span: DateRange) -> float:
    """Say how near a memory's days are to a span, in 0..1."""
    return max(span_proximity(span, days) for days in memory_days(entry))


def is_note_of(entry: MemoryRecord | Memory, span: DateRange) -> bool:
    """Say whether a memory is the daily, weekly or monthly note of just these days."""
    return note_days(entry.path) == span


def note_first(
    scored: Sequence[ScoredMemory], records: Mapping[int, MemoryRecord], span: DateRange
) -> list[ScoredMemory]:
    """Put the note of the days that were asked for before what else was found."""
    best = max((entry.score for entry in scored), default=0.0)
    notes, others = [], []
    for entry in scored:
        record = records.get(entry.key)
        if record is not None and is_note_of(record, span):
            parts = {**entry.parts, "note": best - entry.score}
            notes.append(ScoredMemory(entry.key, best, parts))
        else:
            others.append(entry)
    return [*notes, *others]


def span_proximity(found: DateRange, other: DateRange) -> float:
    """Say how near days are to a span: 1 where they meet, 0.5 beside it.

    It halves again with each of the span's lengths (at least 3 days) further off.
    """
    gap = max((found.first - other.last).days, (other.first - found.last).days, 0)
    length = max(3, (found.last - found.first).days + 1)
    return float(0.5 ** (1 + (gap - 1) / length)) if gap else 1.0


def _day(text: str) -> DateRange:
    try:
        day = date.fromisoformat(text[:10])
    except ValueError:
        day = date.min
    return DateRange(day, day)
