"""Setting up the programs that people talk to agents in, one file a program.

A program says which files it reads and what goes into them (``client``); the
texts are changed without touching what is there (``jsonc``, ``marked``), and
``setup`` reads and writes the files.
"""

NAMES = ("claude-code", "codex", "opencode", "gemini", "cursor")
"""The programs that memvault knows."""
