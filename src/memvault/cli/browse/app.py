"""The screen of the browser: a query, the matching memories, and the selected memory."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from rich.style import Style
from rich.text import Text
from textual import events, work
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.driver import Driver
from textual.widgets import Footer, Input, OptionList, Static, TabbedContent, TabPane
from textual.widgets.option_list import Option

from memvault import sanitize
from memvault.cli import desktop, run_editor, terminal
from memvault.cli.browse.dialogs import ConfirmDialog, HelpDialog, LineDialog, MemoryDialog
from memvault.cli.browse.driver import ending
from memvault.cli.browse.session import BrowsedMemory, BrowserSession, Part, SearchOutcome
from memvault.cli.options import GlobalOptions
from memvault.errors import MemvaultError
from memvault.lazy_pattern import lazy_pattern
from memvault.workspace import IN_BYTES

_WIDE = 80
"""Minimum width in columns to show the memory beside the list instead of in its place."""
_POLL_SECONDS = 2.0
_HELP = """\
Type to search; an empty query lists the newest.

  type:fact tag:work in:projects since:7d until:"last week" -draft   filter

  Up, Down        choose a memory        Enter    edit it at the matching line
  Tab             text, links, history   Ctrl+O   open it in Obsidian
  Shift+Up/Down   scroll the text        Ctrl+Y   copy its path
  Ctrl+T          add or remove tags     Ctrl+R   rename it
  Ctrl+L          link it to another     Ctrl+X   forget it
  Ctrl+U          undo the last change   Ctrl+N   write a new one
                                         Escape   quit; Ctrl+C also quits

Without a match, Enter writes a new memory with the query as its title.

In a narrow terminal, Tab switches between the list and the memory.
Any key closes this help."""
_NOTHING = {"links": "No memory links to this one", "history": "No changes recorded yet"}
_NOT_IN_LINKS = lazy_pattern(r"[\[\]|#^\n]")
Kind = Literal["information", "warning", "error"]


class MemoryBrowser(App[BrowsedMemory]):
    """The browser; with ``picks``, Enter exits and returns the selected memory."""

    CSS = """
    #query { border: none; height: 1; padding: 0 1; background: $surface; }
    #status { height: 1; padding: 0 1; color: $text-muted; }
    #list { width: 1fr; border: none; padding: 0; scrollbar-size-vertical: 1;
            text-wrap: nowrap; text-overflow: ellipsis; }
    #memory { width: 1fr; border-left: solid $primary-darken-2; }
    .narrow #memory { display: none; border-left: none; }
    .narrow.reading #memory { display: block; }
    .narrow.reading #list { display: none; }
    TabPane { padding: 0 1; }
    .dialog { width: 70; max-width: 95%; height: auto; max-height: 90%; padding: 1 2;
              border: round $primary; background: $surface; }
    .dialog OptionList { height: 8; border: none; }
    .help { width: 86; }
    ModalScreen { align: center middle; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "edit", "Edit", priority=True),
        Binding("tab", "next_part", "Text/links/history", priority=True),
        Binding("ctrl+n", "new", "New", priority=True),
        Binding("ctrl+t", "tag", "Tag", priority=True),
        Binding("ctrl+r", "rename", "Rename", priority=True),
        Binding("ctrl+l", "link", "Link", priority=True, show=False),
        Binding("ctrl+x", "forget", "Forget", priority=True),
        Binding("ctrl+u", "undo", "Undo", priority=True),
        Binding("ctrl+o", "obsidian", "Obsidian", priority=True, show=False),
        Binding("ctrl+y", "copy_path", "Copy path", priority=True, show=False),
        Binding("f1", "help", "Help", priority=True),
        Binding("escape", "leave", "Leave", priority=True, show=False),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
        Binding("shift+up", "scroll_text(-3)", show=False, priority=True),
        Binding("shift+down", "scroll_text(3)", show=False, priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, options: GlobalOptions, session: BrowserSession, line: str = "", picks: bool = False
    ) -> None:
        super().__init__()
        self._options = options
        self._session = session
        self._line = line
        self._words = ""
        self._picks = picks
        self._memories: tuple[BrowsedMemory, ...] = ()
        self._seen: object = None

    def get_driver_class(self) -> type[Driver]:
        """Return the class of the terminal driver."""
        return ending(super().get_driver_class())

    def compose(self) -> ComposeResult:
        """Lay out the query above the list and the memory."""
        yield Input(
            self._line,
            placeholder="Search, or tag: type: in: since: -word",
            id="query",
            select_on_focus=False,
        )
        yield Static("", id="status")
        with Horizontal():
            yield OptionList(id="list")
            with TabbedContent(id="memory"):
                for name, title in (("text", "Text"), ("links", "Links"), ("history", "History")):
                    with TabPane(title, id=name), VerticalScroll():
                        yield Static("", id=f"{name}-content", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Run the first search, and then poll for changes by other programs."""
        self.query_one("#query", Input).focus()
        self._show_status("Reading the vault …")
        self._search(self._line)
        self.set_interval(_POLL_SECONDS, self._poll)

    def on_resize(self, event: events.Resize) -> None:
        """Show the memory beside the list if there is room."""
        self.screen_stack[0].set_class(event.size.width < _WIDE, "narrow")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search for the current input; a single question mark shows the help."""
        if event.input.id == "query" and event.value == "?":
            event.input.value = self._line = ""
            self.action_help()
        elif event.input.id == "query" and event.value != self._line:
            self._line = event.value
            self._search(event.value)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the highlighted memory."""
        event.stop()
        self._read()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Edit a memory that is clicked while highlighted."""
        event.stop()
        self.action_edit()

    def end_input(self) -> None:
        """End the thread that reads keys, which Textual leaves running after a termination signal.

        That thread would otherwise loop without a pause after the terminal is closed.
        """
        ended = getattr(self._driver, "exit_event", None)
        if ended is not None:
            ended.set()

    def progress(self, what: str, done: int, total: int) -> None:
        """Show the progress of indexing; called in the session's thread.

        It does not wait for the screen, which stops updating while the program exits.
        """
        share = f"{100 * done // total} %" if what == IN_BYTES and total else ""
        with contextlib.suppress(RuntimeError):  # the event loop has stopped
            self.call_later(self._show_status, f"{what} {share or f'{done:,} of {total:,}'}")

    @property
    def chosen(self) -> BrowsedMemory | None:
        """The memory that is highlighted in the list."""
        position = self.query_one("#list", OptionList).highlighted if self._has_list else None
        return self._memories[position] if position is not None and self._memories else None

    @property
    def _has_list(self) -> bool:
        """Return whether the list still exists, because a worker may outlive the screen."""
        return bool(self.query("#list"))

    @work(group="search", exclusive=True)
    async def _search(self, line: str, keep: bool = False) -> None:
        """Search and show the results; with ``keep``, the selected memory stays selected."""
        outcome = await asyncio.wrap_future(self._session.search(line))
        if outcome is not None and outcome.line == self._line and self._has_list:
            self._show_found(outcome, keep)

    def _show_found(self, outcome: SearchOutcome, keep: bool) -> None:
        before = self.chosen
        self._memories, self._words = outcome.memories, outcome.words
        option_list = self.query_one("#list", OptionList)
        option_list.clear_options()
        option_list.add_options([Option(_entry(memory)) for memory in outcome.memories])
        mem_ids = [entry.mem_id for entry in outcome.memories]
        keeps_highlight = keep and before is not None and before.mem_id in mem_ids
        if mem_ids:
            option_list.highlighted = (
                mem_ids.index(before.mem_id) if keeps_highlight and before else 0
            )
            self._read()
        else:
            for part in ("text", "links", "history"):
                self.query_one(f"#{part}-content", Static).update("")
        self._show_status(outcome.problem or outcome.summary)

    @work(group="read", exclusive=True)
    async def _read(self) -> None:
        """Show the open tab of the selected memory."""
        memory, part = self.chosen, self._open_part
        if memory is None:
            return
        try:
            pairs = await asyncio.wrap_future(self._session.part(memory, part))
        except MemvaultError as error:
            self._show_error(error)
            return
        if pairs is None or not self._has_list:
            return
        if (memory, part) == (self.chosen, self._open_part):
            self._show_part(part, pairs)

    @property
    def _open_part(self) -> Part:
        return cast("Part", self.query_one("#memory", TabbedContent).active)

    def on_tabbed_content_tab_activated(self) -> None:
        """Read the part of the memory in the activated tab."""
        self._read()

    def _show_part(self, part: Part, pairs: list[tuple[str, str]]) -> None:
        first_match = 0
        if part == "text":
            content, first_match = _text(*pairs[0], self._words, self._text_width())
        else:
            content = _pairs(pairs, _NOTHING[part])
        self.query_one(f"#{part}-content", Static).update(content)
        scroll = self.query_one(f"#{part} VerticalScroll", VerticalScroll)
        scroll.scroll_to(y=max(0, first_match - 3), animate=False)

    def _text_width(self) -> int:
        width = self.size.width
        return max(20, (width // 2 if width >= _WIDE else width) - 6)

    def _show_status(self, text: str) -> None:
        self.query_one("#status", Static).update(Text(sanitize.escape_line(text)))

    def _show_error(self, error: MemvaultError) -> None:
        self._say(f"{error.message}; {error.hint}".rstrip("; "), "error")

    def _say(self, text: str, kind: Kind = "information") -> None:
        self.notify(sanitize.escape_line(text), severity=kind, markup=False)

    @work(group="poll", exclusive=True)
    async def _poll(self) -> None:
        """Search again if another program has changed the vault."""
        try:
            seen = await asyncio.wrap_future(self._session.fingerprint())
        except MemvaultError as error:
            self._show_status(error.message)
            return
        if self._seen not in (None, seen):
            self._search(self._line, keep=True)
        self._seen = seen

    def action_move(self, step: int) -> None:
        """Select a memory further down or up."""
        option_list = self.query_one("#list", OptionList)
        if self._memories:
            position = (option_list.highlighted or 0) + step
            option_list.highlighted = max(0, min(position, len(self._memories) - 1))

    def action_scroll_text(self, step: int) -> None:
        """Scroll the visible part of the memory."""
        part = self.query_one("#memory", TabbedContent).active
        self.query_one(f"#{part} VerticalScroll", VerticalScroll).scroll_relative(
            y=step, animate=False
        )

    def action_next_part(self) -> None:
        """Show the next part of the memory; in a narrow terminal, return to the list at the end."""
        tabs = self.query_one("#memory", TabbedContent)
        names = ["text", "links", "history"]
        is_narrow = self.screen.has_class("narrow")
        if is_narrow and not self.screen.has_class("reading"):
            self.screen.add_class("reading")
            tabs.active = names[0]
        elif is_narrow and tabs.active == names[-1]:
            self.screen.remove_class("reading")
        else:
            tabs.active = names[(names.index(tabs.active) + 1) % len(names)]

    def action_edit(self) -> None:
        """Edit the selected memory at its line, or exit with it as the result.

        Without a match, write a new memory.
        """
        memory = self.chosen
        if memory is None:
            if self._words and not self._picks:
                self.action_new()
            return
        if self._picks:
            self.exit(memory)
            return
        try:
            with self._terminal(), run_editor.open_call(self._options, memory.path) as (call, name):
                edited = run_editor.edit_memory(call, call.resolve(name, writes=True), memory.line)
        except MemvaultError as error:
            self._show_error(error)
        else:
            self._say(f"{edited.get('added', 0)} lines added, {edited.get('removed', 0)} removed")
        self._search(self._line, keep=True)

    @work
    async def action_new(self) -> None:
        """Ask for a title, by default the query, and write a new memory in the editor."""
        title = await self.push_screen_wait(LineDialog("Title of the new memory", self._words))
        if not title:
            return
        from memvault.tools.recall import memory_remember

        try:
            with self._terminal(), run_editor.text_from_editor(self._options, title, "") as text:
                self._session.run(memory_remember, title, text).result()
        except MemvaultError as error:
            self._show_error(error)
        else:
            self._say("Remembered; Ctrl+U to undo")
        self._search(self._line, keep=True)

    @contextlib.contextmanager
    def _terminal(self) -> Any:
        """Suspend the application, so that another program can use the terminal."""
        try:
            with self.suspend():
                yield
        except SuspendNotSupported:
            yield

    def action_obsidian(self) -> None:
        """Open the chosen memory in Obsidian."""
        memory = self.chosen
        if memory is not None:
            root = self._session.root
            try:
                desktop.open_address(run_editor.obsidian_url(root / memory.path), root)
            except MemvaultError as error:
                self._show_error(error)

    def action_copy_path(self) -> None:
        """Copy the path of the selected memory to the terminal's clipboard."""
        memory = self.chosen
        if memory is not None:
            path = str(Path(self._session.root) / memory.path)
            self.copy_to_clipboard(path)
            self._say(f"Copied {path}")

    @work
    async def action_tag(self) -> None:
        """Ask for tags to add or, with a minus, to remove."""
        memory = self.chosen
        if memory is None:
            return
        shown = " ".join(f"#{tag}" for tag in memory.tags) or "none"
        line = await self.push_screen_wait(
            LineDialog(f"Tags to add, or -TAG to remove (now {sanitize.escape_line(shown)})")
        )
        signed_tags = line.replace(",", " ").split()
        removed = [word[1:] for word in signed_tags if word.startswith("-")]
        added = [word for word in signed_tags if not word.startswith("-")]
        if signed_tags:
            await self._change(self._session.tag(memory, added, removed))

    @work
    async def action_rename(self) -> None:
        """Ask for a new title."""
        memory = self.chosen
        if memory is not None:
            title = await self.push_screen_wait(LineDialog("The new title", memory.title))
            if title and title != memory.title:
                from memvault.tools.notes import memory_rename

                change = self._session.run(memory_rename, memory.path, title=title, confirm=True)
                await self._change(change)

    @work
    async def action_link(self) -> None:
        """Ask for a memory to link to, and append the link to the selected memory."""
        memory = self.chosen
        if memory is not None:
            other = await self.push_screen_wait(
                MemoryDialog("Link it to", self._session.search_beside)
            )
            if other is not None:
                from memvault.tools.recall import memory_compound

                change = self._session.run(memory_compound, memory.path, _link_to(other))
                await self._change(change)

    @work
    async def action_forget(self) -> None:
        """Ask for confirmation, and move the selected memory to the trash."""
        memory = self.chosen
        if memory is None:
            return
        title = sanitize.escape_line(memory.label)
        if await self.push_screen_wait(ConfirmDialog(f"Move “{title}” to the trash?")):
            from memvault.tools.save_delete import memory_delete

            await self._change(self._session.run(memory_delete, [memory.mem_id]))

    @work
    async def action_undo(self) -> None:
        """Undo the last change in the vault."""
        from memvault.tools.history import memory_undo

        await self._change(self._session.run(memory_undo), "Undone")

    async def _change(self, change: Future[Any], done: str = "Done; Ctrl+U to undo") -> None:
        """Wait for a change, and show its confirmation and the updated list."""
        try:
            await asyncio.wrap_future(change)
        except MemvaultError as error:
            self._show_error(error)
        else:
            self._say(done)
        self._search(self._line, keep=True)

    def action_help(self) -> None:
        """Show the help."""
        self.push_screen(HelpDialog(_HELP))

    def action_leave(self) -> None:
        """Exit without a result."""
        self.exit(None)

    def action_help_quit(self) -> None:
        """Exit on Ctrl-C if no text is selected; Textual would only mention Ctrl+Q."""
        self.exit(None)

    def check_action(
        self,
        action: str,
        parameters: tuple[object, ...],  # noqa: ARG002  # Textual's signature
    ) -> bool | None:
        """Disable the screen's keys during a dialog, and keys that change things in a picker."""
        if action in ("help_quit", "quit"):
            return True
        if len(self.screen_stack) > 1:
            return False
        changing = ("new", "tag", "rename", "link", "forget", "undo", "obsidian")
        return not (self._picks and action in changing)


def _link_to(memory: BrowsedMemory) -> str:
    """Return a link to a memory by its unique path, with its title as the label."""
    path = memory.path.removesuffix(".md")
    target = memory.mem_id if _NOT_IN_LINKS.search(path) else path
    is_plain = memory.title != target and not _NOT_IN_LINKS.search(memory.title)
    return f"[[{target}|{memory.title}]]" if is_plain else f"[[{target}]]"


def _entry(memory: BrowsedMemory) -> Text:
    """Return a memory formatted as two lines of the list."""
    tags = " ".join(f"#{tag}" for tag in memory.tags)
    below = "  ".join(filter(None, (memory.strength, memory.place, tags, memory.day)))
    text = Text(sanitize.escape_line(memory.label), no_wrap=True, overflow="ellipsis")
    text.append(f"\n  {sanitize.escape_line(below)}", Style(dim=True))
    return text


def _text(location: str, body: str, query: str, width: int) -> tuple[Text, int]:
    """Return a memory's text with the query's words highlighted, and the first match's row."""
    text = Text()
    text.append(f"{sanitize.escape_line(location)}\n\n", Style(dim=True))
    first_match = 0
    for row, line in enumerate(terminal.markdown(body, width), 2):
        marked = terminal.highlight(line, query) if query else line
        for piece, style in marked:
            is_match = len(marked) > len(line) and style.endswith("bold")
            first_match = first_match or row * is_match
            text.append(piece, Style.parse(style or "none") + Style(reverse=is_match))
        text.append("\n")
    return text, first_match


def _pairs(pairs: list[tuple[str, str]], nothing: str) -> Text:
    """Format links or changes, each as a bold line with a dim line below it."""
    text = Text("" if pairs else nothing)
    for head, below in pairs:
        text.append(f"{sanitize.escape_line(head)}\n", Style(bold=True))
        text.append(f"  {sanitize.escape_line(below)}\n", Style(dim=True))
    return text
