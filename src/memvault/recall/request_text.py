"""Extract the part of a prompt that asks or instructs, without pasted material.

A short instruction with a long log is as unlike generic prompts as a question, and the log's words
match memories that nobody asked for.
"""

from __future__ import annotations

from itertools import groupby

from memvault.index.text.sentences import split_sentences
from memvault.lazy_pattern import lazy_pattern

_MAX_LENGTH = 32_768
"""Maximum number of characters to read at the start of a prompt, and at its end."""
_LONG = 120
"""Minimum length in characters of a prompt without line breaks that is split into sentences."""
_MAX_PARTS = 4
"""Maximum number of sentences to search for."""
_MAX_REQUEST = 1_000
"""Maximum length of a sentence in characters."""
_MAX_SYMBOLS = 0.2
"""Maximum share of digits and symbols among the characters of a line of prose."""
_FENCE = lazy_pattern(r"^[ \t]*(?:```|~~~)", 8)  # re.MULTILINE
_FENCED = lazy_pattern(
    r"^[ \t]*(```|~~~)[^\n]*+\n(?:(?![ \t]*\1)[^\n]*+(?:\n|\Z))*+(?:[ \t]*\1[^\n]*+)?", 8
)
"""Matches fenced code; an unclosed fence extends to the end."""
_PASTED = lazy_pattern(
    # quotes, commands, diffs, tables, rules
    r"[>|$]|\(.*\)$|\[.*\]$|@@|diff --git|(?:---|\+\+\+) \S|[-=_*~#+|:. ]{4,}|[✓✔✗✖●•]"
    r"|\S.*?(?:\t| \| .*\| |\S {2,}\S+(?: \S+)* {2,}\S)|[\w ]+: {2,}\S|\S*[/\\]\S*$"
    # git status
    r"|(?:On branch|Your branch is|Changes (?:not staged|to be)|Untracked files) ?\b"
    # times and levels
    r"|\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
    r"|\[?(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL|PASS(?:ED)?|FAIL(?:ED)?)\b"
    r"|(?:\w+ )?(?:error|warning|note|panic|fatal|ERR!)(?:\[\w+\])?: |\w+ ERR!"
    r"|exit (?:status|code) \d|goroutine \d"
    # stack traces and compilers
    r"|Traceback |Caused by: |(?:\w+\.)*\w+(?:Error|Exception)\b:?|at \S+(?:\.|:\d)|File \"|#\d+ "
    r"|from \S+:\d|\.{3} \d+ more|\S+:\d+(?::\d+)?(?::|\s)|-->|[EF] {2,}"
    # code
    r"|(?:def|class|fn|func|function|const|let|var|import|export|return|public|private|package"
    r"|#include|async|SELECT|FROM|JOIN|WHERE|INSERT|UPDATE|CREATE)\s+\S*[\W_]"
    r"|.*(?:[{};\\]|\)(?: ->.*)?:|=>|,\S+,\S+)$|[}\])]"
)
"""Matches the start of a line of pasted material."""
_QUESTION = lazy_pattern(r"[?？؟¿;]")


def request_lines(prompt: str) -> str:
    """Return the sentences of a prompt that ask or instruct, each on a line.

    These are the last four questions or, without one, the first sentence and the last three. As one
    query, sentences about different subjects are as unlike any memory as a generic prompt.
    """
    if len(prompt) < _LONG and "\n" not in prompt:
        return prompt  # Compiling the patterns takes longer than the rest of a call.
    prose = without_pasted(prompt)
    # A sentence that ends with a colon introduces pasted material.
    sentences = [part for part in split_sentences(prose) if not part.endswith(":")] or [prose]
    questions = [sentence for sentence in sentences if _QUESTION.search(sentence)]
    requests = questions[-_MAX_PARTS:] or [sentences[0], *sentences[1:][1 - _MAX_PARTS :]]
    return "\n".join(" ".join(request.split())[:_MAX_REQUEST] for request in requests)


def without_pasted(prompt: str) -> str:
    """Return a prompt without code, logs, tables and quotes; the prompt if nothing remains.

    Only the start and the end of a prompt of more than 65,536 characters are used.
    """
    parts = [prompt]
    if len(prompt) > 2 * _MAX_LENGTH:
        end = prompt[-_MAX_LENGTH:]
        is_in_fence = len(_FENCE.findall(end)) % 2
        parts = [prompt[:_MAX_LENGTH], "```\n" * is_in_fence + end]
    prose = [line for part in parts for line in _prose_lines(_FENCED.sub("\n\n", part))]
    return "\n".join(prose).strip() or prompt


def _prose_lines(text: str) -> list[str]:
    """Return the lines of prose: not pasted, and not between the pasted lines of a paragraph."""
    prose: list[str] = []
    for is_blank, group in groupby(text.splitlines(), key=lambda line: not line.strip()):
        if is_blank:
            continue
        lines = list(group)
        pasted = [number for number, line in enumerate(lines) if _is_pasted(line)]
        if pasted:
            # The rest of a pasted paragraph counts as pasted, even if it looks like prose.
            end = len(lines) if 2 * len(pasted) > len(lines) else pasted[-1] + 1
            del lines[pasted[0] : end]
        prose += (line.strip() for line in lines)
    return prose


def _is_pasted(line: str) -> bool:
    """Return whether a line looks like code, a log, a table or a quote."""
    text = line.strip()
    if line.startswith(("    ", "\t")) or _PASTED.match(text):
        return True
    symbols = sum(not (char.isalpha() or char in " .,?!'’-:¿¡") for char in text)
    return symbols > _MAX_SYMBOLS * len(text)
