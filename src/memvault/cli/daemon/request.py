"""Parse the requests of the resident process's clients: command lines encoded as bytes."""

from __future__ import annotations

import os

from memvault.cli.daemon import client
from memvault.named_tuple import NamedTuple

_FIELDS = 5
"""The number of strings before the arguments."""
_MAX_DIGITS = 15
_ERRORS = ("strict", "surrogateescape", "replace", "ignore", "backslashreplace", "surrogatepass")


class Request(NamedTuple):
    """A client's command line, and its relevant environment variables.

    ``milliseconds`` is the time on the client's clock. ``errors`` is the error handler for
    undecodable bytes in the client's standard input. ``has_terminal`` says whether one of the
    client's standard streams is a terminal.
    """

    identity: str
    milliseconds: int
    errors: str
    has_terminal: bool
    arguments: list[str]
    variables: dict[str, str]

    @property
    def is_prompt_hook(self) -> bool:
        """Whether an agent program is waiting for memories for a prompt."""
        return self.arguments[:2] == ["hook", "prompt"] and "--capture" not in self.arguments

    @property
    def applied(self) -> dict[str, str]:
        """The variables to set for this command."""
        return {n: value for n, value in self.variables.items() if n in client.APPLIED}

    @property
    def compared(self) -> dict[str, str]:
        """The variables that must have the same values in the resident process."""
        return {n: value for n, value in self.variables.items() if n not in client.APPLIED}


def parse(body: bytes) -> Request | None:
    """Parse a request without its length; return None if it is malformed."""
    texts = [os.fsdecode(text) for text in body.split(b"\0")]
    if len(texts) < _FIELDS:
        return None
    identity, milliseconds, errors, has_terminal, count, *rest = texts
    if not (_is_number(count) and _is_number(milliseconds)):
        return None
    number = int(count)
    if number > len(rest) or errors not in _ERRORS or has_terminal not in ("", client.TERMINAL):
        return None
    variables = {}
    for text in rest[number:]:
        name, sign, value = text.partition("=")
        if not sign or not client.is_sent(name):
            return None
        variables[name] = value
    arguments = rest[:number]
    return Request(identity, int(milliseconds), errors, bool(has_terminal), arguments, variables)


def _is_number(text: str) -> bool:
    return len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()
