"""Integrate with agent programs such as Claude Code and Codex.

Each program has a module that lists the files it reads and memvault's entries in them. ``programs``
lists the integrations. ``json_edit`` and ``marked_blocks`` change texts without touching their
other content, and ``setup`` reads and writes the files.
"""

from memvault.integrations.programs import PROGRAMS

NAMES = tuple(PROGRAMS)
"""The names of the programs with an integration."""
