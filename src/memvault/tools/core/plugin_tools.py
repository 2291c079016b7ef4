"""Tools registered in a vault, created at run time from their files; each runs a program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memvault import process
from memvault.call import Call
from memvault.errors import MemvaultError, TimedOut, UsageError
from memvault.plugins import trust
from memvault.plugins.tool_file import ToolDefinition, ToolFile
from memvault.plugins.trust import PYTHON
from memvault.tools.core.registry import Tool

GROUP = "registered"
_MOST = 1_000_000
"""Maximum number of bytes that a tool may print."""
_LONGEST_LINE = 500
_OURS = ("success", "warnings", "error")


def tool_from_plugin(kept: ToolFile) -> Tool:
    """Create the tool that a file defines."""

    def function(call: Call, /, **given: Any) -> Mapping[str, Any]:
        return _run_program(call, kept, given)

    name, description, parameters, *_ = kept.definition
    return Tool(
        name,
        name,
        GROUP,
        function,
        read_only=False,
        destructive=True,
        open_world=True,
        own_parameters=parameters,
        description=description,
    )


def _run_program(call: Call, kept: ToolFile, given: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool whose definition is trusted; other threads are not blocked meanwhile."""
    program = trust.require(call.root, kept)
    definition = kept.definition
    text = _arguments_json(definition, given)
    try:
        finished = process.run(
            _command(program, definition.command[1:]),
            text,
            definition.timeout,
            _MOST,
            call.root,
            _environment(call),
            call.sleep,
        )
    except UsageError as error:  # a mistake in the tool's definition, not by the caller
        message = f"The tool {definition.name} failed: {error.message}"
        raise MemvaultError(message, error.hint) from error
    _check(kept, finished)
    return _result(call, definition, finished.output)


def _arguments_json(definition: ToolDefinition, given: Mapping[str, Any]) -> str:
    """Return the arguments as JSON, with defaults for the missing ones."""
    whole = {entry.key: given.get(entry.name, entry.default) for entry in definition.parameters}
    whole = {name: value for name, value in whole.items() if value is not None}
    try:
        return json.dumps(whole, ensure_ascii=False, allow_nan=False) + "\n"
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(
            f"The arguments of {definition.name} cannot be written as JSON: {error}",
            "use texts, numbers, true, false, lists and objects",
        ) from error


def _command(program: str, rest: tuple[str, ...]) -> list[str]:
    """Return the command line; Python gets ``-P``, not to import modules next to the script."""
    return [program, *(["-P"] if PYTHON.fullmatch(Path(program).name) else []), *rest]


def _environment(call: Call) -> dict[str, str]:
    # Keep Python from importing modules from the script's folder and writing bytecode to it.
    python = {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    own = {"MEMVAULT_VAULT": str(call.root), "MEMVAULT_AGENT": call.caller.agent}
    return {**process.environment(call.root), **own, **python}


def _check(kept: ToolFile, finished: process.ProcessResult) -> None:
    """Raise an error if the program timed out, printed too much or failed.

    Raises:
        TimedOut: If it did not end in time.
        MemvaultError: If it printed too much, or its exit code is not 0.
    """
    name = kept.definition.name
    if finished.timed_out:
        raise TimedOut(
            f"The tool {name} did not end within {kept.definition.timeout:g} seconds",
            f"a longer timeout can be set in {kept.path}",
        )
    if finished.truncated:
        raise MemvaultError(
            f"The tool {name} printed more than {_MOST:,} bytes", "let it print less"
        )
    if finished.code:
        code = finished.code
        ended = f"exit code {code}" if code > 0 else f"it was ended by signal {-code}"
        reason = finished.last_error_line[:_LONGEST_LINE].rstrip(".") or ended
        raise MemvaultError(f"The tool {name} failed: {reason}", f"{ended}; see {kept.path}")


def _result(call: Call, definition: ToolDefinition, output: str) -> dict[str, Any]:
    """Convert the output of a tool to its result.

    Raises:
        MemvaultError: If the output reports a failure.
    """
    try:
        value = json.loads(output, parse_constant=_refused) if output.strip() else {}
    except (ValueError, RecursionError):
        return {"output": output}
    if not isinstance(value, dict):
        return {"result": value}
    rest = {key: entry for key, entry in value.items() if key not in _OURS}
    if value.get("success") is False:
        error = value.get("error")
        reason = error.get("message") if isinstance(error, dict) else error
        raise MemvaultError(
            f"The tool {definition.name} failed: {reason or 'it gave no reason'}",
            str(error.get("hint", "")) if isinstance(error, dict) else "",
            {"output": rest} if rest else None,
        )
    warnings = value.get("warnings")
    call.notes += [str(entry) for entry in (warnings if isinstance(warnings, list) else [])]
    return rest


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
