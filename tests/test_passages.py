"""A memory is cut into passages and stretches that lose nothing, and into terms that find it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memvault import Vault
from memvault.index.protocol import DISTINCTIVE_BIT
from memvault.index.text import analysis, passages
from memvault.index.text.analysis import analyser
from memvault.index.text.indexed_text import (
    TERM_ID_MASK,
    TextBlock,
    encode_blocks,
    number_of,
    split_memory,
)
from memvault.index.text.sentences import sentence_ends, split_sentences
from memvault.model import Memory

REST = "She pulls and it stays shut. The smith is away until the end of the week. "
LINE = f"The harbour gate will not open since the storm of last night. {REST * 3}".strip()


def memory(body: str, title: str = "Title", path: str = "a.md", *tags: str) -> Memory:
    """A memory as it is read from a file."""
    return Memory(path, "a", title, "context", tags, "", "", {"tags": list(tags)}, body, "etag")


def stretches(body: str) -> list[str]:
    """The stretches of a body, block by block, without the heads."""
    return [text for block in split_memory(memory(body)) for text in block.texts[1:]]


def test_a_stretch_inside_a_line_says_who_is_speaking() -> None:
    """What a person says in several stretches is theirs in each, and nobody's words are lost."""
    found = stretches(f"Ana: {LINE}\nBo de Vries: {LINE}\n{LINE}")
    said = " ".join(found)
    assert len(found) > 6
    assert found[0].startswith("Ana: The harbour")
    ana, bo, nobody = (
        [stretch for stretch in found if stretch.startswith(name)]
        for name in ("Ana: ", "Bo de Vries: ", ("She ", "The "))
    )
    assert len(ana) > 1 < len(bo)
    assert nobody
    assert found == ana + bo + nobody
    assert " ".join(said.replace("Ana: ", "").replace("Bo de Vries: ", "").split()) == " ".join(
        [LINE] * 3
    )


def test_a_sentence_in_pieces_says_who_is_speaking() -> None:
    """A single sentence too long for a stretch is one person's to its end."""
    found = stretches("Ana: " + "and then it rained " * 60)
    assert len(found) > 2
    assert all(stretch.startswith("Ana: ") for stretch in found)
    assert sum(stretch.count("Ana: ") for stretch in found) == len(found)


@pytest.mark.parametrize(
    "start", ["ana: ", "Ana:", "https://ana.example/ ", "One of the four of them: ", "Ana - "]
)
def test_what_is_no_speaker_is_not_repeated(start: str) -> None:
    """Only a short name, a colon and a space at the beginning of a line are a speaker."""
    found = stretches(start + LINE)
    assert len(found) > 1
    assert sum(stretch.count(start.strip()) for stretch in found) == 1


@pytest.mark.parametrize("sign", ["。", "！", "？", "；"])
def test_chinese_sentences_are_sentences(sign: str) -> None:
    """Sentences are told apart by the signs of their own script."""
    found = stretches(sign.join(f"第{day}天我们在公园里散步看花" for day in range(60)) + sign)
    assert all(len(stretch) < 200 and stretch.endswith(sign) for stretch in found)


@given(
    st.text(st.sampled_from("ab .!?\n。！字é\u0301|#"), max_size=60).map(lambda text: text * 30)
    | st.text(st.sampled_from("ab. \n"), max_size=40).map(lambda text: text * 400)
)
def test_stretches_leave_nothing_out(body: str) -> None:
    """All of a body is in its stretches, in order and short, and every passage in one block."""
    blocks = split_memory(memory(body))
    said = "".join(text for block in blocks for text in block.texts[1:])
    assert "".join(said.split()) == "".join(body.split())
    assert all(len(text) <= 600 for block in blocks for text in block.texts[1:])
    assert {block.texts[0] for block in blocks} == {"Title\n"}
    numbers = [block.first + place for block in blocks for place in range(len(block.passages))]
    assert numbers == list(range(len(numbers)))
    assert numbers


def test_stretches_cut_no_word_in_two() -> None:
    """A line without sentences is cut between its words, so that each can be found."""
    words = [f"word{number}" for number in range(2_000)]
    assert " ".join(stretches(" ".join(words))).split() == words


def heads(blocks: list[TextBlock]) -> set[str]:
    """What stands before the stretches of all blocks."""
    return {block.texts[0] for block in blocks}


def test_title_and_tags_stand_before_each_block() -> None:
    """A sentence in the middle of a long memory is about what its title and tags say."""
    found = split_memory(memory(LINE * 60, "Harbour gate", "a.md", "iron", "sea"))
    assert len(found) > 2
    assert heads(found) == {"Harbour gate\niron, sea"}
    assert heads(split_memory(memory("x", "2026-11-05", "journal/2026-11-05.md"))) == {"\n"}
    tags = [f"tag{number}" for number in range(400)]
    assert heads(split_memory(memory("x", "Title " * 100, "a.md", *tags))) == {
        f"{('Title ' * 100)[:150]}\n{', '.join(tags)[:150]}"
    }


def test_numbers_and_negations_are_told_apart_from_other_words() -> None:
    """A term that alone makes two sentences differ carries a mark; no other one does."""
    texts = {
        "red": 0,
        "v2": DISTINCTIVE_BIT,
        "2026": DISTINCTIVE_BIT,
        "never": DISTINCTIVE_BIT,
        "cannot": DISTINCTIVE_BIT,
        "note": 0,
    }
    english = analyser("english")
    for word, tells in texts.items():
        (block,) = encode_blocks(split_memory(memory(word, "")), english)
        assert [code & ~TERM_ID_MASK & DISTINCTIVE_BIT for code in block.codes] == [tells], word


@given(st.text())
def test_a_terms_number_leaves_room_for_its_marks(term: str) -> None:
    """Whatever a term is, its number and its marks do not share a bit."""
    assert number_of(term) & ~TERM_ID_MASK == 0


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
phrases = st.lists(words | st.text(max_size=12), min_size=1, max_size=8).map(" ".join)


languages = st.sampled_from(["english", "german", "russian", "turkish", "none", "french"])


@given(phrases, languages, st.lists(languages, max_size=2))
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


@pytest.mark.parametrize(
    "text",
    [
        "It began. | Then it ended!",
        "We use a cache, e.g. Redis, i.e. memory. | Not a disk.",
        "Das gilt z. B. für Hunde, d. h. Tiere. | Katzen nicht.",
        "Ask Dr. Ahn or Prof. Li vs. Mr. Park. | They know.",
        "See No. 5 and pp. 3 to 7 of vol. 12. | No. | Nothing else.",
        "Edge 30 s, calls 4 s. | Plots C and D. | The rest.",
        "J. R. R. Tolkien wrote it. | I did not, nor did I. | You did.",
        "The limit is 3.5 MB in v2.1.0. | Version 2. | It was 42. | Then 43.",
        "Open https://example.com/a.b?c=1!x and README.md. | Then stop.",
        "Am 3. Mai 2026 und am 24. 12. 2026. | Danach nie.",
        "The 5. of them left at 5 p.m. yesterday, etc. and so on. | At 5 p.m. | We left.",
        '1. Buy milk. | He said "Stop!" and left. | "Why?" | (I know.) | **Done.** | So?',
        "Wait... what? | yes. | and so on… maybe… | Perhaps.",
        "Run `git add. Then commit` and read [[Dr. Who? No. Yes]]. | End.",
        "今天很好。|明天呢？」|后天！？|见 https://example.com/a。|好",
        "यह एक है। | दूसरा।",
        "Dogs Inc. owns it. | Cats Inc. | Nobody does.",
    ],
)
def test_a_sentence_ends_where_a_reader_ends_it(text: str) -> None:
    """Abbreviations, initials, numbers, dates, URLs, file names, code and links end no sentence."""
    parts = [part.strip() for part in text.split("|")]
    plain = text.replace(" | ", " ").replace("|", "")
    assert split_sentences(plain) == parts
    plain = plain.replace(" ", "  ")
    assert split_sentences(plain) == [part.replace(" ", "  ") for part in parts]


@given(st.text(alphabet=" \n.!?…。」\"')*`[]()<>aAI1一", max_size=80))
def test_sentences_lose_nothing(text: str) -> None:
    """The sentences of a text are the text, without the white space between them."""
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    ends = list(sentence_ends(text))
    assert ends == sorted(set(ends))
    assert all(0 < end <= len(text) for end in ends)


def test_a_title_is_a_whole_sentence(vault: Vault) -> None:
    """A title made of a text does not end at the period of an abbreviation."""
    kept = vault.call("store_fact", fact="Dr. Ahn drinks tea, e.g. oolong. Never coffee.")
    shown = vault.call("memory_show", memId=kept["factId"])
    assert shown["title"] == "Dr. Ahn drinks tea, e.g. oolong"
