"""Call every tool once in the vault in the current folder, and print the results."""

from __future__ import annotations

import json
import sys

from memvault import open_vault
from memvault.tools.core.registry import all_tools
from tool_calls import soon


def main() -> None:
    """Print a line of JSON for each tool: its name, whether it is read-only, and its result."""
    with open_vault(".") as vault:
        for tool in all_tools():
            result = vault.call(tool.name, **soon(tool))
            sys.stdout.write(json.dumps([tool.name, tool.read_only, result]) + "\n")


if __name__ == "__main__":
    main()
