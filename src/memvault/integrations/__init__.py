"""Integrate with agent programs such as Claude Code and Codex.

Each program has a module that lists the files that the program reads and memvault's entries in
these files. ``integration`` contains the shared code, such as the entries for hooks. ``programs``
lists the integrations. ``json_edit`` and ``marked_blocks`` edit files without touching their other
content, and ``setup`` plans the changes to the files and writes them.
"""

from memvault.integrations.programs import PROGRAMS

NAMES = tuple(PROGRAMS)
"""The names of the programs with an integration."""
