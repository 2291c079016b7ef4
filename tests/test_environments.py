"""The demo and the transcripts have the same output in every environment.

The suite runs a few transcripts with several differences from a fresh machine; ``make
environments`` runs all of them with one difference each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import ROOT, SOAK, soak_only, write
from launcher import Launcher
from test_first_run import play_demo
from test_transcripts import PAGES, formal, play

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no umask")

SHORT = {"far-east": "a-secret", "far-west": "a-visit-to-the-doctor", "build-machine": "a-secret"}
"""Machines, each with the page that the suite runs there: a short one, with notes after results."""

NOTHING_BEHIND = "import os\nos.environ['MEMVAULT_DEEP'] = 'off'\n"
"""Run by Python before each command of the demo; turns off background vector computation."""


SHOWN = "import json, os; print(json.dumps([dict(os.environ), os.umask(0)]))"
ODD = dict(
    variable.split("=")
    for variable in (
        "NO_COLOR=1 COLUMNS=33 LC_ALL=POSIX PYTHONUNBUFFERED=1 TZ=Asia/Tokyo MEMVAULT_JSON=1 "
        "GIT_DIR=/x SURELY_UNKNOWN=1"
    ).split()
)


def test_suite_is_isolated_from_environment() -> None:
    """Tests get only the listed variables, and the usual umask."""
    shell = ["/bin/sh", "-c", 'umask 077; exec "$@" <&-', "sh"]
    done = subprocess.run(
        [
            *shell,
            sys.executable,
            "-c",
            f"import sys; sys.path.append('support'); import conftest; {SHOWN}",
        ],
        cwd=Path(__file__).parent,
        env={**os.environ, **ODD},
        capture_output=True,
        check=True,
    )
    variables, umask = json.loads(done.stdout)
    assert variables["TZ"] != "Asia/Tokyo"
    assert umask == 0o022
    assert not (ODD.keys() - {"TZ"}) & variables.keys()


@pytest.mark.skipif(not (ROOT / ".ci/run").exists(), reason="not in the source distribution")
@pytest.mark.parametrize(
    ("git", "compare", "shown"),
    [
        ("true", "true", ""),
        ("true", "false", "speed not compared: the comparison failed or took too long\n"),
        ("false", "true", "speed not compared: the previous commit is not available\n"),
    ],
    ids=["compared", "failed-comparison", "no-earlier-commit"],
)
def test_environments_ci_is_isolated_and_tolerates_failed_comparison(
    git: str, compare: str, shown: str, tmp_path: Path
) -> None:
    """CI passes only PATH, HOME and LANG to make, and succeeds without the speed comparison."""
    script = f'cd "{tmp_path}"; echo "$1" >> seen; env -0 >> variables'
    write(tmp_path, "make", f'#!/bin/sh\n{script}; [ "$1" != compare ] || {compare}\n').chmod(0o755)
    write(tmp_path, "git", f"#!/bin/sh\n{git}\n").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(ROOT / ".ci/run")],
        env={**os.environ, **ODD, "PATH": path, "CI": "true"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == shown
    variables = (tmp_path / "variables").read_text("utf-8").split("\0")
    names = {line.partition("=")[0] for line in filter(None, variables)}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "LANG"}
    targets = ["clean", "demo", "test", *(["compare"] if git == "true" else [])]
    assert (tmp_path / "seen").read_text("utf-8").split() == targets


class Machine(NamedTuple):
    """Variables that differ from a fresh machine, and how a shell starts a command."""

    variables: str
    shell: str = ""

    @property
    def prefix(self) -> list[str]:
        """Return the program that starts a command."""
        return ["/bin/sh", "-c", self.shell, "sh"] if self.shell else []

    def enter(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Set the variables."""
        for variable in self.variables.split():
            monkeypatch.setenv(*variable.split("=", 1))


TOGETHER = {
    "far-east": Machine(
        "LANG=C PYTHONUTF8=0 PYTHONDONTWRITEBYTECODE=1 TZ=Pacific/Kiritimati COLUMNS=40 NO_COLOR=1",
        'umask 077; exec nice -n 10 "$@" <&-',
    ),
    "far-west": Machine(
        "LC_ALL=C.UTF-8 PYTHONUNBUFFERED=1 TZ=Pacific/Marquesas TERM=xterm-256color FORCE_COLOR=1",
        'umask 002; exec "$@"',
    ),
    "build-machine": Machine(
        "LC_ALL=POSIX PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 TZ=Asia/Kathmandu TERM=dumb CI=true "
        "GITHUB_ACTIONS=true"
    ),
}
"""Combined differences. 9:30 to 10:00 UTC is on the same date in all of these time zones."""
ALONE = {
    **{
        variable: Machine(variable)
        for variable in (
            "LANG=C LC_ALL=C.UTF-8 LC_ALL=POSIX TZ=Pacific/Kiritimati TZ=Pacific/Marquesas "
            "TZ=Europe/Berlin COLUMNS=40 LINES=5 NO_COLOR=1 FORCE_COLOR=1 TERM=xterm-256color "
            "TERM=dumb CI=true GITHUB_ACTIONS=true PAGER=false EDITOR=false PYTHONUNBUFFERED=1 "
            "PYTHONDONTWRITEBYTECODE=1 PYTHONUTF8=0 PYTHONOPTIMIZE=1 PYTHONHASHSEED=1"
        ).split()
    },
    "umask-077": Machine("", 'umask 077; exec "$@"'),
    "umask-002": Machine("", 'umask 002; exec "$@"'),
    "nice": Machine("", 'exec nice -n 10 "$@"'),
    "no-input": Machine("", 'exec "$@" <&-'),
}
"""Values that always differ between environments."""


class _Launchers:
    """Starts commands in one environment after another, with a separate launcher for each."""

    def __init__(self) -> None:
        self._machine: Machine | None = None
        self._launcher = Launcher()

    def of(self, machine: Machine) -> Launcher:
        """Return the launcher for a machine whose variables are set."""
        if machine != self._machine:
            self._launcher.close()
            self._machine, self._launcher = machine, Launcher()
        return self._launcher

    def close(self) -> None:
        """End the last launcher."""
        self._launcher.close()


@pytest.fixture(scope="module")
def launchers() -> Iterator[_Launchers]:
    """Launchers for the tests of this file."""
    launchers = _Launchers()
    yield launchers
    launchers.close()


def _cases() -> Iterator[Any]:
    """Yield each machine and page; most run only in ``make environments``."""
    for name in TOGETHER:
        for page in PAGES:
            marks = () if page.stem == SHORT[name] else soak_only
            yield pytest.param(TOGETHER[name], page, id=f"{page.stem}-{name}", marks=marks)
    for name in ALONE:
        for page in PAGES:
            yield pytest.param(ALONE[name], page, id=f"{page.stem}-{name}", marks=soak_only)


@pytest.mark.parametrize(("machine", "page"), list(_cases()))
def test_documented_sessions_do_not_depend_on_environment(
    machine: Machine,
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    launchers: _Launchers,
) -> None:
    """Locale, time zone, umask, terminal, priority and Python's variables do not affect output."""
    machine.enter(monkeypatch)
    launcher = None
    if SOAK and not machine.shell:  # otherwise, starting it would take longer than a page
        launcher = launchers.of(machine)
    played = play(page, tmp_path, monkeypatch, launcher, machine.prefix)
    assert formal(played) == formal(page.read_text("utf-8"))


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param(machine, id=name, marks=() if name == "far-east" else soak_only)
        for name, machine in (TOGETHER | ALONE).items()
    ],
)
def test_demo_does_not_depend_on_environment(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each environment, the demo run in a fresh copy prints the documented output."""
    machine.enter(monkeypatch)
    done = play_demo(tmp_path, NOTHING_BEHIND, monkeypatch, machine.prefix)
    assert done.returncode == 0, done.stdout
