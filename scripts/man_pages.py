"""Manual pages of all commands in man(7) format, generated from the same declarations as help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from memvault import __version__
from memvault.arguments.parameters import Parameter
from memvault.cli.command_line import option_names
from memvault.cli.options import GLOBAL_OPTIONS
from memvault.cli.parameter_help import parameter_help, value_name
from memvault.cli.registry import ShellCommand, find_command
from memvault.command_table import COMMANDS, HELP_GROUPS, Command

_SETTINGS = Path(__file__).resolve().parents[1] / "docs" / "guide" / "settings.md"
_VARIABLE = re.compile(r"^\| (`MEMVAULT_[^|]+) \| (.+) \|$", re.MULTILINE)
"""Matches a row in the documentation's table of environment variables."""
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
_ABOUT = "memory for people and their agents, in a folder of markdown"
_EXIT_CODES = {
    0: "The command succeeded",
    1: "It failed; the message gives the reason, and usually a hint",
    2: "The command line is invalid",
    3: "There is no vault",
    4: "A wait timed out",
    70: "A bug in memvault",
}


def pages() -> dict[str, str]:
    """Return the text of each manual page by its file name, such as ``memvault-recall.1``."""
    found = {"memvault.1": _overview()}
    for entry in COMMANDS:
        command = find_command(entry.words)
        assert command is not None
        found[f"{_page_name(entry.words)}.1"] = _command_page(entry, command)
    return found


def _page_name(words: str) -> str:
    return "-".join(["memvault", *words.split(" ")])


def _overview() -> str:
    """Return the program's page: its commands by group, options, variables, exit codes."""
    lines = [*_head("memvault", _ABOUT), ".SH SYNOPSIS", _bold("memvault"), "COMMAND [OPTIONS]"]
    lines += [
        ".SH DESCRIPTION",
        _text("Each command has a separate page, such as memvault-recall(1)."),
    ]
    for group, heading in HELP_GROUPS.items():
        lines.append(f".SH {_text(heading.upper())}")
        for entry in COMMANDS:
            if entry.group == group:
                lines += [".TP", _bold(entry.words), _text(entry.summary)]
    lines += [".SH OPTIONS", *_global_options()]
    lines += [".SH ENVIRONMENT"]
    for names, meaning in _VARIABLE.findall(_SETTINGS.read_text("utf-8")):
        lines += [".TP", _bold(names.replace("`", "")), _text(_plain(meaning))]
    lines += [".SH EXIT STATUS"]
    for code, meaning in _EXIT_CODES.items():
        lines += [".TP", _bold(str(code)), _text(meaning)]
    return "\n".join(lines) + "\n"


def _command_page(entry: Command, command: ShellCommand) -> str:
    """Return a command's page."""
    parameters = command.shell_parameters
    arguments = [parameter for parameter in parameters if parameter.arg.positional]
    options = [parameter for parameter in parameters if not parameter.arg.positional]
    names = " ".join(value_name(parameter) or "" for parameter in arguments)
    lines = [*_head(_page_name(entry.words), entry.summary), ".SH SYNOPSIS"]
    lines += [_bold(f"memvault {entry.words}"), _text(f"[OPTIONS] {names}".strip())]
    lines += [".SH DESCRIPTION", *_paragraphs(command.doc)]
    if arguments:
        lines.append(".SH ARGUMENTS")
        for parameter in arguments:
            lines += [".TP", _text(value_name(parameter) or ""), _text(parameter_help(parameter))]
    lines.append(".SH OPTIONS")
    for parameter in options:
        lines += [".TP", _option(parameter), _text(parameter_help(parameter))]
    lines += [*_global_options(), ".SH EXAMPLES", ".nf"]
    lines += [*map(_text, command.examples), ".fi", ".SH SEE ALSO", _text("memvault(1)")]
    return "\n".join(lines) + "\n"


def _head(name: str, summary: str) -> list[str]:
    """Return the title line of a page and its section NAME."""
    return [
        f'.TH "{_text(name.upper())}" 1 "" "memvault {__version__}" "memvault"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(summary[:1].lower() + summary[1:])}",
    ]


def _option(parameter: Parameter) -> str:
    """Return the names of an option and of its value."""
    names, negative = option_names(parameter)
    shown = ", ".join([*names[::-1], *filter(None, [negative])])
    value = value_name(parameter)
    return f"\\fB{_text(shown)}\\fP{f' {_text(value)}' if value else ''}"


def _global_options() -> Iterator[str]:
    """Yield the entries of the options that every command accepts."""
    for _, flag, value, meaning in GLOBAL_OPTIONS:
        yield ".TP"
        yield f"\\fB{_text(flag)}\\fP {_text(value)}".rstrip()
        yield _text(meaning)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring as single lines."""
    for paragraph in text.split("\n\n"):
        yield ".PP"
        yield _text(re.sub(r"\s*\n\s*", " ", paragraph))


def _plain(markdown: str) -> str:
    """Return markdown without link and code markup."""
    return _LINK.sub(r"\1", markdown).replace("`", "")


def _bold(text: str) -> str:
    return f"\\fB{_text(text)}\\fP"


def _text(text: str) -> str:
    """Escape a line of text: no leading request, literal backslashes and hyphens."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
