"""Fill in templates for memories: placeholders for the title, the date and the time."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from datetime import datetime
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.errors import NotFound, Refused, StorageError, suggestion
from memvault.files import plain_files
from memvault.lazy_pattern import lazy_pattern
from memvault.memories.create import RenderedTemplate, is_key, is_reserved
from memvault.model import FileState
from memvault.vault import decoding, document, memory_file, paths
from memvault.vault.front_matter import split_front_matter

FOLDER = "templates"
_PLACEHOLDER = lazy_pattern(r"\{\{\s{0,9}(title|date|time)\s{0,9}(?::([^{}\n]{1,60}))?\}\}")
_MARK = lazy_pattern("\ufdd0[0-9]+\ufdd1")
"""Matches the substitute for a placeholder while a template's header is parsed."""
_DEFAULT_FORMATS = {"date": "YYYY-MM-DD", "time": "HH:mm"}
_DATE_TOKEN = lazy_pattern(
    r"YYYY|YY|MMMM|MMM|MM|M|dddd|ddd|DD|Do|D|HH|H|hh|h|mm|m|ss|s|WW|W|A|a|\[[^\]]{0,60}\]"
)
"""Date format tokens of Moment.js, as used by Obsidian; see momentjs.com/docs, section Format."""
_DATE_FORMATS = {
    "YY": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "WW": "%V",
    "DD": "%d",
    "dddd": "%A",
    "ddd": "%a",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "A": "%p",
}
_ORDINAL_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


def template_names(root: Path) -> list[str]:
    """Return the names of a vault's templates, sorted."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.md") if path.is_file())


def fill_template(
    root: Path, name: str, title: str, is_required: bool, moment: datetime | None = None
) -> RenderedTemplate:
    """Return a template with the title, the date and the time filled in.

    ``name`` may also be the path of a file elsewhere in the vault, as in Obsidian. ``moment`` is in
    local time, now by default. If there is no such template, the result is empty unless
    ``is_required`` is set.

    Raises:
        NotFound: ``is_required`` is set, and there is no such template.
        StorageError: the template cannot be read.
    """
    existing = template_names(root)
    path = f"{FOLDER}/{name}.md"
    if "/" in name:
        path = f"{paths.resolve_inside(root, name.removesuffix('.md'))}.md"
    if name not in existing and not ("/" in name and (root / path).is_file()):
        if not is_required:
            return RenderedTemplate("", "", [], {})
        hint = suggestion(name, existing, f"existing templates: {', '.join(existing)}")
        raise NotFound(
            f"There is no template {name!r}",
            hint if existing else f"add the file to the folder {FOLDER}",
        )
    try:
        data = plain_files.read(root / path)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    now = moment or clock.now().astimezone()
    values: dict[str, str] = {}

    def marked(match: re.Match[str]) -> str:
        mark = f"\ufdd0{len(values)}\ufdd1"
        values[mark] = _placeholder_value(match, title, now)
        return mark

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(entry) for entry in value]
        if isinstance(value, dict):
            return {filled(key): filled(entry) for key, entry in value.items()}
        if not isinstance(value, str):
            return value
        return _MARK.sub(lambda match: values.get(match[0], match[0]), value)

    # YAML would parse an unquoted placeholder as a mapping, and its value as a number or a date.
    marked_data = _PLACEHOLDER.sub(marked, decoding.decode(data).text).encode()
    memory = memory_file.read_memory(marked_data, FileState.of(path, data), frozenset())
    kind = memory.metadata.get("memory_type", memory.metadata.get("type"))
    header = {
        key: filled(value)
        for key, value in memory.metadata.items()
        if is_key(key) and not is_reserved(key) and key.casefold() != "tags"
    }
    return RenderedTemplate(
        filled(memory.body).strip("\r\n"),
        kind if isinstance(kind, str) and not _MARK.search(kind) else "",
        filled(list(memory.tags)),
        header,
        _header_lines(marked_data, header, filled),
    )


def _header_lines(data: bytes, keys: Container[str], filled: Callable[[Any], Any]) -> str:
    """Return the filled-in lines of a template's header, only with ``keys`` and the tags.

    The result is empty if any line is not YAML or cannot be changed.
    """
    parsed = document.Document.parse(data)
    if not parsed.header or parsed.unread:
        return ""
    changes = {}
    for key, value in parsed.header.items():
        fresh = filled(value) if key in keys or key == "tags" else None
        if fresh != value:
            changes[key] = fresh
    try:
        lines = split_front_matter(document.edit(data, changes, None).decode()).header
    except Refused:
        return ""
    # Only comments still contain placeholders.
    return document.with_line_feeds(
        _MARK.sub(lambda mark: " ".join(filled(mark[0]).split()), lines)
    )


def fill_text(text: str, title: str, moment: datetime) -> str:
    """Return text with its placeholders for the title and parts of a local time filled in."""
    return _PLACEHOLDER.sub(lambda match: _placeholder_value(match, title, moment), text)


def _placeholder_value(match: re.Match[str], title: str, now: datetime) -> str:
    if match[1] == "title":
        return title
    return _DATE_TOKEN.sub(
        lambda part: _format_token(part[0], now), match[2] or _DEFAULT_FORMATS[match[1]]
    )


def _format_token(code: str, now: datetime) -> str:
    if code.startswith("["):
        return code[1:-1]
    if code == "Do":
        suffix = "th" if 10 < now.day < 14 else _ORDINAL_SUFFIXES.get(now.day % 10, "th")
        return f"{now.day}{suffix}"
    if code == "YYYY":
        return f"{now.year:04}"  # On Linux, %Y has no leading zeros.
    if code == "a":
        return now.strftime("%p").lower()
    if code in _DATE_FORMATS:
        return now.strftime(_DATE_FORMATS[code])
    return str(int(now.strftime(_DATE_FORMATS[code * 2])))  # without leading zero
