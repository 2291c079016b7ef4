"""A memory in one line, and how much of an answer a budget of tokens holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from memvault.index.embedding import static
from memvault.index.text.analysis import Analyser
from memvault.model import Memory
from memvault.recall.query import Query
from memvault.secrets import detector

_LINE = 22
"""Tokens of a line, as the built-in tokenizer counts; quotes and a comma come to it."""
_OF_A_NAME = 3.5
"""Characters of a memId that count as a token: the built-in tokenizer takes random ones, and each
hyphen, for more than those of language models do."""
_TITLE, _LEAST = 10, 4
"""Tokens of a title at most, and of what follows it at least, where the rest is long."""
_SENTENCE_END = re.compile(r"[.!?]['\")\]]?\s|[。！？；]")


def best_sentence(text: str, query: Query, analyser: Analyser) -> str:
    """Return a snippet from the sentence on that holds most of the query's words."""
    wanted = frozenset(query.term_names()) | frozenset(query.wholes)
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    best, most = 0, 0
    for start, end in pairwise(ends):
        terms = analyser.terms(text[start:end])
        found = len(wanted & terms.stems.keys()) + len(wanted & terms.wholes.keys())
        if found > most:
            best, most = start, found
    return text[best:].strip("… ")


def one_line(memory: Memory, told: str, marks: Iterable[str] = (), vault: str = "") -> str:
    """Return a memory in a line: its title, what it says, its memId and what marks it.

    Who reads so many memories at once asked for none of them: secrets are masked, unless the
    memory allows them. Errors as for ``tokens.count``.
    """
    named = f"{vault}:{memory.mem_id}" if vault else memory.mem_id
    title, reference = memory.title, "; ".join([named, *marks])
    said = told[len(title) :].lstrip(" .:–-") if told.startswith(title) else told
    if not detector.allows(memory.metadata):
        known = detector.secret_values(f"{memory.title}\n{memory.body}")
        title, said = detector.masked_part(title, known), detector.masked_part(said, known)
    title = _cut(title, _TITLE)
    left = _LINE - static.count_tokens(f"{title}: ") - round(len(f"({reference})") / _OF_A_NAME)
    said = _cut(said, max(_LEAST, left))
    return f"{title}: {said} ({reference})" if said else f"{title} ({reference})"


def split_budget(budget: int, whole: Sequence[int], brief: Sequence[int]) -> tuple[int, int]:
    """Share a budget out among what each of the best takes, whole and in a line.

    Returns how many of the first are told whole, and how many are told at all: as many as
    fit in lines, and one at least.
    """
    shown, used = 0, 0
    for cost in brief:
        if shown and used + cost > budget:
            break
        shown, used = shown + 1, used + cost
    told = 0
    for cost, saved in zip(whole, brief[:shown], strict=False):
        used += cost - saved
        if used > budget:
            break
        told += 1
    return told, shown


def _cut(text: str, most: int) -> str:
    """Return a text's beginning of about so many tokens, cut between words where there are some."""
    text = text.strip()
    if static.count_tokens(text) <= most:
        return text
    cut = text[: static.prefix_within(text, most)]
    if not text[len(cut)].isspace():
        cut = cut.rpartition(" ")[0] or cut
    return f"{cut.rstrip(' ,;:–-')}…"
