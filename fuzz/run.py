#!/usr/bin/env python3
"""Fuzz the targets with atheris for any length of time; ``make fuzz`` runs this.

Inputs that reach new code are stored in ``corpus/TARGET``, and failing ones in
``crashes/TARGET-…``, which makes the exit code 1. ``--minimize`` reduces a corpus to short inputs
that reach the same code. Each target runs in a separate process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parent
CRASHES = HERE / "crashes"
_SOURCE = str(HERE.parent / "src")
sys.path[:0] = [str(HERE), _SOURCE]

from targets import NAMES, Target, target  # noqa: E402  # found by the line above

Trace = Callable[[FrameType, str, Any], Any]
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # temporary files in memory
_INSIDE, _MINIMIZE = "--inside", "--minimize"
"""The first is the argument with which this script runs itself for one target."""
_LONGEST = 2_000
"""The maximum number of bytes of an input."""
_LONGEST_KEPT = 400
"""The maximum number of bytes of an input in a minimized corpus."""
_PATIENCE = 20
"""The maximum seconds per input."""


def main() -> int:
    """Fuzz the requested targets, one after another."""
    if sys.argv[1:2] == [_INSIDE]:
        return _fuzz(sys.argv[2], sys.argv[3:])
    options = _parser().parse_args()
    names = options.target or list(NAMES)
    if unknown := set(names) - set(NAMES):
        print(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
        return 2
    broken = [name for name in names if not _run(name, options)]
    if broken:
        print(f"broken: {', '.join(broken)}; the inputs are in {CRASHES.name}/")
    return bool(broken)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", nargs="*", metavar="TARGET", help="the targets to fuzz (all)")
    parser.add_argument("--seconds", type=int, default=0, help="seconds per target")
    parser.add_argument("--runs", type=int, default=0, help="inputs per target")
    parser.add_argument(_MINIMIZE, action="store_true", help="minimize the corpus instead")
    return parser


def _run(name: str, options: argparse.Namespace) -> bool:
    """Fuzz one target in a separate, isolated process; return whether it passed."""
    chosen = target(name)
    chosen.corpus.mkdir(parents=True, exist_ok=True)
    CRASHES.mkdir(exist_ok=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="memvault-fuzz-", dir=_MEMORY) as place:
        environment = {**os.environ, "TMPDIR": place, "MEMVAULT_DEEP": "off"}
        for kind in ("CACHE", "STATE", "CONFIG"):
            environment[f"MEMVAULT_{kind}"] = f"{place}/{kind.lower()}"
        dictionary = Path(place) / "tokens"
        dictionary.write_text(_dictionary(chosen), "utf-8")
        words = [f"-dict={dictionary}", f"-max_len={_LONGEST}", f"-timeout={_PATIENCE}"]
        if options.minimize:
            return _inside(name, [_MINIMIZE], environment) == 0
        words += [f"-artifact_prefix={CRASHES}/{name}-", "-rss_limit_mb=4096"]
        if options.seconds or not options.runs:
            words.append(f"-max_total_time={options.seconds or 60}")
        if options.runs:
            words.append(f"-runs={options.runs}")
        done = _inside(name, [*words, str(chosen.corpus)], environment)
    print(f"{name}: {'held' if done == 0 else 'broken'}, {time.monotonic() - started:.0f} s")
    return done == 0


def _minimize(chosen: Target) -> int:
    """Reduce a target's corpus, smallest inputs first, to those that reach lines in a new order.

    Handwritten inputs, named ``seed``, are kept.
    """
    seen: set[tuple[str, int, int]] = set()

    def entered(frame: FrameType, _event: str, _argument: object) -> Trace | None:
        file, last = frame.f_code.co_filename, 0
        if not file.startswith(_SOURCE):
            return None

        def stepped(frame: FrameType, _event: str, _argument: object) -> Trace:
            nonlocal last
            reached.add((file, last, frame.f_lineno))
            last = frame.f_lineno
            return stepped

        return stepped

    for file in sorted(chosen.corpus.iterdir(), key=lambda one: (one.stat().st_size, one.name)):
        if file.stat().st_size > _LONGEST_KEPT:
            file.unlink()
            continue
        data, reached = file.read_bytes(), set[tuple[str, int, int]]()
        chosen.check(data)  # run once first, to fill caches
        sys.settrace(entered)
        try:
            chosen.check(data)
        finally:
            sys.settrace(None)
        if reached <= seen and not file.name.startswith("seed"):
            file.unlink()
        seen |= reached
    return 0


def _inside(name: str, words: list[str], environment: dict[str, str]) -> int:
    command = [sys.executable, str(Path(__file__).resolve()), _INSIDE, name, *words]
    return subprocess.run(command, env=environment, check=False).returncode


def _dictionary(chosen: Target) -> str:
    """Return a target's tokens in libFuzzer's format."""
    tokens = (token.encode("utf-8", "surrogateescape") for token in chosen.tokens if token)
    lines = ("".join(f"\\x{byte:02x}" for byte in token) for token in tokens)
    return "".join(f'"{line}"\n' for line in lines)


def _fuzz(name: str, words: list[str]) -> int:
    """Run libFuzzer on a target, which ends the process; or minimize its corpus."""
    if words == [_MINIMIZE]:
        return _minimize(target(name))
    import atheris

    with atheris.instrument_imports(include=["memvault"]):
        chosen = target(name)
        for token in ("", *chosen.tokens):  # including lazy imports
            chosen.check(token.encode("utf-8", "surrogateescape"))
        for file in chosen.corpus.glob("*"):
            chosen.check(file.read_bytes())
    atheris.Setup([sys.argv[0], *words], chosen.check)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
