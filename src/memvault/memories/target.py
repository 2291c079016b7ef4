"""Find the memory that a name or a search query refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memvault.errors import Ambiguous, NotFound, UsageError
from memvault.model import Memory, is_document

if TYPE_CHECKING:
    from memvault.recall.recall_engine import RecallEngine


_MIN_LEAD = 0.12


def find_target(
    engine: RecallEngine, query: str, notes: list[str], only_named: bool = False
) -> Memory:
    """Return the only memory that a name or a search query clearly refers to.

    Text that looks like a path is never used as a query. With ``only_named``, a query only returns
    candidates.

    Notes from the search are appended to ``notes``.

    Raises:
        Ambiguous: no result is clearly best, or ``only_named`` is set; ``candidates`` are in the
            details of the error.
        NotFound: no memory matches, or no memory has this path.
        UsageError: the query is empty.
    """
    exact = engine.names.try_resolve(query)
    if exact is not None:
        return exact
    if not query.strip():
        raise UsageError(
            "The query is empty", "pass a memory id, a path, a title or words from the memory"
        )
    by_path = engine.names.resolve_path(query)
    if by_path is not None:
        return by_path
    from memvault.recall.answer import RecallRequest, memory_candidate

    answer = engine.search(RecallRequest(query, limit=5, diverse=False, exact=True))
    notes += answer.notes
    results = [entry for entry in answer.found if not is_document(entry.memory.path)]
    if not results:
        raise NotFound(f"No memory matches {query!r}", "create one with `memvault remember`")
    best = results[0]
    lead = best.score - (results[1].score if len(results) > 1 else 0.0)
    is_specific = best.strength == "strong" and (len(query.split()) > 1 or best.in_title)
    if is_specific and lead >= _MIN_LEAD and not only_named:
        return best.memory
    candidates = [
        {
            **memory_candidate(entry.memory),
            "score": round(entry.score, 4),
            "strength": entry.strength,
            "probability": entry.probability,
            **entry.validity.marks(),
        }
        for entry in results
    ]
    raise Ambiguous(
        f"{query!r} is not the name of a memory, and replacing text requires one"
        if only_named
        else f"{query!r} does not clearly match one memory",
        "pass the memory id of one of the candidates",
        {"candidates": candidates},
    )
