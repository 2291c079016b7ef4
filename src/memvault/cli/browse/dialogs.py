"""The browser's dialogs: enter a line, pick a memory, confirm an action, and show help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import ClassVar

from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from memvault import sanitize
from memvault.cli.browse.session import BrowsedMemory, SearchOutcome

_CTRL_C = Binding("ctrl+c", "app.help_quit", show=False)
"""Exits the program; the app's own key bindings do not apply in a dialog."""


class LineDialog(ModalScreen[str]):
    """Asks for a line of text; the result is empty after Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss('')", "Leave"), _CTRL_C]

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__()
        self._question = question
        self._value = value

    def compose(self) -> ComposeResult:
        """Lay out the question above an input line."""
        with Vertical(classes="dialog"):
            yield Static(Text(self._question))
            yield Input(self._value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the line."""
        self.dismiss(event.value.strip())


class MemoryDialog(ModalScreen[BrowsedMemory]):
    """Asks for a memory, searching as you type; the result is None after Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape", "dismiss(None)", "Leave"),
        _CTRL_C,
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("down", "move(1)", show=False, priority=True),
    ]

    def __init__(
        self, question: str, search: Callable[[str], Future[SearchOutcome | None]]
    ) -> None:
        super().__init__()
        self._question = question
        self._search_for = search
        self._memories: tuple[BrowsedMemory, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the question, an input line, and the list of matching memories below it."""
        with Vertical(classes="dialog"):
            yield Static(Text(self._question))
            yield Input()
            yield OptionList()

    def on_mount(self) -> None:
        """List the newest memories."""
        self._search("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search for the current input."""
        event.stop()
        self._search(event.value)

    @work(group="dialog", exclusive=True)
    async def _search(self, line: str) -> None:
        outcome = await asyncio.wrap_future(self._search_for(line))
        if outcome is not None:
            self._memories = outcome.memories
            option_list = self.query_one(OptionList)
            option_list.clear_options()
            option_list.add_options(
                [Option(Text(sanitize.escape_line(memory.label))) for memory in outcome.memories]
            )
            option_list.highlighted = 0 if outcome.memories else None

    def action_move(self, step: int) -> None:
        """Select a memory further down or up."""
        option_list = self.query_one(OptionList)
        if self._memories:
            position = (option_list.highlighted or 0) + step
            option_list.highlighted = max(0, min(position, len(self._memories) - 1))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the highlighted memory."""
        event.stop()
        position = self.query_one(OptionList).highlighted
        if position is not None and self._memories:
            self.dismiss(self._memories[position])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return a clicked memory."""
        event.stop()
        self.dismiss(self._memories[event.option_index])


class ConfirmDialog(ModalScreen[bool]):
    """Asks a yes/no question; any key but y means no."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Lay out the question."""
        with Vertical(classes="dialog"):
            yield Static(Text(f"{self._question}\n\ny: yes   any other key: no"))

    def on_key(self, event: events.Key) -> None:
        """Close the dialog; the result is true if the key is y."""
        event.stop()
        self.dismiss(event.key == "y")


class HelpDialog(ModalScreen[None]):
    """Shows text until a key is pressed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Lay out the text."""
        with VerticalScroll(classes="dialog help"):
            yield Static(Text(self._text))

    def on_key(self, event: events.Key) -> None:
        """Close the help unless the key scrolls."""
        if event.key not in ("up", "down", "pageup", "pagedown"):
            event.stop()
            self.dismiss(None)
