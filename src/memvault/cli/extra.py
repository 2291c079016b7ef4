"""Commands that are no tools: ``init``, ``call``, ``mcp``, and trust in a vault's tools."""

from __future__ import annotations

import inspect
import json as json_library
from typing import Any

import typer

from memvault.cli import commands, completion, output, telling, trusting
from memvault.cli.options import Options
from memvault.cli.overview import EXTRA_COMMANDS
from memvault.errors import MemvaultError, UsageError


def init(options: Options, folder: str, bare: bool, examples: bool) -> None:
    """Make a folder a vault.

    An empty or new folder gets the whole template: settings, README, AGENTS.md,
    Obsidian settings and templates; with --examples an example memory per type
    too, which list shows and no search finds. A folder that holds files gets
    memvault.toml and nothing else: none of them is touched.
    """
    from memvault.upkeep.beginning import begin

    result = begin(folder or options.vault or ".", bare, examples)
    output.result("vault init", {"success": True, **result}, options.json, options.quiet)


def call(options: Options, name: str, arguments: str) -> None:
    """Run a tool by its exact name with JSON arguments, and give its result as JSON.

    - reads the arguments from standard input, @file from a file.
    """
    from memvault.tools.core import registry

    options.json = True
    given = json_arguments(commands.long_text(arguments))
    if not name:
        raise UsageError("The tool's name is missing", "memvault call memory_recall '{…}'")
    known = registry.known(name)
    commands.run_tool(known.name if known else name, given, options)


def json_arguments(text: str) -> dict[str, Any]:
    """Return the arguments that a text holds as one JSON object; no text is none.

    Raises:
        UsageError: it is not JSON, or no object.
    """
    try:
        given = json_library.loads(text.strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"The arguments are not JSON: {error}", 'write them as \'{"query": "words"}\''
        ) from error
    if not isinstance(given, dict):
        raise UsageError(
            "The arguments must be one JSON object", 'write them as \'{"query": "words"}\''
        )
    return given


def mcp(options: Options, programs: bool) -> None:
    """Serve the vault's tools and memories to an MCP client.

    It speaks MCP on standard input and output, for the vault and the agent that
    --vault and --agent name, and ends with its input. It needs the MCP SDK, which
    the extra mcp installs: pip install '.[mcp]' in a checkout.
    """
    try:
        from memvault.mcp import serving
    except ImportError as error:
        raise MemvaultError(
            f"memvault mcp needs the MCP SDK: {error}",
            "install memvault with the extra mcp: pip install '.[mcp]' in a checkout",
        ) from error
    from memvault.agents.address import address

    # A model that may call tools may not run what it likes, nor look round the machine.
    caller = options.caller()._replace(programs=programs, paths=False)
    workspace = options.workspace()
    address(caller.agent)  # an invalid name is said now, not with each call
    code = serving.serve(workspace, caller)
    if code:
        raise typer.Exit(code)


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
                typer.Option(False, "--examples", help="An example memory per type too"),
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
        mcp,
        {
            "programs": (
                bool,
                typer.Option(
                    False,
                    "--programs",
                    help="Let the client name an extractor, and models, to run on this machine",
                ),
            )
        },
    ),
    "completion bash": (completion.bash, {}),
    "completion zsh": (completion.zsh, {}),
    "completion fish": (completion.fish, {}),
    "completion install": (
        completion.install,
        {
            "shell": _argument("[bash|zsh|fish]", "The shell (default that of $SHELL)"),
            "remove": (bool, typer.Option(False, "--remove", help="Switch it off again")),
        },
    ),
    "skill": (
        telling.tell,
        {
            "form": (
                str,
                typer.Option("agents", "--as", metavar="|".join(telling.FORMS), help="The form"),
            ),
            "out": (str, typer.Option("", "--out", metavar="DIR", help="Write it to a file there")),
        },
    ),
    "vaults trust": (trusting.trust_vault, {"folder": _argument("DIR", "The vault")}),
    "vaults untrust": (trusting.untrust_vault, {"folder": _argument("DIR", "The vault")}),
    "tools trust": (
        trusting.trust,
        {
            "name": _argument("NAME", "The tool's name"),
            "yes": (bool, typer.Option(False, "--yes", help="Do not ask")),
        },
    ),
    "tools untrust": (trusting.untrust, {"name": _argument("NAME", "The tool's name")}),
}
"""Each command's function and what Typer is told of its parameters."""


def extra_command(words: str, name: str, options: Options) -> Any:
    """Build one of the commands that are no tools."""
    function, declared = COMMANDS[words]

    def callback(**given: Any) -> None:
        commands.take_shared(options, given)
        shown = {key: given[key] for key in declared}
        shown.update(
            {key: options.revealed(text) for key, text in shown.items() if isinstance(text, str)}
        )
        function(options, **shown)

    return commands.built(
        callback, name, inspect.getdoc(function) or EXTRA_COMMANDS[words], declared, words
    )
