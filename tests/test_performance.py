"""The benchmark measures the parts that it lists."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import peers
import performance
import sampled
from table import Finished

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "memvault"


def test_benchmark_parts_match_package_files() -> None:
    """Each path prefix that assigns time to a part matches a file of the package."""
    for beginning in sampled.PARTS:
        assert list(PACKAGE.glob(f"{beginning}*")), beginning


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        (
            "numpy/core.py memvault/index/vectors/vector_file.py memvault/recall/recall_engine.py",
            "vectors",
        ),
        ("re/__init__.py memvault/recall/recall_engine.py memvault/index/folder.py", "ranking"),
        ("memvault/index/keyword/keyword_index.py memvault/recall/recall_engine.py", "index"),
        ("memvault/vault/scan.py memvault/index/local/folder_diff.py", "scan"),
        ("memvault/lazy_pattern.py memvault/index/text/analyzer.py", "index"),
        ("memvault/cli/app.py memvault/__main__.py", "output, rest"),
        ("x.py <frozen_importlib> memvault/index/folder.py", "imports"),
        ("memvault/numpy/a.py <frozen_importlib>", "import of numpy"),
        ("index/local/keyword.py", "output, rest"),
    ],
)
def test_benchmark_time_is_assigned_to_calling_part(stack: str, part: str) -> None:
    """Time in a library counts for its caller, and time during an import for the import."""
    files = [f"/lib/{file}" for file in stack.split()]
    files = [file.replace("/lib/<frozen_importlib", "<frozen importlib") for file in files]
    assert sampled.part_of(files) == part


def test_benchmark_sampler_keeps_command_output(folder: Path, tmp_path: Path) -> None:
    """A sampled command prints the same output, and its parts add up to its CPU time."""
    (folder / "fact").mkdir()
    (folder / "fact/a.md").write_text("# A\n\nWombats dig.\n", "utf-8")
    words = ["recall", "wombats", "--vault", str(folder)]
    file = tmp_path / "parts.json"

    def run(*command: str) -> str:
        return subprocess.run(
            [sys.executable, *command, *words], capture_output=True, text=True, check=True
        ).stdout

    run(str(ROOT / "bench" / "bin" / "memvault"))  # creates the index
    plain = run(str(ROOT / "bench" / "bin" / "memvault"))
    assert "Wombats" in plain
    assert run(str(ROOT / "bench" / "sampled.py"), str(file)) == plain
    parts = json.loads(file.read_text("utf-8"))
    assert list(parts) == list(sampled.ALL_PARTS)
    assert all(seconds >= 0 for seconds in parts.values())
    assert parts["interpreter"] > 0
    assert parts["imports"] > 0
    before = os.times()
    done = performance.sampled(performance.Command(words), file)
    used = os.times()
    spent = used.children_user + used.children_system
    spent -= before.children_user + before.children_system
    assert sum(done.values()) == pytest.approx(spent, abs=0.03)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux process clocks")
def test_benchmark_reads_cpu_time_of_another_process() -> None:
    """Another process's computing time is counted, but not its waiting time."""
    line = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"
    with subprocess.Popen(
        [sys.executable, "-c", line + "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(0.01)
        before = performance.process_cpu(process.pid)
        time.sleep(0.1)
        assert 0.2 <= before <= performance.process_cpu(process.pid) < before + 0.05
        process.communicate(b"\n")


def test_benchmark_run_keeps_other_figures(tmp_path: Path) -> None:
    """A run replaces the figures it measured and keeps the rest of the file."""
    file = tmp_path / "figures.json"
    performance.save(file, "1000 quick", {"rounds": 1, "index": {"cpu": 5}})
    performance.save(file, "1000 deep", {"rounds": 1})
    performance.save(file, "1000 quick", {"rounds": 2})
    assert json.loads(file.read_text("utf-8")) == {
        "1000 deep": {"rounds": 1},
        "1000 quick": {"rounds": 2, "index": {"cpu": 5}},
    }


def test_benchmark_peer_query_placeholders() -> None:
    """A peer gets the question as given, as an OR of its words, or as its longest word."""
    folders = {"vault": "/v", "index": "/i"}
    line = ["x", "{vault}", "{index}/db", "{query}", "{any}", "{word}"]
    asked = peers.filled(line, folders, "why use {databases}?")
    assert asked == [
        "x",
        "/v",
        "/i/db",
        "why use {databases}?",
        "why OR use OR databases",
        "databases",
    ]
    steps = [Finished(1.0, 0.5, 10.0, "a"), Finished(2.0, 1.5, 30.0, "b")]
    assert peers.together(steps) == Finished(3.0, 2.0, 30.0, "")
