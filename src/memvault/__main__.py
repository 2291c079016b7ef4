"""The command line's entry; what needs no command is answered before one is loaded."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    from memvault.cli.streams import guarded

    given = sys.argv[1:] if arguments is None else arguments
    return guarded(lambda: _run(given))


def _run(given: list[str]) -> int:
    if given in (["--version"], ["-V"]):
        from memvault import __version__

        print(f"memvault {__version__}")
        return 0
    if given in ([], ["--help"], ["-h"]):
        from memvault.cli.overview import overview

        print(overview(), end="")
        return 0
    from memvault.cli.app import run

    return run(given)


if __name__ == "__main__":
    sys.exit(main())
