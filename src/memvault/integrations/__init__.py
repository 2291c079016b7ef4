"""Integrations with agent programs such as Claude Code and Codex.

There is a module for each program: the files that it reads, and memvault's entries in them.
``programs`` lists them. ``json_edit`` and ``marked_blocks`` change texts without touching their
other content, and ``setup`` reads and writes the files.
"""

from memvault.integrations.programs import PROGRAMS

NAMES = tuple(PROGRAMS)
"""The programs with an integration."""
