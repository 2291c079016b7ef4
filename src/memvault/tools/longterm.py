"""The long-term memory tools: save a text, load by a query (with ``memory_load``), delete."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from memvault.errors import Ambiguous, NotFound, UsageError
from memvault.tools.registry import Arg, shell, tool
from memvault.tools.shapes import filters, seen
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.model import Memory

__all__ = ["found_for", "memory_delete", "memory_save", "shell_delete", "shell_save"]

_LOOKED_AT = 100
"""Memories that are asked for at least: the order of an answer is not that of similarity."""
_FLOOR = 0.1
"""What is less similar and shares no word is found by no threshold."""
_TEXT_HELP = "The text to keep; its title is made from its first words"
_AREA_HELP = "What the text belongs to; a filter such as area == 'main' finds it by this"
_METADATA_HELP = "Further front matter: texts, numbers, truth values, lists of these"
_IDS_HELP = "memIds or their beginnings, paths, or exact titles, separated by commas"


@tool("memory_save", "save", "long-term")
def memory_save(
    workspace: Workspace,
    text: Annotated[str, Arg(_TEXT_HELP, positional=True, text=True)],
    area: Annotated[str | None, Arg(_AREA_HELP)] = None,
    metadata: Annotated[dict[str, Any] | None, Arg(_METADATA_HELP)] = None,
) -> dict[str, Any]:
    """Save a text as a memory of its own; nothing is added to what it says.

    Metadata becomes front matter, so that load --query and recall can filter
    by it. Keys that the vault sets itself, such as created, are refused.
    """
    from memvault.memories import adding

    title = adding.title_of(text)
    header = adding.metadata_header(metadata or {}, area)
    memory = adding.add(workspace.store, title, text, "", header)
    return {"id": memory.mem_id, "title": memory.title, "filePath": memory.path}


@shell("memory_save")
def shell_save(
    text: Annotated[str, Arg(_TEXT_HELP, positional=True, text=True)],
    area: Annotated[str | None, Arg(_AREA_HELP)] = None,
    metadata: Annotated[
        list[str] | None,
        Arg(f"{_METADATA_HELP}; a JSON object or KEY=VALUE, repeatable", whole=True),
    ] = None,
) -> dict[str, Any]:
    """Read metadata as JSON objects and as KEY=VALUE, whose values are JSON or else texts."""
    found: dict[str, Any] = {}
    for entry in metadata or ():
        for key, value in _pairs(entry).items():
            if key in found:
                raise UsageError(f"metadata has {key} twice", "give it once")
            found[key] = value
    given = {"text": text, "area": area, "metadata": found or None}
    return {key: value for key, value in given.items() if value is not None}


def _pairs(entry: str) -> dict[str, Any]:
    if entry.lstrip().startswith("{"):
        value = _json(entry)
        if not isinstance(value, dict):
            raise UsageError("metadata is not a JSON object", 'write {"key": "value"}')
        return value
    key, equals, text = entry.partition("=")
    if not equals:
        raise UsageError(f"metadata {entry!r} has no =", "write --metadata KEY=VALUE")
    value = _json(text)
    return {key.strip(): text if value is None else value}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def found_for(
    workspace: Workspace, query: str, threshold: float, limit: int, expression: str | None
) -> dict[str, Any]:
    """Return the memories that fit a query well enough, the most similar first."""
    from memvault.recall.engine import Request

    if not query.strip():
        raise UsageError("The query is empty", "say what to look for")
    chosen = filters(None, None, None, None, expression)
    answer = workspace.engine.search(Request(query, limit=max(limit, _LOOKED_AT), filters=chosen))
    workspace.notes += answer.notes
    fitting = [found for found in answer.found if found.strength >= threshold]
    fitting.sort(key=lambda found: -found.strength)  # stable: of equals the better ranked first
    fitting = fitting[:limit]
    seen(workspace, (found.memory for found in fitting))
    result: dict[str, Any] = {
        "memories": [
            {
                "id": found.memory.mem_id,
                "text": found.memory.body.strip("\r\n"),
                "similarity": round(found.strength, 4),
                "metadata": _metadata(found.memory),
            }
            for found in fitting
        ]
    }
    if not fitting:
        passing = " that passes the filter" if expression else ""
        hint = "; a lower threshold may help" if threshold > _FLOOR else ""
        result["message"] = f"No memory{passing} is similar by at least {threshold:g}{hint}"
    return result


def _metadata(memory: Memory) -> dict[str, Any]:
    """Return what a filter can ask for by the same names."""
    own = {key: value for key, value in memory.metadata.items() if key != "id"}
    return {
        "title": memory.title,
        **own,
        "memory_type": memory.memory_type,
        "tags": list(memory.tags),
        "created": memory.created,
        "modified": memory.modified,
    }


@tool("memory_delete", "delete", "long-term", destructive=True)
def memory_delete(
    workspace: Workspace,
    ids: Annotated[list[str] | str, Arg(_IDS_HELP, positional=True)],
) -> dict[str, Any]:
    """Delete exactly these memories: they move to the trash, all or none.

    An id that names no memory is listed under missing and is no failure; one
    that several memories share is refused, and nothing is deleted. What
    was deleted comes back with memvault restore.
    """
    from memvault.memories import forgetting

    chosen: dict[str, Memory] = {}
    missing: list[str] = []
    for name in _names(workspace, [ids] if isinstance(ids, str) else ids):
        try:
            memory = workspace.engine.resolve(name)
        except Ambiguous:
            raise
        except NotFound:
            missing.append(name)
        else:
            chosen.setdefault(memory.path, memory)
    if not chosen and not missing:
        raise UsageError("No ids are given", "memvault search QUERY finds memIds")
    forgetting.delete(workspace.store, list(chosen.values()))
    return {
        "deleted": [memory.mem_id for memory in chosen.values()],
        "missing": list(dict.fromkeys(missing)),
    }


def _names(workspace: Workspace, given: list[str]) -> list[str]:
    """Split ids at commas, unless a whole one is a path or title that holds commas."""
    names: list[str] = []
    for entry in given:
        whole = "," not in entry or workspace.engine.try_resolve(entry) is not None
        names += [entry] if whole else entry.split(",")
    return [name.strip() for name in names if name.strip()]


@shell("memory_delete")
def shell_delete(
    ids: Annotated[list[str], Arg(_IDS_HELP, positional=True)],
) -> dict[str, Any]:
    """Take one or more arguments, each of one or more ids."""
    return {"ids": ids}
