"""Memories are cut into passages and stretches without loss, and into terms that find them."""

from __future__ import annotations

import base64
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memvault import Vault
from memvault.index.embedding.tokenizer import open_tokenizer
from memvault.index.embedding.transformer import load_embedder
from memvault.index.protocol import DISTINCTIVE_BIT
from memvault.index.text import passages
from memvault.index.text.analyzer import Analyzer, QueryAnalyzer, analyzer, fold
from memvault.index.text.sentence_blocks import (
    TERM_ID_MASK,
    TextBlock,
    encode_blocks,
    passage_texts,
    split_memory,
    term_id,
)
from memvault.index.text.sentences import sentence_ends, split_sentences
from memvault.model import Memory

ROOT = Path(__file__).resolve().parents[1]
REST = "She pulls and it stays shut. The smith is away until the end of the week. "
LINE = f"The harbour gate will not open since the storm of last night. {REST * 3}".strip()


def memory(body: str, title: str = "Title", path: str = "a.md", *tags: str) -> Memory:
    """A memory as it is read from a file."""
    return Memory(path, "a", title, "context", tags, "", "", {"tags": list(tags)}, body, "etag")


def stretches(body: str) -> list[str]:
    """The stretches of a body, block by block, without the heads."""
    return [text for block in split_memory(memory(body)) for text in block.texts[1:]]


def test_passage_segments_repeat_the_speaker() -> None:
    """Every segment of a speaker's line starts with the speaker's name, and no text is lost."""
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


def test_passage_pieces_of_long_sentence_repeat_the_speaker() -> None:
    """Every piece of a sentence that is too long for one segment starts with its speaker."""
    found = stretches("Ana: " + "and then it rained " * 60)
    assert len(found) > 2
    assert all(stretch.startswith("Ana: ") for stretch in found)
    assert sum(stretch.count("Ana: ") for stretch in found) == len(found)


@pytest.mark.parametrize(
    "start", ["ana: ", "Ana:", "https://ana.example/ ", "One of the four of them: ", "Ana - "]
)
def test_passage_segments_repeat_only_speaker_names(start: str) -> None:
    """Only a short name, a colon and a space at the start of a line mark a speaker."""
    found = stretches(start + LINE)
    assert len(found) > 1
    assert sum(stretch.count(start.strip()) for stretch in found) == 1


@pytest.mark.parametrize("sign", ["。", "！", "？", "；"])
def test_chinese_text_is_split_into_sentences(sign: str) -> None:
    """Sentences are split at the punctuation of their own script."""
    found = stretches(sign.join(f"第{day}天我们在公园里散步看花" for day in range(60)) + sign)
    assert all(len(stretch) < 200 and stretch.endswith(sign) for stretch in found)


@given(
    st.text(st.sampled_from("ab .!?\n。！字é\u0301|#"), max_size=60).map(lambda text: text * 30)
    | st.text(st.sampled_from("ab. \n"), max_size=40).map(lambda text: text * 400)
)
def test_passage_segments_cover_all_text_in_order(body: str) -> None:
    """The segments contain the whole body, short and in order; each passage is in one block."""
    blocks = split_memory(memory(body))
    said = "".join(text for block in blocks for text in block.texts[1:])
    assert "".join(said.split()) == "".join(body.split())
    assert all(len(text) <= 600 for block in blocks for text in block.texts[1:])
    assert {block.texts[0] for block in blocks} == {"Title\n"}
    numbers = [block.first + place for block in blocks for place in range(len(block.passages))]
    assert numbers == list(range(len(numbers)))
    assert numbers


def test_passage_segments_never_split_words() -> None:
    """A line without sentences is split between words, so that each word can be found."""
    words = [f"word{number}" for number in range(2_000)]
    assert " ".join(stretches(" ".join(words))).split() == words


def heads(blocks: list[TextBlock]) -> set[str]:
    """The text before the stretches of all blocks."""
    return {block.texts[0] for block in blocks}


def test_passage_blocks_start_with_title_and_tags() -> None:
    """Every block of a long memory starts with its title and tags, as context for sentences."""
    found = split_memory(memory(LINE * 60, "Harbour gate", "a.md", "iron", "sea"))
    assert len(found) > 2
    assert heads(found) == {"Harbour gate\niron, sea"}
    assert heads(split_memory(memory("x", "2026-11-05", "2026/11/2026-11-05.md"))) == {"\n"}
    in_folders = memory("x", "Gate", "harbour/fact/gate.md")._replace(
        type_folders=frozenset({"fact"})
    )
    assert heads(split_memory(in_folders)) == {"Gate\nharbour"}
    tags = [f"tag{number}" for number in range(400)]
    assert heads(split_memory(memory("x", "Title " * 100, "a.md", *tags))) == {
        f"{('Title ' * 100)[:150]}\n{', '.join(tags)[:150]}"
    }


def test_terms_flag_numbers_and_negations() -> None:
    """A term that alone makes two sentences differ is flagged; no other term is."""
    texts = {
        "red": 0,
        "v2": DISTINCTIVE_BIT,
        "2026": DISTINCTIVE_BIT,
        "never": DISTINCTIVE_BIT,
        "cannot": DISTINCTIVE_BIT,
        "note": 0,
    }
    english = analyzer("english")
    for word, tells in texts.items():
        (block,) = encode_blocks(split_memory(memory(word, "")), english)
        assert [code & ~TERM_ID_MASK & DISTINCTIVE_BIT for code in block.term_ids] == [tells], word


def test_letters_of_scripts_without_spaces_are_terms_as_written() -> None:
    """A query finds Chinese, Japanese and Korean by letters and pairs of letters."""
    letters = [*range(0x3041, 0x3097), *range(0x30A1, 0x30FB), *range(0x4E00, 0xA000)]
    for letter in map(chr, [*letters, *range(0x3400, 0x4DC0), *range(0xAC00, 0xD7A4)]):
        stems, wholes = analyzer("none").list_terms(letter * 2)
        assert (stems, wholes) == ([letter, letter, letter * 2], [])
        assert fold(letter) == letter


@given(st.text())
def test_term_id_leaves_room_for_flags(term: str) -> None:
    """For any term, its ID and its flags share no bit."""
    assert term_id(term) & ~TERM_ID_MASK == 0


short = ["# One", "## Two #", "###### ", "```", "~~~ python", "", "  ", "\t", "\r", "And more!"]
long = ["x" * 1_300, "a sentence ends. " * 100, "今天天气很好。" * 80, "字" * 900, "word " * 300]
lines = st.sampled_from(short) | st.sampled_from(long) | st.text(max_size=40)
bodies = st.lists(lines, max_size=12).map("\n".join)


@given(bodies)
@example("字" * 200_000)
@example("x" * 5_000 + "\n" * 50 + "# H")
def test_passages_cover_all_text_in_order(body: str) -> None:
    """Every character except white space is in one passage; passages are short and in order."""
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
def test_query_from_text_shares_terms_with_it(text: str, language: str, others: list[str]) -> None:
    """Any word in a passage, used as a query, shares terms with it in any vault language."""
    own_analyzer = Analyzer(language)
    asked = QueryAnalyzer([*others, language])
    terms = own_analyzer.terms(text)
    for query in (text, *text.split()):
        words, wholes, _ = asked.query(query)
        assert len({word[0] for word in words}) == len(words)
        stems = {stem for word in words for stem in word}
        own = own_analyzer.terms(query)
        if own.stems or own.wholes:
            assert stems & terms.stems.keys() or set(wholes) & terms.wholes.keys(), query


def texts_of(body: str) -> list[str]:
    """The texts of a body's passages."""
    return [body[part.start : part.end] for part in passages.split_passages(body)]


@pytest.mark.parametrize("count", range(140, 240, 3))
def test_passage_of_long_paragraph_ends_with_a_sentence(count: int) -> None:
    """Full-width punctuation ends a Chinese sentence; punctuation inside a word does not."""
    chinese = "这是一个很长的句子没有停顿" * 10 + "对吗？" + "真好" * 50 + "！" + "然后继续写" * 60
    assert texts_of(chinese)[0].endswith(("？", "！"))
    english = "word " * count + "left!right " + "more " * 300
    assert not any(text.endswith("left!") for text in texts_of(english))


FENCE = "```python\n" + "print(get_user_name(42))\n\n" * 12 + "```"
TABLE = "| name | size |\n| --- | --- |\n" + "| apple | 12 |\n" * 18
WRAPPED = "The harbour gate stayed shut\nall night. The smith came at\nnoon and opened it. " * 20


@pytest.mark.parametrize("before", range(0, 30, 3))
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
@pytest.mark.parametrize("whole", [FENCE, TABLE.strip()])
def test_passage_does_not_split_short_code_or_tables(before: int, gap: str, whole: str) -> None:
    """A fenced block, including blank lines, or a table is in one passage if it fits."""
    body = f"{REST * before}{gap}{whole}{gap}{REST * 9}"
    assert sum(whole in text for text in texts_of(body)) == 1


def test_passage_splits_long_code_and_tables_between_lines() -> None:
    """Code and tables longer than a passage are split only between lines."""
    for whole in (
        FENCE.replace("```", "", 1).replace("```", "") * 4,
        f"```\n{FENCE * 5}",
        TABLE * 5,
    ):
        lines = [line.strip() for text in texts_of(whole) for line in text.splitlines()]
        assert [line for line in lines if line] == [
            line.strip() for line in whole.splitlines() if line.strip()
        ]


def test_passage_of_long_list_starts_with_an_item() -> None:
    """A passage from a list starts with an item; one from wrapped prose starts with a sentence."""
    items = "".join(f"- {REST}\n  {REST}\n" for _ in range(12))
    parts = texts_of(items)
    assert len(parts) > 2
    assert all(text.startswith("- ") for text in parts)
    assert all(text.startswith("The ") for text in texts_of(WRAPPED))


def test_passages_of_long_paragraph_have_similar_sizes() -> None:
    """Splitting a long paragraph leaves no passage of only a few words at its end."""
    for count in range(15, 60):
        sizes = [passages.estimate_tokens(text) for text in texts_of(REST * count)]
        assert min(sizes) * 2 > max(sizes)


def test_passage_keeps_heading_with_its_text() -> None:
    """A heading is not split into its own passage because the text below it is long."""
    (text, *_), (_, *rest) = texts_of(f"# Gate\n\n{REST * 11}"), texts_of(f"# Gate\n\n{REST * 20}")
    assert "The smith" in text
    assert rest


READ = 256
"""The built-in transformer's maximum number of tokens, including two that mark both ends."""
CODE = "for (const item of items) {\n  total += item.price * 1.2; // with VAT\n}\n"
ordinary = st.sampled_from(
    [
        REST,
        f"{LINE}\n\n",
        f"- {REST}\n",
        "## The gate\n\n",
        f"\n```js\n{CODE * 6}```\n",
        f"\n```js\n{CODE * 30}```\n",
        f"\n{TABLE}\n",
        f"\n{TABLE * 3}\n",
        "[the page](https://example.com/a/b.html) ",
        "Ana: Did you call the smith? Bo: Yes, at 10:30.\n",
    ]
)
odd = ordinary | st.sampled_from(
    [
        "今天天气很好我们去公园散步。",
        "今天天气很好我们去公园散步" * 30,
        "오늘은 날씨가 좋아서 공원에 갑니다. ",
        "วันนี้อากาศดีเราไปเดินเล่น" * 10,
        "Сегодня хорошая погода. " * 20,
        "x" * 900,
        "word " * 400,
        base64.b64encode(bytes(range(256)) * 8).decode(),
        "🚀" * 300,
        "\n" * 2_000,
        " " * 2_000,
        "\n```\n",
    ]
)


def tokens_read(text: str) -> list[int]:
    """Count a passage's tokens for the built-in transformer, without start and end tokens."""
    (found,) = load_embedder("builtin", None).embed_tokens([text])
    marks = {open_tokenizer()[0].token_to_id(mark) for mark in ("[CLS]", "[SEP]")}
    return [int(token) for token in found.ids if token not in marks]


@given(st.lists(odd, max_size=20).map("".join))
def test_passages_contain_each_character_once(body: str) -> None:
    """For any memory, its passages contain each character once and are within the limit."""
    texts = texts_of(body)
    assert "".join("".join(texts).split()) == "".join(body.split())
    assert all(passages.estimate_tokens(text) <= passages.MAX_TOKENS for text in texts)
    assert all(len(text) <= 1_200 for text in texts)


@given(st.lists(ordinary, max_size=30).map("".join))
def test_passages_of_typical_text_fit_the_model(body: str) -> None:
    """Passages of English prose, lists, code and tables never exceed the model's input length."""
    note = memory(body, "The harbour gate", "a.md", "harbour", "iron")
    tokenizer, _ = open_tokenizer()
    assert all(len(tokenizer.encode(text).ids) <= READ for text in passage_texts(note))


def test_passages_of_documentation_fit_the_model() -> None:
    """On real pages, even long ones with tables and code, every passage fits the model's input."""
    tokenizer, _ = open_tokenizer()
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("sample/**/*.md")]
    assert len(pages) > 80
    too_long = 0
    total = 0
    for page in pages:
        for text in passage_texts(memory(page.read_text("utf-8"), page.stem)):
            count = len(tokenizer.encode(text).ids)
            total += count
            too_long += max(0, count - READ)
    assert total > 100_000
    assert too_long <= total / 2_000


@pytest.mark.parametrize(
    "body",
    [
        "Сегодня хорошая погода. " * 40,
        "Γειά σου, όμορφε κόσμε. " * 40,
        "Straßenbahnhaltestellen " * 60,
    ],
)
def test_passage_longer_than_model_input_is_windowed(body: str) -> None:
    """Every token of a memory is embedded, even if the token estimate is too low."""
    tokenizer, _ = open_tokenizer()
    texts = passage_texts(memory(body))
    wanted = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert max(map(len, wanted)) > READ
    assert [tokens_read(text) for text in texts] == wanted


def test_passage_header_is_limited_to_60_tokens() -> None:
    """The lines above a passage have at most 60 tokens; the title and nearest heading remain."""
    tags = [f"harbour-{number}" for number in range(80)]
    outer = "# " + "On and on it goes, up or in or by " * 5
    body = f"{outer}\n\n## Iron gate\n\n{REST * 2}\n\n{REST * 11}"
    note = memory(body, "The keeper of the gate " * 9, "a.md", *tags)
    tokenizer, _ = open_tokenizer()
    found = passage_texts(note)
    assert all(text.startswith("The keeper of the gate") for text in found)
    assert all(len(tokenizer.encode(text).ids) <= READ for text in found)
    assert passages.estimate_tokens(passage_texts(memory("x", "", "a.md", *tags))[0]) <= 61
    assert passage_texts(memory(body, "Gate", "a.md", *tags))[-1].startswith(
        "Gate\nIron gate\nharbour-0, "
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
def test_sentence_split_ignores_periods_in_abbreviations(text: str) -> None:
    """Periods in abbreviations, initials, numbers, URLs, names and code do not end a sentence."""
    parts = [part.strip() for part in text.split("|")]
    plain = text.replace(" | ", " ").replace("|", "")
    assert split_sentences(plain) == parts
    plain = plain.replace(" ", "  ")
    assert split_sentences(plain) == [part.replace(" ", "  ") for part in parts]


@given(st.text(alphabet=" \n.!?…。」\"')*`[]()<>aAI1一", max_size=80))
def test_sentence_split_preserves_the_text(text: str) -> None:
    """The sentences of a document add up to it, except for white space between them."""
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    ends = list(sentence_ends(text))
    assert ends == sorted(set(ends))
    assert all(0 < end <= len(text) for end in ends)


def test_title_does_not_end_at_abbreviation(vault: Vault) -> None:
    """A title derived from the body does not end at the period of an abbreviation."""
    kept = vault.call("store_fact", fact="Dr. Ahn drinks tea, e.g. oolong. Never coffee.")
    shown = vault.call("memory_show", memId=kept["factId"])
    assert shown["title"] == "Dr. Ahn drinks tea, e.g. oolong"
