"""Calls every tool once in the vault that it is started in, and prints what each came to."""

from __future__ import annotations

import json
import sys

from memvault import open_vault
from memvault.tools.core.registry import all_tools
from tool_calls import sayable, writing_call


def main() -> None:
    """Print a line of JSON for each tool: its name, whether it only reads, and its result."""
    with open_vault(".") as vault:
        for tool in all_tools():
            arguments = writing_call(tool)
            if tool.name == "wait_for":
                arguments = sayable(tool, arguments)
            result = vault.call(tool.name, **arguments)
            sys.stdout.write(json.dumps([tool.name, tool.read_only, result]) + "\n")


if __name__ == "__main__":
    main()
