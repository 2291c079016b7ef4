"""HTML notes as markdown: text and code are preserved, and text is never markup."""

from __future__ import annotations

import time
from contextlib import suppress
from html import escape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml.html import fragment_fromstring
from markdown_it import MarkdownIt

from memvault.importers.html_markdown import markdown
from memvault.vault import markdown as vault_markdown
from test_plain_text import PIECES

WORDS = [piece for piece in PIECES if "://" not in piece and "mailto" not in piece]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("".join)
INLINE = ["b", "i", "s", "u", "sub", "span", "em", "a href='x y(.md'", "code"]
BLOCK = ["p", "div", "h2", "ul><li", "blockquote", "table><tr><td>x</td><td", "ol><li><p", "b><p"]


def wrapped(tag: str, inner: str) -> str:
    """Return HTML in a tag, or in several."""
    names = [name.split()[0] for name in tag.replace("<td>x</td>", "").split(">")]
    closing = "".join(f"</{name.lstrip('<')}>" for name in reversed(names))
    return f"<{tag}>{inner}{closing}"


RUNS = st.recursive(
    TEXTS.map(escape),
    lambda inner: st.builds(
        wrapped, st.sampled_from(INLINE), st.lists(inner, min_size=1, max_size=3).map("".join)
    ),
    max_leaves=5,
)
PAGES = st.lists(
    st.builds(wrapped, st.sampled_from(BLOCK), st.lists(RUNS, max_size=3).map("".join)),
    min_size=1,
    max_size=3,
).map("".join)


def text_of(html: str) -> str:
    """Return the text of HTML without any blanks."""
    root: Any = fragment_fromstring(html, create_parent="div")
    return "".join("".join(root.itertext()).split())


@given(html=PAGES)
def test_html_conversion_preserves_text(html: str) -> None:
    """The rendered markdown has the same text as the HTML, regardless of its characters."""
    made = markdown(html)
    shown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(made)
    assert text_of(shown) == text_of(html)
    assert vault_markdown.tags(made) == []
    assert list(vault_markdown.tasks(made)) == []


@given(code=st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1))
def test_html_code_is_unchanged(code: str) -> None:
    """Code blocks and inline code keep their exact text."""
    parser = MarkdownIt("commonmark")
    if code.strip():
        assert (
            parser.parse(markdown(f"<pre>{escape(code)}\n\n\n{escape(code)}</pre>"))[0].content
            == f"{code}\n\n\n{code}\n"
        )
        inline = parser.parse(markdown(f"<p>So <code>{escape(code)}</code></p>"))[1].children or []
        assert inline[1].content == code


@pytest.mark.parametrize(
    ("html", "made"),
    [
        ("<p>a<br>b</p><p># c</p>", "a  \nb\n\n\\# c"),
        ("<p>a<br><br>1. b</p>", "a\n\n1\\. b"),
        ("<b>a </b>b<i> c</i>", "**a** b *c*"),
        ("x<b>(y)</b>z <b>1.</b> <b> </b>", "x<b>(y)</b>z **1.**"),
        ("<b>a<i>b</i></b> <i>c</i>", "**a<i>b</i>** *c*"),
        (
            "<u>a</u> <mark>b</mark> x<sup>2</sup> <del>c</del>",
            "<u>a</u> ==b== x<sup>2</sup> ~~c~~",
        ),
        (
            (
                "<span style='font-weight: bold; font-style:italic'>a</span>"
                "<span style='--en-highlight:yellow'>b</span>"
            ),
            "***a***==b==",
        ),
        ("<b><div>a</div><div>b</div></b>", "**a**\n\n**b**"),
        ("<h2>1 C #</h2>", "## 1 C \\#"),
        ("snake<span>_case</span> 3 * 4 [a](b)", "snake_case 3 * 4 [a\\](b)"),
        ("<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>", "- a\n  - b\n- c"),
        ("<ul><li>a</li><ul><li>b</li></ul><li>c</li></ul>", "- a\n  - b\n- c"),
        ("<ol start='9'><li>a<ul><li>b</li></ul></li><li>c</li></ol>", "9. a\n   - b\n10. c"),
        ("<ul><li><p>a</p><p>b</p><pre>  c</pre></li></ul>", "- a\n\n  b\n\n  ```\n    c\n  ```"),
        (
            (
                "<ul><li><input type='checkbox' checked><div>a</div></li>"
                "<li><label><input type='checkbox'> b</label><ul><li>c</li></ul></li></ul>"
            ),
            "- [x] a\n- [ ] b\n  - c",
        ),
        (
            "<div><input type='checkbox'>a</div><div><input type='checkbox' checked>b<br>c</div>",
            "- [ ] a\n- [x] b\n\nc",
        ),
        ("a <input type='checkbox'> b<input type='text'>", "a \u2610 b"),
        ("<pre>\n\n  a *b*\n\n\n\tc_d</pre>", "```\n\n  a *b*\n\n\n\tc_d\n```"),
        ("<pre><code class='language-c++'>a\n```\n</code></pre>", "````c++\na\n```\n````"),
        ("<p><code>a  `b`</code> <kbd>|</kbd></p>", "`` a  `b` `` `|`"),
        ("<pre><div>a</div><div><br></div><div>&nbsp; b<br></div></pre>", "```\na\n\n  b\n```"),
        (
            (
                "<table><thead><tr><th>a</th><th>b|c</th></tr></thead><tbody><tr><td>x<br>y</td>"
                "<td><code>d|e</code></td></tr></tbody></table>"
            ),
            "| a | b\\|c |\n| --- | --- |\n| x<br>y | `d\\|e` |",
        ),
        (
            (
                "<table><tr><td rowspan='2'>a</td><td colspan='2'>b</td></tr>"
                "<tr><td><ul><li>c</li><li>d</li></ul></td>"
                "<td><img src='e f.png' alt='g]'></td></tr></table>"
            ),
            "|  |  |  |\n| --- | --- | --- |\n| a | b |  |\n|  | - c<br>- d | ![g\\]](e%20f.png) |",
        ),
        ("<table><tr><td><table><tr><td>a</td></tr></table></td><td>b</td></tr></table>", "a\n\nb"),
        ("<dl><dt>a</dt><dd>b</dd><dd>c</dd></dl>", "**a**\n\n- b\n- c"),
        (
            "<details><summary>a</summary><p>b</p></details>",
            "<details><summary>a</summary>\n\nb\n\n</details>",
        ),
        ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n>\n> b"),
        ("<a href='a_(b) c)'>x [y]</a>", "[x \\[y\\]](a_%28b%29%20c%29)"),
        ("<a href='https://a.org/_x_'>https://a.org/_x_</a>", "<https://a.org/_x_>"),
        ("<a href='https://a.org'>https://a.org</a>", "https://a.org"),
        ("a!<a href='b'>c</a> d! <b>e!</b>", "a\\![c](b) d! **e!**"),
        ("<a href='javascript:alert(1)'>x</a><a name='y'></a>", "x"),
        ("<img src='data:image/png;base64,AA' alt='a_'><img alt='b'>", "a_b"),
        ("<a href='x'><img src='y.png' alt='a'></a>", "[![a](y.png)](x)"),
        ("<hr>a: b", "***\n\na: b"),
        ("<script>a</script><style>b</style><head><title>c</title></head>d", "d"),
        ("a&#1;b\x01c", "abc"),
        ("", ""),
    ],
)
def test_html_is_converted_to_equivalent_markdown(html: str, made: str) -> None:
    """Elements become their markdown equivalents, and their text is escaped."""
    assert markdown(html) == made


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "<b>x",
            "<br>",
            "x<br>",
            "<input type=checkbox>",
            "<li>a",
            "<ul><li>",
            "<a href=x>y",
            "*_",
        ),
        *("<td colspan=9999 rowspan=9999>a", "<tr><td rowspan=9999>a<td>b", "<dt>a<dd>b", "<p>x"),
        *("<b>a</b><i>b</i>", "<code>a", "<pre>a<br>", "<table><tr><td>", "((", "<div>", "]["),
    ],
)
def test_html_conversion_takes_linear_time(piece: str) -> None:
    """No sequence of tags takes more than linear time, although deep nesting may be refused."""
    begun = time.process_time()
    with suppress(ValueError):
        markdown(piece * 6_000)
    assert time.process_time() - begun < 10
