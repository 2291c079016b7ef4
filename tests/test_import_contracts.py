"""The import contracts of pyproject.toml detect violations."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("importlinter", reason="make layers runs this test")

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
PLANTED = "memvault.clock"
"""A module that may import almost nothing."""


def _violations(contract: dict[str, Any]) -> list[tuple[str, str]]:
    """Return an importing and an imported module for each rule of a contract."""
    if contract["type"] == "forbidden":
        return [(PLANTED, name) for name in contract["forbidden_modules"]]
    if contract["type"] == "protected":
        return [("memvault.recall.query", name) for name in contract["protected_modules"]]
    if contract["type"] == "layers" and contract["containers"] == ["memvault"]:
        return [("memvault.errors", "memvault.recall.query")]
    if contract["type"] == "layers":
        return [("memvault.tools.active_memory", "memvault.tools.daily")]
    return [("memvault.index.folder", "memvault.index.local")]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report on a copy of the source with a violation of each rule."""
    folder = tmp_path_factory.mktemp("planted")
    source = folder / "src/memvault"
    shutil.copytree(
        ROOT / "src/memvault", source, ignore=shutil.ignore_patterns("data", "__pycache__")
    )
    shutil.copy(ROOT / "pyproject.toml", folder)
    for contract in SETTINGS["contracts"]:
        for importer, imported in _violations(contract):
            path = folder / "src" / f"{importer.replace('.', '/')}.py"
            assert path.is_file(), importer
            with path.open("a", encoding="utf-8") as file:
                file.write(f"\nimport {imported}\n")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done
    return done.stdout


@pytest.mark.parametrize("contract", SETTINGS["contracts"], ids=lambda contract: contract["name"])
def test_import_contract_detects_violation(report: str, contract: dict[str, Any]) -> None:
    """A planted violation of each rule of a contract is reported."""
    assert f"{contract['name']} BROKEN" in report
    for importer, imported in _violations(contract):
        if contract["type"] != "acyclic_siblings":  # the report contains only a number
            assert f"{importer} -> {imported} " in report
