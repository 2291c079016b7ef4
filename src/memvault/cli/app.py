"""Run a command line, parsed with or without Typer, and handle all errors in one place."""

from __future__ import annotations

import contextlib
import os

from memvault.cli import command_line, output, run_command
from memvault.cli.options import GlobalOptions, scan
from memvault.cli.shutdown import Exit, OutputError, termination_requested
from memvault.errors import MemvaultError, UsageError, to_memvault_error


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code.

    Every error except ``OutputError`` is handled here.
    """
    options = GlobalOptions.from_environment()
    try:
        return _run(arguments, options)
    except Exit as stop:
        return stop.code
    except MemvaultError as error:
        return _report_failure(error, arguments, options)
    except OutputError:
        raise
    except OSError as error:
        return _report_failure(to_memvault_error(error), arguments, options)
    except Exception as error:
        if termination_requested():
            raise
        return _report_failure(_as_memvault_error(error, options), arguments, options)


def _run(arguments: list[str], options: GlobalOptions) -> int:
    line = command_line.parse(arguments)
    if line is None:
        from memvault.cli import typer_app

        line = typer_app.parse(arguments, options)
        if line is None:
            return 0
    options.update(**line.shared)
    run_command.run_command(line.command, line.name, line.values, options)
    return 0


def _report_failure(error: MemvaultError, arguments: list[str], options: GlobalOptions) -> int:
    from memvault.secrets.detector import BUILTIN

    BUILTIN.mask_error(error)
    # An invalid option may have stopped the parser before it reached --json.
    as_json = options.json or scan(arguments).options.get("--json") == ""
    with contextlib.suppress(OutputError):
        output.failure(error, as_json)
    return error.exit_code


def _as_memvault_error(error: Exception, options: GlobalOptions) -> MemvaultError:
    """Convert errors raised by Typer to usage errors, and all others to internal errors.

    With MEMVAULT_DEBUG set, an error that is not Typer's is raised again unchanged.
    """
    message = getattr(error, "format_message", None)
    if callable(message):
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "memvault"
        text = options.unescape_message(str(message())).strip().rstrip(".").replace("\n", " ")
        page = "memvault help --all" if path == "memvault" else f"{path} --help"
        hint = f"see `{page}`"
        if text.startswith("No such option"):
            hint += "; put an argument that starts with - after --"
        return UsageError(text, hint)
    if os.environ.get("MEMVAULT_DEBUG"):
        raise error
    return to_memvault_error(error)
