"""Any text is searched for dates in other languages without error; found days are in order."""

from __future__ import annotations

from datetime import UTC, date

from memvault.recall import dates, foreign_dates
from targets.shapes import text_of

TOKENS = tuple(
    "gestern|vorgestern|letzte Woche|im Mai 2023|vor 3 Tagen|am 7. Juli 2023|hier|"
    "la semaine dernière|"
    "il y a 2 jours|le mois dernier|en mayo|hace 3 días|la semana pasada|ieri|ontem|"
    "vorige week|vandaag|"
    "昨天|先週|2023年5月|1月2日|seit |depuis |zwischen |entre | und |März|août|fevereiro|"
    "marzo|mei|32|99|2023|"
    "..|,|’|'|\n| ".split("|")
)
_TODAY = date(2026, 11, 22)


def check(data: bytes) -> None:
    """Read a text as a question, and as a time bound, which contains only a date."""
    text = text_of(data)
    found = foreign_dates.find_foreign_date(text, _TODAY)
    if found is not None:
        assert found[0].first <= found[0].last
        assert found[1] in text
    first = dates.parse_moment(text, False)
    if first is not None:  # each call of dateparser takes milliseconds
        last = dates.parse_moment(text, True)
        assert last is not None
        assert first <= last
        assert first.tzinfo is last.tzinfo is UTC
