"""Names of vaults, for people: no tool, so neither ``call`` nor MCP reaches them."""

from __future__ import annotations

from pathlib import Path

from memvault.cli import showing
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
    from memvault.upkeep import named_vaults, sent_vaults

    if sent_vaults.is_address(folder):
        found = sent_vaults.add(name, folder, collection, which, patience)
    elif collection or which or patience is not None:
        raise UsageError(
            "--collection, --of and --patience are for a vault in an engine",
            "give its address, as http://…",
        )
    else:
        found = {"name": name, "folder": named_vaults.add_vault(name, folder)}
    _told(options, "vaults add", found)


def remove(options: GlobalOptions, name: str) -> None:
    """Take a vault's name away; the vault stays as it is.

    Of one that another machine sent, what is kept here goes too.
    """
    from memvault.upkeep import named_vaults, sent_vaults

    folder = named_vaults.remove_vault(name)
    stays = not sent_vaults.forget(Path(folder))
    _told(options, "vaults remove", {"name": name, "folder": folder, "stays": stays})


def names(options: GlobalOptions) -> None:
    """List the vaults that have names."""
    from memvault.upkeep import named_vaults

    found = named_vaults.vault_table()
    nothing = "No vault has a name; memvault vaults add NAME DIR gives one"
    _told(options, "vaults list", {"vaults": found, **({} if found else {"message": nothing})})


def default(options: GlobalOptions, vaults: str) -> None:
    """Choose the vaults that recall asks unasked, beside the one at hand; without names none.

    recall --vaults this asks the one at hand alone.
    """
    from memvault.upkeep import named_vaults

    chosen = [name.strip() for name in vaults.split(",") if name.strip()]
    named_vaults.set_default(chosen)
    _told(options, "vaults default", {"default": chosen})


def _told(options: GlobalOptions, command: str, found: dict[str, object]) -> None:
    showing.print_result(options, command, {"success": True, **found})
