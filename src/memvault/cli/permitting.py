"""Tokens of served vaults, for people: no tool, so neither ``call`` nor MCP reaches them."""

from __future__ import annotations

from memvault.cli import showing
from memvault.cli.options import GlobalOptions


def add(
    options: GlobalOptions, name: str, vaults: str, scope: str, as_agent: str, days: int
) -> None:
    """Make a token for memvault serve, and show it this once.

    It opens the vaults that --vaults names, the first of them where a client names none.
    Whoever has it speaks as the agent --as, else as one of the token's own name, and as
    nobody else. With the scope read nothing can be written.
    """
    from memvault.upkeep import tokens

    given = [part.strip() for part in vaults.split(",") if part.strip()]
    made, text = tokens.add(name, given, scope, as_agent, days)
    _told(options, "tokens add", {**made.public_fields(), "token": text})


def names(options: GlobalOptions) -> None:
    """List the tokens: what each opens, and as which agent. The tokens themselves are not kept."""
    from memvault.upkeep import tokens

    found = [token.public_fields() for token in tokens.all_tokens()]
    nothing = "There are no tokens; memvault tokens add NAME --vaults NAME,NAME makes one"
    _told(options, "tokens list", {"tokens": found, **({} if found else {"message": nothing})})


def remove(options: GlobalOptions, name: str) -> None:
    """End a token at once, also for whoever is using it."""
    from memvault.upkeep import tokens

    tokens.remove(name)
    _told(options, "tokens remove", {"name": name})


def _told(options: GlobalOptions, command: str, found: dict[str, object]) -> None:
    showing.print_result(options, command, {"success": True, **found})
