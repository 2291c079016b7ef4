"""A text is cut into passages that leave nothing out, and into terms that find it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from memvault.index.text import analysis, passages

short = ["# One", "## Two #", "###### ", "```", "~~~ python", "", "  ", "\t", "\r", "And more!"]
long = ["x" * 1_300, "a sentence ends. " * 100, "今天天气很好。" * 80, "字" * 900, "word " * 300]
lines = st.sampled_from(short) | st.sampled_from(long) | st.text(max_size=40)
bodies = st.lists(lines, max_size=12).map("\n".join)


@given(bodies)
@example("字" * 200_000)
@example("x" * 5_000 + "\n" * 50 + "# H")
def test_passages_leave_nothing_out(body: str) -> None:
    """Every character that is not white space lies in one passage; they are short and in order."""
    found = passages.split_passages(body)
    assert found
    place = 0
    for passage in found:
        assert place <= passage.start <= passage.end <= len(body)
        assert not body[place : passage.start].strip()
        assert passage.end - passage.start <= 1_200
        place = passage.end
    assert not body[place:].strip()
    stretches = passages.split_blocks(found)
    assert (stretches[0][0], stretches[-1][1]) == (found[0].start, found[-1].end)
    assert {start for start, _ in stretches} <= {passage.start for passage in found}
    assert all(one[1] <= other[0] for one, other in pairwise(stretches))


words = st.sampled_from(
    "getUserName snake_case v1.2.3 src/app.py C++ C# naïve 数据库 デ검색 don't the 🚀 ÄPFEL".split()
)
texts = st.lists(words | st.text(max_size=12), min_size=1, max_size=8).map(" ".join)


languages = st.sampled_from(["english", "german", "russian", "turkish", "none", "french"])


@given(texts, languages, st.lists(languages, max_size=2))
@example("İstanbul", "english", [])
@example("ﬃ ǅ ß ẞ", "german", ["french"])
def test_a_texts_own_words_find_it(text: str, language: str, others: list[str]) -> None:
    """A query that is a text, or any word of it, has terms in common with the text.

    Whatever other languages the vault has.
    """
    analyser = analysis.Analyser(language)
    asked = analysis.QueryAnalyser([*others, language])
    terms = analyser.terms(text)
    for query in (text, *text.split()):
        words, wholes = asked.query(query)
        assert len({word[0] for word in words}) == len(words)
        stems = {stem for word in words for stem in word}
        own = analyser.terms(query)
        if own.stems or own.wholes:
            assert stems & terms.stems.keys() or set(wholes) & terms.wholes.keys(), query


def test_a_long_paragraph_is_cut_at_the_end_of_a_sentence() -> None:
    """Full-width marks end a Chinese sentence, and a mark within a word ends none."""
    chinese = (
        "这是一个很长的句子没有停顿" * 20 + "对吗？" + "真好" * 100 + "！" + "然后继续写下去" * 60
    )
    first = passages.split_passages(chinese)[0]
    assert chinese[: first.end].endswith(("？", "！"))
    english = ("word " * 239).strip() + " left!right " + "more " * 300
    assert not any(
        english[: part.end].endswith("left!") for part in passages.split_passages(english)
    )
