"""The command line's entry; what needs no command is answered before one is loaded."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

_OBJECTS = 100_000
"""New objects between two looks for rubbish: what start-up makes lives until the end."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # What Python's own handler raises is lost in a callback, and imports run many.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from memvault.cli.shutdown import run_guarded

    if arguments is None:
        # Together a sixth of a short command: most of it went into a last look at every module.
        gc.set_threshold(_OBJECTS, 20, 20)
        atexit.register(gc.freeze)
    if arguments is None and sys.getfilesystemencoding() == "ascii":
        # A locale without UTF-8 cannot spell most file names; Python's own mode can.
        # -P: a module in the present folder, which may be a vault, is none of memvault's.
        command = [sys.executable, "-P", "-X", "utf8", "-m", "memvault", *sys.argv[1:]]
        os.execv(sys.executable, command)  # noqa: S606  # the same program again
    given = sys.argv[1:] if arguments is None else arguments
    return run_guarded(lambda: _run(given))


def _run(given: list[str]) -> int:
    if given in (["--version"], ["-V"]):
        from memvault import __version__

        print(f"memvault {__version__}")
        return 0
    if given in ([], ["--help"], ["-h"], ["help"]):
        from memvault.cli.help_pages import coloured, overview

        print(coloured(overview()), end="")
        return 0
    if given in (["help", "--all"], ["--help", "--all"]):
        from memvault.cli.help_pages import coloured, everything

        print(coloured(everything()), end="")
        return 0
    if given[:1] == ["__complete"]:  # at each key
        from memvault.cli.completion import main as complete

        return complete(given[1:])
    if given[:1] == ["hook"] and not {"-h", "--help"} & set(given):  # before each prompt
        from memvault.cli.hook import main as answer

        return answer(given[1:])
    if given[:2] == ["git", "merge-file"]:  # git runs it once a file
        from memvault.git.driver import main as merge

        return merge(given[2:])
    from memvault.cli.app import run

    return run(given)


if __name__ == "__main__":
    sys.exit(main())
