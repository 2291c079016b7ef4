"""The vault's templates: files from which new memories are made, as Obsidian's own plugin does."""

from __future__ import annotations

import re
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from memvault import plain_files
from memvault.errors import NotFound, StorageError
from memvault.model import FileState
from memvault.vault import codec

FOLDER = "templates"
_MARK = re.compile(r"\{\{\s{0,9}(title|date|time)\s{0,9}(?::([^{}\n]{1,60}))?\}\}")
_FORMATS = {"date": "YYYY-MM-DD", "time": "HH:mm"}
_PARTS = re.compile(
    r"YYYY|YY|MMMM|MMM|MM|M|dddd|ddd|DD|Do|D|HH|H|hh|h|mm|m|ss|s|WW|W|A|a|\[[^\]]{0,60}\]"
)
"""What Moment.js, which Obsidian uses, writes for a date: momentjs.com/docs, section Format."""
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


class RenderedTemplate(NamedTuple):
    """A template with its marks filled in: what its header says, and the text."""

    body: str
    memory_type: str
    tags: list[str]


def names(root: Path) -> list[str]:
    """Return the names of a vault's templates."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.md") if path.is_file())


def filled(root: Path, name: str, title: str, is_named: bool) -> RenderedTemplate:
    """Return a template with title, date and time put in; empty where ``is_named`` is not set.

    Raises:
        NotFound: a template was named, and there is none.
        StorageError: it cannot be read.
    """
    known = names(root)
    if name not in known:
        if not is_named:
            return RenderedTemplate("", "", [])
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the templates are {', '.join(known)}"
        raise NotFound(
            f"There is no template {name!r}",
            hint if known else f"a template is a file in the folder {FOLDER}",
        )
    path = f"{FOLDER}/{name}.md"
    try:
        data = plain_files.read(root / path)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    memory = codec.read_memory(data, FileState(path, len(data), 0, 0, 0), frozenset())
    now = datetime.now().astimezone()
    body = _MARK.sub(lambda match: _value(match, title, now), memory.body).strip("\r\n")
    tags = [_MARK.sub(lambda match: _value(match, title, now), tag) for tag in memory.tags]
    kind = memory.metadata.get("memory_type", memory.metadata.get("type"))
    return RenderedTemplate(body, kind if isinstance(kind, str) and "{{" not in kind else "", tags)


def _value(match: re.Match[str], title: str, now: datetime) -> str:
    if match[1] == "title":
        return title
    return _PARTS.sub(lambda part: _part(part[0], now), match[2] or _FORMATS[match[1]])


def _part(mark: str, now: datetime) -> str:
    if mark.startswith("["):
        return mark[1:-1]
    hour, day = now.hour % 12 or 12, now.day
    ending = "th" if 10 < day < 14 else _ENDINGS.get(day % 10, "th")
    week = now.isocalendar().week
    values = {
        "Do": f"{day}{ending}",
        "hh": f"{hour:02}",
        "h": str(hour),
        "A": "AM" if now.hour < 12 else "PM",
        "a": "am" if now.hour < 12 else "pm",
        "WW": f"{week:02}",
        "W": str(week),
        "YYYY": f"{now.year:04}",
        "YY": f"{now.year % 100:02}",
        "MMMM": f"{now:%B}",
        "MMM": f"{now:%b}",
        "MM": f"{now.month:02}",
        "M": str(now.month),
        "dddd": f"{now:%A}",
        "ddd": f"{now:%a}",
        "DD": f"{now.day:02}",
        "D": str(now.day),
        "HH": f"{now.hour:02}",
        "H": str(now.hour),
        "mm": f"{now.minute:02}",
        "m": str(now.minute),
        "ss": f"{now.second:02}",
        "s": str(now.second),
    }
    return values[mark]
