"""Run and measure whole processes from outside, and prepare their environment."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from table import Finished

__all__ = [
    "MAXRSS_UNIT",
    "MEGABYTE",
    "PASS",
    "indexes",
    "machine",
    "memvault",
    "note",
    "prepare_environment",
    "process",
    "started",
    "variables",
    "workplace",
]

MEGABYTE = 1_000_000
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
PASS = "python -c pass"


def prepare_environment(cache: Path) -> None:
    """Set the child processes' environment: no user settings, and no network for models.

    Their indexes (``indexes``) and Python's compiled modules are in ``cache``, because a
    development checkout or a setting may prevent writing them to the usual places. The user's
    settings and state are neither read nor changed. Deep vectors are off unless the user enables
    them, because a background process would be measured too.
    """
    deep = os.environ.get("MEMVAULT_DEEP", "off")
    for key in list(os.environ):
        if key.startswith("MEMVAULT_") or key == "PYTHONDONTWRITEBYTECODE":
            del os.environ[key]
    os.environ.update(
        HF_HUB_OFFLINE="1",
        PYTHONPYCACHEPREFIX=str(cache),
        MEMVAULT_CACHE=str(cache / "memvault"),
        MEMVAULT_CONFIG=str(cache / "config"),
        MEMVAULT_STATE=str(cache / "state"),
        MEMVAULT_DEEP=deep,
        MEMVAULT_RESIDENT="off",
    )


@contextmanager
def variables(**given: str) -> Iterator[None]:
    """Set environment variables of child processes temporarily."""
    before = {name: os.environ[name] for name in given if name in os.environ}
    os.environ.update(given)
    try:
        yield
    finally:
        for name in given:
            del os.environ[name]
        os.environ.update(before)


def indexes() -> Path:
    """Return the folder with the child processes' indexes."""
    return Path(os.environ["MEMVAULT_CACHE"]) / "indexes"


def process(command: list[str], codes: tuple[int, ...] = (0,), given: str = "") -> Finished:
    """Run a command to its end and measure it; ``given`` is its standard input."""
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as complaints,
    ):
        stdin.write(given.encode("utf-8"))
        stdin.seek(0)
        start = time.perf_counter()
        child = subprocess.Popen(command, stdin=stdin, stdout=output, stderr=complaints)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        complaints.seek(0)
        if child.returncode not in codes:
            said = complaints.read().decode("utf-8", "replace").strip()
            sys.exit(f"bench: {' '.join(command[:2])} ended with {child.returncode}: {said}")
        text = output.read().decode("utf-8")
    used = usage.ru_utime + usage.ru_stime
    return Finished(seconds, used, usage.ru_maxrss * MAXRSS_UNIT / MEGABYTE, text)


def memvault(*arguments: str, given: str = "") -> Finished:
    """Run the memvault of this Python; ``given`` is its standard input."""
    return process([*started(), *arguments], given=given)


def started() -> list[str]:
    """Return the first words of a command that runs this Python's memvault.

    It uses a launcher script like that of pip 26. The launcher of earlier versions loads ``re``
    first, which takes 5 ms more in each process.
    """
    return [sys.executable, str(Path(__file__).with_name("bin") / "memvault")]


def machine() -> str:
    """Return a description of this machine that does not include its name."""
    version = memvault("--version").output.strip()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, Python {platform.python_version()}, {platform.platform()}, {version}"


def note(text: str) -> None:
    """Print progress for the user."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def workplace(keep: Path | None) -> Iterator[Path]:
    """Yield a folder for the vaults: the given one, which is kept, or a temporary one."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="memvault-bench-") as folder:
            yield Path(folder)
    else:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
