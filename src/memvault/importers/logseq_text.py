"""Convert Logseq's blocks to markdown: tasks, properties, references, macros and drawers.

A block is a list item; its other lines are indented two spaces more than its bullet (Logseq 0.10,
docs.logseq.com; markdown as parsed by mldoc).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, unquote

from memvault.importers import outlines, plain_text
from memvault.importers.outlines import OutlineContext, OutlineInline
from memvault.lazy_pattern import lazy_pattern

PROPERTY = lazy_pattern(r"[ \t]*+([^\s:`\[\](){}#\"|]{1,60})::(?:[ \t]+(.*))?")
_BULLET = lazy_pattern(r"([ \t]*)-(?:[ \t](.*)|)\Z", re.DOTALL)
_FENCE = lazy_pattern(r"[ \t]*+(?:- )?[ \t]*+(`{3,}+(?=[^`]*\Z)|~{3,}+)")
_TASK = lazy_pattern(
    r"(#{1,6} )?(TODO|LATER|NOW|DOING|WAITING|WAIT|IN-PROGRESS|STARTED|DONE|CANCELED|CANCELLED)"
    r"(?:[ \t]+|\Z)(?:\[#([A-C])\][ \t]*)?"
)
_MARKS = {"DONE": "x", "CANCELED": "-", "CANCELLED": "-"} | dict.fromkeys(
    ("DOING", "IN-PROGRESS", "STARTED"), "/"
)
_PRIORITIES = {"A": "⏫", "B": "🔼", "C": "🔽"}
_DAY = lazy_pattern(
    r"(SCHEDULED|DEADLINE):[ \t]*<(\d{4}-\d\d-\d\d)([^<>\n]{0,60})>[ \t]*", re.IGNORECASE
)
_CLOCK = lazy_pattern(r"\b\d?\d:\d\d(?:-\d?\d:\d\d)?\b")
_REPEAT = lazy_pattern(r"(\.\+|\+\+|\+)(\d{1,4})([hdwmy])")
_UNITS = {"h": "hour", "d": "day", "w": "week", "m": "month", "y": "year"}
_HEADING = lazy_pattern(r"#{1,6} |```|~~~")
_BEGIN = lazy_pattern(r"[ \t]*+#\+begin_(\w{1,30})[ \t]*+(.*)", re.IGNORECASE)
_LOGBOOK = lazy_pattern(r"[ \t]*+:LOGBOOK:[ \t]*+", re.IGNORECASE)
_CELL_LINK = lazy_pattern(r"(\[\[(?:import:)?[^\[\]|\n]+)\|")
_CODE = {"src": "", "example": "", "export": "", "query": "clojure"}
_ID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_TOKEN = lazy_pattern(
    outlines.MARKUP + r"|\(\((?P<ref>" + _ID + r")\)\)|\^\^(?P<marked>[^^\n\x00]{1,500}+)\^\^"
)
_REF_TARGET = lazy_pattern(r"\(\((" + _ID + r")\)\)\)")
_TARGET = lazy_pattern(r"((?:[^()\n]|\([^()\n]{0,200}\)){1,1000}+)\)(\{:[^{}\n]{0,200}\})?")
_WIDTH = lazy_pattern(r":width[ ,]+(\d{1,5})")
_ASSET = lazy_pattern(r"(?:\.\./|\./|/|assets://)*assets/(.+)")
_MACRO = lazy_pattern(r"\{\{[ \t]*([\w-]{1,40})(?:[ :](.*))?\}\}", re.DOTALL)
_EMBED = lazy_pattern(r"\(\((" + _ID + r")\)\)|\[\[(.+)\]\]")
_MEDIA = {
    "video": "",
    "audio": "",
    "img": "",
    "youtube": "https://www.youtube.com/watch?v=",
    "vimeo": "https://vimeo.com/",
    "bilibili": "https://www.bilibili.com/video/",
    "tweet": "https://twitter.com/i/status/",
    "twitter": "https://twitter.com/i/status/",
}
_USED = frozenset(
    "id collapsed heading logseq.order-list-type ls-type hl-page hl-color hl-type hl-stamp".split()
)
"""Block properties that are converted, or that matter only in Logseq."""
_PROGRAM = ("logseq.", "hl-", "ls-", "card-", "query-", "template")
_PROGRAM_NAMES = frozenset(("background-color", "created-at", "updated-at", "public", "icon"))
_TIMES = frozenset("todo doing now later done waiting created_at updated_at".split())
"""Block properties that are internal to Logseq if their value is a time in milliseconds."""
_BEGINNINGS = ("```", "~~~", "#+")
"""First-line prefixes to skip when choosing a label for a block."""
_MAX_NUMBER = 99
"""The largest list number to write.

After a number with three digits, a single tab would not indent the item's text.
"""


class _LogseqBlock:
    """A block: its depth, whether it has a bullet, and its lines without indentation."""

    def __init__(self, lead: int, depth: int, is_item: bool, line: str) -> None:
        self.lead = lead
        self.depth = depth
        self.is_item = is_item
        self.lines = [line]
        self.is_code = [False]
        self._missing: set[str] = set()

    def position(self, start: int, text: str) -> int:
        """Return the number of the next line that equals a string, ignoring case, or -1."""
        if text not in self._missing:
            for number in range(start + 1, len(self.lines)):
                if self.lines[number].strip().lower() == text:
                    return number
            self._missing.add(text)
        return -1


def first_lines_of_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the id and the first line of each block with an id."""
    if "id:: " not in text:
        return
    first = key = ""
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith("- "):
            bare = bare[2:].strip()
            first = key = ""
        if bare.startswith("id:: "):
            key = bare[len("id:: ") :].strip()
        elif not first or first.startswith(_BEGINNINGS):
            first = first if PROPERTY.fullmatch(bare) else bare
        if key and first and not first.startswith(_BEGINNINGS):
            yield key, first
            key = ""


def page_properties(text: str) -> tuple[dict[str, str], str]:
    """Return the properties of a page, in its first block, and the rest of its text."""
    text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    properties: dict[str, str] = {}
    number = 0
    while number < len(lines):
        line = lines[number]
        is_first = number == 0
        bare = line.lstrip()[2:] if is_first and line.lstrip().startswith("- ") else line
        match = PROPERTY.fullmatch(bare.rstrip())
        if match is None:
            break
        properties[match[1].lower()] = (match[2] or "").strip()
        number += 1
    following = lines[number] if number < len(lines) else ""
    is_own_block = not following.strip() or _BULLET.match(following) or not lines[0].startswith("-")
    if not properties or not is_own_block:
        return {}, text
    return properties, "\n".join(lines[number:])


def convert_page(text: str, context: OutlineContext) -> str:
    """Convert the text of a page without its properties."""
    lines: list[str] = []
    numbers: dict[int, int] = {}
    for block in _blocks(text):
        context.counts.converted("block")
        is_numbered, block_lines = _lines(block, context)
        if not block.is_item:
            numbers.clear()
            lines += block_lines
            continue
        for depth in [depth for depth in numbers if depth > block.depth]:
            del numbers[depth]
        mark = "-"
        if is_numbered:
            number = numbers[block.depth] = numbers.get(block.depth, 0) + 1
            mark = f"{min(number, _MAX_NUMBER)}."
        else:
            numbers.pop(block.depth, None)
        indent = "\t" * block.depth
        lines.append(
            f"{indent}{mark} {block_lines[0]}".rstrip() if block_lines else f"{indent}{mark}"
        )
        rest = indent + " " * (len(mark) + 1)
        lines += [f"{rest}{line}" if line else "" for line in block_lines[1:]]
    return "\n".join(lines)


def _blocks(text: str) -> Iterator[_LogseqBlock]:
    """Yield the blocks of a page in order."""
    block: _LogseqBlock | None = None
    leads: list[int] = []
    for line, is_inside, is_code in _lines_with_code(text):
        item = None if is_inside else _BULLET.match(line)
        if item is not None:
            lead = _width(item[1])
            while leads and leads[-1] >= lead:
                leads.pop()
            if block is not None:
                yield block
            block = _LogseqBlock(lead, len(leads), True, item[2] or "")
            leads.append(lead)
        elif block is None or (block.is_item and not is_inside and _is_outside(line, block)):
            if block is not None:
                yield block
            leads.clear()
            block = _LogseqBlock(0, 0, False, line)
        else:
            block.lines.append(_dedented(line, block.lead + 2) if block.is_item else line)
            block.is_code.append(is_code)
    if block is not None:
        yield block


def _lines_with_code(text: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield each line, whether it is in a quote or code block, and whether it is code."""
    lines = text.split("\n")
    unclosed: set[str] = set()
    fence = quote = ""
    for number, line in enumerate(lines):
        yield line, bool(fence or quote), bool(fence)
        begun, is_code = ("", False) if fence else _begun(line)
        if fence:
            fence = "" if _closes(line, fence) else fence
        elif quote and _closes(line, quote):
            quote = ""
        elif begun and begun not in unclosed and (is_code or not quote):
            if not any(_closes(lines[later], begun) for later in range(number + 1, len(lines))):
                unclosed.add(begun)
            elif is_code:
                fence = begun
            else:
                quote = begun


def _is_outside(line: str, block: _LogseqBlock) -> bool:
    """Return whether a line without a bullet is outside the preceding list."""
    is_flush = bool(line.strip()) and _width(line[: len(line) - len(line.lstrip())]) <= block.lead
    return is_flush and (not block.lines[-1].strip() or _HEADING.match(line) is not None)


def _begun(line: str) -> tuple[str, bool]:
    """If a line starts a quote or code block, return the end marker and whether it is code."""
    match = _FENCE.match(line)
    if match is not None:
        return match[1], True
    begun = _BEGIN.match(line.lstrip().removeprefix("- ")) if "#+" in line else None
    return (f"#+end_{begun[1].lower()}", begun[1].lower() in _CODE) if begun else ("", False)


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    if fence.startswith("#"):
        return bare.lower() == fence
    return len(bare) >= len(fence) and not bare.strip(fence[0])


def _width(blanks: str) -> int:
    return len(blanks.expandtabs(4))


def _dedented(line: str, width: int) -> str:
    """Remove at most ``width`` columns of indentation from a line."""
    done = 0
    for position, char in enumerate(line):
        if done >= width or char not in " \t":
            return line[position:]
        done += 4 - done % 4 if char == "\t" else 1
    return ""


def _lines(block: _LogseqBlock, context: OutlineContext) -> tuple[bool, list[str]]:
    """Return whether a block is a numbered list item, and its lines as markdown."""
    _remove_logbooks(block, context)
    properties: dict[str, str] = {}
    out: list[str] = []
    plain: list[str] = []
    due: list[re.Match[str]] = []
    number = 0
    while number < len(block.lines):
        line, is_code = block.lines[number], block.is_code[number]
        begun = None if is_code else _BEGIN.match(line)
        end = block.position(number, f"#+end_{begun[1].lower()}") if begun else -1
        if begun is not None and end > 0:
            out += _inline(plain, context)
            out += _special(begun, block, number + 1, end, context)
            number = end
            after = "".join(block.lines[end + 1 : end + 2])
            is_quote = bool(out) and out[-1].startswith(">")
            if is_quote and after.strip() and not PROPERTY.fullmatch(after):
                out.append("")  # separates the following text from the quote
        elif is_code:
            out += [*_inline(plain, context), line]
        elif (property_match := PROPERTY.fullmatch(line)) is not None:
            name, value = property_match[1].lower(), (property_match[2] or "").strip()
            properties[name] = value
            if not _is_of_program(name, value, context):
                plain.append(line)
        else:
            remaining = _without_days(line, due)
            if remaining.strip() or not line.strip():
                plain.append(remaining)
        number += 1
    return _finished(block, out + _inline(plain, context), properties, due, context)


def _without_days(line: str, due: list[re.Match[str]]) -> str:
    """Move the days of a task from a line to ``due``."""
    if "<" not in line or _DAY.search(line) is None:
        return line
    pieces: list[str] = []
    done = 0
    for match in _DAY.finditer(outlines.without_code(line)):
        due.append(match)
        pieces.append(line[done : match.start()])
        done = match.end()
    return "".join([*pieces, line[done:]])


def _finished(
    block: _LogseqBlock,
    lines: list[str],
    properties: Mapping[str, str],
    due: list[re.Match[str]],
    context: OutlineContext,
) -> tuple[bool, list[str]]:
    """Add the task, days, heading and annotation of a block to its lines."""
    lines = lines or [""]
    first = lines[0]
    task = _TASK.match(first) if block.is_item and not block.is_code[0] else None
    priority = ""
    if task is not None:
        context.counts.converted("task")
        first = f"[{_MARKS.get(task[2], ' ')}] {first[task.end() :]}"
        priority = _PRIORITIES[task[3]] if task[3] else ""
    for day_match in due:
        context.counts.converted(day_match[1].lower())
    lines[0] = " ".join(part for part in [first.rstrip(), *_days(due, priority)] if part)
    heading = properties.get("heading", "")
    if heading and heading != "false" and not lines[0].startswith("#") and task is None:
        level = int(heading) if heading.isdecimal() else block.depth + 1
        lines[0] = f"{'#' * min(level, 6)} {lines[0]}"
    if properties.get("ls-type") == "annotation":
        context.counts.converted("highlight")
        lines[0] = _highlight(lines[0], properties, context)
    return properties.get("logseq.order-list-type") == "number", lines


def _highlight(text: str, properties: Mapping[str, str], context: OutlineContext) -> str:
    """Return a highlight of a PDF file with its page and color."""
    page, key = properties.get("hl-page", ""), properties.get("id", "")
    if properties.get("hl-type") == "area":
        begin = f"{page}_{key}_"
        picture = next(
            (n for n in context.asset_names if n.rpartition("/")[2].startswith(begin)), ""
        )
        text = f"![]({context.to_root}{quote(picture)})" if picture and key else text
    about = ", ".join(filter(None, [f"p. {page}" if page else "", properties.get("hl-color", "")]))
    return f"{text} ({about})" if about else text


def _days(due: list[re.Match[str]], priority: str) -> list[str]:
    """Return the days of a task in the form of Obsidian Tasks."""
    days_by_role: dict[str, str] = {}
    times, repeats = [], []
    for match in due:
        days_by_role.setdefault(match[1].upper(), match[2])
        times += [clock_match[0] for clock_match in _CLOCK.finditer(match[3])]
        for repeat in _REPEAT.finditer(match[3]):
            unit, count = _UNITS[repeat[3]], int(repeat[2])
            interval = f"every {unit}" if count == 1 else f"every {count} {unit}s"
            repeats.append(f"🔁 {interval}" + (" when done" if repeat[1] == ".+" else ""))
    deadline = days_by_role.get("DEADLINE")
    scheduled = days_by_role.get("SCHEDULED")
    days = [f"⏳ {scheduled}"] if deadline and scheduled else []
    days += [f"📅 {day}"] if (day := deadline or scheduled) else []
    return [*times[:1], priority, *repeats[:1], *days]


def _is_of_program(name: str, value: str, context: OutlineContext) -> bool:
    """Count a block property; return whether it is internal to Logseq."""
    if name in _USED:
        return True
    is_time = name in _TIMES and len(value) == len("1609232063516") and value.isdecimal()
    is_own = name in _PROGRAM_NAMES or name.startswith(_PROGRAM) or is_time
    count = context.counts.omitted if is_own else context.counts.converted
    count(f'block property "{name}"' if is_own else "block property")
    return is_own


def _remove_logbooks(block: _LogseqBlock, context: OutlineContext) -> None:
    """Remove a block's LOGBOOK drawers, in which Logseq tracks the time spent on a task."""
    lines: list[tuple[str, bool]] = []
    end = -1
    for number, line in enumerate(block.lines):
        if number > end and not block.is_code[number] and _LOGBOOK.fullmatch(line):
            end = block.position(number, ":end:")
            if end > 0:
                context.counts.omitted("logbook")
        if number > end:
            lines.append((line, block.is_code[number]))
    block.lines = [line for line, _ in lines] or [""]
    block.is_code = [is_code for _, is_code in lines] or [False]


def _special(
    begun: re.Match[str], block: _LogseqBlock, start: int, end: int, context: OutlineContext
) -> list[str]:
    """Return the lines of a quote, callout or code in Org syntax."""
    name, lines = begun[1].lower(), block.lines[start:end]
    if name in _CODE:
        context.counts.converted(f"block {name}")
        if name == "query":
            context.counts.omitted("query")
        language = _CODE[name] or begun[2].split(" ")[0]
        return plain_text.fenced("\n".join(lines), language).split("\n")
    converted_lines: list[str] = []
    plain: list[str] = []
    for line, is_code in zip(lines, block.is_code[start:end], strict=True):
        if is_code:
            converted_lines += [*_inline(plain, context), line]
        else:
            plain.append(line)
    converted_lines += _inline(plain, context)
    context.counts.converted(f"block {name}")
    if name == "center":
        return converted_lines
    if name == "comment":
        return ["%%", *converted_lines, "%%"]
    quoted = [f"> {line}".rstrip() for line in converted_lines]
    return quoted if name in ("quote", "verse") else [f"> [!{name}]", *quoted]


def _inline(lines: list[str], context: OutlineContext) -> list[str]:
    """Convert references, links and macros in ``lines``, and clear ``lines``."""
    text = "\n".join(lines)
    has_text = bool(lines)
    lines.clear()
    if "[" in text or "((" in text or "{{" in text or "^^" in text:
        text = outlines.convert_markup(text, _TOKEN, _LogseqInline(context, False))
    converted_lines = text.split("\n") if has_text else []
    return [
        _CELL_LINK.sub(r"\1\\|", line) if line.startswith("|") else line for line in converted_lines
    ]


class _LogseqInline(OutlineInline):
    """Converts the inline markup of a block."""

    block_target = _REF_TARGET

    def _other(self, match: re.Match[str], text: str) -> tuple[str, int] | None:
        return f"=={text[match.start() + 2 : match.end() - 2]}==", match.end()

    def _quoted(self, text: str) -> str:
        if self._is_quoted:
            return text
        return outlines.convert_markup(_shown(text), _TOKEN, _LogseqInline(self._context, True))

    def _address(self, match: re.Match[str], label: str, text: str) -> tuple[str, int] | None:
        target_found = _TARGET.match(text, match.end())
        if target_found is None:
            return None
        path, size = target_found[1].strip(), target_found[2] or ""
        asset = _ASSET.fullmatch(path)
        if asset is not None:
            path = (
                self._context.to_root + "assets/" + quote(unquote(asset[1]), "/!$&'*+,;=:@()-._~")
            )
        elif not size:
            return None
        width = _WIDTH.search(size)
        label = f"{label}|{width[1]}" if width and match["image"] else label
        return f"{match['image'] or ''}[{label}]({path})", target_found.end()

    def _macro(self, match: re.Match[str], text: str, end: int) -> tuple[str, int] | None:
        macro = _MACRO.fullmatch(text, match.start(), end)
        if macro is None:
            return None
        name, argument = macro[1].lower(), (macro[2] or "").strip()
        written = self._of_macro(name, argument)
        if written:
            self._context.counts.converted(name)
            return written, end
        self._context.counts.omitted(name if name in ("query", "renderer") else f'macro "{name}"')
        return outlines.as_code(text[match.start() : end]), end

    def _of_macro(self, name: str, argument: str) -> str:
        """Return a macro's markdown; empty if it is not supported."""
        embed = _EMBED.fullmatch(argument) if name == "embed" else None
        if embed is not None:
            if embed[1]:
                return self._reference(embed[1], argument)
            return f"!{self._context.page_link(embed[2], '')}"
        if name in _MEDIA and argument and not argument.startswith("$"):
            bare = argument.strip("\"'<> ")
            address = bare if "://" in bare else f"{_MEDIA[name]}{bare}" if _MEDIA[name] else ""
            return f"![]({address})" if name == "img" and address else address
        return argument.partition("\\\\")[0].strip() if name == "cloze" else ""


def _shown(text: str) -> str:
    """Return the text of a block without task markup."""
    task = _TASK.match(text)
    return text[task.end() :] if task else text.lstrip("# ")
