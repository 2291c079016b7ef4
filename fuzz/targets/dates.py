"""Days in any English question are recognized as an ordered span, with the words for it."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time

from memvault import clock
from memvault.index.text.analyzer import analyzer
from memvault.recall import dates
from memvault.settings.vault_settings import RankingSettings
from memvault.vault.date_ranges import dates_in_path, parse_date_range
from targets.shapes import text_of

TOKENS = tuple(
    "last |this |past |previous |week|month|year|day|days| ago|3 |a couple of |few |yesterday|"
    "today|"
    "the day before yesterday|last night|last weekend|monday|in May|May 2023|7 July 2023|"
    "July 7th, 2023|"
    "2026-01-31|2026-W05|2026-01|31.12.2025|Q3 2025|summer 2025|early |since |after |before |"
    "until |"
    "between | and | to |from |on the |of |the first week of |beginning of |end of |sept.|"
    "29 February|"
    "9999|0|00|\n|?|,| |may|march".split("|")
)
_TODAYS = (date(2026, 11, 22), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31))


def check(data: bytes) -> None:
    """Find days in a text, as of the day that the first byte selects."""
    today = _TODAYS[data[0] % len(_TODAYS)] if data else _TODAYS[0]
    text = text_of(data[1:])
    found = dates.find_date(text, today)
    if found is not None:
        assert found.span.first <= found.span.last
        assert found.words
        assert found.words in text
    for days in (parse_date_range(text), dates_in_path(text), dates_in_path(f"{text}.md")):
        assert days is None or days.first <= days.last
    moment = clock.parse_age(text)
    assert moment is None or moment.tzinfo is UTC
    if found is not None:
        now = datetime.combine(today, time(12), UTC)
        asked = dates.date_constraint(text, analyzer("english"), RankingSettings(), now)
        assert asked is not None
        assert asked.span == found.span
        assert math.isfinite(asked.weight)
