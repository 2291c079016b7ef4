"""The options that every command has, wherever on the line they stand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memvault.workspace import Workspace

__all__ = ["SHARED", "Options"]


SHARED = (
    ("vault", "--vault", "DIR", "The vault; else MEMVAULT_VAULT, else the nearest memvault.toml"),
    ("agent", "--agent", "NAME", "Who is asking; else MEMVAULT_AGENT, else main"),
    ("json", "--json", "", "Give the result as JSON; MEMVAULT_JSON=1 does the same"),
    ("quiet", "--quiet", "", "No notes, warnings or progress on standard error"),
)
"""Name, flag, what it takes, and help of the options that go with every command."""


class Options:
    """Which vault, for whom, and how to answer."""

    def __init__(self) -> None:
        self.vault: str | None = None
        self.agent: str | None = None
        self.json = False
        self.quiet = False

    @classmethod
    def from_environment(cls) -> Options:
        """Begin with what the environment says."""
        options = cls()
        options.agent = os.environ.get("MEMVAULT_AGENT") or None
        options.json = os.environ.get("MEMVAULT_JSON", "") not in ("", "0", "false")
        return options

    def take(self, vault: str | None, agent: str | None, json: bool, quiet: bool) -> None:
        """Take over what was given; what was not stays."""
        self.vault = vault if vault is not None else self.vault
        self.agent = agent if agent is not None else self.agent
        self.json = self.json or json
        self.quiet = self.quiet or quiet

    def workspace(self) -> Workspace:
        """Open the vault.

        Raises:
            VaultNotFound: there is none.
        """
        from memvault.cli.output import Progress
        from memvault.config import find_vault
        from memvault.workspace import DEFAULT_AGENT, Workspace

        root = find_vault(self.vault)
        return Workspace(root, self.agent or DEFAULT_AGENT, Progress(self.quiet))
