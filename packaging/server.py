"""Entry point of the desktop bundle: serve the chosen folder over MCP.

A folder that is not a vault yet becomes one, as with ``memvault init``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from memvault.__main__ import main
from memvault.vault.init import init_vault

folder = sys.argv[1]
if not (Path(folder) / "memvault.toml").exists():
    init_vault(folder, bare=False, examples=False)
sys.argv[1:] = ["mcp", "--vault", folder]
sys.exit(main())
