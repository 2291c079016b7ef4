"""Find the ends of sentences.

A period does not end a sentence in an abbreviation, after an initial or an ordinal number, or in
code or a link. Inside a number, a version, a file name or a URL, a period is not followed by white
space. Scripts without spaces between sentences have their own punctuation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memvault.lazy_pattern import lazy_pattern

_MARK = lazy_pattern(
    r"(?<![.!?…])([.!?…]++)([\"'”’»)\]*_]*+(?:\[\^?\w{1,9}\])?)(?=(\s+)|\Z)"
    r"|[。！？；｡।॥؟۔]+[」』”’）】》]*+"
)
_SIGN = lazy_pattern("[.!?…。！？；｡।॥؟۔]")
"""The first characters of ``_MARK``'s matches; searching for ``_MARK`` takes ten times as long."""
_ATOM = lazy_pattern(
    r"`[^`\n]++`|\[\[[^\[\]\n]*+\]\]|\]\([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)*+\)"
    r"|<[^<>\s][^<>\n]*+>"
)
"""Matches code, links and tags, within which no sentence ends."""
_ATOM_SIGNS = lazy_pattern(r"[`<]|\[\[|\]\(")
_OPENING = "\"'“”„‘’«»([{*_"
_LONGEST_WORD = 24
_ABBREVIATIONS: dict[str, str] = {
    **dict.fromkeys(
        "mr mrs ms mx dr prof st mme mlle sra dra dott dipl e.g i.e eg ie cf vs viz approx incl "
        "excl esp resp z.b d.h u.a p.ex ca bzw ggf vgl inkl exkl evtl sog zzgl abzgl".split(),
        "always",
    ),
    **dict.fromkeys(
        "no nos nr num pp vol ch chap sec art abs fig figs eq tab ver ed bd kap jan feb febr mar "
        "apr jun jul aug sep sept oct okt nov dec dez".split(),
        "before a number",
    ),
    **dict.fromkeys(
        "etc usw al inc ltd co corp jr sr bros dept est ph.d".split(), "before a small letter"
    ),
}
"""Abbreviations without the period, and what must follow one for the sentence to continue."""
_INITIALS = lazy_pattern(r"[^\W\d_](?:\.[^\W\d_])+")
_ORDINAL = lazy_pattern(
    r"(?:januar|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember)\b"
    r"|\d{1,4}\.(?=\s|\Z)",
    re.IGNORECASE,
)
"""The text after the number of a day or month in dates such as "3. Mai" and "24. 12. 2026"."""


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text without surrounding white space."""
    if not _SIGN.search(text):
        text = text.strip()
        return [text] if text else []
    parts: list[str] = []
    start = 0
    for end in sentence_ends(text):
        parts.append(text[start:end].strip())
        start = end
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def sentence_ends(text: str) -> Iterator[int]:
    """Yield the position after each sentence that ends in a text.

    Closing quotes, brackets and emphasis markers after the punctuation belong to the sentence. The
    text after the last position is an unfinished sentence.
    """
    atoms: Iterator[re.Match[str]] | None = None
    inside = outside = 0  # the next atom's start and end
    for mark in _MARK.finditer(text):
        start, end = mark.span()
        if end == len(text):
            yield end
            return
        if atoms is None:
            atoms = _ATOM.finditer(text) if _ATOM_SIGNS.search(text) else iter(())
        while outside <= start:
            atom = next(atoms, None)
            inside, outside = atom.span() if atom else (len(text), len(text))
        if inside >= start and (mark[1] is None or _is_end(mark, text)):
            yield end


def _is_end(mark: re.Match[str], text: str) -> bool:
    """Return whether a period, question mark or exclamation mark ends a sentence.

    The mark is followed by white space.
    """
    start, after = mark.start(), mark.end(3)
    following = text[after : after + 1]
    if mark[1] != ".":
        return not (following.islower() and (mark[2] or mark[1][-1] in ".…"))
    if following.islower() and mark[2]:
        return False
    before = text[max(0, start - _LONGEST_WORD) : start]
    words = before.split()
    word = words[-1].lstrip(_OPENING) if words and not before[-1].isspace() else ""
    if word.isdigit() and len(word) <= 4:
        line = before[: -len(word)].rpartition("\n")
        is_item = not line[2].strip() and (line[1] != "" or start <= _LONGEST_WORD)
        return not (is_item or following.islower() or _ORDINAL.match(text, after))
    if len(word) == 1:
        is_unit = len(words) > 1 and words[-2][-1].isdigit() and not following.islower()
        # In "plots C and D." the letter is not an initial.
        is_listed = len(words) > 2 and len(words[-3]) == 1
        return is_unit or is_listed or word == "I" or not word.isalpha() or word > "\u0fff"
    kind = _ABBREVIATIONS.get(word.casefold())
    if kind is None:
        return not ("." in word and _INITIALS.fullmatch(word) and _continues(following))
    if kind == "before a number":
        return not following.isdecimal()
    return kind != "always" and not _continues(following)


def _continues(following: str) -> bool:
    return following.islower() or following.isdecimal()
