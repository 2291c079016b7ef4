"""Parse the filters and dates in tools' arguments."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from memvault.arguments.parameters import split_tags
from memvault.call import Call
from memvault.errors import UsageError

if TYPE_CHECKING:
    from memvault.recall.filters import Filters
    from memvault.recall.recall_engine import RecallEngine


def filters(
    memory_type: str | None,
    tags: list[str] | None,
    since: str | None,
    until: str | None,
    expression: str | None,
    also: Filters | None = None,
) -> Filters:
    """Create filters from a tool's arguments, combined with the filters of its query.

    Raises:
        UsageError: ``since`` or ``until`` is not a date.
    """
    from memvault.recall.filters import Filters

    argument_filters = Filters(
        memory_type=(memory_type or "").strip(),
        tags=tuple(
            part
            for tag in tags or ()
            # A tag in a file may contain a comma.
            for part in (split_tags(tag) if " #" in tag or "\n" in tag else [tag])
            if part.strip()
        ),
        since=parse_date_argument(since, "since", False),
        until=parse_date_argument(until, "until", True),
        expression=expression or "",
    )
    return argument_filters if also is None else argument_filters.both(also)


def warn_unknown_filters(call: Call, chosen: Filters, engine: RecallEngine | None = None) -> None:
    """Add notes about types and tags in the filters that no memory has, after an empty result."""
    if any(
        part.memory_type or part.types or part.tags or part.folders for part in chosen.required()
    ):
        from memvault.recall.filters import Filters, unknown_value_notes

        every = (engine or call.engine).list_records(Filters())
        call.notes += unknown_value_notes(every, chosen, call.settings.types)


def tags_in(query: str) -> Filters:
    """Convert the query of a tag search to filters."""
    from memvault.recall.filters import Filters

    return Filters(tags=tuple(query.replace(",", " ").split()))


def parse_date_argument(text: str | None, name: str, end: bool) -> datetime | None:
    """Parse a date argument to the first moment of that date, or with ``end`` the last.

    Raises:
        UsageError: it is not a date.
    """
    from memvault.recall import dates

    if not text or not text.strip():
        return None
    moment = dates.parse_moment(text, end)
    if moment is None:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise UsageError(
            f"{name} must be a date, a time, an age, or words for one, not {shown!r}",
            "use 2026-01-31, 2026-01-31T12:00:00Z, 2026-W05, 7d, 12h, 2w, or 'last week'",
        )
    return moment
