"""What some forms need said in another way than the result says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Result = Mapping[str, Any]


def _part(held: Result) -> Result:
    """Say where a part of a memory ends, where it is not the whole."""
    end = held["offset"] + held["length"]
    return {**held, "end": end} if held["length"] < held["totalLength"] else held


def _shown(found: Result) -> Result:
    """Say of a part of a memory where it is, and what the whole is."""
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
    """Put nested tags below the one that they are in, each with its last part."""
    entries = [
        {**entry, "name": "  " * entry["tag"].count("/") + entry["tag"].rpartition("/")[2]}
        for entry in found["tags"]
    ]
    return {**found, "tags": entries}


def _renamed(found: Result) -> Result:
    """Say before a renaming how the memory would be called."""
    return {**found, **found["after"]} if "after" in found else found


def _forgotten(found: Result) -> Result:
    """Give the token only where there is something to confirm."""
    return {**found, "token": found["confirmToken"]} if found.get("candidates") else found


def _consolidated(found: Result) -> Result:
    """Put contradicting statements below each other; say how to write what is proposed."""
    statements = [
        {**said, "text": f"but {said['text']}" if place else said["text"]}
        for entry in found.get("contradictions", ())
        for place, said in enumerate(entry["statements"])
    ]
    proposed = any(found.get(key) for key in ("facts", "procedures", "merged", "forgotten"))
    does = "does it" if proposed and not found["applied"] else None
    return {**found, "statements": statements, "does": does}


def _events(found: Result) -> Result:
    """Say who speaks in each event; a sender in an event of another kind counts for nothing."""
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
    """Put what was done to each file into a line."""
    changes = [{**entry, "lines": _file_lines(entry["files"])} for entry in found["changes"]]
    return {**found, "changes": changes}


def _undone(found: Result) -> Result:
    return (
        _changes(found) if "changes" in found else {**found, "lines": _file_lines(found["files"])}
    )


def _file_lines(files: list[Result]) -> str:
    """Say what was done to files, a line each."""
    return "\n".join(
        "  ".join(
            part
            for part in (entry["change"], entry["filePath"], entry["title"], entry.get("revision"))
            if part
        )
        for entry in files
    )


def _examined(found: Result) -> Result:
    """Say how many findings stand, of which kind."""
    words = [f"{count} {kind}{'s' * (count != 1)}" for kind, count in found["counts"].items()]
    nothing = "Nothing of that is wrong" if "only" in found else "Nothing is wrong"
    told = ", ".join(words) if any(found["counts"].values()) else nothing
    memories = found["memories"]
    return {**found, "summary": f"{told} in {memories} memor{'y' if memories == 1 else 'ies'}"}


def _emptied(found: Result) -> Result:
    """Give the token only where there is something to confirm, and no count of nothing."""
    shown = {**found, "deletedFiles": found.get("deletedFiles") or None}
    return {**shown, "token": found["confirmToken"]} if found.get("files") else shown


def _graded(found: Result) -> Result:
    """Say it where all that was found is weak."""
    hardly = "Nothing fits well; these come nearest" if found.get("best") == "weak" else None
    return {**found, "hardly": hardly}


def _recalled(found: Result) -> Result:
    """Leave out the passage of a memory that is there as a whole."""
    entries = [
        {**entry, "snippet": None} if "content" in entry else entry for entry in found["memories"]
    ]
    more = None if "total" in found else found.get("more")
    return _graded({**found, "memories": entries, "more": more})


VIEWS: dict[str, Callable[[Result], Result]] = {
    "memory_recall": _recalled,
    "memory_search": _graded,
    "memory_show": _shown,
    "memory_load": _loaded,
    "memory_active": lambda found: {**found, "memories": [*map(_part, found["memories"])]},
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
