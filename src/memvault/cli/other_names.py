"""Names of commands as people type them: in the other number, or as other programs have them."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

SYNONYMS = {
    ("remember", "set", "store", "register"): "add create insert new note put save write",
    ("recall",): "ask find grep lookup query search",
    ("forget", "delete", "untrust", "empty"): "del delete erase remove rm",
    ("show", "get", "read", "observe"): "cat get print read view",
    ("list", "get", "recent", "read", "peek", "categories"): "all dir list ls",
    ("compound", "update", "set"): "append change edit extend update",
    ("log",): "changes history",
    ("undo",): "revert rollback",
    ("status",): "info stat stats",
    ("doctor",): "check fix lint validate verify",
    ("reindex",): "index rebuild refresh",
    ("active",): "held loaded",
    ("git sync",): "commit pull push sync",
    ("talk user", "send"): "message say tell",
    ("help",): "man usage",
}
"""What commands are called elsewhere: of the first words, the one that there is."""


_SHORT = {"mv": "rename"}
"""Words of a shell that mean one command, and do the same."""


def canonical_name(name: str, names: Collection[str]) -> str | None:
    """Return the name that another stands for: its plural or singular, or a shell's word for it."""
    if _SHORT.get(name) in names:
        return _SHORT[name]
    forms = {f"{name}s", name.removesuffix("s")}
    if name.endswith("y"):
        forms.add(f"{name[:-1]}ies")
    if name.endswith("ies"):
        forms.add(f"{name[:-3]}y")
    return next((known for known in names if known in forms), None)


def suggest_command(name: str, names: Collection[str]) -> str | None:
    """Return the name that somebody means by another: misspelt, or another program's word."""
    for commands, words in SYNONYMS.items():
        found = [command for command in commands if command in names]
        if found and name.lower() in words.split():
            return found[0]
    near = get_close_matches(name.lower(), list(names), n=1)
    return near[0] if near else None
