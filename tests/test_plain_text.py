"""Plain text of imports as markdown: the text is shown unchanged, and none of it is markup."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from memvault.importers.plain_text import escaped
from memvault.vault import markdown
from memvault.vault.document import Document

PIECES = [
    *("word", "a b", " ", "  ", "\n", "\n\n", "\t", "    ", "\u00a0", "\u3000", "1", "12. ", "3) "),
    *("#", "# ", "## x", "#tag", "#1", "#1a", "C#", "-", "- ", "+ ", "* ", "*", "**", "_", "__"),
    *(
        "snake_case",
        "~~",
        "~",
        "==",
        "=",
        "---",
        "- - -",
        "***",
        "___",
        "===",
        "%%",
        "%",
        "$",
        "$$",
    ),
    *("$5", "x$", "`", "```", "\\", "\\\\", "[", "]", "[[", "]]", "[x](y)", "[[w]]", "![i](p.png)"),
    *("[a]: b", "[^1]", "^[n]", "^id", "- [ ] do", "[x] did", "> q", ">", ">>", "<", "<b>", "</p>"),
    *("<!--", "-->", "<?", "<1@b.c>", "<a:b>", "&", "&amp;", "&#35;", "&copy", "|", "a|b", "|---|"),
    *(
        ":-:|-",
        ":",
        "!",
        "(",
        ")",
        ".",
        "https://a.org/b_c",
        "http://a.org/_x_(y)*z*",
        "mailto:a@b",
    ),
    *(
        "https://a.org/?q=$x$&amp;",
        "ftp://",
        "<<<<<<< a",
        "=======",
        ">>>>>>> b",
        "import:",
        "é",
        "\\(",
        "中",
    ),
]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
)
PLAIN = {"paragraph_open", "paragraph_close", "text", "softbreak", "link_open", "link_close"}


def shown(text: str) -> list[list[list[str]]]:
    """Return the words of each line of each paragraph of a markdown text without markup."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    paragraphs = []
    for block in parser.parse(text):
        if block.type == "inline":
            tokens = block.children or []
            assert {token.type for token in tokens} <= PLAIN, tokens
            assert all(token.markup == "autolink" for token in tokens if "link" in token.type)
            inner = "".join("\n" if one.type == "softbreak" else one.content for one in tokens)
            paragraphs.append(words(inner))
        else:
            assert block.type in PLAIN, block
    return paragraphs


def words(paragraph: str) -> list[list[str]]:
    """Return the words of each line."""
    return [line.split() for line in paragraph.splitlines()]


def paragraphs_of(text: str) -> list[list[list[str]]]:
    """Return the words of each line of each paragraph of a plain text."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if not line.strip():
            found.append([])
        else:
            found[-1].append(line.split())
    return [lines for lines in found if lines]


def assert_has_no_markup(text: str) -> None:
    """Check that memvault finds no markup in a string."""
    assert list(markdown.links(text)) == []
    assert markdown.tags(text) == []
    assert list(markdown.tasks(text)) == []
    assert list(markdown.headings(text)) == []
    assert markdown.mask_code(text) == text
    assert markdown.mask_comments(text) == text
    assert not markdown.has_conflict_markers(text)
    assert Document.parse(text.encode()).header is None


@given(text=TEXTS)
def test_escaped_text_renders_as_written(text: str) -> None:
    """Plain text is rendered as it was written, and memvault finds no markup in it."""
    made = escaped(text)
    assert shown(made) == paragraphs_of(text)
    assert_has_no_markup(made)


@given(text=TEXTS)
def test_escaped_text_can_be_escaped_again(text: str) -> None:
    """Escaped text can itself be escaped, and reading it back gives the same text."""
    made = escaped(text)
    assert shown(escaped(made)) == paragraphs_of(made)
    read = "\n\n".join("\n".join(map(" ".join, lines)) for lines in shown(made))
    assert shown(escaped(read)) == paragraphs_of(text)


PLACES = {
    "- {}": ["bullet_list_open", "list_item_open", "paragraph_open", "inline"],
    "# {}": ["heading_open", "inline"],
    "> {}": ["blockquote_open", "paragraph_open", "inline"],
    "- [ ] {}": ["bullet_list_open", "list_item_open", "paragraph_open", "inline"],
    "| a | b |\n| --- | --- |\n| {} | c |": ["table_open"],
}


@given(text=TEXTS.filter(lambda text: text.strip()), place=st.sampled_from(sorted(PLACES)))
def test_escaped_line_renders_as_written_in_any_block(text: str, place: str) -> None:
    """A line in a list, quote, heading or cell stays text within that block."""
    made = place.format(escaped(text, is_line=True))
    assert "\n" not in escaped(text, is_line=True)
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    blocks = parser.parse(made)
    assert [block.type for block in blocks][: len(PLACES[place])] == PLACES[place]
    inline = [block.children or [] for block in blocks if block.type == "inline"]
    tokens = inline[2] if "|" in place else inline[0]
    assert len(inline) == (4 if "|" in place else 1)
    assert {token.type for token in tokens} <= PLAIN
    read = "".join(token.content for token in tokens).removeprefix("[ ]" if "[" in place else "")
    assert read.split() == text.split()
    assert not [*markdown.links(made), *markdown.tags(made)]
    assert len(list(markdown.tasks(made))) == ("[" in place)


@given(text=TEXTS.filter(lambda text: text.strip() and "://" not in text and "mailto:" not in text))
def test_escaped_line_can_be_a_link_label(text: str) -> None:
    """A title with brackets does not end the link that displays it."""
    made = f"see [{escaped(text, is_line=True)}](https://a.org)"
    inline = MarkdownIt("commonmark").parse(made)[1].children or []
    assert [token.type for token in inline if token.type != "text"] == ["link_open", "link_close"]
    assert "".join(token.content for token in inline).split() == ["see", *text.split()]


@pytest.mark.parametrize(
    "text",
    [
        *("snake_case", "3 * 4", "a < b", "C#", "$5 and $6", "50%", "AT&T", "a_b@c.org", "#1"),
        *(
            "list[0]",
            "[sic]",
            "x == y",
            "C:\\Users\\ana",
            "don't",
            "1.5 kg",
            "-5 °C",
            "+1",
            "2026.",
        ),
        *("a | b", "a -- b", "~5", "<3", "x <- y", "(see: b)", "f(x)[1]", "#", "& so on", "5 > 3"),
        *("https://a.org/b_c?d=e&f=g#h", "at https://a.org/x_(y).", "(https://a.org)", "a_"),
    ],
)
def test_text_without_markup_is_not_escaped(text: str) -> None:
    """Characters without a markup meaning stay readable."""
    assert escaped(f"So {text}") == f"So {text}"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("# a", "\\# a"),
        ("[ ] a_b _c_", "\\[ ] a_b \\_c_"),
        ("  1. a", "  1\\. a"),
        ("a\n---", "a\n\\---"),
        ("a\tb", "a\tb"),
        ("    x = 1", "\u00a0\u00a0\u00a0\u00a0x = 1"),
        ("\n\n a  \n\n\nb\n", " a\n\n\nb"),
        ("[ ] a", "\\[ ] a"),
        ("say #tag", "say \\#tag"),
        ("https://a.org/_x_.", "<https://a.org/_x_>."),
        ("**https://a.org**", "\\*\\*<https://a.org>\\*\\*"),
        ("[a](b)", "[a\\](b)"),
        ("[[a]]", "\\[\\[a]]"),
    ],
)
def test_markup_is_escaped_at_its_start(text: str, made: str) -> None:
    """Markup gets the necessary backslashes, and indented text does not become code."""
    assert escaped(text) == made


@pytest.mark.parametrize(
    "piece",
    [*PIECES, "http://,", "a://", "a+", "((", "))", "http://(((", "<a@", "^a ", "= ", "[a] "],
)
def test_escaping_takes_linear_time(piece: str) -> None:
    """Escaping a long string of any character takes linear time."""
    text = piece * (30_000 // len(piece))
    begun = time.process_time()
    escaped(text)
    escaped(text, is_line=True)
    assert time.process_time() - begun < 5
