"""The content of web pages: rendered markdown, differences, the calendar and the map's data."""

from __future__ import annotations

import pickle
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run, examples, indexed, only_with, succeeded, until, write
from memvault import clock
from memvault.web import markdown_html
from memvault.web.anchors import around_block
from memvault.web.markdown_html import to_html

if TYPE_CHECKING:
    from memvault.web.session import ReadMemory

pytestmark = only_with("starlette", "uvicorn", "jinja2", extra="web")


def test_web_renders_obsidian_markdown() -> None:
    """Callouts, tasks, footnotes and heading links are rendered as Obsidian shows them."""
    html, headings = to_html(
        "## Two *words*\n\n## Two words\n\n[down](#two-words) x[^1]\n\n"
        "> [!danger]- Mind **this**\n> [x](javascript:alert(1))\n\n> [!unknown-type]\n\n"
        "> plain [!note]\n\n- [x] done\n- [ ] open\n\n[^1]: Foot <b>note</b>\n"
    )
    assert [(one.text, one.anchor) for one in headings] == [
        ("Two words", "h-two-words"),
        ("Two words", "h-two-words-2"),
    ]
    assert '<h2 id="h-two-words">Two <em>words</em></h2>' in html
    assert 'href="#h-two-words"' in html
    assert '<details class="callout danger">\n<summary class="callout-title">Mind' in html
    assert "<p>[x](javascript:alert(1))</p>\n</details>" in html
    assert '<p class="callout-title">Unknown type</p>' in html
    assert "<blockquote>\n<p>plain [!note]</p>" in html
    assert html.count('type="checkbox"') == 2
    assert "Foot &lt;b&gt;note&lt;/b&gt;" in html


PIECES = (
    "alpha|éa|漢字|b \xa0|x\ty|  |\n|\n\n|- |1. |> |# |===|---|    |\t|*c*|`d`|\\|  \n|&lt;|"
    "[^1]|[^1]: |~~e~~|```\n|~~~\n|\\\n|<b>|+ |_|{|=|:-"
)
ROWS = ["| a |", "| a | b |", "|---|---|"]


@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from([*PIECES.split("|"), *ROWS]), max_size=25))
def test_web_renders_commonmark(pieces: list[str]) -> None:
    """Blocks, tables and footnotes are rendered as the parser's own rules render them."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin

    text = "".join(pieces)
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    expected = parser.use(footnote_plugin, inline=False).render(text)
    assert re.sub(' id="h-[^"]*"', "", to_html(text).html) == expected


def _read(root: Path, path: str) -> ReadMemory:
    """Read a memory as a web page."""
    from memvault.web.addresses import ServedAddresses
    from memvault.web.session import WebSession

    session = WebSession(root)
    try:
        return session.read(path, ServedAddresses())
    finally:
        session.close()


def test_web_shows_embedded_memories(tmp_path: Path) -> None:
    """An embed alone in a paragraph shows the memory or its section; other embeds are links."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\n![[B]]\n\n![[B#B#Two 2]]\n\nSee ![[B]] inside\n\n![[A]]\n")
    write(root, "b.md", "# B\n\nFirst.\n\n## Two: 2\n\nSecond ![[A]]\n\n![[A]]\n")
    html = _read(root, "a.md").text.html
    assert html.count('<blockquote class="embed">') == 3, "two of B and one of itself"
    assert (html.count("First."), html.count("Second")) == (1, 2)
    assert re.search(r'<p>See <a href="/m/[\w-]+" rel="[\w ]+">B</a> inside</p>', html)
    assert re.search(r'href="/m/[\w-]+#h-two-2"', html)


def test_web_labels_embedded_tasks_once(tmp_path: Path) -> None:
    """Each checkbox on a page has one label, even in an embedded memory."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\n- [ ] one\n\n![[B]]\n")
    write(root, "b.md", "# B\n\n- [x] two\n")
    html = _read(root, "a.md").text.html
    labels = [checkbox.count("aria-label") for checkbox in re.findall("<input[^>]*>", html)]
    assert labels == [1, 1]


def test_web_embeds_have_own_anchors(tmp_path: Path) -> None:
    """Links within an embedded memory lead to its own headings and footnotes."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\n## Same\n\nOwn[^1]\n\n![[B]]\n\n![[B]]\n\n[^1]: Own\n")
    write(root, "b.md", "# B\n\n## Same\n\nOther[^1] [up](#same)\n\n[^1]: Other note\n")
    text = _read(root, "a.md").text
    ids = re.findall(r' id="([^"]+)"', text.html)
    assert len(ids) == len(set(ids)) == 10, "a title, and three times a heading and a footnote"
    assert set(re.findall(r'href="#([^"]+)"', text.html)) <= set(ids)
    assert [heading.anchor for heading in text.headings] == ["h-same"]


def test_web_embeds_only_embedded_memories(tmp_path: Path) -> None:
    """A link next to an embed of the same memory stays a link, and one to the title works."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\n[[B]]\n\n![[B]]\n\n[[B]]\n\n[[#A]]\n")
    write(root, "b.md", "# B\n\nFirst.\n")
    html = _read(root, "a.md").text.html
    assert html.count('<blockquote class="embed">') == html.count("First.") == 1
    assert html.count('rel="noopener noreferrer">B</a></p>') == 2
    assert html.startswith('<a id="h-a"></a>')
    assert '<a href="#h-a" ' in html


@pytest.mark.parametrize(("number", "shown"), [(19, 1), (20, 0)])
def test_web_reads_at_most_twenty_embedded_memories(
    tmp_path: Path, number: int, shown: int
) -> None:
    """Memories that are too long to embed count, because each of them was read."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\n" + "![[Long#^id]]\n\n" * number + "![[Short]]\n")
    write(root, "long.md", "# Long\n\n" + "word " * 12_000 + "^id\n")
    write(root, "short.md", "# Short\n\nFirst.\n")
    html = _read(root, "a.md").text.html
    assert html.count('<blockquote class="embed">') == html.count("First.") == shown


def test_web_shows_and_links_blocks(tmp_path: Path) -> None:
    """An embed of a block shows only that block, and a link to it jumps there, as in Obsidian."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(
        root,
        "b.md",
        "# B\n\nBefore.\n\nA *word*[^1] [x][r]\nmore ^par\n\n"
        "3. one\n4. item ^it-1\n   - child\n5. last\n\n"
        "| a | b |\n|---|---|\n| 1 | cell |\n^tab\n\n> quoted\n\n^quote\n\n```\nx ^code\n```\n\n"
        "[^1]: Foot\n\n[r]: a.md\n",
    )
    embeds = [f"![[B#^{name}]]\n\n" for name in ("par", "IT-1", "tab", "quote", "code", "no")]
    write(root, "a.md", f"# A\n\nMine ^own\n\n## Two\n\n{''.join(embeds)}![[#^own]]\n")
    write(
        root, "c.md", "# C\n\n[[B^it-1]] [[B#^par|p]] [m](b.md#^tab) [[#^x]] [[#H|h]] ^x\n\n## H\n"
    )
    read = {name: _read(root, f"{name}.md").text.html for name in "abc"}
    shown = re.findall(
        r'<blockquote class="embed"><p>.*?</p>\n(.*?)\n</blockquote>\n', read["a"], re.DOTALL
    )
    assert [" ".join(re.sub(r"<[^>]*>", " ", html).split()) for html in shown[:4]] == [
        "A word [1] x more Foot ↩︎",
        "item child",
        "a b 1 cell",
        "quoted",
    ]
    assert shown[1].startswith('<ol start="4">')
    assert re.sub(r"<[^>]*>", "", shown[4]) == "Mine"
    assert len(shown) == 5, "code contains no ids, and a missing block is only linked"
    assert "^" not in re.sub(r"<code>.*?</code>", "", read["b"], flags=re.DOTALL)
    ids = re.findall(r'<(\w+)[^>]* id="b-([\w-]+)"', read["b"])
    assert ids == [("p", "par"), ("li", "it-1"), ("table", "tab"), ("blockquote", "quote")]
    assert re.findall(r'href="[/\w-]*#b-([\w-]+)"', read["c"]) == ["it-1", "par", "tab", "x"]
    assert '<p id="b-x">' in read["c"]
    assert re.search(r'href="#b-x"[^>]*>\^x</a> <a href="#h-h"[^>]*>h</a></p>', read["c"])


def test_web_embeds_parts_of_long_memories(tmp_path: Path) -> None:
    """A block or section of a long memory is embedded without the rest, and secrets are masked."""
    from memvault.web.addresses import ServedAddresses
    from memvault.web.session import WebSession

    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    rule = "-----{} RSA PRIVATE KEY-----"
    key = f"{rule.format('BEGIN')}\n\n{'Zm9vYmFy' * 20}\n{rule.format('END')} ^key"
    blocks = ["first ^par", "```\ncode ^par\n```", "- one\n- two ^item\n  - three"]
    blocks += ["> quoted\n\n^quote", "## Size ^size\n\nBig.\n\n## Key", key]
    words = f"{'word ' * 120}\n\n" * 100
    write(root, "b.md", "# B\n\n" + "".join(f"{words}{block}\n\n" for block in blocks))
    names = ("^par", "^item", "^quote", "^size", "Size", "^none", "^key")
    write(root, "a.md", "# A\n\n" + "".join(f"![[B#{name}]]\n\n" for name in names))
    session = WebSession(root)
    html = session.read("a.md", ServedAddresses()).text.html
    shown = re.findall(r'"embed"><p>.*?</p>\n(.*?)</blockquote>\n(?=<|\Z)', html, re.DOTALL)
    texts = [" ".join(re.sub(r"<[^>]*>", " ", part).split()) for part in shown]
    assert texts[:5] == ["first", "two three", "quoted", "Size", "Size Big."]
    assert "Zm9v" not in html
    write(root, "b.md", words * 30 + "Part ^par\n")
    write(root, "a.md", "# A\n\n" + "![[B#^par]]\n\n" * 20)
    html = session.read("a.md", ServedAddresses()).text.html
    session.close()
    assert html.count('"embed"') == 5, "a page reads at most ten million characters"


LINES_WITH_IDS = (
    "a ^x|b|c ^y\n|- i ^x|- i|  - n ^x|  text ^x|1. o ^x|> q ^x|> ^x|^x|```|~~~|    code ^x|# H ^x"
    "|## K|T\n---|---||$$|^X |# H ^x ##|é ^x|\tt ^x|> - a ^x|   three ^x|* * *"
).split("|")


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from([*LINES_WITH_IDS, *ROWS]), max_size=12), st.integers(1, 2))
def test_web_finds_block_in_part_of_text(lines: list[str], newlines: int) -> None:
    """The part of a text around a block renders the block like the whole text."""
    text = ("\n" * newlines).join(lines) + "\n"
    whole = to_html(text, block="^x").html
    assert to_html(around_block(text, "^x"), block="^x").html == whole


def test_web_labels_links_as_obsidian(tmp_path: Path) -> None:
    """A link without a label shows its note, headings and block; a label replaces these."""
    labels = {
        "[[b#Nest box]]": "b > Nest box",
        "[[b#Nest box#Size]]": "b > Nest box > Size",
        "[[b#^x-1]]": "b > ^x-1",
        "[[b^x-1]]": "b > ^x-1",
        "[[#Own]]": "Own",
        "[[#^own]]": "^own",
        "[[b#Nest box|the box]]": "the box",
        "[[none#Part]]": "none > Part",
        "[[b#a ~~b~~ * c_d_]]": "b > a ~~b~~ * c_d_",
        "[the box](b.md#nest-box)": "the box",
    }
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "b.md", "# Bees\n\n## Nest box\n\nDry. ^x-1\n\n### Size\n\nBig.\n")
    text = "".join(f"- {link}\n" for link in labels)
    write(root, "a.md", f"# A\n\n{text}\n![[b#Size]]\n\n## Own\n\n[^own]: Note\n\nIt ^own\n")
    html = _read(root, "a.md").text.html
    items = [re.sub(r"<[^>]*>", "", item) for item in re.findall(r"<li>(.*?)</li>", html)]
    assert items == [escape(label) for label in labels.values()]
    assert re.search(r'<blockquote class="embed"><p><a href="[^"]+">b &gt; Size</a></p>', html)


def test_web_finds_attachments_by_name(tmp_path: Path) -> None:
    """A link may contain only an attachment's name or the end of its path, as in Obsidian."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, ".obsidian/app.json", '{"attachmentFolderPath": "assets"}')
    for path in ("assets/2025/bee.png", "assets/bee.png", "notes/own/bee.png", ".hidden/wasp.png"):
        write(root, path, b"x")
    write(root, "a.md", "![[Bee.png]] ![[2025/bee.png|50]] ![x](bee.png) ![[e.png]] ![[wasp.png]]")
    write(root, "notes/b.md", "![[bee.png]]\n")
    shown = [_read(root, path).text.html for path in ("a.md", "notes/b.md")]
    assert [re.findall(r'src="([^"]+)"', html) for html in shown] == [
        ["/f/assets/bee.png", "/f/assets/2025/bee.png", "/f/assets/bee.png"],
        ["/f/notes/own/bee.png"],
    ]


def test_web_hides_comments(tmp_path: Path, run: Run) -> None:
    """Comments of Obsidian and HTML appear in no page and not in a static site."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    text = (
        "%%secret 1%% starts\n\n%%\n# Secret 2\n\n```\nsecret 3\n```\n%%\n\n"
        "- [[B]] %%[[Secret 4]]%% in\n\n"
        "<!-- secret 5 -->\n\n`%%code%%` <!-- secret 6 --> [[B|ends]]\n\n![[B]]\n"
    )
    write(root, "a.md", f"# A\n\n{text}")
    write(root, "b.md", "# B\n\nEmbedded %%secret 7%% text.\n")
    read = _read(root, "a.md").text
    lines = [link["text"].split() for link in _read(root, "b.md").backlinks]
    assert lines[0] == ["-", "[[B]]", "in"]
    site = tmp_path / "site"
    succeeded(run("export", str(site), "--to", "site", cwd=root))
    shown = [read.html, str(lines), *(file.read_text("utf-8") for file in site.rglob("*.*"))]
    assert not [html for html in shown if "secret" in html.lower()]
    assert "<p>starts</p>" in read.html.replace("<p> ", "<p>")
    assert "<code>%%code%%</code>" in read.html
    assert "Embedded" in read.html
    assert read.html.count(">B</a>") == 2
    assert ">ends</a>" in read.html


def test_site_contains_memories_with_long_names(tmp_path: Path, run: Run) -> None:
    """A memory whose page would have too long a name gets a page with another name."""
    root, site = tmp_path / "vault", tmp_path / "site"
    write(root, "memvault.toml", "version = 1\n")
    for name in ("a" * 252, "é" * 125):
        write(root, f"{name}.md", f"# Long {name[0]}\n")
    write(root, "b.md", f"# B\n\n[[{'a' * 252}]] [[{'é' * 125}]]\n")
    succeeded(run("export", str(site), "--to", "site", cwd=root))
    page = (site / "notes/b.html").read_text("utf-8")
    linked = re.findall(r'<a href="([^"]+)" rel', page)
    titles = [(site / "notes" / unquote(path)).read_text("utf-8") for path in linked]
    assert ["Long a" in titles[0], "Long é" in titles[1]] == [True, True]


def test_web_formats_commands_in_messages() -> None:
    """A command in a message is shown as code, and anything else in it as text."""
    from memvault.web import pages

    message = "There is no <b>x</b>; run `memvault init 'a & b'` or `` ` ``"
    page = pages.render("refused", None, title="memvault", message=message)
    code = "<code>memvault init &#39;a &amp; b&#39;</code> or `` ` ``"
    assert f"There is no &lt;b&gt;x&lt;/b&gt;; run {code}</p>" in page


def test_web_images_have_the_size_in_their_label(tmp_path: Path) -> None:
    """A size at the end of an embed's label sets the image's size and is not its text."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.png", b"x")
    embeds = ("a.png", "a.png|120", "a.png|the pot|120x60", "a.png|pot 120", "a.png|x|y")
    text = " ".join(f"![[{embed}]]" for embed in embeds)
    write(
        root, "n.md", f"{text} ![pot|9](a.png)\n\n| a |\n|---|\n| ![[a.png\\|40]] |\n\n[[n|120]]\n"
    )
    html = _read(root, "n.md").text.html
    assert re.findall(r'<img src="/f/a.png" (.*?) />', html) == [
        'alt="a.png"',
        'alt="a.png" width="120"',
        'alt="the pot" width="120" height="60"',
        'alt="pot 120"',
        'alt="x|y"',
        'alt="pot" width="9"',
        'alt="a.png" width="40"',
    ]
    assert ">120</a>" in html


def test_web_text_has_the_direction_of_its_first_letter() -> None:
    """Each heading, paragraph, item, cell and input has its own direction, as in Obsidian."""
    from memvault.web import pages

    rules = re.findall(r"(?m)^([^{}\n]+)\{([^{}]+)\}", pages.asset("style.css"))
    (selectors,) = [names for names, style in rules if "unicode-bidi: plaintext" in style]
    assert {"h1", "p", "li", "td", "textarea", "input"} <= set(selectors.strip().split(", "))


def test_web_hides_comments_in_parts(tmp_path: Path) -> None:
    """Comments stay hidden in embedded parts, link labels, backlinks and texts shown as written."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    comment = "%%\nsecret 1\n\n# Secret 2\n\nSecret 3 ^x\n\nSecret 4 %% [[A]] end"
    write(root, "b.md", f"# B\n\nBefore.\n\n{comment} %%\nsecret 5 %%\n\nBlock. ^x\n")
    write(root, "long.md", f"# Long\n\n{'Words. ' * 10_000}\n\n{comment}\n\nBlock. ^x\n")
    write(root, "plain.md", f"# Plain\n\n%%secret 6%%\n\n{'*a* ' * 40_000}\n")
    embeds = "![[B#B]]\n\n![[Long#^x]]\n"
    write(root, "a.md", f"# A\n\n[shown %%secret 7%% <!-- secret 8 -->](b.md)\n\n{embeds}")
    pages = {name: _read(root, name) for name in ("a.md", "plain.md")}
    shown = [*(page.text.html for page in pages.values()), str(pages["a.md"].backlinks)]
    assert not [text for text in shown if "secret" in text.lower()]
    assert ">shown" in shown[0]
    assert shown[0].count("Block.") == 2
    assert "Before." in shown[0]
    assert "*a*" in shown[1]
    assert "[[A]] end" in shown[2]


def test_web_text_after_a_comment_is_not_code(tmp_path: Path) -> None:
    """The blanks after a hidden comment do not indent the text, in which they would mean code."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\n%%b%%    one\n\n- <!-- c -->     two\n\nthree %%d%% four\n")
    html = _read(root, "a.md").text.html
    assert "<pre>" not in html
    assert "<p>one</p>" in html
    assert "two</li>" in html
    assert "<p>three four</p>" in html


def test_web_block_parts_are_separate_paragraphs() -> None:
    """The first of two blocks with an id is shown, even if a heading follows it directly."""
    body = "first ^x\n# H\n\nsecond ^x\n"
    shown = to_html(around_block(body, "^x"), block="^x").html
    assert shown == to_html(body, block="^x").html
    assert "first" in shown


def test_web_contents_omit_headings_without_text(tmp_path: Path) -> None:
    """No link in a page's table of contents is empty."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "# A\n\n## \n\n## Two\n")
    headings = _read(root, "a.md").text.headings
    assert [heading.text for heading in headings] == ["Two"]


def test_web_hides_block_ids_of_headings(tmp_path: Path) -> None:
    """A block id on a heading becomes an anchor and is not shown in the heading."""
    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "b.md", "# Bees ^bees\n\n## Nest *box* ^Box1\n\nDry.\n\nHum ^x\n---\n\n## ^y\n")
    write(
        root,
        "a.md",
        "# A\n\n[[b#Nest box]] [[b#nest box ^box1]] [[b#^Box1]]\n\n![[b#^box1]]\n\n![[b#^bees]]\n",
    )
    read = {name: _read(root, f"{name}.md") for name in "ab"}
    page = read["b"]
    assert page.entry["title"] == "Bees"
    assert [(entry.text, entry.anchor) for entry in page.text.headings] == [
        ("Nest box", "h-nest-box"),
        ("Hum", "h-hum"),
        ("^y", "h-y"),
    ]
    assert page.text.html.startswith('<a id="h-bees"></a><a id="b-bees"></a>')
    assert '<h2 id="h-nest-box"><a id="b-box1"></a>Nest <em>box</em></h2>' in page.text.html
    assert '<h2 id="h-hum"><a id="b-x"></a>Hum</h2>' in page.text.html
    html = read["a"].text.html
    assert re.findall(r'href="[/\w-]+#([\w-]+)" rel', html) == ["h-nest-box"] * 2 + ["b-box1"]
    shown = re.findall(r'<blockquote class="embed"><p>.*?</p>\n(.*?)</blockquote>', html, re.DOTALL)
    assert [re.sub(r"<[^>]*>", "", text).strip() for text in shown] == ["Nest box", "Bees"]


NESTED = "".join("  " * depth + f"- item {depth}\n" for depth in range(80))
TABLE = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 20_000


@pytest.mark.parametrize("line", [NESTED, TABLE, "[" * 60_000], ids=("nested", "rows", "brackets"))
def test_web_shows_large_markup_as_plain_text(line: str) -> None:
    """Text with too much markup to format quickly is shown in full as plain text, with a notice."""
    html, headings = to_html(f"# T & t\n\n{line}\n")
    notice, _, text = html.partition("</p>\n<pre>\n")
    assert "too large or too deeply nested to format" in notice
    assert text == f"# T &amp; t\n\n{line}\n</pre>"
    assert headings == []
    assert "<pre>" not in to_html("*word* and [link](https://x.example)\n\n" * 5_000).html
    assert "item 39</li>" in to_html(NESTED[: NESTED.index("- item 40")].rstrip()).html


def test_web_renders_first_pages_in_several_threads() -> None:
    """Pages that are rendered at the same time are complete, even if they are the first ones."""
    text = "# Tea\n\n- *green* [tea](https://x.example) `pot`\n\n| a |\n|---|\n| 1 |\n"
    expected, interval = to_html(text).html, sys.getswitchinterval()
    together = Barrier(4)

    def render(_: int) -> str:
        together.wait()
        return to_html(text).html

    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(4) as threads:
        for _ in range(300):
            markdown_html._parser.cache_clear()
            markdown_html._parser()
            assert [*threads.map(render, range(4))] == [expected] * 4
    sys.setswitchinterval(interval)


def test_web_aligns_columns_without_styles() -> None:
    """Table columns are aligned by classes, because the pages forbid styles in attributes."""
    html, _ = to_html("| a | b | c |\n|:-:|--:|---|\n| 1 | 2 | 3 |\n")
    assert 'style="' not in html
    assert '<td class="center">1</td>\n<td class="right">2</td>\n<td>3</td>' in html


def test_web_compares_revisions_by_word() -> None:
    """Replaced lines are shown with their numbers, and the words that differ are marked."""
    from memvault.web.pages import diff_lines

    diff = (
        "--- a\n+++ b\n@@ -2,3 +2,3 @@\n one\n-- red tea\n+- green tea\n@@ -9 +9,2 @@\n end\n+new\n"
    )
    lines = diff_lines(diff)
    assert [(line.kind, line.old, line.new) for line in lines] == [
        ("same", 2, 2),
        ("removed", 3, None),
        ("added", None, 3),
        ("gap", None, None),
        ("same", 9, 9),
        ("added", None, 10),
    ]
    assert lines[1].pieces == [("- ", False), ("red", True), (" tea", False)]
    assert lines[2].pieces == [("- ", False), ("green", True), (" tea", False)]
    long = "".join(f"-a {'x y ' * 500}\n+b {'x y ' * 500}\n" for _ in range(200))
    lines = diff_lines(f"@@ -1 +1 @@\n{long}")
    assert len(lines) == 400
    assert not all(any(hit for _, hit in line.pieces) for line in lines)


def test_web_calendar_ends_today() -> None:
    """The calendar shows a year of days, with the busiest day at the highest level."""
    from memvault.web.pages import calendar

    today = clock.today().isoformat()
    weeks = calendar({today: 9, "2000-01-01": 99})
    assert len(weeks) == 53
    assert all(len(week.days) == 7 for week in weeks[:-1])
    assert (weeks[-1].days[-1].label, weeks[-1].days[-1].level) == (f"{today}: 9", 4)
    assert {day.level for week in weeks for day in week.days[:-1]} <= {0, 4}
    assert len([week for week in weeks if week.month]) in (12, 13)


def test_map_pairs_similar_memories(tmp_path: Path) -> None:
    """Arranged by meaning, memories about the same subject are paired even without links."""
    from memvault.web.session import WebSession

    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    texts = ("PostgreSQL stores our tables", "The database is PostgreSQL", "Bake bread at 230 C")
    for number in range(4):
        for text in texts:
            write(root, f"{text.split()[0]}-{number}.md", f"# {text} {number}\n")
    session = WebSession(root)
    titles = [node["title"] for node in session.map()["nodes"]]
    pairs = [tuple(sorted(titles[place][:4] for place in pair)) for pair in session.similar()]
    session.close()
    assert pairs.count(("Bake", "Bake")) == 6
    assert pairs.count(("Post", "The ")) > 0


def test_web_indexes_before_it_prints_its_url(tmp_path: Path) -> None:
    """The first index, whose progress the terminal shows, is complete before a page opens."""
    write(tmp_path, "memvault.toml", "version = 1\n")
    write(tmp_path, "a.md", "# A\n")
    command = [sys.executable, "-m", "memvault", "web", "--no-open", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"http://127.")
        server.kill()
    assert indexed(tmp_path, "a.md")


def test_web_slow_pages_are_computed_in_another_process(tmp_path: Path) -> None:
    """The worker returns the pages' data, detects changes, and is restarted if it is killed."""
    from memvault.errors import MemvaultError
    from memvault.web.session import WebSession
    from memvault.web.slow_worker import SlowWorker

    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    write(root, "a.md", "---\ntags: [hot]\n---\n\n# A\n\n[[B]]\n")
    worker = SlowWorker(root)
    session, plain = WebSession(root, worker), WebSession(root)
    try:
        for name in ("tags", "map", "similar", "review", "overview"):
            assert getattr(session, name)() == getattr(plain, name)()
        write(root, "b.md", "# B\n")
        assert session.map()["edges"] == [(0, 1)]
        assert session.quick_tags() == plain.tags()
        process = worker._process
        assert process is not None
        process.kill()
        write(root, "c.md", "# C\n")
        assert len(session.map()["nodes"]) == 3
        write(root, "memvault.toml", "version = [\n")
        with pytest.raises(MemvaultError):
            session.review()
    finally:
        session.close()
        plain.close()
    assert worker._process is None


def test_web_session_closes_while_a_page_is_computed(tmp_path: Path) -> None:
    """Closing a session stops the computation of a page without starting another process."""
    from memvault.errors import StorageError
    from memvault.web.session import WebSession
    from memvault.web.slow_worker import SlowWorker

    write(tmp_path, "memvault.toml", "version = 1\n")
    worker = SlowWorker(tmp_path)
    session = WebSession(tmp_path, worker)
    session.tags()
    assert worker._process is not None
    worker._process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        page = threads.submit(session.review)
        until(page.running)
        session.close()
        with pytest.raises(StorageError, match="cannot be computed"):
            page.result(60)
    assert worker._process is None


def test_web_slow_worker_ends_with_the_server(tmp_path: Path) -> None:
    """The worker exits when the server is killed, even before it has sent a page."""
    from memvault import process

    root = tmp_path / "vault"
    write(root, "memvault.toml", "version = 1\n")
    for number in range(400):
        write(root, f"{number}.md", f"# {number} {'x' * 240}\n")
    command = [sys.executable, "-P", "-m", "memvault.web.slow_worker", str(root)]
    with process.start_worker(command, process.environment(root)) as worker:
        assert worker.stdin is not None
        pickle.dump("map", worker.stdin)  # more than fits into the pipe, which nothing reads
        worker.stdin.close()
        until(lambda: worker.poll() is not None)
