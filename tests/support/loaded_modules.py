"""The modules that a command loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

LISTING = """
import json, sys
before = set(sys.modules)
from memvault.__main__ import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(json.dumps([code, sorted(set(sys.modules) - before)]), file=sys.stderr)
"""


def all_loaded(folder: Path, *arguments: str) -> set[str]:
    """Run a command in a fresh process; return all modules that it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", LISTING, *arguments],
        cwd=folder,
        env={**os.environ, "XDG_CACHE_HOME": str(folder.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    code, names = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done
    return set(names)
