"""Convert the text of Evernote notes, ENML, to markdown.

ENML is HTML with ``en-media`` for files, ``en-todo`` for checkboxes and ``en-crypt`` for encrypted
text. Blocks of Evernote 10 are HTML elements with styles: ``--en-todo`` and ``--en-checked`` for
checklists, ``--en-codeblock``, ``--en-task-group`` with the ``--en-id`` of tasks stored outside the
text, ``--en-toggle``, ``--en-callout`` and others.
"""

from __future__ import annotations

import re
from typing import Any

from memvault.importers import convert, html_markdown, plain_text
from memvault.importers.content_counts import ContentCounts
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

_PROLOGUE = lazy_pattern(r"<\?xml[^<>]*+>|<!DOCTYPE[^<>]*+>")
_HASH = lazy_pattern(r"[0-9a-f]{32}")
_STYLE = lazy_pattern(r"(?<![\w-])--?en-([\w-]+)\s*:\s*([^;]*)")
_CODE = frozenset(("codeblock", "mermaidblock"))
_KNOWN = frozenset(
    "todo checked codeblock mermaidblock formulablock syntaxlanguage linewrapping task-group id "
    "callout emoji toggle togglesummary togglecontent iscollapsed highlight markholder "
    "clipped-content viewas imagealign naturalwidth naturalheight href title isheader "
    "font-family".split()
)
_TASK_KEYS = frozenset(
    "title taskStatus dueDate timeZone sortWeight taskGroupNoteLevelID created updated "
    "statusUpdated noteLevelID dueDateUIOption inNote creator lastEditor".split()
)
"""Parts of a task that are converted, or that matter only in Evernote."""


class EvernoteTask(NamedTuple):
    """A task of a note, shown in one of the task groups of its text."""

    group: str
    weight: str
    text: str

    @classmethod
    def of(cls, element: Any, counts: ContentCounts) -> EvernoteTask:
        """Convert a task with its status and due day."""
        counts.converted("task")
        for part in element:
            text = (part.text or "").strip()
            if part.tag not in _TASK_KEYS and (len(part) or text not in ("", "false")):
                counts.omitted(f'task property "{part.tag}"')
        is_done = (element.findtext("taskStatus") or "").strip() == "completed"
        day = _day(element.findtext("dueDate") or "", element.findtext("timeZone") or "")
        return cls(
            (element.findtext("taskGroupNoteLevelID") or "").strip().lower(),
            (element.findtext("sortWeight") or "").strip(),
            convert.task(element.findtext("title") or "Task", is_done, day),
        )


def _day(time: str, zone: str) -> str:
    """Return the day of a time in a time zone; "" if it is not a time."""
    from datetime import datetime
    from zoneinfo import ZoneInfo

    moment = convert.parsed_time(time.strip())
    if not moment:
        return ""
    try:
        return datetime.fromisoformat(moment).astimezone(ZoneInfo(zone.strip())).date().isoformat()
    except (ValueError, OverflowError, OSError, KeyError):  # unknown time zone
        return moment[:10]


def title_ref(title: str) -> str:
    """Return the link id of a note, derived from its title, because exports contain no ids."""
    return f"enex-title {' '.join(convert.id_from_name(title).split()).casefold()}"


class NoteText:
    """The text of a note as ``markdown``; ``problems`` lists its missing parts.

    ``files`` contains the names of the note's files by digest. ``is_damaged`` is true if the text
    was invalid XML and was repaired.
    """

    def __init__(
        self, content: str, files: dict[str, str], tasks: list[EvernoteTask], counts: ContentCounts
    ) -> None:
        self.problems: list[str] = []
        self._files = files
        self._unused = dict(files)
        self._tasks: dict[str, list[str]] = {}
        """Tasks that are not placed in the text yet, by group."""
        for task in sorted(tasks, key=lambda task: task.weight):
            self._tasks.setdefault(task.group, []).append(task.text)
        self._counts = counts
        content = _PROLOGUE.sub("", content)
        data = content.strip().encode("utf-8", "replace")
        self.is_damaged = bool(data and html_markdown.parse_xml(data)[1])
        root = html_markdown.tree(content)
        for element in [] if root is None else list(root.iter()):
            _standardize(element, counts)
        parts = [html_markdown.tree_markdown(root, len(content), self._custom)]
        parts += ["\n".join(unplaced) for unplaced in self._tasks.values()]
        parts += [self._embed(digest) for digest in self._unused]
        self.markdown = "\n\n".join(part for part in parts if part)

    def _custom(self, element: Any) -> str | None:
        """Return the markdown of an element specific to Evernote; None for other elements."""
        tag = element.tag
        if tag == "en-media":
            return self._media(element)
        if tag == "en-crypt":
            self._counts.omitted("encrypted text")
            self.problems.append("encrypted text is not imported: decrypt it in Evernote")
            hint = plain_text.escaped(element.get("hint") or "", is_line=True)
            return f"(encrypted text{f': {hint}' if hint else ''})"
        if tag == "a" and (element.get("href") or "").strip().lower().startswith("evernote:"):
            shown = " ".join("".join(element.itertext()).split())
            ref, label = title_ref(shown), convert.label(shown)
            return f"[[import:{ref}|{label}]]" if label else ""
        styles = _styles(element)
        if "task-group" in styles:
            return "\n".join(self._tasks.pop(styles.get("id", "").lower(), []))
        if "formulablock" in styles:
            return f"$$\n{''.join(element.itertext()).strip()}\n$$"
        return None

    def _media(self, element: Any) -> str:
        digest = (element.get("hash") or "").strip().lower()
        if digest not in self._files or not _HASH.fullmatch(digest):
            kind = convert.one_line(element.get("type")) or "file"
            self.problems.append(f"an embedded file is missing from the export: {kind}")
            return ""
        self._unused.pop(digest, None)
        return self._embed(digest)

    def _embed(self, digest: str) -> str:
        return f"![[import:enex-{digest}|{convert.label(self._files[digest])}]]"


def _styles(element: Any) -> dict[str, str]:
    """Return the enabled Evernote styles of an element by name."""
    style = element.get("style")
    if not style or "en-" not in style:
        return {}
    styles = {name.lower(): value.strip() for name, value in _STYLE.findall(style[:9_999])}
    return {name: value for name, value in styles.items() if value.lower() != "false"}


def _standardize(element: Any, counts: ContentCounts) -> None:
    """Replace an Evernote element with the equivalent HTML element, if there is one."""
    tag, styles = element.tag, _styles(element)
    for name in styles.keys() - _KNOWN:
        counts.omitted(f'style "{name}"')
    if tag == "en-todo":
        element.tag = "span"
        _add_checkbox(element, (element.get("checked") or "").lower() == "true")
    elif tag == "li":
        above = element.getparent()
        if above is not None and "todo" in _styles(above):
            _add_checkbox(element, "checked" in styles)
    elif styles.keys() & _CODE and element.find(".//en-media") is None:
        element.tag = "pre"
        language = "mermaid" if "mermaidblock" in styles else styles.get("syntaxlanguage", "")
        element.set("class", f"language-{language}" if re.fullmatch(r"[\w#+.-]+", language) else "")
    elif "callout" in styles:
        element.tag = "aside"
    elif "toggle" in styles:
        element.tag = "details"
    elif "togglesummary" in styles:
        element.tag = "summary"


def _add_checkbox(element: Any, is_checked: bool) -> None:
    """Insert a checkbox at the start of an element."""
    box = element.makeelement("input", {"type": "checkbox"})
    if is_checked:
        box.set("checked", "")
    box.tail, element.text = element.text, None
    element.insert(0, box)
