"""Reading arguments that name a file or standard input, or that are written as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from memvault.errors import UsageError


def read_input(name: str, hint: str) -> bytes:
    """Read the file of a name, or standard input for ``-``.

    Raises:
        UsageError: If it cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name} cannot be read: {reason}", hint) from error


def read_json(text: str, what: str, hint: str) -> Any:
    """Parse a JSON argument; ``what`` begins the message, as in ``The outcome is``.

    Raises:
        UsageError: If the text is not valid JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} not JSON: {error}", hint) from error


def read_object(text: str, what: str, hint: str) -> dict[str, Any]:
    """Parse a JSON argument that must be an object; an empty text is an object without keys.

    Raises:
        UsageError: If the text is not valid JSON, or not an object.
    """
    value = read_json(text.strip() or "{}", what, hint)
    if not isinstance(value, dict):
        raise UsageError(f"{what} not a JSON object", hint)
    return value
