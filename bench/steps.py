#!/usr/bin/env python3
"""Measure the commands that an agent runs between its steps, and how fast a waiting agent wakes up.

    python bench/steps.py [--runs 15] [--waits 10] [--markdown]

The vault contains the twelve examples, and one agent's 40 key-values, 20 goals, 10 plans and 30
events. Commands run in turn within one loop, together with ``python -c pass``. A wake-up is the
time from just before the delivery of another process's message until the waiting process has ended.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import memvault as library
from processes import PASS, machine, memvault, prepare_environment, process, started, workplace
from table import Finished, Row, Target, caveat, cells, table

WATCHING = 0.8
"""Seconds after which a wait has started to watch its folder, plus a margin."""
LEAST = Target(8, "x", any_size=True)
LONG, SHORT = 4.0, 1.0


def fill(vault: Path) -> None:
    """Create a vault like one that an agent has used for some days."""
    memvault("init", "--examples", str(vault))
    with library.open_vault(vault) as opened:
        call = opened.call
        call("set_memories", memories=[{"key": f"key {n}", "value": f"v {n}"} for n in range(40)])
        call("set_goals", goals=[{"id": f"g{n}", "description": "Reach it"} for n in range(20)])
        daily = [{"name": f"p{n}", "instruction": "Do", "cron": "0 9 * * *"} for n in range(10)]
        call("set_plans", plans=daily)
        for number in range(30):
            call("push_service", name="hook", message=f"event {number}")


def commands(vault: Path, runs: int) -> dict[str, list[Finished]]:
    """Measure the short commands in turn."""
    found: dict[str, list[Finished]] = defaultdict(list)
    here = ("--json", "--vault", str(vault))
    for number in range(runs + 1):
        steps = {
            "goals set": ("goals", "set", "ship", f"Ship version {number}"),
            "memories set": ("memories", "set", f"branch=main-{number}"),
            "memories get": ("memories", "get"),
            "plans get": ("plans", "get"),
            "inbox push": ("inbox", "push", "hook", "another"),
            "inbox peek": ("inbox", "peek"),
            "talk user": ("talk", "user", f"Step {number} is done"),
            "space send": ("space", "send", f"Step {number}"),
            "context": ("context",),
        }
        if not number:
            memvault("space", "enter", "team", *here)
        round_of = {PASS: process([sys.executable, "-c", "pass"])}
        round_of |= {name: memvault(*words, *here) for name, words in steps.items()}
        if number:  # the first round only warms up
            for name, done in round_of.items():
                found[name].append(done)
    return found


def wakes(vault: Path, runs: int) -> list[float]:
    """Return the seconds from an event's delivery to the end of each waiting process."""
    seconds = []
    with library.open_vault(vault, agent="other") as other:
        memvault("talk", "agent", "other", "Begin", "--vault", str(vault))
        for number in range(runs):
            command = [*started(), "wait", "for", "agent:other", "--vault", str(vault)]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as waiting:
                time.sleep(WATCHING)
                start = time.perf_counter()
                other.call("talk_agent", agent="main", message=f"Step {number}")
                waiting.wait()
                seconds.append(time.perf_counter() - start)
    return seconds


def idle(vault: Path) -> float:
    """Return the CPU seconds that one additional second of waiting costs."""
    long, short = (
        memvault("wait", "for", f"time:{t}", "--vault", str(vault)) for t in (LONG, SHORT)
    )
    return max(0.0, long.cpu - short.cpu) / (LONG - SHORT)


def main() -> None:
    """Read the arguments, measure, print the table."""
    parser = argparse.ArgumentParser(description="Measure the commands between an agent's steps")
    parser.add_argument("--runs", type=int, default=15, help="rounds of the loop (%(default)s)")
    parser.add_argument("--waits", type=int, default=10, help="waits that are woken (%(default)s)")
    parser.add_argument("--markdown", action="store_true", help="print a markdown table")
    given = parser.parse_args()
    with workplace(None) as folder:
        prepare_environment(folder / "cache")
        print(machine(), end="\n\n")
        vault = folder / "vault"
        fill(vault)
        found = commands(vault, given.runs)
        rows = [
            Row.of(what, done, None if what in (PASS, "context") else LEAST)
            for what, done in found.items()
        ]
        woken = wakes(vault, given.waits)
        rows.append(Row("wait for, from event to end", woken, target=Target(0.3, any_size=True)))
        rows.append(Row("CPU per second of waiting", [idle(vault)]))
        one = median(rows[0].values)
        lines = [cells(row, one, 0.0, 0) for row in rows]
        print(table(lines, given.markdown) + caveat(rows[0]), flush=True)


if __name__ == "__main__":
    main()
