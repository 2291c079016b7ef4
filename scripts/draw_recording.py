"""Play a shell session on a pseudo-terminal, and draw it as an animated SVG for README.

``make docs`` draws it again if the output has changed. The animation is CSS, without scripts. Where
animations are off, or the reader prefers reduced motion, the image shows the end of the session.
Random ids and dates are replaced by constant ones.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "recording.svg"
NOTES = {
    "bike.md": "# Bike\n\nThe chain has 116 links; the shop at the canal has it.\n",
    "deploys.md": "# Deploys\n\nWe deploy on Tuesdays. If the build is red, revert first.\n",
    "incidents/invoices.md": "# Invoices sent twice\n\nThe payment worker retried after a timeout. "
    "Since then each invoice has an idempotency key.\n",
    "recipes/sourdough.md": "# Sourdough\n\nFeed the starter at eight, bake on Sunday.\n",
    "travel/lisbon.md": "# Lisbon\n\nTake the early train to Sintra, before the queues.\n",
}
SESSION = (
    "# Any folder of notes becomes a vault",
    "ls",
    "memvault init",
    "n",
    'memvault recall "duplicate invoices" -n 1',
    "# People and agents add memories",
    'memvault remember "Use PostgreSQL" "PostgreSQL 16 is our database; SQLite stays for tests."',
    "# Edit a file with any program: the next recall sees it",
    "sed -i 's/PostgreSQL 16/PostgreSQL 17/' context/use-postgresql.md",
    'memvault recall "which database do we use" -n 1',
    "# Deleting asks first, and undo reverts it",
    "memvault forget postgresql",
    "y",
    "memvault undo",
)
"""The typed lines: comments, commands, and the answers to two questions."""
CONSTANT = (
    (r"(?<=use-postgresql-)\w{6}\b", "7g9tqh"),
    (r"(?<=memory_forget\x1b\[0m  )\w{8}\b", "pv6qdvhp"),
    (r"(?<=\x1b\[33m)\w{8}\b", "zy0v76e8"),
    (r"(?<!\d)20\d\d-\d\d-\d\d\b", "2026-11-22"),
)
"""Patterns of random ids and dates with their constant replacements."""

COLUMNS, ROWS = 92, 23
CELL, LINE, MARGIN, BAR = 9.0, 21, 24, 38
"""Pixels: width of a character, height of a line, margin, and height of the title bar."""
WIDTH, HEIGHT = round(COLUMNS * CELL) + 2 * MARGIN, ROWS * LINE + BAR + MARGIN
COLORS = {
    ".page": ("#fff", "#161b22"),
    "text": ("#1f2328", "#e6edf3"),
    ".s2": ("#656d76", "#8d96a0"),
    ".s32,.note": ("#1a7f37", "#3fb950"),
    ".s33": ("#9a6700", "#d29922"),
    ".s35": ("#8250df", "#d2a8ff"),
    ".s36": ("#1b7c83", "#56d4dd"),
    ".prompt": ("#0969da", "#58a6ff"),
}
"""Colors in light and dark; ``.s36`` is the terminal's style 36."""
STYLE = """\
text{font:15px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",\
monospace;white-space:pre}
.s1,.prompt{font-weight:700}.frame{stroke:#8b949e;stroke-opacity:.5}.dot{fill:#8b949e;opacity:.5}
"""


def play() -> list[str]:
    """Type the session into a shell; return the first prompt and the output after each line."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        starter = f'#!/bin/sh\nexec "{sys.executable}" -m memvault "$@"\n'
        notes = {f"notes/{file}": text for file, text in NOTES.items()}
        for file, text in {"bin/memvault": starter, **notes}.items():
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_text(text, "utf-8")
        (home / "bin/memvault").chmod(0o755)
        path = f"{home / 'bin'}:{os.environ['PATH']}"
        variables = {"HOME": name, "PATH": path, "PS1": "$ ", "TERM": "xterm-256color"}
        terminal, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
        shell = subprocess.Popen(
            ["/bin/sh", "-i"],
            cwd=home / "notes",
            env={**variables, "LANG": "C.UTF-8", "MEMVAULT_RESIDENT": "off"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # one call
        )
        os.close(theirs)
        try:
            printed = [_output(terminal)]
            for line in SESSION:
                os.write(terminal, f"{line}\n".encode())
                echo, _, text = _output(terminal).partition("\n")
                assert echo == line, f"{echo!r} instead of {line!r}"
                printed.append(text.replace(name, "~"))
        finally:
            os.close(terminal)
            shell.wait()
    return printed


def _output(terminal: int) -> str:
    """Return the text printed until the shell or a question waits for input."""
    shown = b""
    while not re.search(rb"(\A|\n)\$ \Z|\[(Y/n|y/N)\] \Z", shown):
        assert select.select([terminal], [], [], 60)[0], shown
        shown += os.read(terminal, 65_536)
    text = re.sub(r"\x1b\[\?\d+[hl]", "", shown.decode().replace("\r\n", "\n"))
    for pattern, constant in CONSTANT:
        text = re.sub(pattern, constant, text)
    return text.expandtabs()


def draw(printed: list[str]) -> str:
    """Return the SVG of a session: one group of lines per output, with the line typed after it."""
    groups, scrolls, covers = [], [(0.0, 0)], []
    row, column, now = 0, 0, 0.0
    appearances = []
    for number, (output, typed) in enumerate(zip(printed, [*SESSION, ""], strict=True)):
        appearances.append(now)
        parts = []
        style = "note" if typed.startswith("#") else ""
        for index, line in enumerate(output.split("\n")):
            if index:
                row, column = row + 1, 0
            if style and number and line == "$ ":  # a gap between the parts of the session
                row += 1
            parts.append(_text(row, column, line, "prompt" if line == "$ " else ""))
            column += len(_STYLE.sub("", line))
            assert column <= COLUMNS, line
        if row >= ROWS:
            scrolls += [(now, scrolls[-1][1]), (now + 0.25, row - ROWS + 1)]
        now += 0.4 + 0.27 * output.count("\n")
        cover = f'<g transform="translate({_x(column)} {row * LINE})">'
        if typed:
            parts.append(_text(row, column, typed, style))
            page = f'<path class="page" d="M0 0h{(len(typed) + 1) * CELL:g}v{LINE}H0z"/>'
            parts.append(f'{cover}<g class="cover k{number}">{page}{_CURSOR}</g></g>')
            begin, now = now, now + min(len(typed) * 0.035, 1.2)
            covers.append((number, begin, now, len(typed)))
            row, column, now = row + 1, 0, now + 0.3
        else:
            parts.append(f"{cover}{_CURSOR}</g>")
        groups.append(f'<g class="g{number}">{"".join(parts)}</g>')
    return _document(groups, _animations(appearances, scrolls, covers, now + 4.0), scrolls[-1][1])


_STYLE = re.compile(r"(\x1b\[[\d;]*m)")
_CURSOR = f'<path class="prompt" d="M0 2h{CELL:g}v{LINE - 4}H0z"/>'


def _x(column: int) -> str:
    return f"{MARGIN + column * CELL:g}"


def _text(row: int, column: int, line: str, name: str = "") -> str:
    """Return a line as SVG; the numbers of its terminal styles become classes."""
    runs = []
    for run in _STYLE.split(line):
        if run.startswith("\x1b"):
            codes = run[2:-1].split(";")
            name = "" if codes[0] in ("", "0") else " ".join([name, *(f"s{n}" for n in codes)])
        elif run:
            text = escape(run, quote=False)
            runs.append(f'<tspan class="{name.strip()}">{text}</tspan>' if name else text)
    plain = _STYLE.sub("", line)
    if not plain:
        return ""
    return (
        f'<text x="{_x(column)}" y="{row * LINE + 15}" textLength="{len(plain) * CELL:g}" '
        f'lengthAdjust="spacingAndGlyphs">{"".join(runs)}</text>\n'
    )


def _animations(
    appearances: list[float],
    scrolls: list[tuple[float, int]],
    covers: list[tuple[int, float, float, int]],
    total: float,
) -> Iterator[str]:
    """Yield the style rules that move the session, which repeats after ``total`` seconds."""

    def at(seconds: float, rule: str) -> str:
        return f"{seconds / total * 100:.2f}%{{{rule}}}"

    yield f"g{{animation:{total:.1f}s step-end infinite}}"
    for number, seconds in enumerate(appearances):
        if seconds:
            yield f"@keyframes g{number}{{0%{{opacity:0}}{at(seconds, 'opacity:1')}}}"
            yield f".g{number}{{animation-name:g{number}}}"
    for number, begin, end, length in covers:
        steps = f"transform:none;animation-timing-function:steps({length})"
        typed = f"transform:translate({length * CELL:g}px)"
        yield (
            f"@keyframes k{number}{{0%{{transform:none}}{at(begin, steps)}{at(end, typed)}"
            f"{at(end + 0.3, f'transform:translate({WIDTH}px)')}}}"
        )
        yield f".k{number}{{animation-name:k{number}}}"
    moves = "".join(at(when, f"transform:translateY({-row * LINE}px)") for when, row in scrolls)
    yield f"@keyframes scroll{{{moves}}}"
    yield ".scroll{animation-name:scroll;animation-timing-function:ease-out}"


def _document(groups: list[str], animations: Iterator[str], scrolled: int) -> str:
    """Return the image: the window, and the session scrolled to its end."""
    rules = "\n".join(animations)
    light, dark = (
        "".join(f"{name}{{fill:{colors[scheme]}}}" for name, colors in COLORS.items())
        for scheme in (0, 1)
    )
    dots = "".join(f'<circle class="dot" cx="{22 + 20 * n}" cy="19" r="6"/>' for n in range(3))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">
<title>A shell session: init, recall, remember, an edit, forget and undo</title>
<style>
{STYLE}{light}
@media(prefers-color-scheme:dark){{{dark}}}
.cover{{transform:translate({WIDTH}px)}}
.scroll{{transform:translateY({-scrolled * LINE}px)}}
@media(prefers-reduced-motion:no-preference){{
{rules}
}}
</style>
<clipPath id="screen"><path d="M1 {BAR}h{WIDTH - 2}v{ROWS * LINE}H1z"/></clipPath>
<rect class="page frame" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="9"/>
{dots}
<g clip-path="url(#screen)"><g transform="translate(0 {BAR})"><g class="scroll">
{chr(10).join(groups)}
</g></g></g>
</svg>
"""


def is_current(drawn: str) -> bool:
    """Return whether the image matches, except for the scores, whose last digit may differ."""
    texts = [drawn, PICTURE.read_text("utf-8")] if PICTURE.exists() else [drawn, ""]
    first, second = (re.sub(r"(?<=>)[01]\.\d\d(?=<)", "", text) for text in texts)
    return first == second


def main() -> None:
    """Write the image."""
    PICTURE.write_text(draw(play()), "utf-8")


if __name__ == "__main__":
    main()
