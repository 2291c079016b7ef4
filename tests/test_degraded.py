"""In limited environments every tool works, or reports the problem in one sentence."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from children import in_child, mount_in_memory
from conftest import (
    ROOT,
    SOAK,
    SUPPORT,
    Run,
    called,
    child,
    examples,
    refused,
    require_time_for_hooks,
    sampled,
    titles,
    without_rights,
    write,
)
from memvault import Vault, clock, open_vault
from memvault.vault.names import normalize_title
from tool_calls import typed

EVERY = [sys.executable, str(SUPPORT / "every_tool.py")]
SHIM = [sys.executable, str(SUPPORT / "without_locks.py"), "ENOLCK", EVERY[1]]
READ_ONLY_HINT = "remount it as writable, or use another folder"
POOR = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
_READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99
cd "$1"; shift; exec "$@"
"""


def _few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))


def every_tool(
    root: Path,
    command: Sequence[str] = EVERY,
    environment: dict[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> dict[str, tuple[bool, dict[str, Any]]]:
    """Call every tool in a separate process; return whether each is read-only, and its result."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests"), str(SUPPORT)])
    done = subprocess.run(
        command,
        cwd=root,
        env={**os.environ, **(environment or {}), "PYTHONPATH": path},
        preexec_fn=before,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode == 99:
        pytest.skip("nothing can be mounted here")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: (reads, result) for name, reads, result in lines}


@pytest.fixture
def root(filled: Path, tmp_path: Path) -> Path:
    """A private vault with sample data."""
    return Path(shutil.copytree(filled, tmp_path / "vault"))


@pytest.fixture(scope="module")
def usual(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outcome of each tool in a normal environment: no error, or the error's code."""
    root = tmp_path_factory.mktemp("usual") / "vault"
    shutil.copytree(filled, root)
    return _ends(every_tool(root))


def _ends(results: dict[str, tuple[bool, dict[str, Any]]]) -> dict[str, str]:
    return {name: found.get("error", {}).get("code", "") for name, (_, found) in results.items()}


@sampled(5)
@pytest.mark.parametrize(
    ("command", "environment", "before"),
    [
        (EVERY, {}, _few_files),
        (EVERY, {"HOME": "/nonexistent", "XDG_CACHE_HOME": "", "XDG_CONFIG_HOME": ""}, None),
        (EVERY, {"TMPDIR": "/nonexistent"}, None),
        (EVERY, POOR, None),
    ],
    ids=["32 open files", "no home", "no temporary folder", "C locale"],
)
@pytest.mark.promise("R57")
def test_tools_work_in_restricted_environment(
    root: Path,
    usual: dict[str, str],
    command: list[str],
    environment: dict[str, str],
    before: Callable[[], None] | None,
) -> None:
    """Tools work with few open files and without a home, a temporary folder or UTF-8."""
    prefix = without_rights() if "HOME" in environment else []
    if prefix:  # without root's privileges, the state folder must be this user's
        environment = {**environment, "XDG_STATE_HOME": ""}
    results = every_tool(root, [*prefix, *command], environment, before)
    assert _ends(results) == usual


@pytest.mark.promise("R61")
def test_vault_without_file_locks_accepts_new_memories_only(
    root: Path, usual: dict[str, str]
) -> None:
    """Without file locks, reading and adding work, and changes are refused with a hint."""
    results = every_tool(root, SHIM)
    for name, (reads, result) in results.items():
        if result["success"] or usual[name] or result["error"]["code"] == "not_found":
            continue  # not found, because an earlier change was refused
        assert not reads, (name, result)
        assert "no file locks" in result["error"]["message"], (name, result)
    assert results["memory_remember"][1]["success"]
    assert not results["memory_compound"][1]["success"]


@pytest.mark.promise("R58")
def test_read_only_disk_allows_reads_and_reports_failed_writes(root: Path) -> None:
    """On a read-only disk, commands that read work and commands that write report the problem."""
    if not shutil.which("unshare") or os.geteuid():
        pytest.skip("only root can mount a folder read-only")
    command = ["unshare", "-m", "sh", "-c", _READ_ONLY, "sh", str(root), *EVERY]
    results = every_tool(root, command)
    for name, (reads, found) in results.items():
        if reads or found["success"]:
            assert found["success"], (name, found)
        elif name.startswith("git_"):
            assert name == "git_sync" or "Read-only file system" in found["error"]["message"]
        elif found["error"]["code"] != "not_found":
            assert found["error"]["code"] == "storage", (name, found)
            assert found["error"]["message"].startswith("The file system is read-only: ")
            taking = name == "peek_inbox"
            hint = (
                "2 events are waiting for a call that can write to the vault"
                if taking
                else READ_ONLY_HINT
            )
            assert found["error"]["hint"] == hint
    assert results["memory_load"][1]["success"]
    assert sum(found["success"] for _, found in results.values()) >= 30


@pytest.mark.promise("R58")
@pytest.mark.parametrize("made", [True, False])
def test_read_only_vault_loads_memories_and_keeps_events(folder: Path, made: bool) -> None:
    """Without write permission, memories load, an empty inbox is empty and events stay in it."""
    weak = without_rights()
    write(folder, "a.md", "# A\n\nzebra\n")
    if made:
        write(folder, "b.md", "# B\n")
        assert child(folder, "load", "b.md").code == 0
    with _read_only(folder):
        if made:  # loading an active memory again writes nothing
            again = child(folder, "load", "b.md", "--json", prefix=weak)
            assert (again.code, again.json.get("warnings")) == (0, None)
        loaded = child(folder, "load", "a.md", "--json", prefix=weak)
        assert (loaded.code, loaded.json["content"]) == (0, "# A\n\nzebra")
        assert "not in active memory" in loaded.json["warnings"][0]
        peeked = child(folder, "inbox", "peek", "--json", prefix=weak)
        assert (peeked.code, peeked.json["events"], peeked.json["remaining"]) == (0, [], 0)
        assert "no plan was run" in peeked.json["warnings"][0]
    assert child(folder, "inbox", "push", "ci", "green").code == 0
    with _read_only(folder):
        peeked = child(folder, "inbox", "peek", prefix=weak)
        assert "Permission denied" in refused(peeked, 1)
        assert "1 event is waiting" in peeked.err
        others = child(folder, "inbox", "peek", "--filter", "talk", "--json", prefix=weak)
        assert (others.code, others.json["remaining"]) == (0, 1)
    assert "green" in child(folder, "inbox", "peek").out


@contextmanager
def _read_only(root: Path) -> Iterator[None]:
    """Remove write permission from everything in a folder for a while."""
    paths = [root, *root.rglob("*")]
    modes = [path.stat().st_mode for path in paths]
    try:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode & ~0o222)
        yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


@pytest.mark.promise("R59")
def test_read_only_home_moves_index(folder: Path, run: Run, tmp_path: Path) -> None:
    """If the home folder is not writable, the index is stored elsewhere and recall still works."""
    weak = without_rights()
    home = tmp_path / "home"
    home.mkdir(mode=0o555)
    write(folder, "a.md", "# A\n\nzebra\n")
    gone = ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    kept = {key: value for key, value in os.environ.items() if key not in gone}
    done = subprocess.run(
        [*weak, sys.executable, "-m", "memvault", "recall", "zebra", "--json"],
        cwd=folder,
        env={**kept, "HOME": str(home), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert titles(json.loads(done.stdout)) == ["A"]


@pytest.mark.promise("R60")
@pytest.mark.parametrize("form", ["--json", "--quiet"])
def test_c_locale_prints_utf8(folder: Path, form: str) -> None:
    """In a C locale, titles, content and errors are printed as UTF-8 in every output format."""
    write(folder, "größe.md", "# Größe\n\nключ 🎉 zebra\n")
    for words in (["recall", "zebra"], ["show", "Größe"], ["list"], ["show", "Weiß nicht"]):
        done = subprocess.run(
            [sys.executable, "-m", "memvault", *words, form],
            cwd=folder,
            env={**os.environ, **POOR},
            capture_output=True,
            check=False,
            timeout=120,
        )
        said = (done.stdout + done.stderr).decode("utf-8")
        assert "Traceback" not in said
        assert ("Größe" if done.returncode == 0 else "Weiß nicht") in said


VARIANTS = st.text("aAéÉжӜ ", min_size=1, max_size=4).filter(str.strip)


@pytest.mark.promise("R63")
@settings(max_examples=examples(15))
@given(st.lists(VARIANTS, min_size=2, max_size=4))
def test_file_names_are_unique_on_any_file_system(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[str]
) -> None:
    """Titles that differ only by case or Unicode composition get distinct files everywhere."""
    root = tmp_path_factory.mktemp("names")
    write(root, "memvault.toml", "version = 1\n")
    with open_vault(root) as vault:
        for title in wanted:
            for entry in (title, title.swapcase(), unicodedata.normalize("NFD", title)):
                called(vault, "memory_remember", title=entry, content="x", memoryType="fact")
        paths = [entry["filePath"] for entry in vault.call("memory_list")["memories"]]
    assert len(paths) == 3 * len(wanted)
    assert len({normalize_title(path) for path in paths}) == len(paths)


@contextmanager
def _shifted(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> Iterator[None]:
    """Set this process's clock; written files still get the system's time."""
    import time

    now, seconds = clock.now, time.time
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: now() + by)
        patch.setattr(time, "time", lambda: seconds() + by.total_seconds())
        yield


@pytest.mark.promise("R64")
@pytest.mark.parametrize("back", [timedelta(seconds=1), timedelta(hours=3), timedelta(days=400)])
def test_clock_set_back_keeps_history_in_order(
    vault: Vault, folder: Path, monkeypatch: pytest.MonkeyPatch, back: timedelta
) -> None:
    """Revisions, log and undo stay in the order of the changes, and recall is never stale."""
    texts = ["wombat", "bilby", "quokka"]
    made = vault.call("memory_remember", title="A", content="numbat", memoryType="fact")
    states = [(folder / made["filePath"]).read_bytes()]
    for number, text in enumerate(texts):
        with _shifted(monkeypatch, -back * number):
            called(vault, "memory_compound", query="A", modifications=text)
            found = vault.call("memory_recall", query=text, type="keyword")
            assert titles(found) == ["A"]
            states.append((folder / made["filePath"]).read_bytes())
    with _shifted(monkeypatch, -back * len(texts)):
        revisions = vault.call("memory_show", memId="A")["revisions"]
        kept = [
            vault.call("memory_show", memId="A", revision=name)["content"] for name in revisions
        ]
        assert [content.split()[-1] for content in kept] == ["numbat", "wombat", "bilby"]
        log = vault.call("memory_log", memId="A")["changes"]
        assert [change["tool"] for change in log] == [*["memory_compound"] * 3, "memory_remember"]
        for state in states[-2::-1]:
            assert vault.call("memory_undo")["success"]
            assert (folder / made["filePath"]).read_bytes() == state
        assert vault.call("memory_undo")["success"]
        assert titles(vault.call("memory_list")) == []


@pytest.mark.promise("R64")
def test_clock_set_back_evicts_oldest_revision(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full history drops its oldest revision, even if the clock was set back by years."""
    write(folder, "memvault.toml", "version = 1\n[history]\nrevisions = 2\n")
    with open_vault(folder) as vault:
        vault.call("memory_remember", title="A", content="numbat", memoryType="fact")
        for number, text in enumerate(["wombat", "bilby", "quokka"]):
            with _shifted(monkeypatch, -timedelta(days=400) * number):
                assert vault.call("memory_compound", query="A", modifications=text)["success"]
        revisions = vault.call("memory_show", memId="A")["revisions"]
        kept = [vault.call("memory_show", memId="A", revision=name) for name in revisions]
        assert [entry["content"].split()[-1] for entry in kept] == ["wombat", "bilby"]
        assert vault.call("memory_undo")["success"]


@pytest.mark.promise("R65")
def test_index_reads_changed_file_with_older_time(vault: Vault, folder: Path) -> None:
    """A file of the same size but with an older modification time is read again on next use."""
    for number, word in enumerate(["wombat", "wumbat", "wimbat"]):
        file = write(folder, "a.md", f"# A\n\n{word}\n")
        os.utime(file, (1_000_000_000 - number, 1_000_000_000 - number))
        assert titles(vault.call("memory_recall", query=word, type="keyword")) == ["A"]


@pytest.mark.skipif(not shutil.which("prlimit"), reason="needs prlimit")
def test_open_file_limit_is_not_reported_as_a_broken_install(folder: Path) -> None:
    """A command that hits the open file limit reports it and does not suggest reinstalling."""
    write(folder, "a.md", "# Zebra\n\nIt sleeps.\n")
    hints = ""
    for number in (5, 6, 7, 8):
        hints += child(folder, "recall", "zebra", prefix=["prlimit", f"--nofile={number}"]).err
    assert "ulimit -n" in hints
    assert "reinstall" not in hints


WRITES = {
    "remember": ["remember", "T", "a zebra"],
    "fact store": ["fact", "store", "a zebra"],
}


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.promise("R92")
@pytest.mark.parametrize("words", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize(("deep", "every"), [("off", 12), ("now", 2)])
def test_write_succeeds_if_cache_is_deleted(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    deep: str,
    every: int,
) -> None:
    """If the cache is deleted at any point of a call, a completed write is still reported."""
    monkeypatch.setenv("MEMVAULT_DEEP", deep)
    write(folder, "a.md", "# A\n\nzebra\n")
    assert typed("--vault", str(folder), "recall", "zebra").code == 0
    cache, kept = tmp_path / "cache", tmp_path / "kept"
    shutil.copytree(cache, kept)

    def counts(event: str, arguments: tuple[Any, ...]) -> bool:
        if deep == "off":
            names = ("open", "os.scandir", "os.rename", "os.remove", "sqlite3.connect")
            return event in names and str(arguments[0]).startswith(f"{cache}/")
        writes = event == "open" and int(arguments[2]) & (os.O_WRONLY | os.O_RDWR)
        is_change = bool(writes) or event == "os.mkdir"
        return is_change and "/deep" in str(arguments[0])  # the vectors of the new text

    def vanishing_at(number: int) -> Any:
        def work() -> tuple[int, int, str]:
            left = number

            def happens(event: str, arguments: tuple[Any, ...]) -> None:
                nonlocal left
                if counts(event, arguments):
                    left -= 1
                    if not left:
                        shutil.rmtree(cache, ignore_errors=True)

            sys.addaudithook(happens)
            ran = typed("--vault", str(folder), "--json", *words)
            return left, ran.code, ran.out + ran.err

        return in_child(work)

    tried = 0
    for number in range(1, 200, 1 if SOAK else every):
        left, code, said = vanishing_at(number)
        assert code == 0, (number, said)
        (made,) = (path for path in folder.rglob("[!.]*/*.md") if ".memvault" not in path.parts)
        made.unlink()
        if left > 0:
            break
        tried += 1
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(kept, cache)
    assert tried >= 2


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.promise("R92")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_remember", {"title": "T", "content": "zebra " * 9_000, "memoryType": ""}),
        ("store_fact", {"fact": "zebra " * 9_000}),
    ],
)
def test_write_is_reported_if_memory_runs_out(
    folder: Path, tool: str, arguments: dict[str, Any]
) -> None:
    """A long-running process that runs out of RAM after writing a file reports the write."""
    for number in range(40):
        write(folder, f"n{number}.md", f"# N{number}\n\n" + f"zebra word{number} " * 500)

    def work() -> list[dict[str, Any]]:
        results, limit = [], -1

        def happens(event: str, given: tuple[Any, ...]) -> None:
            if limit >= 0 and event == "os.link" and str(given[1]).endswith(".md"):
                pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
                most = pages * resource.getpagesize() + limit
                resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

        sys.addaudithook(happens)
        with open_vault(folder) as vault:
            assert vault.call(tool, **arguments)["success"]
            for limit in (0, 0, 0, 1 << 19, 1 << 21):  # noqa: B007  # read where a file is written
                result = vault.call(tool, **arguments)
                resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
                results.append({"success": result["success"], "error": result.get("error")})
        return results

    assert in_child(work) == [{"success": True, "error": None}] * 5


def _full_disk(cache: Path) -> None:
    """Fill the disk that contains the cache."""
    with contextlib.suppress(OSError), (cache / "fill").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4_096))


@pytest.mark.promise("R93")
def test_full_cache_disk_does_not_stop_recall(
    folder: Path, tmp_path: Path, mounting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a full cache disk, recall and the hook still answer; doctor and status report it."""
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    for number in range(12):
        write(folder, f"n{number}.md", f"# Note {number}\n\ncommon zebra word{number}\n")
    cache = tmp_path / "cache"
    cache.mkdir()

    def work() -> list[Any]:
        mount_in_memory(cache, "24m")
        call = ["--vault", str(folder), "--json"]
        with monkeypatch.context() as now:
            now.setenv("MEMVAULT_DEEP", "now")
            assert typed(*call, "recall", "zebra").code == 0
        _full_disk(cache)
        write(folder, "new.md", "# New\n\na new zebra\n")
        found = [typed(*call, *words) for words in (["recall", "new zebra"], ["list"])]
        told = [typed(*call, *words) for words in (["status"], ["doctor"], ["remember", "T", "c"])]
        assert [one.code for one in (*found, *told)] == [0] * 5, (found, told)
        assert found[0].json["memories"][0]["title"] == "New"
        assert any("disk is full" in note for note in told[0].json["warnings"])
        assert [one["code"] for one in told[1].json["findings"]] == ["index-unwritable"]
        hooked = []
        for _ in range(20):
            ran = child(folder, "hook", "prompt", stdin=b'{"prompt": "common zebra word3"}')
            hooked.append(ran.out)
            if "Note 3" in ran.out:
                break
        return [hooked[-1]]

    (answer,) = in_child(work)
    if not answer:
        require_time_for_hooks(folder)
    assert "Note 3" in answer
