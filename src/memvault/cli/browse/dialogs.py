"""The questions that the browser asks: a line of text, a yes or no, and the help."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class LineDialog(ModalScreen[str]):
    """Asks for a line of text; the result is empty if it was left with Escape."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "leave", "Leave")]

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__()
        self._question = question
        self._value = value

    def compose(self) -> ComposeResult:
        """Lay out the question above a line."""
        with Vertical(classes="dialog"):
            yield Static(Text(self._question))
            yield Input(self._value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Return the line."""
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        """Return an empty line."""
        self.dismiss("")


class ConfirmDialog(ModalScreen[bool]):
    """Asks a question that only the key y answers with yes."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Lay out the question."""
        with Vertical(classes="dialog"):
            yield Static(Text(f"{self._question}\n\ny: yes   any other key: no"))

    def on_key(self, event: events.Key) -> None:
        """Return whether the key is y."""
        event.stop()
        self.dismiss(event.key == "y")


class HelpDialog(ModalScreen[None]):
    """Shows a text until a key is pressed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Lay out the text."""
        with VerticalScroll(classes="dialog help"):
            yield Static(Text(self._text))

    def on_key(self, event: events.Key) -> None:
        """Leave, unless the key scrolls."""
        if event.key not in ("up", "down", "pageup", "pagedown"):
            event.stop()
            self.dismiss(None)
