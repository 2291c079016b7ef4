"""The commands ``vaults``, for named vaults, and ``index``, for the external search engine.

They are not tools, so that neither ``call`` nor an MCP client can run them.
"""

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
    """Register a name for a vault, for use with recall --vaults and --vault.

    Every command then accepts NAME:MEMID for its memories. Names are stored in your own
    settings, never in a vault. Instead of a folder, give the address of a Milvus server for
    a vault that another machine has sent there with index push: its memories can be
    recalled, listed and shown here, as of its last push. The token is read from
    MEMVAULT_MILVUS_TOKEN.
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
    _print_result(options, "vaults add", found)


def remove(options: GlobalOptions, name: str) -> None:
    """Remove a vault's name; the vault itself is not changed.

    For a vault that another machine sent, the data cached on this machine is deleted too.
    """
    from memvault.engine import remote_vaults
    from memvault.settings.vaults import remove_vault

    folder = remove_vault(name)
    stays = not remote_vaults.forget(Path(folder))
    _print_result(options, "vaults remove", {"name": name, "folder": folder, "stays": stays})


def names(options: GlobalOptions) -> None:
    """List the named vaults."""
    from memvault.settings.vaults import vault_table

    found = vault_table()
    message = "No vault has a name; memvault vaults add NAME DIR gives one"
    _print_result(
        options, "vaults list", {"vaults": found, **({} if found else {"message": message})}
    )


def default(options: GlobalOptions, vaults: str) -> None:
    """Set the vaults that recall searches by default besides the current one; no names, none.

    recall --vaults this searches only the current vault.
    """
    from memvault.settings.vaults import set_default

    chosen = [name.strip() for name in vaults.split(",") if name.strip()]
    set_default(chosen)
    _print_result(options, "vaults default", {"default": chosen})


def _print_result(options: GlobalOptions, command: str, found: dict[str, object]) -> None:
    results.print_result(options, command, {"success": True, **found})


def push(options: GlobalOptions, take_over: bool, to: str) -> None:
    """Upload the vault, or its changes, to the engine set under [index] in memvault.toml.

    From then on recall searches there. The first push gives the vault an id, which is
    written to memvault.toml, and makes this machine the one that sends the vault. The token
    is read from MEMVAULT_MILVUS_TOKEN, and is sent to the first engine that gets a vault from
    here; --to ADDRESS allows sending it to another one that memvault.toml names. An
    interrupted push is resumed by the next one. --take-over makes this machine the sender
    from now on, for example after the vault was moved to another folder.
    """
    from memvault.engine import publish

    workspace = options.workspace()
    try:
        pushed = publish.push(workspace, take_over, to)
        results.print_result(options, "index push", {"success": True, **pushed})
    finally:
        workspace.close()


def status(options: GlobalOptions) -> None:
    """Compare what this machine has sent to the engine with the engine's contents."""
    from memvault.engine import publish

    workspace = options.workspace()
    try:
        results.print_result(
            options, "index status", {"success": True, **publish.status(workspace)}
        )
    finally:
        workspace.close()


def drop(options: GlobalOptions, every: bool, yes: bool) -> None:
    """Delete the vault from its engine; recall then uses this machine's index again.

    --all deletes the collections, including the data of other vaults. Files are not changed.
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
