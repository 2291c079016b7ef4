"""List the programs that memvault integrates with."""

from __future__ import annotations

from memvault.integrations.claude_code import CLAUDE_CODE
from memvault.integrations.codex import CODEX
from memvault.integrations.cursor import CURSOR
from memvault.integrations.gemini import GEMINI
from memvault.integrations.opencode import OPENCODE

_ROWS = (CLAUDE_CODE, CODEX, OPENCODE, GEMINI, CURSOR)
PROGRAMS = {row.name: row for row in _ROWS}
"""The integrations by the program's name."""
