"""Run memvault as if on another system: without Linux-only modules and functions.

``python emulated_platform.py win32|darwin|linux LINES`` runs the command lines in a JSON list. It
sets ``sys.platform`` and removes modules and functions that are missing on that system; paths and
the file system stay those of this machine. Libraries are imported first, because they select code
by platform.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.process
import concurrent.futures.thread
import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import types
import webbrowser
import zipfile

import numpy as np
import platformdirs.windows
import rich.console
import typer.main

LIBRARIES = (
    *(asyncio, concurrent.futures.process, concurrent.futures.thread, ctypes, np, rich.console),
    *(shutil, sqlite3, subprocess, tempfile, typer.main, webbrowser, zipfile),
)
MISSING_MODULES = {
    "win32": "fcntl resource termios tty pty pwd grp readline syslog".split(),
}
MISSING = {
    "win32": {
        os: "O_NOFOLLOW O_NONBLOCK O_DIRECTORY O_CLOEXEC O_SYNC chown closerange fchmod fork "
        "getegid geteuid getgid getuid getpgid initgroups killpg lchown mkfifo nice openpty "
        "posix_fadvise posix_spawn pread preadv pwrite sched_getaffinity set_blocking setsid "
        "statvfs sync sysconf uname wait4 WNOHANG",
        signal: "SIGALRM SIGHUP SIGIO SIGKILL SIGUSR1 SIGUSR2 ITIMER_REAL alarm setitimer pause",
        socket: "AF_UNIX SCM_RIGHTS SO_PEERCRED recv_fds send_fds",
        select: "poll epoll POLLIN POLLPRI",
    },
    "darwin": {
        os: "O_TMPFILE sched_getaffinity posix_fadvise memfd_create getrandom eventfd pidfd_open",
        socket: "SO_PEERCRED",
        select: "epoll",
    },
}


def emulate(platform: str) -> None:
    """Remove modules and functions missing on a platform, and add Windows locks."""
    for name in MISSING_MODULES.get(platform, ()):
        sys.modules[name] = None  # type: ignore[assignment]  # an import raises an error then
    for module, names in MISSING.get(platform, {}).items():
        for name in names.split():
            vars(module).pop(name, None)
    if platform == "win32":
        os.supports_fd = os.supports_dir_fd = os.supports_follow_symlinks = set()
        sys.modules["msvcrt"] = types.SimpleNamespace(  # type: ignore[assignment]
            LK_NBLCK=2, locking=lambda file, _, __: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        )
        # All other implementations call Windows itself.
        platformdirs.windows.get_win_folder = platformdirs.windows.get_win_folder_from_env_vars
    sys.platform = platform


if __name__ == "__main__":
    emulate(sys.argv[1])
    sys.path.pop(0)
    from memvault.__main__ import main

    for line in json.loads(sys.argv[2]):
        print("$", *line, flush=True)
        print(f"[{main(line)}]", flush=True)
