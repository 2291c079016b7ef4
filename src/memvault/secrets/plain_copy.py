r"""Copy text without its markup, to detect secrets as a reader sees them.

Markdown escapes (``ghp\_x``), character references, percent-encoding, JSON, YAML and C escapes,
emphasis, tags, comments, links, invisible characters and compatibility characters can all hide a
secret from the patterns. ``plain_copies`` undoes them and maps positions back, so the whole written
form is masked. A line break or a space ends a word; look-alike letters of other scripts are not
converted.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator

from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

_PUNCTUATION = r"!-/:-@\[-`{-~"
_MARKUP = r"\\&%<*`~\[\]^$|!_=+"
_INVISIBLE = (
    "\0-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20ff"
    "\u3164\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that are invisible or combine with others: Unicode's Default_Ignorable_Code_Point,
controls, and combining marks."""
_COMPATIBLE = (
    "\xaa\xb2\xb3\xb9\xba\u017f\u02b0-\u02b8\u02e0-\u02e4\u1d2c-\u1d6a\u1d78\u1d9b-\u1dbf"
    "\u2010-\u2012\u2024\u2070-\u209f\u2100-\u214f\u2160-\u2188\u2212\u2460-\u24ff\u2c7c\u2c7d"
    "\ufb00-\ufb06\ufe33\ufe34\ufe4d-\ufe6f\uff01-\uff5e\U0001d400-\U0001d7ff"
    "\U0001f100-\U0001f189\U0001fbf0-\U0001fbf9"
)
"""Character ranges with many compatibility forms of ASCII characters."""
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2212"), "-")
_MASK = r"\[masked: [^\]\n]{1,40}\]"
_NEXT = lazy_pattern(rf"[\\&%<*`~^$\[\]!_=+{_INVISIBLE}{_COMPATIBLE}]")
"""Matches the first character of a token."""
_IN_WORD = r"\w*`~<>()\[\]\\&;^$+/=.:-\x80-\U0010ffff"
_TOKEN = lazy_pattern(
    rf"(?P<mask>{_MASK})"
    r"|(?P<escape>\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|U[0-9A-Fa-f]{8}"
    rf"|[0-3][0-7]{{2}}|\r?\n[ \t]*+|[{_PUNCTUATION}nrt]))"
    r"|(?P<reference>&(?:\#[xX][0-9A-Fa-f]{1,8};?|\#[0-9]{1,9};?|[A-Za-z][A-Za-z0-9]{1,31}+;?))"
    r"|(?P<percent>(?:%[0-9A-Fa-f]{2})++|%u[0-9A-Fa-f]{4})"
    r"|(?P<comment><!--|%%)"
    r"|(?P<hidden></?[A-Za-z][A-Za-z0-9:-]*+(?:[\s/][^<>]*+)?>|<[!?][^<>]*+>"
    r"|\]\([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)*+\)|\]\[[^\[\]\n]*+\]|\[\^[^\[\]\s]{1,99}+\]"
    r"|\[\[[^\[\]|\n]*+\|)"
    r"|(?P<pair>_++|==|\+\+|\$++|\^)"
    rf"|(?P<mark>[*`~]++|(?<=[{_IN_WORD}])\[++|\[(?=[^\[\]\n]*+\][(\[\w+/=-])|\]++(?=[{_IN_WORD}])|!(?=\[))"
    rf"|(?P<invisible>\x1b\[[0-9;?]{{0,20}}+[@-~]|[{_INVISIBLE}]++)"
    rf"|(?P<compatible>[{_COMPATIBLE}])"
)
_TARGETS = ("](", "][", "[[", "[^")
_BESIDE = r"*`~^$<>[]()&\;%"
"""Markup characters next to which a marker such as ``_`` may be emphasis even within a word."""
_MAX_RUN = 6
_NEAR = 1_000
"""Maximum distance in characters between two markers that form a pair, such as ``==``."""
_END = "\n\0\n"
"""A string that no secret contains."""
_REPLACED = {"n": "\n", "r": "\n", "t": "\t"}
"""The characters that C's escape sequences represent."""

_BEFORE = r"\w=+/.:@~-"
_AFTER = r"(?=[\w\\&%<*`~\[^$!=+]|[./:@-][\w/+.-])"
_JOINED: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "\\",
        lazy_pattern(
            r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}"
            rf"|(?<=[{_BEFORE}]\\)(?:\r?\n|[_+/=.~:-]|[{_PUNCTUATION}]{_AFTER}))"
        ),
    ),
    (
        "&",
        lazy_pattern(
            rf"&(?:\#[0-9xX]|(?<=[{_BEFORE}]&)[A-Za-z]{{2,31}}\d{{0,2}};"
            r"|[A-Za-z]{2,31}\d{0,2};(?=[\w&+/=.:-])"
            r"|(?:shy|amp|lt|gt|quot|nbsp|ord[fm]|sup\d|AMP|LT|GT|QUOT)(?=\w))"
        ),
    ),
    (
        "%",
        lazy_pattern(
            rf"%(?:%(?<=[{_BEFORE}]%%)(?=\S)|[2-7][0-9A-Fa-f]|[CDE][0-9A-Fa-f]%|u[0-9A-Fa-f]{{4}})"
        ),
    ),
    ("*", lazy_pattern(rf"\*(?<=[{_BEFORE}]\*)\*{{0,5}}+{_AFTER}")),
    ("`", lazy_pattern(rf"`(?<=[{_BEFORE}]`)`*+{_AFTER}")),
    ("~", lazy_pattern(rf"~(?<=[{_BEFORE}]~)~?{_AFTER}")),
    ("^", lazy_pattern(rf"\^(?<=[{_BEFORE}]\^){_AFTER}")),
    ("$", lazy_pattern(rf"\$(?<=[{_BEFORE}]\$){_AFTER}")),
    ("=", lazy_pattern(rf"=(?<=[\w+/.:-]=)={_AFTER}")),
    ("+", lazy_pattern(rf"\+(?<=[\w/=.:-]\+)\+{_AFTER}")),
    ("<", lazy_pattern(rf"<(?<=[{_BEFORE}]<)(?:!--|[/!?A-Za-z][^<>]*+>{_AFTER})")),
    (
        "]",
        lazy_pattern(
            rf"\](?:(?<=[\w+/=.:-]\])\]?+[\w+/=.:-](?=\S)|\([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)?\){_AFTER}"
            rf"|\[[^\[\]\n]*+\]{_AFTER})"
        ),
    ),
    (
        "[",
        lazy_pattern(
            r"\[(?<=[\w+/=.:!-]\[)(?:\^|\[?[^\[\]\n]*+(?:\]\(|\]\[|\|)|\[(?=[\w+/=.:-])|[\w+/=.:-]{8,}+\])"
        ),
    ),
)
"""Markers, each with a pattern for its use within a word, where it can hide a secret."""
_SPACED: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("\\", lazy_pattern(rf"\\(?<=[{_BEFORE}]\\)\r?\n")),
    ("%", lazy_pattern(rf"%(?<=[{_BEFORE}]%)%")),
    ("<", lazy_pattern(rf"<(?<=[{_BEFORE}]<)(?:!--|[/!?A-Za-z][^<>\s]*+\s[^<>]*+>{_AFTER})")),
    ("]", lazy_pattern(rf"\]\([^()\s]*+\s[^()\n]*+\){_AFTER}")),
)
"""Markup that may contain spaces."""
_STRANGE = lazy_pattern(rf"[{_INVISIBLE}{_COMPATIBLE}]")
_INVISIBLE_ONES = lazy_pattern(rf"[{_INVISIBLE}]")
_ORDINARY = bytes([*range(0x20, 0x7F), *b"\t\n\v\f\r"])
_THEN_MARKUP = rf"[\w\"']{{0,10}}+[ \t]{{0,3}}+[:=]?+[ \t\"']{{0,6}}+[{_MARKUP}]"
_KEYWORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("uthorization", lazy_pattern(f"uthorization{_THEN_MARKUP}")),
    ("UTHORIZATION", lazy_pattern(f"UTHORIZATION{_THEN_MARKUP}")),
    ("ey", lazy_pattern(f"ey{_THEN_MARKUP}")),
    ("EY", lazy_pattern(f"EY{_THEN_MARKUP}")),
    ("earer", lazy_pattern(f"earer{_THEN_MARKUP}")),
    ("asic", lazy_pattern(f"asic{_THEN_MARKUP}")),
    ("oken", lazy_pattern(f"oken{_THEN_MARKUP}")),
)
"""Endings of keywords before secrets, with patterns that match markup after them."""
_ANY_MARK = lazy_pattern(rf"[{_MARKUP}]")


class PlainCopy:
    """Text without markup, which maps its positions to the original."""

    def __init__(self, parts: Iterable[_CopiedPart]) -> None:
        self._starts: list[int] = []
        self._places: list[tuple[int, int]] = []
        pieces, length = [], 0
        for part in parts:
            if part.text:
                self._starts.append(length)
                self._places.append((part.start, part.end))
                pieces.append(part.text)
                length += len(part.text)
        self.text = "".join(pieces)
        self._starts.append(length)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original text for a non-empty span of this text."""
        return self._offset(start)[0], self._offset(end - 1)[1]

    def _offset(self, at: int) -> tuple[int, int]:
        """Return the start and end in the original of the source of one character."""
        number = bisect_right(self._starts, at) - 1
        start, end = self._places[number]
        if end - start != self._starts[number + 1] - self._starts[number]:
            return start, end
        start += at - self._starts[number]
        return start, start + 1


class _CopiedPart(NamedTuple):
    """A piece of a copy, and the piece of the original that it replaces.

    ``pair`` is its marker if it may open or close emphasis, in the run from ``run`` to ``run_end``.
    """

    text: str
    start: int
    end: int
    pair: str = ""
    run: int = 0
    run_end: int = 0

    def around(self, text: str) -> tuple[str, str]:
        """Return the characters before and after the run of markers; empty at the text's ends."""
        return text[max(0, self.run - 1) : self.run], text[self.run_end : self.run_end + 1]


def plain_copies(
    text: str, long_words: str, near_keyword: bool = False, is_key: bool = False
) -> list[PlainCopy]:
    """Return copies, without markup, of the lines in which markup can hide a secret.

    Lines are copied only if markup occurs in one of the ``long_words``, if markup contains spaces,
    or, with ``near_keyword``, if it follows a keyword. If ``is_key``, for a multi-line private key,
    the whole text is copied. There are several copies if a marker such as ``_`` may or may not be
    emphasis.
    """
    if is_key:
        is_marked = _ANY_MARK.search(text) is not None or _has_strange(text)
        regions = [(0, len(text))] if is_marked else []
    else:
        near_keyword = near_keyword and _has_one(text, _KEYWORDS)
        is_marked = near_keyword or _is_marked(text, long_words)
        regions = _regions(text, near_keyword) if is_marked else []
    if not regions:
        return []
    parts = list(_parts(text, regions))
    pairs = _paired(text, parts)
    others = frozenset(number for number in pairs if parts[number].pair[0] != "_")
    return [
        PlainCopy(part for number, part in enumerate(parts) if number not in removed)
        for removed in dict.fromkeys((frozenset[int](), others, pairs))
    ]


def _is_marked(text: str, long_words: str) -> bool:
    """Return whether markup can hide a secret in one of the words, or between them."""
    if _has_one(text, _SPACED):
        return True
    return bool(long_words) and (_has_one(long_words, _JOINED) or _has_strange(long_words))


def _has_one(text: str, patterns: Iterable[tuple[str, re.Pattern[str]]]) -> bool:
    for mark, pattern in patterns:  # noqa: SIM110  # any() takes twice as long
        if mark in text and pattern.search(text):
            return True
    return False


def _regions(text: str, near_keyword: bool) -> list[tuple[int, int]]:
    """Return the spans of lines in which markup can hide a secret, joining adjacent ones."""
    patterns = [pattern for mark, pattern in (*_JOINED, *_SPACED) if mark in text]
    patterns += [_STRANGE] * _has_strange(text)
    if near_keyword:
        patterns += [pattern for _, pattern in _KEYWORDS]
    spans = [match.span() for pattern in patterns for match in pattern.finditer(text)]
    regions: list[tuple[int, int]] = []
    last_comment = text.rfind("-->")
    done = 0  # the end of the previous comment
    for start, end in sorted(spans):
        if text.startswith("<!--", start) and done <= start < last_comment:
            end = done = text.find("-->", start)
        elif text.startswith("%%", start) and done <= start:
            end = done = max(end, text.find("%%", end))
        if regions and end <= regions[-1][1]:
            continue
        start, stop = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        stop = len(text) if stop < 0 else stop
        if regions and start <= regions[-1][1] + 1:
            regions[-1] = regions[-1][0], stop
        else:
            regions.append((start, stop))
    return regions


def _has_strange(text: str) -> bool:
    """Return whether a string has invisible characters or compatibility characters."""
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ORDINARY)
    return bool(rest) and _STRANGE.search(rest.decode("utf-8", "surrogatepass")) is not None


def _parts(text: str, regions: Iterable[tuple[int, int]]) -> Iterator[_CopiedPart]:
    """Yield the parts of a copy: first the visible text, then comments, link targets and tags."""
    regions = list(regions)
    # The list grows in the loop, but hidden text is shorter than its region, so the loop ends.
    for start, end in regions:
        hidden: list[tuple[int, int]] = []
        yield from _read(text, start, end, hidden)
        yield _CopiedPart(_END, end, end)
        regions += hidden


def _read(text: str, start: int, end: int, hidden: list[tuple[int, int]]) -> Iterator[_CopiedPart]:
    """Yield the visible parts of a region, and append its hidden regions to ``hidden``."""
    without_end: set[str] = set()
    done = start
    looked = start
    while (beginning := _NEXT.search(text, looked, end)) is not None:
        at = beginning.start()
        match = _TOKEN.match(text, at, end)
        if match is None:
            looked = at + 1
            continue
        yield _CopiedPart(text[done:at], done, at)
        done = behind = match.end()
        written = match[0]
        match match.lastgroup:
            case "mask":
                yield _CopiedPart(_END, at, at)
            case "escape" | "percent" | "reference" | "compatible" as kind:
                done = yield from _decoded(_DECODERS[kind](written), at)
            case "comment":
                closing = "%%" if written == "%%" else "-->"
                close = -1 if closing in without_end else text.find(closing, behind, end)
                if close < 0:
                    without_end.add(closing)
                    yield _CopiedPart(written, at, behind)
                else:
                    hidden.append((behind, close))
                    done = close + len(closing)
            case "hidden":
                inner = 2 if written.startswith(_TARGETS) else 1
                hidden.append((at + inner, behind - 1))
            case "pair":
                # A run of ``_`` can close several emphases and end the preceding word.
                step = 1 if written[0] == "_" and len(written) <= _MAX_RUN else len(written)
                for number in range(0, len(written), step):
                    piece = written[number : number + step]
                    yield _CopiedPart(piece, at + number, at + number + step, piece, at, behind)
            case _:
                pass
        looked = done
    yield _CopiedPart(text[done:end], done, end)


def _decoded(pieces: Iterable[tuple[str, int]], at: int) -> Generator[_CopiedPart, None, int]:
    """Yield each decoded piece of a token, and return the end position."""
    for chars, length in pieces:
        yield _CopiedPart(_visible(chars), at, at + length)
        at += length
    return at


def _visible(chars: str) -> str:
    """Return characters in their normal form, without invisible ones."""
    if chars.isascii() and chars.isprintable():
        return chars
    from unicodedata import normalize

    return _INVISIBLE_ONES.sub("", normalize("NFKC", chars.translate(_DASHES)))


def _unescaped(token: str) -> Iterator[tuple[str, int]]:
    sign, digits = token[1], token[2:].strip("{}")
    if sign in "xuU" and digits:
        yield _character(int(digits, 16), token), len(token)
    elif sign.isdigit():
        yield chr(int(token[1:], 8)), len(token)
    elif sign in "\r\n":
        yield "", len(token)
    else:
        yield _REPLACED.get(sign, sign), len(token)


def _percent_decoded(token: str) -> Iterator[tuple[str, int]]:
    if token[1] == "u":
        yield _character(int(token.removeprefix("%u"), 16), token), len(token)
        return
    data = bytes.fromhex(token.replace("%", ""))
    for char in data.decode("utf-8", "surrogateescape"):
        length = len(char.encode("utf-8", "surrogateescape"))
        yield char, 3 * length


def _referenced(token: str) -> Iterator[tuple[str, int]]:
    """Yield the characters of a character reference, which may end early if it has no semicolon."""
    from html import unescape
    from html.entities import html5

    if token[1] == "#" or token.endswith(";"):
        yield unescape(token), len(token)
        return
    for end in range(len(token), 2, -1):
        if token[1:end] in html5:
            yield html5[token[1:end]], end
            return
    yield "&", 1


def _compatible(token: str) -> Iterator[tuple[str, int]]:
    yield token, 1


def _character(number: int, token: str) -> str:
    return chr(number) if number < 0x110000 else token


_DECODERS: dict[str, Callable[[str], Iterator[tuple[str, int]]]] = {
    "escape": _unescaped,
    "percent": _percent_decoded,
    "reference": _referenced,
    "compatible": _compatible,
}


def _paired(text: str, parts: list[_CopiedPart]) -> frozenset[int]:
    """Return the indexes of markers that open and close emphasis or highlights in CommonMark."""
    opened: dict[str, list[int]] = {}
    numbers: set[int] = set()
    for number, part in enumerate(parts):
        if not part.pair:
            continue
        before, after = part.around(text)
        waiting = opened.setdefault(part.pair, [])
        while waiting and part.start - parts[waiting[-1]].end > _NEAR:
            waiting.pop()
        is_strict = part.pair[0] == "_"  # Within a word it neither opens nor closes.
        if waiting and before.strip() and not (is_strict and after.isalnum()):
            numbers |= {waiting.pop(), number}
        elif after.strip() and not (is_strict and before.isalnum()):
            waiting.append(number)
    is_relevant = any(_is_within_word(text, parts[number]) for number in numbers)
    return frozenset(numbers if is_relevant else ())


def _is_within_word(text: str, part: _CopiedPart) -> bool:
    """Return whether the text on both sides of a marker could be one word without it."""
    before, after = part.around(text)
    if not (before.strip() and after.strip()):
        return False
    if part.pair[0] not in "_$" or before.isalnum() is after.isalnum():
        return True
    return not f"{before}{after}".isascii() or any(char in _BESIDE for char in before + after)
