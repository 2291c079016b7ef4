"""Start the command line, answering simple requests without loading a command."""

from __future__ import annotations

import os
import sys

from memvault import threads
from memvault.cli.daemon.client import end_at_once_on_interrupt, run_in_daemon

_OBJECTS = 100_000
"""The garbage collection threshold: high, because objects created at startup are never freed."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if arguments is None:
        end_at_once_on_interrupt()
        code = run_in_daemon(sys.argv[1:])
        if code is not None:
            os._exit(code)
    import gc

    from memvault.cli.shutdown import exit_process, occupy_standard_descriptors, run_guarded

    if arguments is None:
        gc.set_threshold(_OBJECTS, 20, 20)
        # The matrix products are too small for a second thread, which would spin for 70 ms of CPU
        # time. Not set in os.environ, which child programs inherit.
        if threads.BLAS_THREADS not in os.environ:
            os.putenv(threads.BLAS_THREADS, "1")
            threads.blas_has_one = True
    if arguments is None and sys.getfilesystemencoding() == "ascii":
        # Without UTF-8, a locale cannot represent most file names; Python's UTF-8 mode can. -P:
        # never import a module from the current folder, which may be a vault.
        command = [sys.executable, "-P", "-X", "utf8", "-m", "memvault", *sys.argv[1:]]
        from memvault import process

        process.restart(command)
    if arguments is None:
        occupy_standard_descriptors()
    argv = sys.argv[1:] if arguments is None else arguments
    code = run_guarded(lambda: _run(argv))
    if arguments is None:
        exit_process(code)
        gc.freeze()  # Skips the garbage collection of all modules at exit.
    return code


def _run(argv: list[str]) -> int:
    if not argv and os.isatty(0) and os.isatty(1):
        from memvault.cli.browse import start

        argv = ["browse"] if start.is_default() else argv
    if argv in (["--version"], ["-V"]):
        from memvault import __version__

        print(f"memvault {__version__}")
        return 0
    if argv in ([], ["--help"], ["-h"], ["help"]):
        from memvault.cli.help_pages import colored, overview

        print(colored(overview()), end="")
        return 0
    if argv in (["help", "--all"], ["--help", "--all"]):
        from memvault.cli.help_pages import all_commands_page, colored

        print(colored(all_commands_page()), end="")
        return 0
    if argv[:1] == ["__complete"]:  # Runs on every completion.
        from memvault.cli.complete import main as complete

        return complete(argv[1:])
    if argv[:1] == ["hook"] and not {"-h", "--help"} & set(argv):  # Runs before every prompt.
        from memvault.cli.hook import main as answer

        return answer(argv[1:])
    if argv[:2] == ["git", "merge-file"]:  # Git calls this once per file.
        from memvault.git.driver import main as merge

        return merge(argv[2:])
    from memvault.cli.app import run

    return run(argv)


if __name__ == "__main__":
    sys.exit(main())
