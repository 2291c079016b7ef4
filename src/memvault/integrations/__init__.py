"""Setup of agent programs such as Claude Code and Codex.

``programs`` is a table of them: which files each reads and what goes into these. ``json_edit`` and
``marked_blocks`` change texts without touching their existing content, and ``setup`` reads and
writes the files.
"""

from memvault.integrations.programs import PROGRAMS

NAMES = tuple(PROGRAMS)
"""The agent programs that memvault can set up."""
