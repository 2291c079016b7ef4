"""Setup of agent programs such as Claude Code and Codex, one module for each program.

A program declares which files it reads and what goes into them (``client``). ``json_edit`` and
``marked_blocks`` change texts without touching their existing content, and ``setup`` reads and
writes the files.
"""

NAMES = ("claude-code", "codex", "opencode", "gemini", "cursor")
"""The agent programs that memvault can set up."""
