"""Convert the strings of Roam Research's blocks to markdown.

Roam's markup is converted and code is unchanged. Everything else, such as a single asterisk or a
hyphen at the start of a line, is escaped, because Roam shows it as plain text.
"""

from __future__ import annotations

import re

from memvault.importers import convert, outlines, plain_text
from memvault.importers.outlines import OutlineContext, OutlineInline
from memvault.lazy_pattern import lazy_pattern

UID = r"[\w-]{9,12}"
_TOKEN = lazy_pattern(
    outlines.MARKUP + r"|\(\((?P<ref>" + UID + r")\)\)|(?P<code>\x00+)|(?P<math>\$\$)"
    r"|(?P<tag>#)(?=[^\s#\[])|(?P<mark>\*\*|__|\^\^|~~)"
)
_BLOCK_TARGET = lazy_pattern(r"\(\((" + UID + r")\)\)\)")
_TARGET = lazy_pattern(r"((?:[^()\n]|\([^()\n]{0,200}\)){1,2000}+)\)")
_PLAIN = lazy_pattern(r"[^\W\d_][^\W_]*+(?: ?[,.;?'\"!/-]?[^\W_]++)*+[,.;?!]?")
"""Matches text without markup; most text needs no conversion."""
_SAFE = lazy_pattern(
    rf"(?:[^\W\d_]|{outlines.PLACE})(?:[^\W_]|[ ,.;?'\"/{outlines.PLACE}-])*+(?<! )"
)
"""Matches text that needs no escapes and may contain placeholders for converted markup."""
_MACRO = lazy_pattern(
    r"\{\{[ \t]*(?:\[\[([^\[\]{}\n]{1,40})\]\]|([^\[\]{}:\n]{1,40}))(?::(.*))?\}\}", re.DOTALL
)
_EMBED = lazy_pattern(r"[ \t]*(?:\(\((" + UID + r")\)\)|\[\[(.+)\]\])[ \t]*")
_CODE_BLOCK = lazy_pattern(r"```(.*?)```", re.DOTALL)
_LANGUAGE = lazy_pattern(r"([\w+#.-]{0,30}(?: [\w+#.-]{1,20})?)[ \t]*\n")
_TAG = lazy_pattern(r"#[^\s#\[\](){},;:!?'\"`^*]{1,100}")
_TRAILING = ".-/_"
_MATH_END = lazy_pattern(r"\$\$")
_WRITTEN_MARKS = {"**": "**", "__": "*", "^^": "==", "~~": "~~"}
_MEDIA = frozenset(("video", "youtube", "vimeo", "audio", "pdf", "iframe", "tweet", "twitter"))
_EMBEDS = frozenset(("embed", "embed-path", "embed-children"))
_LAYOUT = frozenset(("table", "kanban"))
_ATTRIBUTE = lazy_pattern(
    r"(\[\[[^\[\]\n]{1,100}\]\]|[^\s:`\[\](){}][^:`\[\](){}\n]{0,99})::(?=\s|\Z)"
)
_QUOTE = lazy_pattern(r"(?:\[\[>\]\]|>)[ \t]+")
MAX_STORED = 330
"""Maximum length of the start of a block that is stored for references to it."""
_MAX_QUOTED = 300
_PIPE = lazy_pattern(r"(?<!\\)\|")


def markdown_of(string: str, context: OutlineContext, is_quoted: bool = False) -> str:
    """Convert the string of a block; ``is_quoted`` is set if another block quotes it."""
    if _PLAIN.fullmatch(string):
        return string
    string = string.replace("\x00", "").replace(outlines.PLACE, "").replace("\r\n", "\n")
    if string.startswith(":hiccup"):
        context.counts.omitted("hiccup")
        return plain_text.fenced(string, "clojure")
    quote = _QUOTE.match(string)
    if quote is not None:
        context.counts.converted("quote")
        text = _with_code(string[quote.end() :], context, is_quoted)
        return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
    named = _ATTRIBUTE.match(string) if "::" in string else None
    if named is None or is_quoted:
        return _with_code(string, context, is_quoted)
    context.counts.converted("attribute")
    name = named[1]
    name = context.page_link(name[2:-2], "") if name.startswith("[[") else name
    return f"{name}:: {_with_code(string[named.end() :].strip(), context, False)}".rstrip()


def _with_code(string: str, context: OutlineContext, is_quoted: bool) -> str:
    if "```" not in string:
        return _inline(string, context, is_quoted)
    parts: list[str] = []
    done = 0
    for match in _CODE_BLOCK.finditer(string):
        before = string[done : match.start()].strip()
        parts += [_inline(before, context, is_quoted)] if before.strip() else []
        context.counts.converted("code block")
        language = _LANGUAGE.match(match[1])
        code = match[1][language.end() :] if language else match[1].removeprefix("\n")
        parts.append(
            plain_text.fenced(
                code.removesuffix("\n"), language[1].replace(" ", "-") if language else ""
            )
        )
        done = match.end()
    rest = string[done:].strip()
    parts += [_inline(rest, context, is_quoted)] if rest.strip() else []
    return "\n".join(parts)


def attribute(string: str) -> tuple[str, str] | None:
    """Return the name and value of an attribute such as ``Tags:: #bees``, or None."""
    match = _ATTRIBUTE.match(string)
    if match is None:
        return None
    return match[1].strip("[]").strip().lower(), string[match.end() :].strip()


def cell(text: str) -> str:
    """Return the markdown of a block as a table cell."""
    bare = " ".join(text.split())
    return _PIPE.sub(r"\\|", bare)


def macro_name(string: str) -> str:
    """Return the macro's name if the whole block is one macro; otherwise empty."""
    match = _MACRO.fullmatch(string.strip())
    return (match[1] or match[2] or "").strip().lower() if match else ""


def _inline(text: str, context: OutlineContext, is_quoted: bool) -> str:
    return outlines.convert_markup(text, _TOKEN, _RoamInline(context, is_quoted), _escaped)


def _escaped(text: str) -> str:
    if _SAFE.fullmatch(text):
        return text
    text = plain_text.escaped(text)
    return text.replace(f"!{outlines.PLACE}", f"\\!{outlines.PLACE}")  # prevent embeds


class _RoamInline(OutlineInline):
    """Converts the inline markup of a block."""

    block_target = _BLOCK_TARGET

    def __init__(self, context: OutlineContext, is_quoted: bool) -> None:
        super().__init__(context, is_quoted)
        self._open: dict[str, int] = {}
        """The position of the closing mark for each open emphasis mark."""

    def _other(self, match: re.Match[str], text: str) -> tuple[str, int] | None:
        if match["code"]:
            return text[match.start() : match.end()], match.end()
        if match["math"]:
            return self._math(match, text)
        return self._emphasis(match) if match["mark"] else self._tag_at(match, text)

    def _tag_at(self, match: re.Match[str], text: str) -> tuple[str, int] | None:
        before = text[match.start() - 1 : match.start()]
        tag_match = _TAG.match(match.string, match.start())
        if tag_match is None or before.isalnum() or before in ("/", "&", "_"):
            return None
        tag = tag_match[0].rstrip(_TRAILING)
        if not tag[1:] or tag[1:].isdigit():
            return None
        self._context.counts.converted("page reference")
        return self._tag(tag[1:].removeprefix(".")), match.start() + len(tag)

    def _emphasis(self, match: re.Match[str]) -> tuple[str, int] | None:
        """Return an emphasis mark in markdown, and its end; None without a matching mark."""
        mark = match["mark"]
        if self._open.get(mark) == match.start():
            del self._open[mark]
            return _WRITTEN_MARKS[mark], match.end()
        if mark in self._open:
            return None
        end = match.string.find(mark, match.end())
        line_end = match.string.find("\n", match.end())
        if end <= match.end() or (0 <= line_end < end):
            return None
        content = match.string[match.end() : end]
        if content != content.strip():
            return None
        self._open[mark] = end
        return _WRITTEN_MARKS[mark], match.end()

    def _math(self, match: re.Match[str], text: str) -> tuple[str, int] | None:
        end = _MATH_END.search(match.string, match.end())
        content = text[match.end() : end.start()] if end else ""
        if end is None or not content.strip():
            return None
        if "\n" in content:
            return f"$${content}$$", end.end()
        return f"${content.strip()}$", end.end()

    def _plain(self, text: str) -> str:
        return plain_text.escaped(text, is_line=True)

    def _quoted(self, text: str) -> str:
        if self._is_quoted:
            return self._plain(_shown(text))
        return " ".join(markdown_of(_shown(text), self._context, True).split())

    def _address(self, match: re.Match[str], label: str, text: str) -> tuple[str, int] | None:
        target = _TARGET.match(text, match.end())
        if target is None:
            return None
        address = target[1].strip()
        address = f"<{address}>" if " " in address and "<" not in address else address
        if match["image"]:
            self._context.counts.converted("image")
            return f"![{convert.label(label)}]({address})", target.end()
        return f"[{_inline(label, self._context, True)}]({address})", target.end()

    def _macro(self, match: re.Match[str], text: str, end: int) -> tuple[str, int] | None:
        macro = _MACRO.fullmatch(text, match.start(), end)
        name = (macro[1] or macro[2] or "").strip() if macro else ""
        argument = (macro[3] or "").strip() if macro else ""
        if name in ("TODO", "DONE"):
            return self._task(name, match, text, end)
        written = self._of_macro(name.lower(), argument)
        if written:
            return written, end
        self._context.counts.omitted(f'component "{name}"' if name else "component")
        return outlines.as_code(text[match.start() : end]), end

    def _task(self, name: str, match: re.Match[str], text: str, end: int) -> tuple[str, int]:
        mark = "[x]" if name == "DONE" else "[ ]"
        if text[: match.start()].strip():  # markdown has no tasks in the middle of a line
            return f"\\{mark}", end
        self._context.counts.converted("task")
        while text[end : end + 1] in (" ", "\t"):
            end += 1
        return f"{mark} ", end

    def _of_macro(self, name: str, argument: str) -> str:
        """Return a macro's markdown; empty if it is not supported."""
        embed = _EMBED.fullmatch(argument) if name in _EMBEDS else None
        if embed is not None:
            self._context.counts.converted("embed")
            if embed[1]:
                return self._reference(embed[1], argument)
            return f"!{self._context.page_link(embed[2], '')}"
        if name in _MEDIA and argument.startswith(("https://", "http://")):
            self._context.counts.converted(name)
            return argument.split(maxsplit=1)[0]
        if name in _LAYOUT and not argument:
            return name.capitalize()
        return ""


def _shown(text: str) -> str:
    """Return the start of a block's text without task markup."""
    for mark in ("{{[[TODO]]}}", "{{[[DONE]]}}", "{{TODO}}", "{{DONE}}"):
        text = text.removeprefix(mark)
    return text.strip()[:_MAX_QUOTED]
