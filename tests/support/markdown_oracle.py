"""Elements that markdown-it-py finds in a document, to compare with ``memvault.vault.markdown``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from memvault.vault import markdown, markdown_inline

WIKILINK = re.compile(r"\[\[([^\[\]\n\r]+)\]\]")
TASK = re.compile(r"\[[^\]\n]\][ \t]+\S")
EXTERNAL = re.compile(r"[A-Za-z][\w+.-]*:|//|#")


class Features(NamedTuple):
    """The elements of a document: lines of code, code spans, links, tags, and lines of tasks."""

    code_lines: list[int]
    code_spans: list[str]
    links: list[tuple[str, bool]]
    tags: list[str]
    tasks: list[int]


def _wikilink(state: StateInline, silent: bool) -> bool:
    is_embed = state.src.startswith("![[", state.pos)
    match = WIKILINK.match(state.src, state.pos + is_embed, state.posMax)
    if match is None or match[1].startswith((" ", "|")):
        return False
    if not silent:
        state.push("wikilink", "", 0).content = state.src[state.pos : match.end()]
    state.pos = match.end()
    return True


class _Lenient(MarkdownIt):
    """Return a parser that leaves URLs unchanged."""

    def validateLink(self, url: str) -> bool:  # noqa: N802, ARG002
        return True

    def normalizeLink(self, url: str) -> str:  # noqa: N802
        return url


def _parser() -> MarkdownIt:
    parser = _Lenient("commonmark", {"maxNesting": 500}).enable("table")
    parser.disable(["emphasis", "fragments_join", "text_join"])
    parser.inline.ruler.before("link", "wikilink", _wikilink)
    return parser


PARSER = _parser()


def expected(text: str) -> Features:
    """Return the elements that markdown-it-py finds, with rules of GFM and Obsidian."""
    env: dict[str, object] = {}
    found = Features([], [], [], [], [])
    tokens = PARSER.parse(text, env)
    for place, token in enumerate(tokens):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            found.code_lines.extend(range(*token.map))
        elif token.type == "inline":
            above = [above.type for above in tokens[max(place - 2, 0) : place]]
            is_item = above == ["list_item_open", "paragraph_open"]
            if is_item and TASK.match(token.content) and token.map is not None:
                found.tasks.append(token.map[0])
            _add_inline(found, token.children or [])
        elif token.type == "html_block" and token.content.lstrip(" ").startswith("<!--"):
            place_after = token.content.find("-->", token.content.index("<!--") + 2)
            if place_after >= 0:  # the rest of the line is text
                for inline in PARSER.parseInline(token.content[place_after + 3 :].strip("\n"), env):
                    _add_inline(found, inline.children or [])
    return found


def _add_inline(found: Features, children: list[Token]) -> None:
    for token in children:
        if token.type == "code_inline":
            found.code_spans.append(" ".join(token.content.split()))
        if token.type in ("link_open", "image"):
            url = str(token.attrs.get("href", token.attrs.get("src", "")))
            is_autolink = token.info == "auto"
            target = unquote(url.partition("#")[0]).strip()
            if target and not EXTERNAL.match(url) and not is_autolink:
                found.links.append((target, token.type == "image"))
            if token.type == "image":
                images = Features([], [], [], [], [])
                _add_inline(images, token.children or [])
                found.links.extend(images.links)
                found.code_spans.extend(images.code_spans)
        if token.type == "wikilink":
            inner = token.content.strip("![]").partition("|")[0].partition("#")[0]
            if inner.partition("^")[0].strip():
                found.links.append((inner.partition("^")[0].strip(), token.content[0] == "!"))
    found.tags.extend(match[1] for match in markdown._TAG.finditer("".join(_texts(children))))


def _texts(children: list[Token]) -> Iterator[str]:
    for token in children:
        if token.type == "text_special":
            yield token.markup
        elif token.type == "image":
            yield "!["
            yield from _texts(token.children or [])
            yield "]"
        elif token.type in ("softbreak", "hardbreak"):
            yield "\n"
        elif token.type == "text":
            yield token.content
        elif token.type == "link_open":
            yield "["
        elif token.type == "link_close":
            yield "]"
        else:
            yield "`"  # This neither continues a tag nor is whitespace.


def found_in(text: str) -> Features:
    """Return the elements that memvault finds."""
    lines = [*markdown.lines_with_code(text)]
    parsed = markdown_inline.parsed(text)
    spans = [parsed.blocks.flat[slice(*span)] for span in parsed.inline.code]
    starts = [line.start() for line, _ in lines]
    return Features(
        [number for number, (_, is_code) in enumerate(lines) if is_code],
        [" ".join(span.strip("`").split()) for span in spans],
        [
            (link.target, link.is_embed)
            for link in markdown.links(text)
            if link.form not in ("html", "definition")
        ],
        [match[1] for match in markdown.tags(text)],
        [sum(start <= place for start in starts) - 1 for place in markdown.tasks(text)],
    )
