#!/usr/bin/env python3
"""Check the repository's text: pages, links, docstrings, promises, versions and generated files."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

import vendor_web_assets
from memvault import __version__

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PERFORMANCE = DOCS / "development" / "performance.md"
SOURCE = ROOT / "src" / "memvault"
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))

Check = Callable[[], Iterator[str]]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """Register a function that yields one sentence for each problem."""
    CHECKS.append(function)
    return function


@check
def generated_files() -> Iterator[str]:
    """Check that the reference, the schema and other generated files are up to date."""
    command = [sys.executable, str(ROOT / "scripts" / "write_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"{done.stdout.strip() or done.stderr.strip()}; run make docs"


@check
def web_libraries() -> Iterator[str]:
    """Check that the libraries of the web pages were bundled from the current sources."""
    text = (vendor_web_assets.TARGET / vendor_web_assets.LICENSES).read_text("utf-8")
    if vendor_web_assets.digest() not in text.partition("\n")[0]:
        yield "scripts/web_assets has changed; run scripts/vendor_web_assets.py"


@check
def docstrings_of_tests() -> Iterator[str]:
    """Check that each test has a docstring that ends with a period."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
                node.name.startswith("test_")
                and not (ast.get_docstring(node) or "").strip().endswith(".")
            ):
                yield f"{path.name}::{node.name} needs a docstring of one sentence"


@check
def file_lengths() -> Iterator[str]:
    """Check that no file except generated ones has more than 700 lines."""
    for folder in ("src", "tests", "scripts", "training", "bench", "fuzz"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            lines = path.read_text("utf-8").splitlines()
            if len(lines) > 700 and "by ``make docs``; do not edit" not in lines[0]:
                yield f"{path.relative_to(ROOT)} has {len(lines)} lines"


@check
def class_names() -> Iterator[str]:
    """Check that no two classes of the package have the same name."""
    files: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(path.relative_to(SOURCE).as_posix())
    for name, paths in files.items():
        if len(paths) > 1:
            yield f"class {name} is defined in {' and '.join(paths)}"


@check
def links() -> Iterator[str]:
    """Check that links between the pages of the documentation exist."""
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("bench/*.md")]
    pages += ROOT.glob("packaging/*.md")
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            if not (page.parent / target).exists():
                yield f"{page.relative_to(ROOT)} links to {target}, which does not exist"


@check
def page_lengths() -> Iterator[str]:
    """Check that README, ARCHITECTURE, each guide and the performance page stay short."""
    limits = {ROOT / "README.md": 1_200, ROOT / "ARCHITECTURE.md": 900}
    limits |= dict.fromkeys((DOCS / "guide").glob("*.md"), 900)
    limits[PERFORMANCE] = 900
    assert len(limits) > 10
    for page, limit in limits.items():
        text = page.read_text("utf-8")
        if page == PERFORMANCE:  # its tables do not count
            text = re.sub(r"(?s)<!-- \w+: written.*?<!-- end -->", "", text)
        if (count := len(text.split())) > limit:
            yield f"{page.relative_to(ROOT)} has {count} words, and may have {limit}"


@check
def plots() -> Iterator[str]:
    """Check that the performance page's plots show the figures of its tables."""
    figures = PERFORMANCE.parent / "performance" / "figures.json"
    digest = hashlib.sha256(figures.read_bytes()).hexdigest()[:16]
    for plot in re.findall(r"\]\((performance/\w+\.svg)\)", PERFORMANCE.read_text("utf-8")):
        if f"<dc:source>{digest}</dc:source>" not in (PERFORMANCE.parent / plot).read_text("utf-8"):
            yield f"{plot} was drawn from other figures; run make performance"


@check
def promises() -> Iterator[str]:
    """Check that each promise of the security and reliability pages has a test."""
    promised = [
        promise
        for page in (DOCS / "guarantees").glob("*.md")
        for promise in re.findall(r"^\| ([SR]\d+) \|", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(promised) > 140
    for promise in {promise for promise in promised if promised.count(promise) > 1}:
        yield f"promise {promise} is made twice"
    tested = {
        promise
        for path in (ROOT / "tests").rglob("test_*.py")
        for marks in re.findall(r"mark\.promise\(([^)]*)\)", path.read_text("utf-8"))
        for promise in re.findall(r'"(\w+)"', marks)
    }
    for promise in sorted(set(promised) - tested):
        yield f"promise {promise} has no test"
    for promise in sorted(tested - set(promised)):
        yield f"a test names the guarantee {promise}, which no page contains"


@check
def install_commands() -> Iterator[str]:
    """Check that no page or hint installs memvault from PyPI, where it is not published."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "plugins").rglob("*.md")]
    by_name = re.compile(r"(pip|pipx|uv tool) install (?:--?[\w-]+ )*'?memvault\b")
    for path in (*pages, *SOURCE.rglob("*.py")):
        if found := by_name.search(path.read_text("utf-8")):
            yield f"{path.relative_to(ROOT)} says {found[0]!r}, which installs nothing yet"


@check
def changelog() -> Iterator[str]:
    """Check that the changelog has a section for this version."""
    if f"## [{__version__}]" not in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        yield f"CHANGELOG.md has no section for {__version__}"


@check
def contributing() -> Iterator[str]:
    """Check that CONTRIBUTING lists only existing make targets, and begins with the main four."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    listed = re.findall(r"^make ([a-z]+)", text.split("```")[1], re.MULTILINE)
    if listed != ["test", "docs", "format", "bench"]:
        yield f"CONTRIBUTING.md begins with make {', '.join(listed)}"
    for target in {*listed, *re.findall(r"`make ([a-z]+)`", text)} - TARGETS:
        yield f"CONTRIBUTING.md lists make {target}, which does not exist"


@check
def workflows() -> Iterator[str]:
    """Check that the workflows run existing targets, with minimal permissions."""
    for file in sorted((ROOT / ".github").rglob("*.yml")):
        text = file.read_text("utf-8")
        content: dict[Any, Any] = yaml.safe_load(text)
        for target in set(re.findall(r"run: make ([a-z]+)", text)) - TARGETS:
            yield f"{file.name} runs make {target}, which does not exist"
        if "jobs" not in content:
            continue
        if content["permissions"] != {"contents": "read"} or "secrets." in text:
            yield f"{file.name} has permissions or secrets that it does not need"
        writers = [name for name, job in content["jobs"].items() if job.get("permissions")]
        if writers != (["publish"] if file.name == "release.yml" else []):
            yield f"in {file.name} these jobs have permissions: {', '.join(writers)}"
        for action in re.findall(r"uses: (\S+)", text):
            if not re.search(r"@[\w./]+$", action):
                yield f"{file.name} uses {action} without a version"


@check
def classifiers() -> Iterator[str]:
    """Check that the package's classifiers match the tested Pythons and systems."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    stated = {text.rpartition(" ")[2] for text in project["classifiers"] if ":: 3." in text}
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text("utf-8"))
    tested = set(workflow["jobs"]["test"]["strategy"]["matrix"]["python"])
    if stated != tested:
        yield f"the classifiers state Python {sorted(stated)}, but {sorted(tested)} are tested"
    systems = [text for text in project["classifiers"] if text.startswith("Operating System")]
    if systems != ["Operating System :: POSIX :: Linux"]:
        yield f"the classifiers state systems that are not tested: {', '.join(systems)}"


def main() -> int:
    """Print each problem; return 1 if there is one."""
    problems = [f"{function.__name__}: {text}" for function in CHECKS for text in function()]
    print("\n".join(problems) or f"{len(CHECKS)} checks of the repository's text: no problem")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
