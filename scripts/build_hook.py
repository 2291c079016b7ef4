"""Build hook of the wheel: generates manual pages and completion scripts from the program.

hatchling runs it without other packages installed; declaring the commands requires none.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPLETIONS = {
    "bash": "share/bash-completion/completions/memvault",
    "zsh": "share/zsh/site-functions/_memvault",
    "fish": "share/fish/vendor_completions.d/memvault.fish",
}


class SharedFilesHook(BuildHookInterface[Any]):
    """A hook that adds ``share/man`` and the completion scripts of three shells to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the files below ``build/share``, and map them into the wheel."""
        root = Path(self.root)
        sys.path[:0] = [str(root / "src"), str(root / "scripts")]
        import man_pages
        from memvault.cli.commands.completion import SCRIPTS

        texts = {f"share/man/man1/{name}": text for name, text in man_pages.pages().items()}
        texts |= {path: SCRIPTS[shell] for shell, path in COMPLETIONS.items()}
        for path, text in texts.items():
            file = root / "build" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
            build_data["shared_data"][str(file)] = path
