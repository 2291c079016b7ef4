"""The result of a command line, for tests and for the processes that they start."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Ran(NamedTuple):
    """The result of a command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)
