"""One-line summaries of memories, and how many of them fit a token budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from memvault.index.embedding import tokenizer
from memvault.index.text.analyzer import Analyzer
from memvault.index.text.sentences import sentence_ends
from memvault.model import Memory
from memvault.recall.query import Query
from memvault.secrets.detector import SecretDetector, allows

_LINE_TOKENS = 22
"""Tokens per line as counted by the built-in tokenizer, plus quotes and a comma."""
_CHARACTERS_PER_TOKEN = 3.5
"""Characters of a memId per token: the built-in tokenizer splits random ids and hyphens into more
tokens than the tokenizers of language models do.
"""
_MAX_TITLE_TOKENS, _MIN_TEXT_TOKENS = 10, 4
"""The maximum number of tokens of a title, and the minimum number of tokens reserved for the text.
"""


def best_sentence(text: str, query: Query, analyzer: Analyzer) -> str:
    """Return a snippet from the sentence with the most query words to its end."""
    query_terms = frozenset(query.term_names()) | frozenset(query.wholes)
    ends = [0, *sentence_ends(text), len(text)]
    best, max_count = 0, 0
    for start, end in pairwise(ends):
        terms = analyzer.terms(text[start:end])
        count = len(query_terms & terms.stems.keys()) + len(query_terms & terms.wholes.keys())
        if count > max_count:
            best, max_count = start, count
    return text[best:].strip("… ")


def one_line(
    memory: Memory,
    passage: str,
    detector: SecretDetector,
    marks: Iterable[str] = (),
    vault: str = "",
) -> str:
    """Return a memory as one line: its title, text, memId and marks.

    Secrets are masked unless the memory allows them, because a list shows memories that were not
    requested individually.

    Raises:
        EmbedderError: the tokenizer cannot be loaded.
    """
    name = f"{vault}:{memory.mem_id}" if vault else memory.mem_id
    title, reference = memory.title, "; ".join([name, *marks])
    text = passage.removeprefix(title)
    text = text.lstrip(" .:–-") if text != passage else text
    if not allows(memory.metadata):
        secrets = detector.values(f"{memory.title}\n{memory.body}")
        title, text = detector.masked_part(title, secrets), detector.masked_part(text, secrets)
    title = _truncate(title, _MAX_TITLE_TOKENS)
    remaining = (
        _LINE_TOKENS
        - tokenizer.count_tokens(f"{title}: ")
        - round(len(f"({reference})") / _CHARACTERS_PER_TOKEN)
    )
    text = _truncate(text, max(_MIN_TEXT_TOKENS, remaining))
    return f"{title}: {text} ({reference})" if text else f"{title} ({reference})"


def split_budget(budget: int, whole: Sequence[int], brief: Sequence[int]) -> tuple[int, int]:
    """Split a token budget among results, given the cost of each in full and as one line.

    Returns how many results to show in full, starting with the first, and how many to show in
    total. The total is the number of results that fit as lines, but at least one.
    """
    shown_count, used = 0, 0
    for cost in brief:
        if shown_count and used + cost > budget:
            break
        shown_count, used = shown_count + 1, used + cost
    whole_count = 0
    for cost, saved in zip(whole, brief[:shown_count], strict=False):
        used += cost - saved
        if used > budget:
            break
        whole_count += 1
    return whole_count, shown_count


def _truncate(text: str, max_tokens: int) -> str:
    """Return the first ``max_tokens`` tokens of a string, cut between words if possible."""
    text = text.strip()
    cut = text[: tokenizer.prefix_within(text, max_tokens)]
    if cut == text:
        return text
    if not text[len(cut)].isspace():
        cut = cut.rpartition(" ")[0] or cut
    return f"{cut.rstrip(' ,;:–-')}…"
