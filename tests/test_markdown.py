"""Markdown as people write it: code, links, tags and tasks, for every feature."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conftest import Run, examples, note_texts, succeeded, write
from markdown_oracle import expected, found_in
from memvault.vault.markdown import links, tags, tasks
from memvault.vault.markdown_inline import written_target

PREFIXES = ["", "", "", " ", "  ", "    ", "\t", "> ", ">", ">\t", "- ", "* ", "-", "1. ", "2) "]
PREFIXES += ["      ", "   > ", "-\t", "- [ ] ", "+   "]
PIECES = [
    *("a", "a b", "#tag", "# head", "## ", "[[w]]", "![[w.png|a]]", "[x](y.md)", "![i](p.png)"),
    *("[x](<a b.md> 't')", "[x](a%20b.md)", "[x][y]", "[y][]", "[y]", "[Y]: z.md", "[y]: <q r.md>"),
    *('[y]: z.md "t', 't"', "[x", "](y.md)", "]", "[", "!", "(", ")", "\\", "\\[", "`", "``"),
    *("`c`", "`[[c]]`", "```", "````", "~~~", "``` py", "---", "===", "***", "- - -", "a|b"),
    *("| a | `b|` |", "|---|---|", "| [x](y.md) |", "-|-", "<div>", "</div>", "<b>", '<b c="'),
    *('">', "<pre>", "</pre>", "<!--", "-->", "<https://a.org>", "<a@b.c>", "[ ] do", "[x] did"),
    *("#a/b", "x#y", "&amp;", "[a [b](c.md)](d.md)", "[![i](p.png)](q.md)", "[^1]", "  "),
    *("<a b.md>", "(y.md)", "[x]( y.md )"),
]
OVER_INDENTED = re.compile(r"\s*(?: {4}|\t)|.*[>\-+*)][ \t]*(?: {4}|\t)")
ODD_NUMBER = re.compile(r"\s*[02-9][.)]")
ROW = re.compile(r"[ \t]*(?:[-+*]|\d[.)])\s.*\|.*\n[ \t]*[-|:][-|: \t]*$", re.MULTILINE)
DEFINED = re.compile(r"[>\-+*.)].*\]:.*\n.*\S|\]:.*\n\s*<")
EMPTY_QUOTE = re.compile(r"(?:[-+*]|\d[.)])[ \t]+>[ \t]*\n")
TABS = re.compile(r">\t.*>\t")
MARK = r"(?:[-+*]|\d[.)])"
CONTAINER = re.compile(rf"[ \t]*(?:{MARK}?[ \t]*>|.*\]:|(?:{MARK}[ \t]*){{2}}|{MARK}(?:\t|  ))")


def deviates(text: str) -> bool:
    """Return whether markdown-it-py 4 may differ from the CommonMark specification for a document.

    In the reference implementation, a line indented by more than the quote, item or definition
    above it continues that paragraph; markdown-it-py parses some of these lines as code. In
    markdown-it-py, a definition is not a paragraph that other lines can continue; a table may begin
    with a list marker; and two tabs after quote markers hide a list.
    """
    above = False
    for line in text.split("\n"):
        if above and (OVER_INDENTED.match(line) or ODD_NUMBER.match(line)):
            return True
        above = bool(line.strip()) and (above or CONTAINER.match(line) is not None)
    return any(pattern.search(text) for pattern in (ROW, DEFINED, EMPTY_QUOTE, TABS))


LINE = st.tuples(
    st.lists(st.sampled_from(PREFIXES), max_size=3).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=4),
    st.sampled_from(["", " "]),
).map(lambda line: line[0] + line[2].join(line[1]))
TEXTS = st.lists(LINE, max_size=9).map(lambda lines: "".join(f"{line}\n" for line in lines))


@pytest.mark.promise("R99")
@settings(max_examples=examples(300))
@given(TEXTS)
def test_markdown_agrees_with_markdown_it(text: str) -> None:
    """In any document, code, links, tags and tasks are those that a CommonMark parser finds."""
    assume(not deviates(text))
    assert found_in(text) == expected(text)


LIST_TEXT = "- a\n  - [ ] b [[c]] #d\n\n    - [x](e.md)\n\n          #f\n"
CODE = {
    "fenced with tildes": "~~~ c\n{}\n~~~\n",
    "in a fence of four": "````\n```\n{}\n```\n````\n",
    "indented": "Text:\n\n    {}\n",
    "indented by a tab": "Text:\n\n\t{}\n\n\t{}\n",
    "in an item": "1. step\n\n       {}\n",
    "after an empty item": "-\n\n    {}\n",
    "in a nested item": "- a\n  - b\n\n          {}\n",
    "behind an item's mark": "-     {}\n",
    "in a quote": "> a\n>\n>     {}\n",
    "in a quote's item": "> - a\n>\n> \t    {}\n",
    "after a heading": "# a\n    {}\n",
    "a span of two backticks": "``a ` {}``\n",
    "in an HTML block": "<div>\n{}\n</div>\n",
    "preformatted": "<pre>\n\n{}\n\n</pre>\n",
    "in a comment": "<!--\n\n- {}\n-->\n",
    "in Obsidian's comment": "%%\n\n- {}\n\n%%\n",
    "with carriage returns": "a\r\n\r\n    {}\r\n",
}


@pytest.mark.parametrize("form", CODE)
def test_markdown_code_has_no_links_tags_or_tasks(form: str) -> None:
    """The contents of a line of code are plain text in every code syntax."""
    for line in ("#include <a.h>", "- [ ] do [[a]] [b](b.md) [c] #d", "[c]: c.md"):
        text = CODE[form].replace("{}", line)
        assert (list(links(text)), tags(text), list(tasks(text))) == ([], [], [])


def test_markdown_math_has_no_links_or_tags() -> None:
    """Brackets between dollar signs are math, as in Obsidian and GitHub, and not links."""
    assert not [*links("a $[[x]]_1$ and $$\n[[y]] [b](c)\n$$\n"), *tags("$a #b$ $$ #c $$\n")]
    assert [link.target for link in links("5$ [[x]] $ and US$5 [y](y.md) 6$ \\$[[z]]$\n")] == [
        *("x", "y.md", "z")
    ]


def test_markdown_lists_quotes_and_tables_are_not_code() -> None:
    """Nested items indented by spaces or tabs and continued paragraphs are not code."""
    for text in (
        LIST_TEXT,
        LIST_TEXT.replace("  ", "\t"),
        "a\n    [[c]] and [x](e.md)\n- b #d\n  - [ ] e\n",
        "> - [ ] b [[c]] #d\n>   [x](e.md)\n",
        "| a | b |\n|---|---|\n| [[c\\|x]] | [x](e.md) #d |\n\n1) [ ] e\n",
    ):
        assert [link.target for link in links(text)] == ["c", "e.md"]
        assert [tag[1] for tag in tags(text)] == ["d"]
        assert len(list(tasks(text))) == 1


REFERENCES = {
    "[x][b]\n\n[b]: a.md": "reference",
    "[b][]\n\n[B]:\n  <a.md>\n  'title'": "reference",
    "![b]\n\n> [b]: a.md": "reference",
    "[c]: a.md": "definition",
    "[^1]: a.md\n[x](a.md)": "inline",
    '<img alt="x" src="a.md">': "html",
    "<div>\n<a class='x' href='a.md'>x</a>\n</div>": "html",
    "[![x](https://a.org)](a.md)": "inline",
    "[a\n b](a.md\n 'title (1)')": "inline",
    "[a](\\a.md)": "inline",
}


@pytest.mark.parametrize("text", REFERENCES)
def test_markdown_recognizes_links_of_every_form(text: str) -> None:
    """References, definitions and HTML link to files as [x](file) does; footnotes do not."""
    (link,) = links(text)
    assert (link.target.strip("\\"), link.form) == ("a.md", REFERENCES[text])
    assert text[slice(*link.target_span)].strip("\\") == "a.md"


NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=12)


@settings(max_examples=examples(60))
@given(NAMES)
def test_markdown_link_targets_round_trip(name: str) -> None:
    """Any file name can be linked to, in brackets, angle brackets, definitions and HTML."""
    assume(name == name.strip() and not name.startswith("/") and name not in (".", ".."))
    for text in ("[x](x.md)", "![x](<x.md>)", "[x]: x.md", '<img src="x.md">', "<a href='x.md'>"):
        (link,) = links(text)
        start, end = link.target_span
        written = f"{text[:start]}{written_target(link, name, text)}{text[end:]}"
        (read,) = links(written)
        assert read.target.removeprefix("./") == name


MOVED = """\
![a](img.png "t") ![b](<files/my map.png>) [c](files/my%20plan.pdf#page=2) [d](files/)
[e](../up.md) [f][g] [h] ![[./img.png]] ![[img.png]] [[../up]] [i](/up.md) [j](gone.png)
<img width=3 src="img.png"> [k](../../outside.pdf) [self](a.md#top) [l](https://a.org/x.png)

    [m](img.png)

`[n](img.png)` [![o](img.png)](files/my%20plan.pdf)

[g]: files/my%20plan.pdf 'title'
[H]: <files/my map.png>
[unused]: img.png
"""


MOVES = {
    "](img.png": "](../../trips/img.png",
    "<files/": "<../../trips/files/",
    "](files/": "](../../trips/files/",
    "](../up": "](../../up",
    "[[./": "[[../../trips/",
    "[[../up": "[[../../up",
    'src="': 'src="../../trips/',
    "(../../outside": "(../../../outside",
    "]: files": "]: ../../trips/files",
    "]: img": "]: ../../trips/img",
}


@pytest.fixture
def trips(folder: Path) -> Path:
    """A note with relative links to files and notes, and notes that link to it."""
    for name in ("trips/img.png", "trips/files/my map.png", "trips/files/my plan.pdf"):
        write(folder, name, "x")
    write(folder, "up.md", "# U\n\n[L][1], ![](trips/a.md), [[trips/a]]\n\n[1]: trips/a.md\n")
    write(folder, "trips/p.md", '[a](./a.md) <a href="a.md">b</a> [[./a]]\n\n    [a](a.md)\n')
    write(folder, "trips/a.md", MOVED)
    return folder


@pytest.mark.promise("R99")
@pytest.mark.parametrize("how", ["rename", "type"])
def test_moved_note_keeps_its_links(trips: Path, run: Run, how: str) -> None:
    """A moved note's links to images, files and notes still work, and undo is exact."""
    if how == "type":
        trips.joinpath("trips").rename(trips / "issue")
        for path in ("issue/a.md", "up.md"):
            file = trips / path
            file.write_text(file.read_text().replace("trips/", "issue/"))
    home, place = ("trips", "archive/2024") if how == "rename" else ("issue", "learning")
    before = note_texts(trips)
    if how == "rename":
        succeeded(run("rename", "trips/a.md", "--to", place, "--confirm", "true"))
    else:
        succeeded(run("compound", "issue/a.md", "", "--type", "learning"))
    expected = MOVED.replace("`[n](", "`[n](\0").replace("    [m](", "    [m](\0")
    for old, new in MOVES.items():
        expected = expected.replace(old, new)
    expected = expected.replace("\0", "")
    if how == "type":
        expected = expected.replace("../../trips", "../issue").replace("../../up", "../up")
        expected = expected.replace("../../../outside", "../../outside")
    text = (trips / place / "a.md").read_text()
    assert text[text.index("![a]") :] == expected
    up, p = (trips / path for path in ("up.md", f"{home}/p.md"))
    assert up.read_text() == before["up.md"].replace(f"{home}/a", f"{place}/a")
    to = f"../{place}/a.md"
    assert p.read_text() == (f'[a]({to}) <a href="{to}">b</a> [[{to[:-3]}]]\n\n    [a](a.md)\n')
    succeeded(run("undo"))
    assert note_texts(trips) == before


EDITED = """\
---
tags: [old]
---
# Old

Text #old and [[foo]] `#old [[foo]]`.

    #old [[foo]] [x](foo.md)
    - [ ] a task

- [ ] do #old
  ~~~
  #old [[foo]]
  - [ ] no
  ~~~

<pre>
#old [[foo]]
</pre>

[x][y] and <img src="foo.png">

[y]: foo.md
"""


@pytest.mark.promise("R99")
def test_markdown_edits_leave_code_unchanged(folder: Path, run: Run) -> None:
    """Renaming a note or a tag, or completing a task, changes none of the code around it."""
    file = write(folder, "a.md", EDITED)
    write(folder, "foo.md", "x\n")
    succeeded(run("tag", "rename", "old", "new", "--confirm", "true"))
    text = EDITED.replace("[old]", "[new]").replace("Text #old", "Text #new")
    text = text.replace("do #old", "do #new")
    assert file.read_text() == text
    succeeded(run("rename", "foo", "bar", "--confirm", "true"))
    text = text.replace("and [[foo]] `", "and [[bar]] `").replace("[y]: foo.md", "[y]: bar.md")
    assert file.read_text() == text
    listed = succeeded(run("tasks", "--json")).json["tasks"]
    assert [(task["text"], task["line"]) for task in listed] == [("do #new", 11)]
    succeeded(run("task", "done", "a.md", "11"))
    assert file.read_text() == text.replace("- [ ] do", "- [x] do")


def test_import_does_not_convert_code(folder: Path, run: Run, tmp_path: Path) -> None:
    """An import converts other programs' links only in text, not in code."""
    code = "\n    [[x|a]] ![[a#h:#i]]\n\n`[[x|a]]`\n"
    note = "---\nid: k\ntitle: N\ndesc: ''\nupdated: 1641169653000\ncreated: 1641169653000\n---\n"
    write(tmp_path / "source", "n.md", f"{note}[[x|a]]\n{code}")
    write(tmp_path / "source", "dendron.yml", "version: 5\n")
    succeeded(run("import", str(tmp_path / "source"), "--yes"))
    (file,) = folder.rglob("n.md")
    assert file.read_text().endswith(f"[[a|x]]\n{code}")
