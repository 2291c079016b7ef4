"""The full-screen browser: find, read and change memories while typing."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from rich.style import Style
from rich.text import Span, Text
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static
from textual.worker import WorkerCancelled

from conftest import Run, sampled, succeeded, until, write
from memvault.cli.browse.app import MemoryBrowser
from memvault.cli.browse.session import BrowsedMemory, BrowserSession
from memvault.cli.options import GlobalOptions
from memvault.settings.locate import find_vault
from terminal import at_terminal

HOSTILE = "[red]Danger[/red] \x1b]0;title\x07 \u202egnp"
Play = Callable[[Pilot[BrowsedMemory]], Awaitable[None]]


@pytest.fixture
def notes(folder: Path) -> Path:
    """A vault with three memories."""
    write(folder, "fact/wombats.md", "---\ntags: [zoo]\n---\n\n# Wombats\n\nThe wombat digs.\n")
    write(folder, "bilbies.md", "# Bilbies\n\nA bilby eats what the [[Wombats]] leave.\n")
    write(folder, "hostile.md", f"# {HOSTILE}\n\n[click](javascript:alert(1)) <b>bold</b>\n")
    return folder


def browse(
    root: Path, play: Play, line: str = "", size: tuple[int, int] = (120, 30), picks: bool = False
) -> BrowsedMemory | None:
    """Run a scenario in the browser; return the selected memory."""
    options = GlobalOptions()
    options.vault = str(root)
    session = BrowserSession(find_vault(str(root)), options.caller())
    browser = MemoryBrowser(options, session, line, picks)
    session.progress = browser.progress

    async def run() -> None:
        async with browser.run_test(size=size) as pilot:
            await settled(pilot)
            await play(pilot)

    try:
        asyncio.run(run())
    finally:
        session.close()
    return browser.return_value


async def settled(pilot: Pilot[BrowsedMemory]) -> None:
    """Wait for the searches and changes that have begun; a newer one cancels an older one."""
    await pilot.pause()
    for _ in range(3):
        for worker in list(pilot.app.workers):
            if worker.group != "default":
                with suppress(WorkerCancelled):
                    await worker.wait()
        await pilot.pause()


async def asked(pilot: Pilot[BrowsedMemory]) -> None:
    """Wait for a question, which gets the keys that are pressed next."""
    async with asyncio.timeout(60):
        while len(pilot.app.screen_stack) < 2:
            await pilot.pause(0.01)


def listed(pilot: Pilot[BrowsedMemory]) -> list[str]:
    """Return the first line of each list entry."""
    entries = pilot.app.query_one("#list", OptionList).options
    return [str(entry.prompt).splitlines()[0] for entry in entries]


def shown(pilot: Pilot[BrowsedMemory], part: str = "text") -> str:
    """Return the text of a tab of the memory."""
    return str(pilot.app.query_one(f"#{part}-content", Static).content)


def test_browse_searches_as_you_type(notes: Path) -> None:
    """The newest are listed first; each key updates the list, text, links and changes."""

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        assert {"Bilbies", "Wombats"} < set(listed(pilot))
        await pilot.press(*"who digs")
        await settled(pilot)
        assert listed(pilot)[0] == "Wombats"
        entry = str(pilot.app.query_one("#list", OptionList).options[0].prompt)
        assert re.search(r"  (strong|fair|weak) \d\.\d\d  fact", entry)
        assert "The wombat digs." in shown(pilot)
        assert "fact/wombats.md:7" in shown(pilot)
        await pilot.press("tab")
        await settled(pilot)
        assert "Bilbies" in shown(pilot, "links")
        await pilot.press("tab", "tab")
        for key in [*["backspace"] * 8, *"type:fact"]:
            await pilot.press(key)
        await settled(pilot)
        assert listed(pilot) == ["Wombats"]

    browse(notes, play)


def test_browse_shows_markup_and_escapes_literally(notes: Path) -> None:
    """Markup, escape sequences and HTML in a note are shown as text and have no effect."""

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        place = next(n for n, title in enumerate(listed(pilot)) if "Danger" in title)
        pilot.app.query_one("#list", OptionList).highlighted = place
        await settled(pilot)
        title = listed(pilot)[place]
        assert title.startswith("[red]Danger[/red] ")
        assert not {"\x1b", "\x07", "\u202e"} & {*title, *shown(pilot)}
        assert "<b>bold</b>" in shown(pilot)

    browse(notes, play)


def test_browse_edits_a_memory_with_single_keys(notes: Path) -> None:
    """Each edit takes one key and an answer, is one change, and can be undone with Ctrl+U."""

    async def answer(pilot: Pilot[BrowsedMemory], key: str, *keys: str) -> None:
        await pilot.press(key)
        if key in ("ctrl+t", "ctrl+r", "ctrl+x"):
            await asked(pilot)
        await pilot.press(*keys)
        await pilot.app.workers.wait_for_complete()
        await settled(pilot)

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        await answer(pilot, "ctrl+t", *"digs -zoo", "enter")
        text = (notes / "fact/wombats.md").read_text("utf-8")
        assert "tags: [digs]" in text
        await pilot.press("ctrl+l")
        await asked(pilot)
        await pilot.press(*"bilby")
        found = pilot.app.screen.query_one(OptionList)
        while not found.options or str(found.options[0].prompt) != "Bilbies":
            await pilot.pause(0.05)
        await answer(pilot, "down", "up", "enter")
        assert "[[bilbies|Bilbies]]" in (notes / "fact/wombats.md").read_text("utf-8")
        await answer(pilot, "ctrl+r", *["backspace"] * 7, *"Diggers", "enter")
        assert (notes / "fact/diggers.md").exists()
        assert "iggers" in (notes / "bilbies.md").read_text("utf-8")
        await answer(pilot, "ctrl+x", "n")
        assert (notes / "fact/diggers.md").exists()
        await answer(pilot, "ctrl+x", "y")
        assert not (notes / "fact/diggers.md").exists()
        await answer(pilot, "ctrl+u")
        assert (notes / "fact/diggers.md").exists()
        await pilot.press("escape")

    browse(notes, play, "wombat type:fact")


def test_browse_writes_a_new_memory(
    run: Run, notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl+N, or Enter without a match, opens the editor for a memory titled with the query."""
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "It hops." > "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        for keys in (["ctrl+n"], [*" tag:none", "enter"]):
            for key in keys:
                await pilot.press(key)
                await settled(pilot) if key != keys[-1] else await asked(pilot)
            await pilot.press("enter")
            await pilot.app.workers.wait_for_complete()
            await settled(pilot)

    browse(notes, play, "Quokka")
    found = succeeded(run("list", "--json", "--sort", "title")).json["memories"]
    new = [entry["filePath"] for entry in found if entry["title"] == "Quokka"]
    assert sorted(new) == ["context/quokka-2.md", "context/quokka.md"]
    assert "It hops." in (notes / "context/quokka.md").read_text("utf-8")


def test_browse_warns_if_all_matches_are_weak(notes: Path) -> None:
    """The status line shows the number of results, and says if none is a good match."""

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        assert str(pilot.app.query_one("#status", Static).content) == "3"
        await pilot.press(*"mortgage")
        await settled(pilot)
        status = str(pilot.app.query_one("#status", Static).content)
        assert re.fullmatch(r"\d  \S.*mortgage.*", status)

    browse(notes, play)


def test_browse_tag_edit_is_one_change(run: Run, notes: Path) -> None:
    """One undo reverts both added and removed tags, and an invalid tag changes nothing."""
    before = (notes / "fact/wombats.md").read_bytes()

    async def tag(pilot: Pilot[BrowsedMemory], line: str) -> None:
        await pilot.press("ctrl+t")
        await asked(pilot)
        await pilot.press(*line, "enter")
        await pilot.app.workers.wait_for_complete()
        await settled(pilot)

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        await tag(pilot, "a^b -zoo")
        assert (notes / "fact/wombats.md").read_bytes() == before
        await tag(pilot, "digs -zoo")
        assert "tags: [digs]" in (notes / "fact/wombats.md").read_text("utf-8")

    browse(notes, play, "wombat type:fact")
    assert len(succeeded(run("log", "--json")).json["changes"]) == 1
    succeeded(run("undo"))
    assert (notes / "fact/wombats.md").read_bytes() == before


def test_browse_ctrl_c_quits_or_copies(notes: Path) -> None:
    """Ctrl+C quits, even during a question; with text selected it copies the selection."""

    async def leave(pilot: Pilot[BrowsedMemory]) -> None:
        await pilot.press(*"wombat", "shift+home", "ctrl+c")
        await settled(pilot)
        assert pilot.app.clipboard == "wombat"
        assert pilot.app.is_running
        await pilot.press("end", "ctrl+c")
        await pilot.pause()
        assert not pilot.app.is_running

    async def leave_question(pilot: Pilot[BrowsedMemory]) -> None:
        await pilot.press("ctrl+t")
        await pilot.pause()
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert not pilot.app.is_running

    assert browse(notes, leave, picks=True) is None
    assert browse(notes, leave_question, "wombat") is None


def test_browse_shows_image_source(notes: Path) -> None:
    """The markdown source of an image is shown in place and not replaced by an icon."""
    line = 'Before ![a *map*](ä%20b.png "Old") and ![[x.png]] [![b](c.png)](d.md) after.'
    write(notes, "images.md", f"# Images\n\n{line}\n")

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        assert (
            'Before ![a *map*](ä%20b.png "Old") and ![[x.png]] ![b](c.png) (d.md) after.'
            in shown(pilot).replace("\n", " ")
        )

    browse(notes, play, "images before after", size=(200, 30))


def test_browse_enter_opens_the_editor_at_the_line(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter opens the file in the editor; saved text is shown, and browsing continues."""
    script = write(tmp_path, "e.py", "import sys\nopen(sys.argv[-1], 'a').write('Saved.\\n')\n")
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        await pilot.press("enter")
        await settled(pilot)
        assert "Saved." in shown(pilot)
        monkeypatch.setenv("VISUAL", "no-such-editor")
        await pilot.press("enter")
        await settled(pilot)
        assert listed(pilot) == ["Wombats"]

    browse(notes, play, "wombat type:fact")


def test_browse_shows_external_edits(notes: Path) -> None:
    """A note written by another program appears, and the chosen memory stays chosen."""

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        app = pilot.app
        assert isinstance(app, MemoryBrowser)
        await pilot.press("down")
        await settled(pilot)
        before = app.chosen
        app._poll()
        await settled(pilot)
        write(notes, "numbats.md", "# Numbats\n\nThey are striped.\n")
        app._poll()
        await settled(pilot)
        assert "Numbats" in listed(pilot)
        assert app.chosen is not None
        assert before is not None
        assert app.chosen.mem_id == before.mem_id

    browse(notes, play)


def test_browse_small_terminal_shows_one_pane(notes: Path) -> None:
    """At 40 columns the list comes first, and Tab shows the memory, its links and history."""

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        found, memory = pilot.app.query_one("#list"), pilot.app.query_one("#memory")
        seen = []
        for _ in range(5):
            seen.append((found.display and found.size.width > 0, memory.size.width > 0))
            await pilot.press("tab")
            await pilot.pause()
        assert seen == [(True, False), *[(False, True)] * 3, (True, False)]
        await pilot.press("question_mark")
        await pilot.pause()
        assert len(pilot.app.screen_stack) == 2
        await pilot.press("x")
        await pilot.pause()
        assert pilot.app.query_one("#query", Input).value == ""

    browse(notes, play, size=(40, 12))


def test_browse_picker_returns_the_chosen_memory(notes: Path) -> None:
    """Enter chooses a memory and Escape chooses none; nothing can be edited."""

    async def choose(pilot: Pilot[BrowsedMemory]) -> None:
        await pilot.press("enter")

    async def leave(pilot: Pilot[BrowsedMemory]) -> None:
        await pilot.press("escape")

    chosen = browse(notes, choose, "wombat type:fact", picks=True)
    assert chosen is not None
    assert chosen.path == "fact/wombats.md"
    assert browse(notes, leave, picks=True) is None


def test_browse_without_terminal_prints_the_list(run: Run, notes: Path) -> None:
    """A pipe, --json or a dumb terminal gets the output of recall or list."""
    found = succeeded(run("browse", "wombat", "type:fact", "--json")).json
    assert [entry["title"] for entry in found["memories"]] == ["Wombats"]
    assert succeeded(run("browse", "--json")).json["total"] == 3
    code, text = at_terminal(notes, "browse", "wombat", environment={"TERM": "dumb"})
    assert (code, "Wombats" in text) == (0, True)
    for number in range(60):
        write(notes, f"many/{number}.md", f"# Many {number}\n\nKoala.\n")
    for query, command in (
        ("", "memvault list --offset 50"),
        ("in:many", "memvault list in:many --offset 50"),
    ):
        listed = succeeded(run("browse", query)).out
        assert f"`{command}" in listed


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX-only")
def test_browse_opens_without_a_command_if_set(notes: Path) -> None:
    """With `start = "browse"` in your settings, `memvault` alone opens the browser in a vault."""
    code, text = at_terminal(notes)
    assert code == 0
    assert "OPTIONS] COMMAND" in text
    config = Path(os.environ["XDG_CONFIG_HOME"])
    write(config, "memvault/settings.toml", 'start = "browse"\n')
    code, text = at_terminal(notes, answer="\x1b", asked="Wombats")
    assert code == 0, text
    code, text = at_terminal(config)
    assert "OPTIONS] COMMAND" in text


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX-only")
def test_show_without_name_opens_the_picker(notes: Path) -> None:
    """On a terminal, show lets the user pick a memory; Escape ends with exit code 130."""
    code, text = at_terminal(notes, "show", answer="\r", asked="Wombats")
    assert code == 0, text
    assert "hostile.md" in text.rpartition("\x1b[?1049l")[2]
    code, text = at_terminal(notes, "show", answer="\x1b", asked="Wombats")
    assert code == 130, text


WAITING_EDITOR = """
import sys, time
print("editor is open", flush=True)
sys.stdin.read()
time.sleep(60)
"""


UNMOVED_EDITOR = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN){WAITING_EDITOR}"
"""An editor with a separate window, which stays open without the terminal."""
MOMENTS = {
    "list": ("", "digs", WAITING_EDITOR),
    "editor": ("\r", "editor is open", WAITING_EDITOR),
    "editor with a window": ("\r", "editor is open", UNMOVED_EDITOR),
    "line": ("\x14", "Tags to add", WAITING_EDITOR),
    "yes or no": ("\x18", "to the trash", WAITING_EDITOR),
    "memory": ("\x0c", "Link it to", WAITING_EDITOR),
}
"""The keys that lead to a state, a text on the screen in that state, and the editor."""
WITHIN = 30.0
"""Time limit in seconds for steps that take less than one second on an idle machine."""


def close_terminal(
    folder: Path, variables: dict[str, str], moment: str, is_frozen: bool
) -> tuple[int, float, float]:
    """Browse in a terminal and close it at a given point, after typing without Enter.

    A frozen terminal is one that nobody reads, whose process gets only the signal. Returns the exit
    code, and the seconds and the CPU time until the exit.
    """
    keys, expected, _ = MOMENTS[moment]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ |= variables
        os.execv(sys.executable, [sys.executable, "-m", "memvault", "browse", "type:fact"])
    shown, has_typed = b"", False
    while not has_typed or expected.encode() not in shown:
        assert select.select([terminal], [], [], 60)[0], shown
        shown += os.read(terminal, 65_536)
        if not has_typed and b"digs" in shown:
            os.write(terminal, keys.encode())
            has_typed = True
    if keys and moment != "yes or no":
        os.write(terminal, b"unsaved")
    time.sleep(0.2)
    before, began = cpu_seconds(child), time.monotonic()
    if is_frozen:
        os.kill(child, signal.SIGHUP)
    else:
        os.close(terminal)
    ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
    until(lambda: os.waitid(os.P_PID, child, ended) is not None)
    seconds, used = time.monotonic() - began, cpu_seconds(child) - before
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if is_frozen:
        os.close(terminal)
    return code, seconds, used


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process so far; 0 without ``/proc``."""
    file = Path(f"/proc/{process}/stat")
    if not file.exists():
        return 0.0
    fields = file.read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.promise("R112")
@sampled(3)
@pytest.mark.parametrize("is_frozen", [False, True], ids=["closed", "frozen"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_browse_exits_with_its_terminal(
    notes: Path, tmp_path: Path, moment: str, is_frozen: bool
) -> None:
    """When its terminal closes, a browse process exits, even with a dialog open."""
    script = write(tmp_path, "editor.py", MOMENTS[moment][2])
    variables = {"TERM": "xterm", "LINES": "30", "VISUAL": f"{sys.executable} {script}"}
    before = (notes / "fact/wombats.md").read_bytes()
    code, seconds, used = close_terminal(notes, variables, moment, is_frozen)
    assert code == 129
    assert seconds < WITHIN
    assert used < 1.0
    assert (notes / "fact/wombats.md").read_bytes() == before


def test_browse_runs_saved_search_query(run: Run, notes: Path) -> None:
    """@NAME lists the results of the saved search and highlights its words in the text."""
    succeeded(run("searches", "save", "digging", "who", "digs", "type:fact"))
    succeeded(run("searches", "save", "facts", "--type", "fact"))

    async def play(pilot: Pilot[BrowsedMemory]) -> None:
        assert listed(pilot) == ["Wombats"]
        content = pilot.app.query_one("#text-content", Static).content
        assert isinstance(content, Text)
        marked = {str(content[span.start : span.end]) for span in content.spans if is_marked(span)}
        assert "digs" in marked

    def is_marked(span: Span) -> bool:
        return isinstance(span.style, Style) and bool(span.style.reverse)

    async def see_facts(pilot: Pilot[BrowsedMemory]) -> None:
        assert listed(pilot) == ["Wombats"]

    browse(notes, play, "@digging")
    browse(notes, see_facts, "@facts")
    browse(notes, see_facts, "@facts tag:zoo")
