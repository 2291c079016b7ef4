"""Run tools registered in a vault; each is created from its file and runs a program."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memvault import process
from memvault.call import Call
from memvault.errors import MemvaultError, TimedOut, UsageError, Verbatim
from memvault.tools.core.registry import Tool
from memvault.vault_tools import trust
from memvault.vault_tools.definition import FOLDER, ToolDefinition
from memvault.vault_tools.tool_files import ToolFile

GROUP = "registered"
_MAX_OUTPUT = 1_000_000
"""Maximum size in bytes of a tool's output."""
_MAX_REASON = 500
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?", re.IGNORECASE)
_RESERVED_KEYS = ("success", "warnings", "error")


def tool_from_plugin(tool_file: ToolFile) -> Tool:
    """Create the tool defined by a file."""

    def function(call: Call, /, **arguments: Any) -> Mapping[str, Any]:
        return _run_program(call, tool_file, arguments)

    name, description, parameters, *_ = tool_file.definition
    return Tool(
        name,
        name,
        GROUP,
        function,
        read_only=False,
        destructive=True,
        open_world=True,
        own_parameters=parameters,
        reveals=True,  # The output comes from a user's program.
        description=description,
        paged_keys=(),
    )


def _run_program(call: Call, tool_file: ToolFile, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool whose definition is trusted, without blocking other threads."""
    program = trust.require(call.root, tool_file)
    definition = tool_file.definition
    text = _arguments_json(definition, arguments)
    try:
        process_result = process.run(
            _command(program, definition.command[1:]),
            text,
            definition.timeout,
            _MAX_OUTPUT,
            call.root / FOLDER,
            _environment(call),
            call.sleep,
        )
    except UsageError as error:  # The mistake is in the tool's definition, not the caller's.
        message = f"The tool {definition.name} failed: {error.message}"
        raise MemvaultError(message, error.hint) from error
    _check(tool_file, process_result)
    return _result(call, definition, process_result.output)


def _arguments_json(definition: ToolDefinition, arguments: Mapping[str, Any]) -> str:
    """Return the arguments as JSON, with defaults for the missing ones."""
    values = {
        entry.key: arguments.get(entry.name, entry.default) for entry in definition.parameters
    }
    values = {name: value for name, value in values.items() if value is not None}
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(
            f"The arguments of {definition.name} cannot be written as JSON: {error}",
            "use strings, numbers, true, false, lists and objects",
        ) from error


def _command(program: str, rest: tuple[str, ...]) -> list[str]:
    """Return the command line, with ``-P`` for Python."""
    return [program, *(["-P"] if _PYTHON.fullmatch(Path(program).name) else []), *rest]


def _environment(call: Call) -> dict[str, str]:
    # Keep Python from importing modules from the script's folder and writing bytecode to it.
    python = {"PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    variables = {"MEMVAULT_VAULT": str(call.root), "MEMVAULT_AGENT": call.caller.agent}
    return {**process.environment(call.root), **variables, **python}


def _check(tool_file: ToolFile, finished: process.ProcessResult) -> None:
    """Raise an error if the program timed out, printed too much or failed.

    Raises:
        TimedOut: the program did not finish in time.
        MemvaultError: the program printed too much, or its exit code is not 0.
    """
    name = tool_file.definition.name
    if finished.timed_out:
        raise TimedOut(
            f"The tool {name} did not finish within {tool_file.definition.timeout:g} s",
            f"set a longer timeout in {tool_file.path}",
        )
    if finished.truncated:
        raise MemvaultError(
            f"The tool {name} printed more than {_MAX_OUTPUT:,} bytes", "reduce the tool's output"
        )
    if finished.code:
        code = finished.code
        ended = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
        reason = finished.last_error_line[:_MAX_REASON].rstrip(".") or ended
        message = Verbatim(f"The tool {name} failed: {reason}")
        raise MemvaultError(message, f"{ended}; see {tool_file.path}")


def _result(call: Call, definition: ToolDefinition, output: str) -> dict[str, Any]:
    """Convert the output of a tool to its result.

    Raises:
        MemvaultError: the output reports a failure.
    """
    try:
        value = json.loads(output, parse_constant=_reject_constant) if output.strip() else {}
    except (ValueError, RecursionError):
        return {"output": output}
    if not isinstance(value, dict):
        return {"result": value}
    fields = {key: entry for key, entry in value.items() if key not in _RESERVED_KEYS}
    if value.get("success") is False:
        error = value.get("error")
        reason = error.get("message") if isinstance(error, dict) else error
        raise MemvaultError(
            Verbatim(f"The tool {definition.name} failed: {reason or 'no reason given'}"),
            Verbatim(error.get("hint", "")) if isinstance(error, dict) else "",
            {"output": fields} if fields else None,
        )
    warnings = value.get("warnings")
    call.notes += [Verbatim(entry) for entry in (warnings if isinstance(warnings, list) else [])]
    return fields


def _reject_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
