"""The commands ``init``, ``vaults`` for named vaults, and ``index`` for the external engine.

They are not tools, so neither ``call`` nor an MCP client can run them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from memvault import sanitize
from memvault.arguments.parameters import Arg
from memvault.cli import output
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.errors import Refused, UsageError, VaultUnreadable
from memvault.settings.locate import vault_above
from memvault.tools.core.render import Template
from memvault.tools.core.result_parts import list_result

Name = Annotated[str, Arg("The vault's name", positional=True)]


_MAX_SHOWN = 8
"""Maximum number of excluded files and folders that ``init`` lists."""


def _shortened(paths: list[str]) -> str:
    omitted_count = len(paths) - _MAX_SHOWN
    return ", ".join(
        [*paths[:_MAX_SHOWN], *([f"{omitted_count} more"] if omitted_count > 0 else [])]
    )


def _shown(made: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result of ``init`` with additional values for its view."""
    folder = os.path.relpath(made["vault"])
    cd = f"cd {sanitize.quote_argument(folder)} && " if folder != "." else ""
    first = "recall WORDS" if made["memories"] else 'remember "First note" "What to remember"'
    following = f"`{cd}memvault {first}`"
    try:
        vault_above(Path(made["vault"]))
    except VaultUnreadable as error:
        following = error.hint
    return {
        **made,
        "untouched": made["memories"] or None,
        "left_out": _shortened(made.get("excluded", [])),
        "next": following,
    }


@command(
    "init",
    ("memvault init notes", "memvault init ~/notes --default", "memvault init --bare work/notes"),
    view=Template(
        """{vault} is a vault
           {created:each}
        {untouched:markdown file|markdown files} can be recalled now; none were changed
        Excluded: {left_out}
        Default vault, named {default}
        Next: {next}""",
        _shown,
    ),
    group="setup",
)
def init(
    options: GlobalOptions,
    folder: Annotated[
        str, Arg("The folder, created if missing (default .)", positional=True, completes="file")
    ] = "",
    bare: Annotated[bool, Arg("Only memvault.toml")] = False,
    examples: Annotated[bool, Arg("Add an example memory per type")] = False,
    default: Annotated[bool, Arg("Make this your default vault, named after the folder")] = False,
) -> dict[str, Any]:
    """Create a vault in a folder; existing files are not changed.

    A new or empty folder gets the full template: settings, README, AGENTS.md,
    Obsidian settings and templates; `--examples` adds an example memory per type,
    which list shows and searches leave out. A folder that already has files
    gets only memvault.toml. On a terminal, init offers to make your first vault the
    default, which commands use when you are not in a vault.
    """
    from memvault.named_vaults import has_default, make_default
    from memvault.vault.init import init_vault

    made = init_vault(folder or options.vault or ".", bare, examples)
    if not default and options.may_ask and not has_default():
        question = (
            "Make this your default vault? `memvault recall` also searches it from other vaults."
        )
        default = output.confirm((), question, default=True)
    if default:
        made["default"] = make_default(made["vault"])
    return made


@command(
    "vaults add",
    (
        "memvault vaults add work .",
        "memvault vaults add home ~/notes",
        "memvault vaults add team http://milvus:19530 --of notes",
    ),
    view="""{name} is {folder}
        {name} is the vault {vault} on {host}  {documents:document|documents}  \
            published {sent:day}""",
    group="setup",
)
def add(
    _: GlobalOptions,
    name: Name,
    folder: Annotated[
        str,
        Arg(
            "The vault's folder, or the address of its engine",
            positional=True,
            completes="file",
            metavar="DIR|ADDRESS",
        ),
    ],
    collection: Annotated[str, Arg("The collection in that engine", metavar="NAME")] = "",
    remote_vault: Annotated[
        str, Arg("The vault in that engine", flag="--of", metavar="VAULT")
    ] = "",
    timeout: Annotated[
        float | None,
        Arg("Timeout for the engine's responses", flag="--patience", metavar="SECONDS"),
    ] = None,
) -> dict[str, Any]:
    """Register a name for a vault, for use with `memvault recall --vaults` and `--vault`.

    Every command then accepts NAME:MEMORY for its memories. Names are stored in your own settings,
    never in a vault. For a vault that another machine has pushed to a Milvus server, pass the
    server's address instead of a folder; you can then recall, list and show its memories as of the
    last push. The token is read from MEMVAULT_MILVUS_TOKEN.
    """
    from memvault.named_vaults import add_vault
    from memvault.publishing import remote_vaults

    if remote_vaults.is_address(folder):
        return remote_vaults.add(name, folder, collection, remote_vault, timeout)
    if collection or remote_vault or timeout is not None:
        raise UsageError(
            "`--collection`, `--of` and `--patience` need an engine's address",
            "pass its address, such as http://localhost:19530",
        )
    return {"name": name, "folder": add_vault(name, folder)}


@command(
    "vaults remove",
    ("memvault vaults remove work", "memvault vaults remove home"),
    view="""
        Removed the name {name}
           {folder} {stays:was not changed|contained fetched files and was deleted}""",
    group="setup",
)
def remove(_: GlobalOptions, name: Name) -> dict[str, Any]:
    """Remove a vault's name; the vault itself is not changed.

    For a vault from another machine, the data cached on this machine is deleted too.
    """
    from memvault.named_vaults import remove_vault
    from memvault.publishing import remote_vaults

    folder = remove_vault(name)
    return {"name": name, "folder": folder, "stays": not remote_vaults.forget(Path(folder))}


@command(
    "vaults list",
    ("memvault vaults list", "memvault vaults list --json"),
    view="""*vaults
        {name:<12}  {folder}  {default:searched by default|}  published by {sentBy}  {problem}""",
    group="setup",
)
def names(_: GlobalOptions) -> dict[str, Any]:
    """List the named vaults."""
    from memvault.named_vaults import vault_table

    nothing = "No named vaults; add one with `memvault vaults add NAME DIR`"
    return list_result("vaults", vault_table(), nothing)


@command(
    "vaults default",
    ("memvault vaults default work,home", "memvault vaults default"),
    view="""
        *default Recall also searches: | Recall searches no vault but the current one
           {text}""",
    group="setup",
)
def default(
    _: GlobalOptions,
    vaults: Annotated[
        str, Arg("Vault names, or all for every named vault", positional=True, metavar="NAME,NAME")
    ] = "",
) -> dict[str, Any]:
    """Set the vaults that recall searches in addition to the current one; no names clear the list.

    `memvault recall --vaults this` searches only the current vault.
    """
    from memvault.named_vaults import set_default

    chosen = [name.strip() for name in vaults.split(",") if name.strip()]
    set_default(chosen)
    return {"default": chosen}


@command(
    "index push",
    ("memvault index push", "MEMVAULT_MILVUS_TOKEN=… memvault index push"),
    view="Published to {uri}  {documents:document|documents}  vault {vault}",
    group="setup",
)
def push(
    options: GlobalOptions,
    take_over: Annotated[bool, Arg("Make this machine the vault's publisher")] = False,
    to: Annotated[
        str, Arg("The engine's address; allows sending the token to it", metavar="ADDRESS")
    ] = "",
) -> dict[str, Any]:
    """Upload the vault, or its changes, to the engine set under [index] in memvault.toml.

    From then on, recall searches there. The first push writes an id for the vault to memvault.toml;
    after that, only this machine can push it. The token is read from MEMVAULT_MILVUS_TOKEN and is
    sent only to the first engine used from this machine; `--to ADDRESS` allows sending it to
    another address in memvault.toml. An interrupted push is resumed by the next one. `--take-over`
    makes this machine the publisher, for example after the vault was moved to another folder.
    """
    from memvault.publishing import publish

    with closing(options.workspace()) as workspace:
        return publish.push(workspace, take_over, to)


@command(
    "index status",
    ("memvault index status", "memvault index status --json"),
    view="""
        {uri}  {collection}  vault {vault}
           {documents:document|documents}  {rows[passages]:passage|passages}
           published by {host}  {sent:minute}
           {problem}""",
    group="setup",
)
def status(options: GlobalOptions) -> dict[str, Any]:
    """Compare the engine's contents with the data pushed from this machine."""
    from memvault.publishing import publish

    with closing(options.workspace()) as workspace:
        return publish.status(workspace)


@command(
    "index drop",
    ("memvault index drop", "memvault index drop --all --yes"),
    view="{outcome}",
    group="setup",
)
def drop(
    options: GlobalOptions,
    all_vaults: Annotated[bool, Arg("Delete other vaults' data there too", flag="--all")] = False,
    yes: Annotated[bool, Arg("Delete without asking")] = False,
) -> dict[str, Any]:
    """Delete the vault from its engine; recall then uses this machine's index again.

    `--all` deletes the collections, including other vaults' data. Files are not changed.
    """
    from memvault.publishing import publish

    what = "This deletes every vault's data in the collection"
    if all_vaults and not output.consent(yes, [what], "Delete it?"):
        raise Refused(f"{what}; nothing was changed", "`memvault index drop --all --yes`")
    with closing(options.workspace()) as workspace:
        return publish.drop(workspace, all_vaults)
