"""Any text is a query, and a memory with the same text contains all its words and phrases."""

from __future__ import annotations

from memvault.index.text.analyzer import analyzer, query_analyzer
from memvault.recall.query import parse
from targets.shapes import text_of

TOKENS = tuple(
    "which database|\"use it\"|“so”|„so“|«so»|\"|'|’|l'été |d'|don't|it's|src/app.py|v1.2.3|"
    "getUserName|"
    "HTTPServer2|user@host|C++|C#|a_b|--flag|größer|groesser|Straße|ﬁ|İ|ǅ|ß|Ё|é|e\u0301|"
    "한국어|日本語|中文字|ｱｲ|"
    "ไทย|हिन्दी|العربية|😀|👩\u200d👧|\u200b|\u0301|\n|\0|100 %|2026-01-31|1,5|the|"
    "der die das|est-ce que".split("|")
)
_LANGUAGES = (
    ("english",),
    ("none",),
    ("german", "english"),
    ("french", "italian", "english", "russian"),
)


def check(data: bytes) -> None:
    """Read a query in the languages that the first byte selects."""
    languages = _LANGUAGES[data[0] % len(_LANGUAGES)] if data else _LANGUAGES[0]
    asking = query_analyzer(languages)
    query = parse(text_of(data[1:]), asking)
    assert parse(query.text, asking) == query
    assert query.hint() is not None
    assert query.term_names().keys() >= {stem for word in query.words for stem in word}
    assert query.has_phrases(query.text)
    assert query.is_empty is not bool(query.words or query.wholes)
    for language in languages:
        terms = analyzer(language).terms(query.text)
        for word in query.words:
            assert any(stem in terms.stems for stem in word), (language, word)
