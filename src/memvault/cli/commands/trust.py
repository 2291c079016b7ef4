"""The commands that grant and revoke trust in vaults and in their registered tools.

They are not tools, so neither ``call`` nor an MCP client can run them.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.parameters import Arg, normal_name
from memvault.cli import output
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.errors import NotFound, Refused, UsageError, suggestion

if TYPE_CHECKING:
    from memvault.vault_tools.fingerprint import ToolFingerprint
    from memvault.vault_tools.tool_files import ToolFile


ToolName = Annotated[str, Arg("The tool's name", positional=True)]
Folder = Annotated[str, Arg("The vault", positional=True, completes="file", metavar="DIR")]


@command(
    "tools trust",
    ("memvault tools trust word_count --yes", "memvault tools trust word_count"),
    view="""
        {name} may run here: {command}
           until {covers:each} changes
           not covered: {notCovered:each}""",
    group="catalog",
)
def trust(
    options: GlobalOptions,
    name: ToolName,
    yes: Annotated[bool, Arg("Trust it without asking")] = False,
) -> dict[str, Any]:
    """Allow a registered tool, in its current version, to run on this machine.

    It shows the command and the covered files, and asks for confirmation. If one of the files
    changes, for example through a pull or an edit, the trust ends.
    """
    from memvault.vault_tools import trust
    from memvault.vault_tools.fingerprint import fingerprint_of

    root = options.workspace().root
    tool = _find_tool_file(options, name)
    fingerprint = fingerprint_of(root, tool)
    summary = _summary(tool, fingerprint)
    _require_consent(yes, tool.definition.name, summary)
    trust.grant(root, tool, fingerprint)
    return summary


@command(
    "tools untrust",
    ("memvault tools untrust word_count", "memvault tools untrust other_tool"),
    view="""
        {name} no longer runs here
           {wasTrusted:|it was not trusted}""",
    group="catalog",
)
def untrust(options: GlobalOptions, name: ToolName) -> dict[str, Any]:
    """Revoke the permission of a registered tool to run on this machine."""
    from memvault.vault_tools import trust

    was_trusted = trust.revoke(options.workspace().root, name)
    if not was_trusted:
        _find_tool_file(options, name)  # a tool may stay trusted after its file is deleted
    return {"name": name, "wasTrusted": was_trusted}


_TRUSTED_VAULTS = """
    *trusted Trusted vaults: | No vaults are trusted
       {text}"""


@command(
    "vaults trust",
    ("memvault vaults trust .", "memvault vaults trust ~/notes"),
    view=_TRUSTED_VAULTS,
    group="setup",
)
def trust_vault(_: GlobalOptions, folder: Folder) -> dict[str, Any]:
    """Trust another user's vault, so that commands run inside it use it.

    A vault's settings and files determine which files are read and run on this machine. Without
    trust, another user's vault is used only if `--vault` or MEMVAULT_VAULT selects it. The list of
    trusted vaults is in your own settings.
    """
    from memvault import named_vaults

    return {"trusted": named_vaults.trust(folder)}


@command(
    "vaults untrust",
    ("memvault vaults untrust .", "memvault vaults untrust ~/notes"),
    view=_TRUSTED_VAULTS,
    group="setup",
)
def untrust_vault(_: GlobalOptions, folder: Folder) -> dict[str, Any]:
    """Revoke the trust in another user's vault; commands then use it only with --vault."""
    from memvault import named_vaults

    return {"trusted": named_vaults.distrust(folder)}


def _find_tool_file(options: GlobalOptions, name: str) -> ToolFile:
    """Return a registered tool by its name.

    Raises:
        UsageError: the name belongs to a built-in tool.
        Refused: the tool's file is invalid.
        NotFound: there is no such tool.
    """
    from memvault.tools.core import registry
    from memvault.vault_tools import tool_files

    registered = tool_files.read_all(options.workspace().root)
    tool_name = normal_name(name)
    if tool_name in registered.tools:
        return registered.tools[tool_name]
    if tool_name in registered.broken:
        raise Refused(registered.broken[tool_name], "fix the file")
    if registry.lookup(name):
        raise UsageError(f"{name} is a built-in tool, which needs no trust", "run it")
    names = ", ".join(entry.definition.name for entry in registered.tools.values())
    hint = "register one with `memvault tools register FILE`"
    hint = f"registered tools: {names}" if names else hint
    raise NotFound(
        f"No tool {name!r} is registered in this vault",
        suggestion(tool_name, registered.tools, hint),
    )


def _summary(tool: ToolFile, fingerprint: ToolFingerprint) -> dict[str, Any]:
    """Describe the tool's command and its covered and uncovered files, for the confirmation."""
    return {
        "name": tool.definition.name,
        "command": shlex.join(tool.definition.command),
        "covers": [tool.path, *fingerprint.files],
        "notCovered": [
            *fingerprint.uncovered,
            "files and modules that its program reads elsewhere",
        ],
    }


def _require_consent(yes: bool, name: str, summary: dict[str, Any]) -> None:
    """Ask for confirmation at the terminal, unless ``--yes`` was given.

    Raises:
        Refused: there is no terminal, or the user answers no.
    """
    lines = [
        f"{name} would run here: {summary['command']}",
        *(f"   until {path} changes" for path in summary["covers"]),
        *(f"   not covered: {path}" for path in summary["notCovered"]),
    ]
    agreed = output.consent(yes, lines, "Allow it to run here with your permissions?")
    if agreed is None:
        raise Refused(
            f"Running {summary['command']} for {name} needs your consent at a terminal",
            f"run `memvault tools trust {name}` at a terminal",  # agents must not learn about --yes
        )
    if not agreed:
        raise Refused(f"{name} is not trusted", "answer y to trust it")
