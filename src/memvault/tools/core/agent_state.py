"""Search the agent's own data that is not memories: values, goals, plans and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memvault.tools.core.result_parts import without_none

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.results import RecalledEntry


def search_agent_state(
    call: Call, query: str, include: list[str], limit: int, full: bool
) -> list[RecalledEntry]:
    """Search the agent's own data, best hits first.

    Raises:
        UsageError: ``include`` contains an unknown kind of data.
    """
    from memvault.agents import agent_search

    kinds = agent_search.parse_include(include)
    languages = call.engine.languages()
    hits, notes = agent_search.search_agent(call.store, call.address, languages, query, kinds)
    call.notes += notes
    return [
        {
            "kind": hit.own.kind,
            "name": hit.own.name,
            "filePath": hit.own.path,
            "modified": hit.own.when,
            "score": round(hit.score, 4),
            "snippet": hit.snippet,
            **without_none(content=hit.own.text if full else None),
        }
        for hit in hits[:limit]
    ]


def suggest_include(call: Call, query: str) -> None:
    """After a weak result, add a note with the number of matches in the agent's own data."""
    from memvault.errors import MemvaultError

    try:
        if not call.address.folder(call.root).is_dir() and not (call.root / "spaces").is_dir():
            return
        from memvault.agents import agent_search

        languages = call.engine.languages()
        counts = {
            name: len(
                agent_search.search_agent(call.store, call.address, languages, query, [name])[0]
            )
            for name in agent_search.KINDS
        }
    except MemvaultError:  # The note is optional.
        return
    if any(counts.values()):
        parts = " and ".join(f"{count} in your {name}" for name, count in counts.items() if count)
        kinds = ",".join(name for name, count in counts.items() if count)
        call.notes.append(
            f"no memory is a good match, but your own data has matches: {parts}; "
            f"repeat the query with `--include {kinds}` to include them"
        )
