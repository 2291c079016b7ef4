"""Find a vault's daily notes, and add entries to them."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path, PurePosixPath

from memvault import clock
from memvault.errors import NotFound, UsageError
from memvault.files import plain_files
from memvault.lazy_pattern import lazy_pattern
from memvault.memories import edit, templates
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.settings.vault_settings import Settings
from memvault.store.memory_store import MemoryStore, WriteResult
from memvault.vault import naming, paths
from memvault.vault.document import plain_text
from memvault.vault.markdown import headings, without_block_id

_OBSIDIAN = ".obsidian/daily-notes.json"
"""Settings of Obsidian's daily notes: ``folder``, ``format`` and ``template``."""
_FOLDERS = frozenset(("daily", "daily notes", "dailies", "diary", "journal", "journals"))
_DAY_NAME = lazy_pattern(r"\d{4}([-_.]?)\d\d\1\d\d\.md")
_LISTED_NAMES = 200
"""Maximum number of names in a folder to check for dates."""
_LIST_LINE = lazy_pattern(r"[ \t]+\S|(?:[-*+]|\d{1,9}[.)])[ \t]")

_ITEM_MARK = lazy_pattern(
    r"[ \t]*(?:[-*+][ \t]+)?(?P<task>\[[^\]\r\n]\](?:[ \t]+|$))|[ \t]*[-*+][ \t]+"
)
_BARE_TASK = lazy_pattern(r"\A([ \t]*+)(\[[^\]\r\n]\][ \t]++\S)")
"""Matches the start of a line that is a task without a list marker."""


class DailyPlace(NamedTuple):
    """The configuration of a vault's daily notes.

    ``path`` contains date placeholders, as templates do. ``template`` is a template's name or path.
    Entries are added below ``heading``, or at the end of the note if ``heading`` is empty.
    """

    path: str
    template: str
    heading: str = ""

    def path_of(self, root: Path, day: date) -> str:
        """Return the path of a day's note.

        Raises:
            UsageError: the path leads out of the vault, or into a hidden folder.
        """
        path = paths.resolve_inside(
            root, templates.fill_text(self.path, day.isoformat(), _moment(day))
        )
        if not paths.is_memory_path(path):
            raise UsageError(
                f"The daily note would be {path}, which is not a memory path",
                'set path under [daily] in memvault.toml, such as "journal/{{date}}.md"',
            )
        return path


class DailyEntry(NamedTuple):
    """A daily note to which an entry was added.

    ``text`` is the entry as written in the note, and ``line`` is the number of its first line.
    """

    memory: Memory
    is_new: bool
    line: int
    text: str


def place(root: Path, settings: Settings) -> DailyPlace:
    """Return the daily notes' configuration from memvault.toml, Obsidian or an existing folder."""
    chosen = DailyPlace(settings.daily.path, settings.daily.template, settings.daily.heading)
    if "daily.path" in settings.explicit:
        return chosen
    obsidian = _obsidian_place(root, chosen)
    if obsidian is not None:
        return obsidian
    return _existing_place(root, chosen)


def _obsidian_place(root: Path, default: DailyPlace) -> DailyPlace | None:
    """Return the configuration in Obsidian's settings, or None if it is missing or invalid."""
    try:
        settings = json.loads(plain_files.read(root / _OBSIDIAN))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(settings, dict):
        return None
    folder, pattern, template = (
        value if isinstance(value := settings.get(key), str) else ""
        for key in ("folder", "format", "template")
    )
    name = f"{{{{date:{pattern or 'YYYY-MM-DD'}}}}}.md"
    path = f"{folder.strip('/')}/{name}".lstrip("/")
    if template and "/" not in template and (root / f"{template.removesuffix('.md')}.md").is_file():
        template = f"./{template}"  # relative to the vault's root, like all paths in Obsidian
    return default._replace(path=path, template=template or default.template)


def _existing_place(root: Path, default: DailyPlace) -> DailyPlace:
    """Return the location of this vault's existing daily notes, else the default."""
    for folder in sorted(entry for entry in root.iterdir() if entry.name.casefold() in _FOLDERS):
        if folder.is_dir() and not folder.is_symlink():
            for _, file in zip(range(_LISTED_NAMES), sorted(folder.iterdir()), strict=False):
                match = _DAY_NAME.fullmatch(file.name)
                if match:
                    day = match[1].join(("YYYY", "MM", "DD"))
                    return default._replace(path=f"{folder.name}/{{{{date:{day}}}}}.md")
    return default


def find(store: MemoryStore, day: date) -> Memory | None:
    """Return a day's note, or None."""
    try:
        return store.read(place(store.root, store.settings).path_of(store.root, day))
    except NotFound:
        return None


def ensure(store: MemoryStore, day: date, item: str = "") -> tuple[Memory, bool]:
    """Return a day's note and whether it is new; a new note has the template's text.

    The template's title is the note's file name, as in Obsidian. A new note has ``item``
    below the heading for entries, or at its end.

    Raises:
        UsageError: the path of daily notes is invalid.
    """
    place_of_notes = place(store.root, store.settings)
    path = place_of_notes.path_of(store.root, day)
    for _ in range(2):  # Another process may create or move it concurrently.
        try:
            return store.read(path), False
        except NotFound:
            filled = templates.fill_template(
                store.root, place_of_notes.template, PurePosixPath(path).stem, False, _moment(day)
            )
            times = dict.fromkeys(("created", "modified"), clock.iso())
            tags = {"tags": filled.tags} if filled.tags else {}
            kind = {"memory_type": filled.memory_type} if filled.memory_type else {}
            header = {
                "id": naming.new_id(day.isoformat()),
                **filled.header,
                **kind,
                **tags,
                **times,
            }
            body = f"{filled.body}\n" if filled.body else ""
            text = filled.body
            if item:
                text = _with_item(body, item, "\n", place_of_notes.heading)[0].lstrip("\n")
            try:
                return store.add_at(path, header, text, filled.base), True
            except FileExistsError:
                continue
    return store.read(path), False


def add(store: MemoryStore, day: date, text: str) -> DailyEntry:
    """Add text to a day's note as a list item with the time.

    It is added at the end of the text below the heading for entries; a missing heading is added.

    Raises:
        Conflict: another program saved the file during every attempt.
        UsageError: the text is empty, or the path of daily notes is invalid.
    """
    text = plain_text(text).strip()
    if not text:
        raise UsageError("The text is empty", "pass the text to add")
    item = _item(text, clock.now().astimezone())
    memory, is_new = ensure(store, day, item)
    heading = store.settings.daily.heading
    if is_new:
        behind = _with_item(memory.body, "", memory.newline, heading)[1]
    else:
        behind = 0

        def change(current: Memory) -> WriteResult:
            nonlocal behind
            body, behind = _with_item(current.body, item, current.newline, heading)
            return store.change(current, edit.modified_now(current), body)

        memory = edit.retry_on_conflict(store, memory, change).memory
    until = len(memory.body) - behind
    line = memory.line_at(memory.body.rfind(item.partition("\n")[0], 0, until))
    return DailyEntry(memory, is_new, line, item)


def _moment(day: date) -> datetime:
    """Return the current local time on another day, for the placeholders of templates."""
    return datetime.combine(day, clock.now().astimezone().timetz())


def _item(text: str, moment: datetime) -> str:
    """Return text as a list item with the time; further lines are indented.

    The list marker of text that is already an item is removed. Text that begins with ``[ ]``
    becomes a task without the time.
    """
    first, *others = text.splitlines()
    mark = _ITEM_MARK.match(first)
    item_text = first[mark.end() :] if mark else first
    others = [
        _BARE_TASK.sub(r"\1- \2", line, 1) if _BARE_TASK.match(line) else line for line in others
    ]
    rest = "".join(f"\n  {line}" if line.strip() else "\n" for line in others)
    head = f"- {mark['task'].strip()} " if mark and mark["task"] else f"- {moment:%H:%M} "
    return f"{head}{item_text.strip()}{rest}"


def _with_item(body: str, item: str, newline: str, heading: str = "") -> tuple[str, int]:
    """Add an item below a heading; return the body and the number of characters after the item.

    A missing heading is added at the end of the body. If ``heading`` is empty, only the item is
    added there. The item continues an existing list. If ``item`` is empty, the body is unchanged.
    """
    heading_text = heading.strip().lstrip("#").strip()
    key = without_block_id(heading_text).casefold()
    marks = list(headings(body)) if heading_text else []
    positions = [at for at, (*_, name) in enumerate(marks) if name.casefold() == key]
    if not positions:
        if heading_text and item:
            level = len(heading.strip()) - len(heading.strip().lstrip("#")) or 2
            body = edit.append(body, f"{'#' * min(level, 6)} {heading_text}", newline)
        return (_at_end(body, item, newline) if item else body), 0
    end = marks[positions[0] + 1][0] if positions[0] + 1 < len(marks) else len(body)
    above, below = body[:end], body[end:]
    text_above = above.rstrip("\r\n")
    blank = above[len(text_above) :]
    if not item:
        return body, len(blank) + len(below)
    added = _at_end(text_above + newline, item, newline)
    gap = blank.removeprefix(newline) or newline * bool(below)
    return f"{added}{gap}{below}", len(gap) + len(below)


def _at_end(body: str, item: str, newline: str) -> str:
    """Return a body with an item at its end, which continues a list there."""
    if not body.strip():
        return f"{newline}{item.replace(chr(10), newline)}{newline}"
    lines = body.rstrip().splitlines()
    if lines and _LIST_LINE.match(lines[-1]) and body.endswith(lines[-1] + newline):
        return f"{body}{item.replace(chr(10), newline)}{newline}"
    return edit.append(body, item, newline)
