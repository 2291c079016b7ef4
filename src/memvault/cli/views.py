"""Conversions of results for the forms that need other keys than the result has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Result = Mapping[str, Any]


def _held_part(held: Result) -> Result:
    """Add the end of a part of a memory, unless it is the whole memory."""
    end = held["offset"] + held["length"]
    return {**held, "end": end} if held["length"] < held["totalLength"] else held


def _shown(found: Result) -> Result:
    """Add the end of each part of a memory and the total length."""
    if "parts" not in found:
        return found
    total = found["totalLength"]
    parts = [{**part, "end": part["offset"] + part["length"]} for part in found["parts"]]
    return {**found, "parts": [{**part, "whole": total} for part in parts]}


def _loaded(found: Result) -> Result:
    if "memories" in found:
        entries = [{**entry, "about": _about(entry["metadata"])} for entry in found["memories"]]
        return {**found, "memories": entries}
    limit = {
        "maximum": "the most that one load takes",
        "budget": f"the budget, {found.get('budget')} tokens",
    }
    return {
        **found,
        "end": found["offset"] + found["length"],
        "limit": limit.get(found.get("cutAt", "")),
    }


def _about(metadata: Result) -> Result:
    elsewhere = ("title", "created", "modified")
    return {key: part for key, part in metadata.items() if part and key not in elsewhere}


def _tree(found: Result) -> Result:
    """Indent nested tags below their parent, and shorten each to its last part."""
    entries = [
        {**entry, "name": "  " * entry["tag"].count("/") + entry["tag"].rpartition("/")[2]}
        for entry in found["tags"]
    ]
    return {**found, "tags": entries}


def _renamed(found: Result) -> Result:
    """Show the memory as it would be after a renaming that is not confirmed yet."""
    return {**found, **found["after"]} if "after" in found else found


def _forgotten(found: Result) -> Result:
    """Show the confirmation token only if there is something to confirm."""
    return {**found, "token": found["confirmToken"]} if found.get("candidates") else found


def _consolidated(found: Result) -> Result:
    """Flatten contradictory statements to a list; note if there are proposals to apply."""
    statements = [
        {**statement, "text": f"but {statement['text']}" if index else statement["text"]}
        for entry in found.get("contradictions", ())
        for index, statement in enumerate(entry["statements"])
    ]
    proposed = any(found.get(key) for key in ("facts", "procedures", "merged", "forgotten"))
    does = "does it" if proposed and not found["applied"] else None
    return {**found, "statements": statements, "does": does}


def _events(found: Result) -> Result:
    """Add a heading and a text to each event.

    Only talks and space messages have a sender; the field is ignored in other events.
    """
    from memvault.agents.messages.inbox import SERVICE, SPACE_MESSAGE, TALK, sender_label

    events = []
    for entry in found["events"]:
        event = entry.get("result", entry)
        if "data" in event:
            data, kind = event["data"], event["type"]
            sender = sender_label(kind, data)
            text = data.get("message") or data.get("content") or data.get("instruction")
            event = {**event, "head": f"{kind} {sender.removeprefix(f'{SERVICE} ')}", "text": text}
            if kind in (TALK, SPACE_MESSAGE):
                number = f" {data['talkId']}" if "talkId" in data else ""
                event |= {"head": f"{kind}{number}", "sender": sender}
        events.append(event)
    return {**found, "events": events}


def _changes(found: Result) -> Result:
    """Add the lines that list the changed files of each change."""
    changes = [{**entry, "lines": _file_lines(entry["files"])} for entry in found["changes"]]
    return {**found, "changes": changes}


def _undone(found: Result) -> Result:
    return (
        _changes(found) if "changes" in found else {**found, "lines": _file_lines(found["files"])}
    )


def _file_lines(files: list[Result]) -> str:
    """Format what was done to each file, one line per file."""
    return "\n".join(
        "  ".join(
            part
            for part in (entry["change"], entry["filePath"], entry["title"], entry.get("revision"))
            if part
        )
        for entry in files
    )


def _examined(found: Result) -> Result:
    """Add a summary with the number of findings of each severity."""
    counted = [f"{count} {kind}{'s' * (count != 1)}" for kind, count in found["counts"].items()]
    nothing = "Nothing of that is wrong" if "only" in found else "Nothing is wrong"
    counts_text = ", ".join(counted) if any(found["counts"].values()) else nothing
    memories = found["memories"]
    return {
        **found,
        "summary": f"{counts_text} in {memories} memor{'y' if memories == 1 else 'ies'}",
    }


def _emptied(found: Result) -> Result:
    """Show the token only if there is something to confirm, and hide a count of zero."""
    shown = {**found, "deletedFiles": found.get("deletedFiles") or None}
    return {**shown, "token": found["confirmToken"]} if found.get("files") else shown


def _with_weak_note(found: Result) -> Result:
    """Add a note if even the best match is weak."""
    note = "Nothing fits well; these come nearest" if found.get("best") == "weak" else None
    return {**found, "hardly": note}


def _recalled(found: Result) -> Result:
    """Leave out the passage of memories whose whole content is shown."""
    entries = [
        {**entry, "snippet": None} if "content" in entry else entry for entry in found["memories"]
    ]
    more = None if "total" in found else found.get("more")
    return _with_weak_note({**found, "memories": entries, "more": more})


VIEWS: dict[str, Callable[[Result], Result]] = {
    "memory_recall": _recalled,
    "memory_search": _with_weak_note,
    "memory_show": _shown,
    "memory_load": _loaded,
    "memory_active": lambda found: {**found, "memories": [*map(_held_part, found["memories"])]},
    "memory_forget": _forgotten,
    "memory_rename": _renamed,
    "tag_list": _tree,
    "memory_log": _changes,
    "memory_undo": _undone,
    "memory_diff": lambda found: {**found, "same": None if found["diff"] else "Nothing differs"},
    "trash_list": lambda found: {**found, "shown": len(found["trash"]) or None},
    "trash_empty": _emptied,
    "vault_doctor": _examined,
    "consolidate_memories": _consolidated,
    "peek_inbox": _events,
    "list_inbox": _events,
    "wait_for": _events,
    "vault init": lambda found: {**found, "untouched": found["memories"] or None},
}
