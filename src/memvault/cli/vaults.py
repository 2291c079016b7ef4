"""The vault's engine, for people: no tool, so neither ``call`` nor MCP reaches it."""

from __future__ import annotations

from pathlib import Path

from memvault.cli import results
from memvault.cli.options import GlobalOptions
from memvault.errors import UsageError


def add(
    options: GlobalOptions,
    name: str,
    folder: str,
    collection: str,
    which: str,
    patience: float | None,
) -> None:
    """Give a vault a name, by which recall --vaults and --vault take it.

    A memory of it is then NAME:MEMID in every command. Names lie in your own
    settings, never in a vault. Instead of a folder it may be the address of a Milvus, for a
    vault that another machine has sent there by index push: it can be recalled, listed and
    shown here, as it was when it was sent last. The token is in MEMVAULT_MILVUS_TOKEN.
    """
    from memvault.engine import remote_vaults
    from memvault.settings.vaults import add_vault

    if remote_vaults.is_address(folder):
        found = remote_vaults.add(name, folder, collection, which, patience)
    elif collection or which or patience is not None:
        raise UsageError(
            "--collection, --of and --patience are for a vault in an engine",
            "give its address, as http://…",
        )
    else:
        found = {"name": name, "folder": add_vault(name, folder)}
    _told(options, "vaults add", found)


def remove(options: GlobalOptions, name: str) -> None:
    """Take a vault's name away; the vault stays as it is.

    Of one that another machine sent, what is kept here goes too.
    """
    from memvault.engine import remote_vaults
    from memvault.settings.vaults import remove_vault

    folder = remove_vault(name)
    stays = not remote_vaults.forget(Path(folder))
    _told(options, "vaults remove", {"name": name, "folder": folder, "stays": stays})


def names(options: GlobalOptions) -> None:
    """List the vaults that have names."""
    from memvault.settings.vaults import vault_table

    found = vault_table()
    nothing = "No vault has a name; memvault vaults add NAME DIR gives one"
    _told(options, "vaults list", {"vaults": found, **({} if found else {"message": nothing})})


def default(options: GlobalOptions, vaults: str) -> None:
    """Choose the vaults that recall asks unasked, beside the one at hand; without names none.

    recall --vaults this asks the one at hand alone.
    """
    from memvault.settings.vaults import set_default

    chosen = [name.strip() for name in vaults.split(",") if name.strip()]
    set_default(chosen)
    _told(options, "vaults default", {"default": chosen})


def _told(options: GlobalOptions, command: str, found: dict[str, object]) -> None:
    results.print_result(options, command, {"success": True, **found})


def push(options: GlobalOptions, take_over: bool, to: str) -> None:
    """Send the vault to the engine that [index] in memvault.toml names, or what differs.

    From then on recall asks there. The first time the vault gets an id, which memvault.toml
    keeps, and this machine becomes the one that sends it. The token is in
    MEMVAULT_MILVUS_TOKEN, and is sent to the first engine that gets a vault from here; --to
    ADDRESS allows sending it to another that memvault.toml names. Killed, it goes on where it
    was the next time. With --take-over this machine sends it from now on, as after the vault was
    moved to another folder.
    """
    from memvault.engine import publish

    workspace = options.workspace()
    try:
        pushed = publish.push(workspace, take_over, to)
        results.print_result(options, "index push", {"success": True, **pushed})
    finally:
        workspace.close()


def status(options: GlobalOptions) -> None:
    """Compare what this machine has sent to the engine with what that holds."""
    from memvault.engine import publish

    workspace = options.workspace()
    try:
        results.print_result(
            options, "index status", {"success": True, **publish.status(workspace)}
        )
    finally:
        workspace.close()


def drop(options: GlobalOptions, every: bool, yes: bool) -> None:
    """Take the vault out of its engine; recall answers from this machine again.

    With --all the collections go, with what other vaults have there. No file changes.
    """
    from memvault.engine import publish

    if every and not yes:
        raise UsageError(
            "--all deletes what every vault has in the collection",
            "memvault index drop --all --yes",
        )
    workspace = options.workspace()
    try:
        results.print_result(
            options, "index drop", {"success": True, **publish.drop(workspace, every)}
        )
    finally:
        workspace.close()
