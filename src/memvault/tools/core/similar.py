"""Find memories that are similar to text that was just written."""

from __future__ import annotations

from memvault.call import Call
from memvault.model import Memory, is_document

_MAX_SIMILAR = 3
_MAX_DOCUMENTS = 10
"""Maximum number of more similar documents that are skipped."""
_MAX_SIMILAR_TEXT = 400
"""Number of leading characters used to find similar memories; more would take longer to embed."""


def similar_memories(
    call: Call, text: str, own_path: str, memory_type: str = ""
) -> list[tuple[Memory, float]]:
    """Return the memories most similar to text that was just written, with similarities in 0..1.

    Weak results, documents, outdated memories, and the memory at ``own_path`` are left out. Every
    failure becomes a note, because a caller that gets an error would write the text again.
    """
    from memvault.errors import TimedOut, to_memvault_error
    from memvault.index.protocol import NO_WAIT
    from memvault.recall.answer import RecallRequest
    from memvault.recall.filters import Filters

    for mode in ("vector", "keyword"):
        try:
            request = RecallRequest(
                text[:_MAX_SIMILAR_TEXT],
                mode,
                _MAX_SIMILAR + 1,
                Filters(memory_type=memory_type),
                only_current=True,
                strict=True,
                patience=NO_WAIT,
            )
            found = call.engine.search(request).found
            if any(is_document(result.memory.path) for result in found):
                request = request._replace(limit=request.limit + _MAX_DOCUMENTS)
                found = call.engine.search(request).found
            return [
                (
                    result.memory,
                    round(result.similarity if mode == "vector" else result.coverage, 4),
                )
                for result in found
                if result.memory.path != own_path and not is_document(result.memory.path)
            ][:_MAX_SIMILAR]
        except Exception as error:  # For example, a deleted cache or too little memory.
            reason = to_memvault_error(error).message
            call.notes.append(f"the search for similar memories failed: {reason}")
            if isinstance(error, TimedOut):
                break
    return []
