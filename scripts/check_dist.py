"""Build the distributions, check their contents, and test the wheel in fresh environments.

``make dist`` runs it. The wheel is installed with pip for each Python from 3.11 to 3.14 on this
machine, and with pipx and uv for the current one. Skipped tests are listed; the exit code is 1 only
if a check fails.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MAX_BYTES = 80_000_000
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
NEEDED = (
    "memvault/py.typed",
    "memvault/data/commands.tsv",
    "memvault/data/template/memvault.toml",
    "share/man/man1/memvault-recall.1",
    "share/bash-completion/completions/memvault",
    "licenses/LICENSE",
    "licenses/NOTICE",
)
"""Path endings of files that the wheel must contain."""
UNWANTED = ("__pycache__", ".pyc", "/tests/", ".memvault/", ".mypy_cache", ".hypothesis")
SMOKE = """
set -e
export HOME="$PWD" XDG_CACHE_HOME="$PWD/cache" MEMVAULT_RESIDENT=off
memvault --version
memvault init notes > /dev/null && cd notes
memvault remember "Use PostgreSQL" "Version 17 since March." --type fact > /dev/null
memvault recall "which database" --limit 1 | grep -q "Use PostgreSQL"
memvault forget "Use PostgreSQL" --confirm true > /dev/null
memvault undo > /dev/null
memvault doctor > /dev/null
memvault export ../all.zip > /dev/null
test "$(memvault mcp 2>&1 < /dev/null | grep -c "memvault\\[mcp\\]\\|'.\\[mcp\\]'")" -ge 1
"""
"""The commands that a new user tries first; the last line checks the message about a missing extra.
"""


def run(
    *command: str | Path, folder: Path = ROOT, environment: Mapping[str, str] | None = None
) -> None:
    """Run a program; raises ``CalledProcessError`` if it fails."""
    subprocess.run(
        list(map(str, command)), cwd=folder, env={**os.environ, **(environment or {})}, check=True
    )


def build(target: Path) -> tuple[Path, Path]:
    """Build a wheel and a source distribution, and return their paths."""
    run(
        sys.executable,
        "-m",
        "build",
        "--outdir",
        target,
        environment={"SOURCE_DATE_EPOCH": "1767225600"},
    )
    return next(target.glob("*.whl")), next(target.glob("*.tar.gz"))


def problems_of(wheel: Path, source: Path) -> Iterator[str]:
    """Yield the problems with the contents of the distributions."""
    names = zipfile.ZipFile(wheel).namelist()
    for needed in NEEDED:
        if not any(name.endswith(needed) for name in names):
            yield f"{wheel.name} lacks {needed}"
    with tarfile.open(source) as archive:
        listed = archive.getnames()
    for path, found in ((wheel, names), (source, listed)):
        yield from (
            f"{path.name} has {name}"
            for name in found
            for part in UNWANTED
            if part in f"/{name}" and not (path is source and part == "/tests/")
        )
        if path.stat().st_size > MAX_BYTES:
            yield f"{path.name} has {path.stat().st_size:,} bytes, more than {MAX_BYTES:,}"
    for needed in ("pyproject.toml", "README.md", "tests/conftest.py", "scripts/build_hook.py"):
        if not any(name.endswith(needed) for name in listed):
            yield f"{source.name} lacks {needed}"


def pythons() -> Iterator[tuple[str, str]]:
    """Yield each Python version with its executable, or "" if it is not installed."""
    for version in VERSIONS:
        places = [
            f"python{version}",
            *map(str, Path.home().glob(f".pyenv/versions/{version}*/bin/python")),
        ]
        for place in places:
            asked = "import sys; print('%d.%d' % sys.version_info[:2])"
            done = (
                subprocess.run([place, "-c", asked], capture_output=True, text=True, check=False)
                if shutil.which(place)
                else None
            )
            if done is not None and done.stdout.strip() == version:
                yield version, place
                break
        else:
            yield version, ""


def try_wheel(programs: Path, place: Path) -> None:
    """Run the smoke test with the programs in a folder."""
    place.mkdir()
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    run("bash", "-c", SMOKE, folder=place, environment={"PATH": path})


def main() -> int:
    """Run all checks; return 1 if there is a problem."""
    shutil.rmtree(DIST, ignore_errors=True)
    wheel, source = build(DIST)
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    found = list(problems_of(wheel, source))
    with tempfile.TemporaryDirectory() as folder:
        again, _ = build(Path(folder) / "again")
        if (
            hashlib.sha256(again.read_bytes()).digest()
            != hashlib.sha256(wheel.read_bytes()).digest()
        ):
            found.append("two builds of the wheel differ")
        for version, python in pythons():
            if not python:
                print(f"Python {version}: not found, so not tested")
                continue
            place = Path(folder) / version
            run(python, "-m", "venv", place)
            run(place / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
            try_wheel(place / "bin", Path(folder) / f"try-{version}")
            print(f"Python {version}: installed and tested")
        for tool, command in (
            ("pipx", ("-m", "pipx", "install", "--quiet", wheel)),
            ("uv", ("-m", "uv", "tool", "install", "--quiet", wheel)),
        ):
            own = Path(folder) / tool
            places = {name: str(own) for name in ("PIPX_HOME", "UV_TOOL_DIR")}
            bins = {name: str(own / "programs") for name in ("PIPX_BIN_DIR", "UV_TOOL_BIN_DIR")}
            own_folders = {**places, **bins, "PIPX_MAN_DIR": str(own / "man")}
            run(sys.executable, *command, environment=own_folders)
            try_wheel(own / "programs", Path(folder) / f"try-{tool}")
            print(f"{tool}: installed and tested")
    for problem in found:
        print(f"wrong: {problem}")
    size = wheel.stat().st_size / 1_000_000
    print(f"{wheel.name}: {size:.1f} MB, {source.name}: {source.stat().st_size / 1_000_000:.1f} MB")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
