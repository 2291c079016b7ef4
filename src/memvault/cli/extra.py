"""Commands that are not generated from tools, such as ``init``, ``call`` and ``mcp``."""

from __future__ import annotations

import inspect
import json as json_library
from typing import Any

import typer

from memvault.cli import (
    commands,
    completion_install,
    editor,
    hook,
    results,
    serve,
    setup,
    trust,
    vaults,
)
from memvault.cli.help_pages import EXTRA_COMMANDS
from memvault.cli.options import GlobalOptions
from memvault.clients import NAMES
from memvault.errors import UsageError


def init(options: GlobalOptions, folder: str, bare: bool, examples: bool) -> None:
    """Create a vault in a folder.

    A new or empty folder gets the full template: settings, README, AGENTS.md,
    Obsidian settings and templates; --examples adds an example memory per type,
    which list shows and searches leave out. A folder that has files only gets
    memvault.toml, and its files are not changed.
    """
    from memvault.vault.init import init_vault

    result = init_vault(folder or options.vault or ".", bare, examples)
    results.print_result(options, "vault init", {"success": True, **result})


def call(options: GlobalOptions, name: str, arguments: str) -> None:
    """Run a tool by its exact name with JSON arguments, and print its result as JSON.

    - reads the arguments from standard input, @file from a file.
    """
    from memvault.tools.core import registry

    options.json = True
    values = json_arguments(commands.long_text(arguments))
    if not name:
        raise UsageError("The tool's name is missing", "memvault call memory_recall '{…}'")
    tool = registry.lookup(name)
    commands.run_tool(tool.name if tool else name, values, options)


def json_arguments(text: str) -> dict[str, Any]:
    """Parse arguments written as one JSON object; an empty text means no arguments.

    Raises:
        UsageError: If the text is not valid JSON, or not an object.
    """
    try:
        arguments = json_library.loads(text.strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The arguments are not JSON: {error}", 'write them as \'{"query": "words"}\''
        ) from error
    if not isinstance(arguments, dict):
        raise UsageError(
            "The arguments must be one JSON object", 'write them as \'{"query": "words"}\''
        )
    return arguments


def _argument(metavar: str, text: str) -> tuple[Any, Any]:
    return str, typer.Argument("", metavar=metavar, help=text, show_default=False)


COMMANDS: dict[str, tuple[Any, dict[str, tuple[Any, Any]]]] = {
    "init": (
        init,
        {
            "folder": _argument("[FOLDER]", "The folder, created if missing (default .)"),
            "bare": (bool, typer.Option(False, "--bare", help="Only memvault.toml")),
            "examples": (
                bool,
                typer.Option(False, "--examples", help="Add an example memory per type"),
            ),
        },
    ),
    "call": (
        call,
        {
            "name": _argument("NAME", "The tool's exact name"),
            "arguments": _argument("[JSON]", "Its arguments as one JSON object"),
        },
    ),
    "mcp": (
        serve.mcp,
        {
            "tools": (
                str,
                typer.Option(
                    "",
                    "--tools",
                    metavar="NAMES",
                    help="Profiles and tools to offer, as core,talk (default core)",
                    show_default=False,
                ),
            ),
            "list_profiles": (
                bool,
                typer.Option(False, "--list-profiles", help="List the profiles, and exit"),
            ),
            "vaults": (
                str,
                typer.Option(
                    "",
                    "--vaults",
                    metavar="NAME,NAME",
                    help="Names of other vaults that the client may reach",
                ),
            ),
            "programs": (
                bool,
                typer.Option(
                    False,
                    "--programs",
                    help="Let the client name an extractor, and models, to run on this machine",
                ),
            ),
        },
    ),
    "serve": (
        serve.serve,
        {
            "http": (
                str,
                typer.Option("", "--http", metavar="[HOST]:PORT", help="Where to listen"),
            ),
            "vaults": (
                str,
                typer.Option(
                    "", "--vaults", metavar="NAME,NAME", help="Vaults to serve (default all named)"
                ),
            ),
            "tools": (
                str,
                typer.Option(
                    "", "--tools", metavar="NAMES", help="Profiles and tools to offer, as for mcp"
                ),
            ),
            "names": (
                list[str],
                typer.Option(
                    [],
                    "--name",
                    metavar="HOST",
                    help="A host name by which clients reach this server",
                ),
            ),
            "audit": (
                str,
                typer.Option(
                    "", "--audit", metavar="FILE", help="File of the audit log (default stderr)"
                ),
            ),
            "calls": (
                int,
                typer.Option(16, "--calls", min=1, help="Maximum concurrent requests per token"),
            ),
            "queue": (
                int,
                typer.Option(100, "--queue", min=0, help="Maximum queued requests per token"),
            ),
            "rate": (
                int,
                typer.Option(50, "--rate", min=1, help="Maximum requests per second and token"),
            ),
            "body": (
                int,
                typer.Option(
                    4, "--body", min=1, max=64, help="Maximum size of a request in megabytes"
                ),
            ),
            "certificate": (
                str,
                typer.Option(
                    "",
                    "--certificate",
                    metavar="FILE",
                    help="TLS certificate in PEM format, for https",
                ),
            ),
            "key": (str, typer.Option("", "--key", metavar="FILE", help="The certificate's key")),
        },
    ),
    "completion bash": (completion_install.bash, {}),
    "completion zsh": (completion_install.zsh, {}),
    "completion fish": (completion_install.fish, {}),
    "completion install": (
        completion_install.install,
        {
            "shell": _argument("[bash|zsh|fish]", "The shell (default $SHELL)"),
            "remove": (bool, typer.Option(False, "--remove", help="Uninstall it")),
        },
    ),
    "skill": (
        setup.print_guide,
        {
            "form": (
                str,
                typer.Option("agents", "--as", metavar="|".join(setup.FORMS), help="The format"),
            ),
            "out": (
                str,
                typer.Option("", "--out", metavar="DIR", help="Write it to a file in this folder"),
            ),
        },
    ),
    "edit": (editor.edit, {"memory": _argument("MEMORY", "memId, path or title")}),
    "open": (
        editor.open_memory,
        {
            "memory": _argument("[MEMORY]", "memId, path or title; the vault if missing"),
            "where": (
                str,
                typer.Option(
                    "", "--with", metavar="obsidian|editor", help="The program to open it in"
                ),
            ),
            "address": (
                bool,
                typer.Option(False, "--print", help="Print the Obsidian URL, open nothing"),
            ),
        },
    ),
    "path": (
        editor.path,
        {"memory": _argument("[MEMORY]", "memId, path or title; the vault if missing")},
    ),
    "new": (
        editor.new,
        {
            "title": _argument("TITLE", "The memory's title"),
            "template": (
                str,
                typer.Option(
                    "", "--template", metavar="NAME", help="A file in the templates folder"
                ),
            ),
            "memory_type": (
                str,
                typer.Option("", "--type", "-t", metavar="TYPE", help="The memory's type"),
            ),
            "no_edit": (
                bool,
                typer.Option(False, "--no-edit", help="Do not open it in the editor"),
            ),
        },
    ),
    "setup": (
        setup.setup,
        {
            "program": _argument("|".join(NAMES), "The program"),
            "project": (bool, typer.Option(False, "--project", help="For this folder (default)")),
            "user": (bool, typer.Option(False, "--user", help="For all of your projects")),
            "dry_run": (bool, typer.Option(False, "--dry-run", help="Only show what changes")),
            "remove": (bool, typer.Option(False, "--remove", help="Undo the changes of setup")),
            "yes": (bool, typer.Option(False, "--yes", help="Do not ask")),
        },
    ),
    "hook": (
        hook.hook,
        {
            "event": _argument("|".join(hook.EVENTS), "The event in the program"),
            "program": (
                str,
                typer.Option(
                    "", "--for", metavar="|".join(NAMES), help="Print in the format of this program"
                ),
            ),
        },
    ),
    "vaults add": (
        vaults.add,
        {
            "name": _argument("NAME", "Its name"),
            "folder": _argument("DIR|ADDRESS", "The vault's folder, or the address of its engine"),
            "collection": (
                str,
                typer.Option(
                    "", "--collection", metavar="NAME", help="The collection in that engine"
                ),
            ),
            "which": (
                str,
                typer.Option("", "--of", metavar="VAULT", help="The vault in that engine"),
            ),
            "patience": (
                float | None,
                typer.Option(
                    None,
                    "--patience",
                    metavar="SECONDS",
                    help="Timeout for responses of the engine",
                ),
            ),
        },
    ),
    "vaults list": (vaults.names, {}),
    "vaults remove": (vaults.remove, {"name": _argument("NAME", "Its name")}),
    "vaults default": (
        vaults.default,
        {"vaults": _argument("[NAME,NAME]", "Their names; all for every named vault")},
    ),
    "vaults trust": (trust.trust_vault, {"folder": _argument("DIR", "The vault")}),
    "vaults untrust": (trust.untrust_vault, {"folder": _argument("DIR", "The vault")}),
    "index push": (
        vaults.push,
        {
            "take_over": (
                bool,
                typer.Option(False, "--take-over", help="Take over from the machine that sends it"),
            ),
            "to": (
                str,
                typer.Option(
                    "",
                    "--to",
                    metavar="ADDRESS",
                    help="The address of the engine, to which the token may be sent",
                ),
            ),
        },
    ),
    "index status": (vaults.status, {}),
    "index drop": (
        vaults.drop,
        {
            "every": (
                bool,
                typer.Option(False, "--all", help="Delete the data of other vaults there too"),
            ),
            "yes": (bool, typer.Option(False, "--yes", help="With --all: do not ask")),
        },
    ),
    "tokens add": (
        serve.add,
        {
            "name": _argument("NAME", "The token's name"),
            "vaults": (
                str,
                typer.Option(
                    "", "--vaults", metavar="NAME,NAME", help="The vaults it gives access to"
                ),
            ),
            "scope": (
                str,
                typer.Option("read", "--scope", metavar="read|write", help="Its permissions"),
            ),
            "as_agent": (
                str,
                typer.Option(
                    "", "--as", metavar="AGENT", help="The agent it acts as (default NAME)"
                ),
            ),
            "days": (
                int,
                typer.Option(
                    0, "--days", min=0, max=36_500, help="Days until it expires; 0 for never"
                ),
            ),
        },
    ),
    "tokens list": (serve.names, {}),
    "tokens remove": (serve.remove, {"name": _argument("NAME", "Its name")}),
    "tools trust": (
        trust.trust,
        {
            "name": _argument("NAME", "The tool's name"),
            "yes": (bool, typer.Option(False, "--yes", help="Do not ask")),
        },
    ),
    "tools untrust": (trust.untrust, {"name": _argument("NAME", "The tool's name")}),
}
"""The function of each command, and the Typer declarations of its parameters."""


def extra_command(words: str, name: str, options: GlobalOptions) -> Any:
    """Build a command that is not generated from a tool."""
    function, declared = COMMANDS[words]

    def callback(**given: Any) -> None:
        commands.apply_global_options(options, given)
        values = {key: given[key] for key in declared}
        values.update(
            {key: options.unescape(text) for key, text in values.items() if isinstance(text, str)}
        )
        function(options, **values)

    return commands.build_command(
        callback, name, inspect.getdoc(function) or EXTRA_COMMANDS[words], declared, words
    )
