"""The resident process answers like a separate process, and never gets in the way."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from operator import eq
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from conftest import (
    Ran,
    Run,
    child,
    examples,
    is_alive,
    sampled,
    some_of,
    sooner_or_later,
    until,
    write,
)
from copies import Copy
from launcher import launcher_with, start
from memvault.cli.daemon import client
from memvault.cli.daemon.workspace_cache import WorkspaceCache
from memvault.index.local.local_index import LocalIndex
from memvault.tools.core import invoke
from memvault.tools.core.registry import Tool, all_tools
from plain_arguments import try_tool
from test_same_everywhere import objects
from test_transcripts import PAGES, formal, play
from tool_calls import normal, sayable, words

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process needs Linux")

OTHERS = {"wait_for", "model_verify", "memory_random"}
TOOLS = [tool for tool in all_tools() if tool.name not in OTHERS]


class Watching:
    """A resident process for the current environment."""

    def __init__(self) -> None:
        os.environ.pop("MEMVAULT_RESIDENT", None)
        self.folder = Path(client.socket_folder(os.environ))
        self.process = start(["watch"], Path("/"), errors=False)
        until(self.folder.exists)
        until(Path(*client.socket_place(str(self.folder))).exists)

    def status(self) -> dict[str, Any]:
        """Return the process's status."""
        return dict(child(Path("/"), "watch", "--status", "--json").json)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate()

    def answered(self) -> int:
        """Return how many commands it has run."""
        statuses = [self.status()]
        while "commands" not in statuses[-1]:  # a busy machine responds late
            assert len(statuses) < 20
            statuses.append(self.status())
        return int(statuses[-1]["commands"])


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    """A resident process that is stopped at the end of the test."""
    monkeypatch.delenv("MEMVAULT_RESIDENT")
    found = Watching()
    yield found
    found.end()


def both(folder: Path, *line: str, stdin: bytes = b"") -> tuple[Ran, Ran]:
    """Run a command line first without and then through the resident process."""
    os.environ["MEMVAULT_RESIDENT"] = "off"
    try:
        launched = launcher_with().run(line, stdin, folder, 60)
    finally:
        del os.environ["MEMVAULT_RESIDENT"]
    assert launched
    code, out, err = launched
    return Ran(code, out.decode(), err.decode()), child(folder, *line, stdin=stdin)


@sampled(1)
@pytest.mark.promise("R80")
def test_resident_results_equal_standalone_results(
    filled: Path, tmp_path: Path, watching: Watching, run: Run, subtests: pytest.Subtests
) -> None:
    """Output, messages, exit code and files are the same as without the resident process."""
    copy = Copy(filled, tmp_path / "copy")
    root = copy.root

    def same(tool: Tool, data: st.DataObject) -> None:
        line = words(tool, sayable(tool, data.draw(objects(tool.parameters))))
        line += data.draw(st.sampled_from([(), ("--json",), ("--quiet",)]))
        found = []
        for mode in ("off", "auto"):
            copy.put_back()
            os.environ["MEMVAULT_RESIDENT"] = mode
            ran = child(root, *line) if mode == "auto" else run(*line, cwd=root)
            files = {
                path.relative_to(root).as_posix() for path in root.rglob("*.md") if path.is_file()
            }
            shown = [f for f in sorted(files) if not f.startswith(".")]
            found.append((ran.code, formal(str(normal(root, [ran.out, ran.err, shown])))))
        assert found[0] == found[1], line

    answered = watching.answered()
    played = some_of(TOOLS, 8)
    for tool in played:
        with subtests.test(tool=tool.name):
            try_tool(tool, examples(2), same)
    assert watching.answered() > answered + len(played) // 2


@sampled(len(PAGES))
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_resident_output_matches_documentation(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watching: Watching
) -> None:
    """The sessions in the documentation give the same output through the resident process."""
    assert formal(play(page, tmp_path, monkeypatch, None)) == formal(page.read_text("utf-8"))


@pytest.mark.promise("R81")
def test_resident_sees_every_edit(folder: Path, watching: Watching) -> None:
    """An answer includes every change written before the command started."""
    note = folder / "note.md"
    note.write_text("# Note\n\nalpha\n", "utf-8")
    child(folder, "recall", "alpha")
    for number in range(20):
        note.write_text(f"# Note\n\nword{number}x\n", "utf-8")
        ran = child(folder, "recall", f"word{number}x", "--mode", "keyword", "--json")
        assert [found["title"] for found in ran.json["memories"]] == ["Note"], number
        write(folder, f"more/{number}.md", f"# More {number}\n")
        titles = [m["title"] for m in child(folder, "list", "--json").json["memories"]]
        assert f"More {number}" in titles
    assert watching.answered() >= 20  # on a busy machine, clients do not wait


@pytest.mark.promise("R82")
def test_resident_command_works_after_kill(folder: Path, watching: Watching) -> None:
    """After a kill, the next command runs without it, and a new resident process can start."""
    write(Path(os.environ["XDG_CONFIG_HOME"]), "memvault/settings.toml", 'resident = "off"\n')
    child(folder, "remember", "Zebra", "It sleeps.")
    watching.process.kill()
    watching.process.wait()
    assert "Zebra" in child(folder, "recall", "zebra").out
    assert child(folder, "watch", "--status", "--json").json["running"] is False
    assert child(folder, "watch", "--detach").code == 0
    status = child(folder, "watch", "--status", "--json").json
    assert status["running"]
    assert child(folder, "watch", "--stop", "--json").json["stopped"]
    until(lambda: not is_alive(status["process"]))
    assert not child(folder, "watch", "--stop", "--json").json["stopped"]


@pytest.mark.promise("R82")
def test_resident_busy_process_is_bypassed(folder: Path, watching: Watching) -> None:
    """A resident process that does not answer is bypassed and never runs the command later."""
    child(folder, "list")
    os.kill(watching.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    assert child(folder, "remember", "Once", "only").code == 0
    assert time.monotonic() - began < 60
    os.kill(watching.process.pid, signal.SIGCONT)
    assert watching.answered() >= 1
    assert len(child(folder, "list", "--json").json["memories"]) == 1


def test_resident_is_not_started_at_low_priority(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command run with ``nice`` does not start a resident process, which would be slow too."""
    monkeypatch.delenv("MEMVAULT_RESIDENT")
    for _ in range(3):
        child(folder, "recall", "a", prefix=("nice", "-n", "1"))
    assert not child(folder, "watch", "--status", "--json").json["running"]


@pytest.mark.skipif(os.nice(0) != 0, reason="a recall under nice never starts it")
def test_resident_is_started_by_second_recall(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second recall within ten minutes starts the resident process, unless disabled."""
    child(folder, "recall", "a")
    child(folder, "recall", "a")
    monkeypatch.delenv("MEMVAULT_RESIDENT")
    assert not child(folder, "watch", "--status", "--json").json["running"]
    write(Path(os.environ["XDG_CONFIG_HOME"]), "memvault/settings.toml", 'resident = "off"\n')
    for _ in range(3):
        child(folder, "recall", "a")
    assert not child(folder, "watch", "--status", "--json").json["running"]
    write(Path(os.environ["XDG_CONFIG_HOME"]), "memvault/settings.toml", "")
    child(folder, "recall", "a")
    until(lambda: child(folder, "watch", "--status", "--json").json["running"])
    try:
        child(folder, "recall", "a")
        assert child(folder, "watch", "--status", "--json").json["vaults"] == [str(folder)]
    finally:
        assert child(folder, "watch", "--stop").code == 0


def test_resident_survives_deleted_vault(folder: Path, tmp_path: Path, watching: Watching) -> None:
    """A deleted or replaced vault affects only the commands in that vault."""
    write(folder, "a.md", "# Alpha\n")
    assert "Alpha" in child(folder, "list").out
    folder.rename(tmp_path / "gone")
    alone, resident = both(tmp_path, "--vault", str(folder), "list")
    assert (alone.code, alone.err) == (resident.code, resident.err)
    write(folder, "memvault.toml", "version = 1\n")
    write(folder, "b.md", "# Beta\n")
    assert "Beta" in child(folder, "list").out
    assert watching.process.poll() is None


def test_resident_applies_changed_settings(folder: Path, watching: Watching) -> None:
    """Changed settings and environment variables apply to the next command."""
    write(folder, "a.md", "# Alpha\n")
    write(folder, "sub/b.md", "# Beta\n")
    assert "Beta" in child(folder, "list").out
    write(folder, "memvault.toml", 'version = 1\nignore = ["sub/"]\n')
    alone, resident = both(folder, "list")
    assert alone == resident
    assert "Beta" not in resident.out
    os.environ["MEMVAULT_AGENT"] = "bob"
    try:
        assert child(folder, "memories", "set", "k=v").code == 0
        assert "v" in child(folder, "memories", "get").out
    finally:
        del os.environ["MEMVAULT_AGENT"]
    assert "v" not in child(folder, "memories", "get", "--json").json["memories"]


@pytest.mark.parametrize("has_printed", [False, True])
def test_resident_leaves_long_indexing_to_client(
    folder: Path, tmp_path: Path, watching: Watching, has_printed: bool
) -> None:
    """A client indexes large vaults itself, unless its command has already printed something."""
    settings = "version = 1\n[index]\ncharacters = 1000\n"
    write(folder, "memvault.toml", settings)
    for number in range(4):
        write(folder, f"{number}.md", f"# Zebra {number}\n\n" + "zebra crossing\n" * 20_000)
    child(tmp_path, "vaults", "add", "notes", str(folder))
    child(tmp_path, "vaults", "default", "notes")
    line = ["recall", "zebra"] if has_printed else ["recall", "zebra", "--vault", str(folder)]
    ran = child(tmp_path, *line)
    assert (ran.code, "default vault" in ran.err) == (0, has_printed), ran
    assert watching.status()["vaults"] == ([str(folder)] if has_printed else [])
    assert child(tmp_path, *line).out == ran.out
    until(lambda: child(tmp_path, *line).code or watching.status()["vaults"] == [str(folder)])


def test_resident_frees_memory_of_unused_vaults(tmp_path: Path) -> None:
    """Vaults share one model; after their memory is freed, recalls still see every change."""
    roots = [tmp_path / name for name in ("first", "second")]
    for root in roots:
        write(root, "memvault.toml", "version = 1\n")
        write(root, "a.md", "# Alpha\n\nzebra\n")
        write(root, "b.md", "# Beta\n\nzebra\n")
    cache = WorkspaceCache()

    def recalled(root: Path) -> set[str]:
        outcome = invoke.call(cache.open(root), "memory_recall", {"query": "zebra"})
        with outcome:
            return {memory["title"] for memory in outcome.result["memories"]}

    assert [recalled(root) for root in roots] == [{"Alpha", "Beta"}] * 2
    first, second = (cache.open(root).index for root in roots)
    assert isinstance(first, LocalIndex)
    assert isinstance(second, LocalIndex)
    assert first.static.table is second.static.table
    table = weakref.ref(first.static.table)
    cache.free_memory(60.0)
    assert table() is not None
    cache.free_memory(0.0)
    assert table() is None
    assert first.files.opened is None
    assert cache.roots == roots
    write(roots[0], "c.md", "# Gamma\n\nzebra\n")
    (roots[0] / "a.md").unlink()
    write(roots[1], "b.md", "# Delta\n\nzebra\n")
    assert [recalled(root) for root in roots] == [{"Beta", "Gamma"}, {"Alpha", "Delta"}]
    cache.close()


@pytest.mark.parametrize("line", ["recall zebra", "remember New text", "show m1", "forget zebra"])
def test_resident_reports_closed_or_full_output(
    filled: Path, watching: Watching, line: str
) -> None:
    """Unwritable output gives the usual exit code and message, and the process keeps running."""
    command = [sys.executable, "-m", "memvault", *line.split()]
    found = []
    for mode in ("off", "auto"):
        os.environ["MEMVAULT_RESIDENT"] = mode
        reader, closed = os.pipe()
        os.close(reader)
        full = os.open("/dev/full", os.O_WRONLY)
        for target in (full, closed):
            process = subprocess.Popen(command, cwd=filled, stdout=target, stderr=subprocess.PIPE)
            os.close(target)
            _, err = process.communicate(timeout=60)
            undone = rb"(?m)^note: .* reverts (?:that|it)$"
            found.append((process.returncode, re.sub(undone, b"", err)))
    assert found[:2] == found[2:]
    assert watching.process.poll() is None


NOTED = "version = 1\nfuture = true\n"
"""Settings that cause a note after each command."""


@pytest.mark.promise("R80")
@pytest.mark.parametrize("line", ["list", "remember Badgers They-dig", "recall zebra --limit 1"])
def test_resident_keeps_order_of_output_and_notes(
    filled: Path, watching: Watching, line: str
) -> None:
    """If both streams go to one place, they arrive in the order they were written."""
    write(filled, "memvault.toml", NOTED)
    command = [sys.executable, "-m", "memvault", *line.split()]

    def printed_by_the_process() -> str:
        """Return the output, or "" if the machine was too busy for the resident process."""
        before = watching.answered()
        done = subprocess.run(
            command, cwd=filled, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        return done.stdout.decode() if watching.answered() == before + 2 else ""

    printed = sooner_or_later(printed_by_the_process)
    noted = [shown.startswith("note: ") for shown in printed.splitlines()]
    assert any(noted)
    assert not noted[0]
    assert noted == sorted(noted), printed


def is_reading(process: int, pipe: Any) -> bool:
    """Return whether a process has the other end of a pipe as its standard input."""
    theirs = Path(f"/proc/{process}/fd/0").readlink()
    return str(theirs) == f"pipe:[{os.fstat(pipe.fileno()).st_ino}]"


def test_resident_survives_interrupted_command(folder: Path, watching: Watching) -> None:
    """Ctrl-C stops a command that waits for input, and the resident process keeps running."""
    for sent, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)):
        process = reading(folder, watching.process.pid)
        process.send_signal(sent)
        # Its input stays open, because the end of the input would end the command, too. Before it
        # waits for the resident process, SIGTERM ends it as any process.
        assert process.wait(60) in (code, -sent)
        process.communicate()
        assert child(folder, "list", "--json").json["memories"] == []
        assert watching.process.poll() is None


def reading(
    folder: Path, process: int, *options: str, title: str = "Long"
) -> subprocess.Popen[bytes]:
    """Start a command that the resident process runs, and that reads its standard input."""
    command = [sys.executable, "-m", "memvault", "remember", *options, title]
    for _ in range(20):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started = subprocess.Popen(command, cwd=folder, **pipes)  # type: ignore[call-overload]
        until_time = time.monotonic() + 1
        while time.monotonic() < until_time:
            if is_reading(process, started.stdin):
                return started  # type: ignore[no-any-return]
            time.sleep(0.01)
        started.kill()  # on a busy machine, the client ran the command
        started.communicate()
    raise AssertionError("the resident process runs no command")


@pytest.mark.promise("S81")
def test_resident_refuses_other_users_and_versions(folder: Path, watching: Watching) -> None:
    """Only the user can use the socket, and other programs or versions are refused."""
    write(folder, "a.md", "# Alpha\n")
    place = watching.folder / "socket"
    assert (place.stat().st_mode & 0o777, watching.folder.stat().st_mode & 0o777) == (0o600, 0o700)
    answered = watching.answered()
    for message in (
        b"",
        b"\0\0\0\1x",
        b"\xff" * 4,
        client.request(["list"])[3:],
        os.urandom(99),
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            connection.connect(str(place))
            connection.sendall(message)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
    os.environ["PYTHONHASHSEED"] = "1"  # another interpreter would have this setting
    try:
        assert "Alpha" in child(folder, "list").out
    finally:
        del os.environ["PYTHONHASHSEED"]
    assert "Alpha" in child(folder, "list", prefix=["nice"]).out
    watching.folder.chmod(0o755)
    assert "Alpha" in child(folder, "list").out
    watching.folder.chmod(0o700)
    assert watching.answered() == answered + 1


def test_resident_skips_interactive_and_long_commands(folder: Path, watching: Watching) -> None:
    """Commands that wait, serve or set something up run in the client itself."""
    answered = watching.answered()
    assert child(folder, "wait", "for", "hook", "--timeout", "0").code in (0, 2)
    assert child(folder, "init", "--bare", "other").code == 0
    assert child(folder, "--version").code == 0
    assert watching.answered() == answered + 1


def test_resident_prompt_hook_output_is_the_same(folder: Path, watching: Watching) -> None:
    """The prompt hook prints the same output, or nothing if there is nothing to add."""
    write(folder, "a.md", "---\nid: m1\n---\n\n# Zebra crossing\n\nZebras cross at night.\n")
    for prompt in ("When do zebras cross at night?", "unrelated words", "/slash"):
        event = json.dumps({"prompt": prompt}).encode()
        until(lambda event=event: eq(*both(folder, "hook", "prompt", stdin=event)))  # type: ignore[misc]  # a hook that a busy machine delays prints nothing
    assert both(folder, "hook", "prompt", stdin=b"{broken")[1] == Ran(0, "", "")
    assert watching.answered() >= 4


def test_resident_second_process_refuses_to_start(folder: Path, watching: Watching) -> None:
    """A second resident process refuses to start, and the first one keeps running."""
    ran = child(folder, "watch")
    assert (ran.code, "already running" in ran.err) == (1, True)
    assert watching.process.poll() is None


def test_resident_answers_concurrent_commands(folder: Path, watching: Watching) -> None:
    """Each of many concurrent commands gets its own answer."""
    lines = [["remember", f"Note {number}", f"text {number}"] for number in range(8)]
    command = [sys.executable, "-m", "memvault"]
    processes = [
        subprocess.Popen([*command, *line], cwd=folder, stdout=subprocess.PIPE) for line in lines
    ]
    for number, process in enumerate(processes):
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, f"note-{number}".encode() in out) == (0, True)
    assert len(child(folder, "list", "--json").json["memories"]) == 8


def test_resident_fires_due_plans(
    folder: Path, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that comes due while the process runs becomes exactly one event in the inbox."""
    child(folder, "plans", "set", "Report", "Write it", "--run-after", "1 second")
    child(folder, "list")
    inbox = folder / "agents/main/inbox"
    time.sleep(1.2)
    child(folder, "list")  # after this, the process checks for due plans
    until(lambda: inbox.exists() and len(list(inbox.glob("*.md"))) == 1)
    assert "Write it" in child(folder, "inbox", "peek").out


def test_resident_refuses_cache_folder_in_vault(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache folder inside a vault is refused, because the vault may be untrusted."""
    monkeypatch.delenv("MEMVAULT_RESIDENT")
    monkeypatch.setenv("MEMVAULT_CACHE", str(folder / "cache"))
    ran = child(folder, "watch", "--detach")
    assert (ran.code, "is in the vault" in ran.err) == (1, True)
    assert not (folder / "cache/resident").exists()


def blocked(folder: Path, process: int, *line: str) -> subprocess.Popen[bytes]:
    """Start a command in the resident process that waits until its output is read."""
    command = [sys.executable, "-m", "memvault", *line]
    for _ in range(20):
        started = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert started.stdout is not None
        full = select.poll()
        full.register(started.stdout.fileno(), select.POLLIN)
        full.poll(20_000)
        output = Path(f"/proc/{process}/fd/1")
        until(lambda output=output: os.path.lexists(output))  # type: ignore[misc]  # it is replaced
        if output.readlink() != Path(os.devnull):
            return started
        started.communicate(timeout=60)  # on a busy machine, the client ran the command
    raise AssertionError("the resident process runs no command")


@pytest.fixture
def long(folder: Path) -> Path:
    """A vault with a memory that is longer than a pipe's buffer."""
    write(folder, "long.md", "# Long\n\n" + "zebra crossing\n" * 20_000)
    child(folder, "list")
    return folder


@pytest.mark.promise("R82")
@pytest.mark.parametrize("interrupted", [False, True])
def test_resident_command_reports_killed_process(
    long: Path, watching: Watching, interrupted: bool
) -> None:
    """A command that has printed output is not rerun if the resident process is killed."""
    started = blocked(long, watching.process.pid, "show", "Long")
    if interrupted:
        os.kill(watching.process.pid, signal.SIGSTOP)
        started.send_signal(signal.SIGINT)
        time.sleep(0.2)
    watching.process.kill()
    watching.process.wait()
    out, err = started.communicate(timeout=30)
    assert started.returncode == (130 if interrupted else 70), err
    assert len(out) <= 65_536


def test_resident_second_interrupt_ends_client(long: Path, watching: Watching) -> None:
    """A second Ctrl-C stops a command whose resident process no longer answers."""
    started = blocked(long, watching.process.pid, "show", "Long")
    os.kill(watching.process.pid, signal.SIGSTOP)
    started.send_signal(signal.SIGINT)
    time.sleep(0.2)
    started.send_signal(signal.SIGINT)
    assert started.wait(60) == -signal.SIGINT
    assert started.stdout is not None
    assert started.stderr is not None
    started.stdout.close()
    started.stderr.close()


def test_resident_finishes_running_command_before_stop(long: Path, watching: Watching) -> None:
    """When the resident process is asked to stop, it finishes the running command first."""
    started = blocked(long, watching.process.pid, "show", "Long")
    watching.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    out, err = started.communicate(timeout=30)
    assert (started.returncode, err, len(out) > 250_000) == (0, b"", True)
    assert watching.process.wait(60) == 0


def test_resident_closes_inherited_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resident process started in the background does not keep its parent's files open."""
    monkeypatch.delenv("MEMVAULT_RESIDENT")
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "memvault", "watch", "--detach"]
    subprocess.run(command, cwd=folder, pass_fds=[writer], check=True)
    os.close(writer)
    try:
        until(lambda: os.read(reader, 1) == b"")  # the last process has closed it
    finally:
        os.close(reader)
        assert child(folder, "watch", "--stop").code == 0


def test_resident_does_not_leak_descriptor_on_closed_output(long: Path, watching: Watching) -> None:
    """Outputs closed early never leave the resident process with more open files."""
    counts = []
    for _ in range(6):
        started = blocked(long, watching.process.pid, "show", "Long")
        assert started.stdout is not None
        started.stdout.close()
        assert started.wait(60) == 0
        assert started.stderr is not None
        started.stderr.close()
        child(long, "list", "--limit", "1")
        counts.append(len(list(Path(f"/proc/{watching.process.pid}/fd").iterdir())))
    assert counts[-1] <= counts[1] + 2, counts  # the last connection may still be open
