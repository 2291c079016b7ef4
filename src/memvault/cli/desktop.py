"""Open URLs and files with the desktop's default applications."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from memvault import process
from memvault.errors import Refused, UsageError
from memvault.files import atomic, temporary_files
from memvault.files.user_folders import enclosing_vault, make_private, user_folder

_OPENERS = ("open",) if sys.platform == "darwin" else ("xdg-open", "wslview")
"""Programs that open a URL or a file with the desktop's default application."""
_REDIRECT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>memvault</title>
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}"></head>
<body><p><a href="{address}">Open the vault</a></p></body></html>
"""


def open_address(url: str, root: Path) -> None:
    """Open a URL with the desktop's default application.

    Raises:
        Refused: no program can open the URL, or the program failed.
    """
    hint = "print the URL with `memvault open --print`"
    if sys.platform == "win32":
        process.open_on_windows(url)
        return
    environment = _environment(root)
    opener = process.find_first(_OPENERS, environment)
    if opener is None:
        raise Refused("No program found that can open obsidian:// links", hint)
    code = process.run_interactive([opener, url], environment)
    if code:
        raise Refused(f"{Path(opener).name} could not open it (exit code {code})", hint)


def open_in_browser(file: Path, root: Path) -> None:
    """Open a file in the program set in BROWSER, or else in the desktop's browser; do not wait.

    Raises:
        OSError: there is no browser, or the browser cannot be started.
    """
    if sys.platform == "win32":
        process.open_on_windows(str(file))
        return
    environment = _environment(root)
    for entry in environment.get("BROWSER", "").split(os.pathsep):
        with contextlib.suppress(UsageError, OSError):
            argv = process.words_of(entry, "BROWSER")
            if argv:
                program = process.find_program(argv[0], None, environment)
                arguments = [word.replace("%s", str(file)) for word in argv[1:]]
                rest = arguments if arguments != argv[1:] else [*arguments, str(file)]
                process.spawn_detached([program, *rest], environment)
                return
    opener = process.find_first(_OPENERS, environment)
    if opener is None:
        raise FileNotFoundError("no program found to open it")
    process.spawn_detached([opener, str(file)], environment)


@contextlib.contextmanager
def redirect_file(address: str) -> Iterator[Path]:
    """Yield a private file that redirects a browser to a URL; delete it afterward.

    Every user on the machine can read a command line, but not the file.

    Raises:
        OSError: there is no state folder outside every vault.
        MemvaultError: the file cannot be written.
    """
    state = user_folder("state")
    if state is None:
        raise FileNotFoundError("there is no state folder")
    folder = Path(os.path.realpath(state)) / "web"
    if enclosing_vault(folder) is not None:
        raise PermissionError("the state folder is in a vault")
    make_private(folder)
    for older in folder.glob("*.html"):  # Delete files left by killed processes.
        if not (older.stem.isdecimal() and temporary_files.is_alive(int(older.stem))):
            older.unlink(missing_ok=True)
    file = folder / f"{os.getpid()}.html"
    try:
        atomic.write(file, _REDIRECT.format(address=address).encode(), private=True)
        yield file
    finally:
        file.unlink(missing_ok=True)


def _environment(root: Path) -> dict[str, str]:
    """Return an environment without programs from a vault or below the current folder.

    Programs that open a URL find other programs through ``PATH`` and start those that ``BROWSER``
    lists. A current folder that contains the home folder is trusted.
    """
    roots = [root]
    with contextlib.suppress(OSError, RuntimeError):
        current = Path.cwd()
        if not Path.home().is_relative_to(current):
            roots.append(current)
    environment = process.environment(*roots)
    browsers = environment.pop("BROWSER", "").split(os.pathsep)
    trusted = [entry for entry in browsers if _is_trusted(entry, environment, roots)]
    return {**environment, "BROWSER": os.pathsep.join(trusted)} if trusted else environment


def _is_trusted(entry: str, environment: dict[str, str], roots: list[Path]) -> bool:
    """Return whether the program of a ``BROWSER`` entry is outside ``roots`` and any vault."""
    try:
        argv = process.words_of(entry, "BROWSER")
        if not argv or ("/" in argv[0] and not argv[0].startswith("/")):
            return False
        program = process.find_program(argv[0], None, environment)
    except UsageError:
        return False
    bases = [os.path.realpath(root) for root in roots]
    for file in (Path(program), Path(os.path.realpath(program))):
        folder = os.path.realpath(file.parent)
        if any(process.is_below(folder, base) for base in bases) or enclosing_vault(Path(folder)):
            return False
    return True
