"""Dates in other languages are read with a library that nothing else waits for."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import titles, write
from memvault import Vault
from memvault.recall.foreign_dates import find_foreign_date, parse_phrase
from memvault.vault.file_names import DateRange

TODAY = date(2026, 11, 22)
"""A Sunday."""

MEANT = {
    "was haben wir im Mai beschlossen": "2026-05-01 2026-05-31",
    "Was war letzte Woche los?": "2026-11-09 2026-11-15",
    "was habe ich gestern gemacht": "2026-11-21",
    "was geschah vor drei Wochen": "2026-10-26 2026-11-01",
    "seit März 2026": "2026-03-01 2026-11-22",
    "diese Woche": "2026-11-16 2026-11-22",
    "der Vorfall Anfang Mai und was daraus folgte": "2026-05-01 2026-05-31",
    "qu’avons-nous décidé hier": "2026-11-21",
    "hier": "2026-11-21",
    "les notes de l'année dernière": "2025-01-01 2025-12-31",
    "il y a deux semaines": "2026-11-02 2026-11-08",
    "en mai 2025": "2025-05-01 2025-05-31",
    "¿qué decidimos la semana pasada sobre el techo?": "2026-11-09 2026-11-15",
    "qué pasó a principios de mayo de 2025": "2025-05-01 2025-05-31",
    "la settimana scorsa": "2026-11-09 2026-11-15",
    "o que fizemos ontem": "2026-11-21",
    "wat deden we vorige week": "2026-11-09 2026-11-15",
    "上周我们做了什么": "2026-11-09 2026-11-15",
    "2025年12月记下了哪些事": "2025-12-01 2025-12-31",
    "昨日の会議": "2026-11-21",
}


@pytest.mark.parametrize("text", MEANT)
def test_date_words_of_other_languages_are_read(text: str) -> None:
    """German, French, Spanish, Italian, Portuguese, Dutch, Chinese and Japanese questions."""
    first, _, last = MEANT[text].partition(" ")
    found = find_foreign_date(text, TODAY)
    assert found is not None
    assert found[0] == DateRange(date.fromisoformat(first), date.fromisoformat(last or first))
    assert found[1] in text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what did we do with the may fly",
        "wo ist die Datei hier",
        "wat is hier kapot",
        "non ho mai visto",
        "die letzte Seite",
        "2 Wochen Urlaub",
        "cuántas horas por semana",
        "planète mars",
        "un mois a la mer",
        "was tun wir nächste Woche",
        "im Mai 2031",
        "zwischen Mai und Juli",
        "qu'ai-je noté entre fin août et mi-septembre 2025",
        "die Meldung vor dem Tag",
        "set a limit",
        "we do it",
        "昨",
    ],
)
def test_words_that_only_look_so_mean_no_days(text: str) -> None:
    """A word that is a date elsewhere, what is still to come, and two ends are no span of days."""
    assert find_foreign_date(text, TODAY) is None


parts = st.sampled_from(
    "im seit vor letzte Woche Wochen Mai mai mars hier gestern la semana pasada hace il y a deux "
    "jours dernier l' année 3 12 99 2025 0 上周 月 5月 99月 , . ? und".split()
)


@given(st.lists(parts | st.text(max_size=4), max_size=9).map(" ".join), st.dates())
def test_any_words_on_any_day_are_read(text: str, today: date) -> None:
    """No words on any day are trouble, and no span ends before it begins."""
    for found in (find_foreign_date(text, today), (parse_phrase(text, today), text)):
        assert found is None or found[0] is None or found[0].first <= found[0].last


def test_only_what_may_be_a_date_loads_the_library(folder: Path, vault: Vault) -> None:
    """A question without date words, or with English ones, does not wait for it."""
    loaded = {name: module for name, module in sys.modules.items() if name.startswith("dateparser")}
    for name in loaded:
        del sys.modules[name]
    try:
        write(folder, "a.md", "# Boat\n\nThe boat is blue.\n")
        for query in ("which boat is blue", "wo liegt das Boot", "what happened last week"):
            assert vault.call("memory_recall", query=query, since="2020-01-01")["success"]
        assert "dateparser" not in sys.modules
    finally:
        sys.modules.update(loaded)


def test_a_question_in_german_finds_its_month(folder: Path, vault: Vault) -> None:
    """Asked for a month in another language, a memory made in it comes first."""
    for month in ("03", "05", "09"):
        header = f"created: 2025-{month}-10\nmodified: 2025-{month}-10\n"
        body = f"# Sitzung {month}\n\nWir haben über das Dach gesprochen.\n"
        write(folder, f"{month}.md", f"---\n{header}---\n\n{body}")
    found: dict[str, Any] = vault.call("memory_recall", query="was war mit dem Dach im Mai 2025")
    assert titles(found)[0] == "Sitzung 05"
