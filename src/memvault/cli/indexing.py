"""The vault's engine, for people: no tool, so neither ``call`` nor MCP reaches it."""

from __future__ import annotations

from memvault.cli import showing
from memvault.cli.options import GlobalOptions
from memvault.errors import UsageError


def push(options: GlobalOptions, take_over: bool, to: str) -> None:
    """Send the vault to the engine that [index] in memvault.toml names, or what differs.

    From then on recall asks there. The first time the vault gets an id, which memvault.toml
    keeps, and this machine becomes the one that sends it. The token is in
    MEMVAULT_MILVUS_TOKEN, and is sent to the first engine that gets a vault from here; --to
    ADDRESS allows sending it to another that memvault.toml names. Killed, it goes on where it
    was the next time. With --take-over this machine sends it from now on, as after the vault was
    moved to another folder.
    """
    from memvault.upkeep import sending

    workspace = options.workspace()
    try:
        pushed = sending.push(workspace, take_over, to)
        showing.print_result(options, "index push", {"success": True, **pushed})
    finally:
        workspace.close()


def status(options: GlobalOptions) -> None:
    """Compare what this machine has sent to the engine with what that holds."""
    from memvault.upkeep import sending

    workspace = options.workspace()
    try:
        showing.print_result(
            options, "index status", {"success": True, **sending.status(workspace)}
        )
    finally:
        workspace.close()


def drop(options: GlobalOptions, every: bool, yes: bool) -> None:
    """Take the vault out of its engine; recall answers from this machine again.

    With --all the collections go, with what other vaults have there. No file changes.
    """
    from memvault.upkeep import sending

    if every and not yes:
        raise UsageError(
            "--all deletes what every vault has in the collection",
            "memvault index drop --all --yes",
        )
    workspace = options.workspace()
    try:
        showing.print_result(
            options, "index drop", {"success": True, **sending.drop(workspace, every)}
        )
    finally:
        workspace.close()
