"""Shell completion scripts, and their installation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from memvault import sanitize
from memvault.arguments.parameters import Arg
from memvault.cli import output
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.errors import Refused, UsageError, suggestion
from memvault.tools.core.render import Template

_BASH = """\
_memvault() {
    mapfile -t COMPREPLY < <(
        COLUMNS=$COLUMNS memvault __complete "bash:$COMP_TYPE" "$COMP_CWORD" "${COMP_WORDS[@]}" \\
            2>/dev/null
    )
}
complete -o default -o nosort -F _memvault memvault
"""
_ZSH = """\
#compdef memvault
_memvault() {
    local -a found
    local word about
    while IFS=$'\\t' read -r word about; do
        found+=("${word//:/\\\\:}${about:+:$about}")
    done < <(memvault __complete zsh $((CURRENT - 1)) "${words[@]}" 2>/dev/null)
    if (( $#found )); then
        _describe -V memvault found
    else
        _files
    fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _memvault memvault
[[ $funcstack[1] == _memvault ]] && _memvault "$@"
"""
_FISH = """\
function __memvault
    set -l before (commandline -opc)
    memvault __complete fish (count $before) $before (commandline -ct) 2>/dev/null
end
complete -c memvault -k -a '(__memvault)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script for each shell; the zsh script can be sourced or autoloaded."""
_MARK = "# completion of memvault"


@command(
    "completion bash",
    ("memvault completion bash", "source <(memvault completion bash)"),
    group="setup",
)
def bash(options: GlobalOptions) -> None:
    """Print the bash completion script for sourcing."""
    output.text(_BASH, options.json)


@command(
    "completion zsh",
    ("memvault completion zsh", "memvault completion zsh > _memvault"),
    group="setup",
)
def zsh(options: GlobalOptions) -> None:
    """Print the zsh completion script for sourcing."""
    output.text(_ZSH, options.json)


@command(
    "completion fish",
    ("memvault completion fish", "memvault completion fish > memvault.fish"),
    group="setup",
)
def fish(options: GlobalOptions) -> None:
    """Print the fish completion script for sourcing."""
    output.text(_FISH, options.json)


def _outcome(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result of ``completion install`` with a sentence that describes the changes."""
    if "diff" in result:
        return result
    verb = "Uninstalled" if result["removed"] else "Installed"
    unchanged = "is not" if result["removed"] else "is already"
    after = "" if result["removed"] else "; it works in new shells"
    shell = result["shell"]
    outcome = (
        f"{verb} the completion for {shell}{after}"
        if result["changed"]
        else f"The completion for {shell} {unchanged} installed"
    )
    return {**result, "outcome": outcome}


@command(
    "completion install",
    ("memvault completion install bash", "memvault completion install bash --remove --yes"),
    view=Template(
        """{outcome}
           {changed:each}
        {diff:diff}""",
        _outcome,
    ),
    group="setup",
)
def install(
    options: GlobalOptions,  # noqa: ARG001  # every command has them
    shell: Annotated[
        str, Arg("The shell (default $SHELL)", positional=True, metavar="bash|zsh|fish")
    ] = "",
    remove: Annotated[bool, Arg("Uninstall it")] = False,
    yes: Annotated[bool, Arg("Write without asking")] = False,
) -> dict[str, Any]:
    """Install completion for bash, zsh or fish; `--remove` uninstalls it.

    This writes the script to your data folder (fish: your configuration folder) and,
    for bash and zsh, adds a line to .bashrc or .zshrc. The default shell is $SHELL. It
    shows the changes and asks; without a terminal it changes nothing unless `--yes` is given.
    """
    name = _resolve_shell(shell or os.environ.get("SHELL", "").rpartition("/")[2])
    file, startup_file = _target_files(name)
    changes = _changes(name, file, startup_file, remove)
    paths = [str(path) for path, _, _ in changes]
    lines = [line for change in changes for line in _shown(*change)]
    question = f"Write {'these files' if len(paths) > 1 else 'this file'}?"
    agreed = output.consent(yes or not paths, lines, question)
    if agreed is None:
        waiting = {"shell": name, "changed": [], "wouldChange": paths, "diff": lines}
        return {**waiting, "message": "Nothing was changed; pass `--yes` to write the files"}
    if not agreed:
        raise Refused("Nothing was changed", "pass `--yes` to skip the question")
    for path, before, data in changes:
        _write(path, before, data)
    return {"shell": name, "changed": paths, "removed": remove}


def _resolve_shell(shell: str) -> str:
    if shell not in SCRIPTS:
        what = f"There is no completion for {shell}" if shell else "The shell cannot be detected"
        raise UsageError(what, suggestion(shell, SCRIPTS, f"use one of {', '.join(SCRIPTS)}"))
    return shell


def _target_files(shell: str) -> tuple[Path, Path | None]:
    """Return the path of the script, and the shell's startup file (None for fish).

    Raises:
        Refused: the user has no home folder.
    """
    try:
        home = Path.home()
    except RuntimeError as error:
        raise Refused(
            "There is no home folder", "save the output of `memvault completion bash` yourself"
        ) from error
    if shell == "fish":
        base = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return base / "fish" / "completions" / "memvault.fish", None
    base = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    folder = Path(os.environ.get("ZDOTDIR") or home) if shell == "zsh" else home
    return base / "memvault" / f"completion.{shell}", folder / f".{shell}rc"


Change = tuple[Path, bytes, bytes | None]
"""A file, and its contents before and after the change; None for a file to delete."""


def _changes(shell: str, file: Path, startup_file: Path | None, remove: bool) -> list[Change]:
    """Return the changes that install a shell's completion, or uninstall it."""
    script = None if remove else SCRIPTS[shell].encode()
    before = file.read_bytes() if file.is_file() else None
    changes: list[Change] = [(file, before or b"", script)] if before != script else []
    if startup_file is not None and (startup_file.is_file() or not remove):
        old = startup_file.read_bytes() if startup_file.is_file() else b""
        line = f"source {sanitize.quote_argument(str(file))} {_MARK}\n".encode()
        new = _without_source_line(old)
        if not remove:
            gap = b"" if not new or new.endswith(b"\n") else b"\n"
            new = old if line in old else new + gap + line
        if new != old:
            changes.append((startup_file, old, new))
    return changes


def _shown(path: Path, before: bytes, after: bytes | None) -> list[str]:
    """Return a change as a diff's lines, with nearby secrets masked."""
    from memvault.integrations.setup import FileEdit, diff

    texts = (None if data is None else data.decode("utf-8", "replace") for data in (before, after))
    return diff(FileEdit(path, *texts)).splitlines()


def _without_source_line(text: bytes) -> bytes:
    """Return the contents of a startup file without the line that loads the script."""
    lines = text.splitlines(keepends=True)
    mark = _MARK.encode()
    is_ours = [line.startswith(b"source ") and line.rstrip().endswith(mark) for line in lines]
    return b"".join(line for line, ours in zip(lines, is_ours, strict=True) if not ours)


def _write(file: Path, before: bytes, data: bytes | None) -> None:
    """Write a user's file unless it has changed since ``before``; delete it if there is no data.

    Symbolic links are followed.
    """
    from memvault.files import atomic

    real = Path(os.path.realpath(file))
    if data is None:
        file.unlink(missing_ok=True)
    elif real.is_file():
        atomic.replace_unchanged(real, before, data)
    else:
        atomic.write(real, data)
