"""Processes stop on request, enforce limits on programs, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import Ran, Run, all_gone, child, is_alive, sampled, until, write
from growth import Steps, check_growth
from launcher import Launcher, Process, start
from memvault.agents.address import Address, agent_lock
from memvault.agents.messages.inbox import Inbox
from memvault.errors import UsageError
from memvault.process import run

PYTHON = sys.executable
CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".tmp", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
if len(sys.argv) > 2:
    sys.exit(0)
time.sleep(600)
"""


def test_process_run_passes_input_and_output() -> None:
    """Standard input, output, error and exit code all arrive, of any size below the limit."""
    code = "import sys; t = sys.stdin.read(); print(len(t)); print('ä', file=sys.stderr); exit(3)"
    ran = run([PYTHON, "-c", code], "x" * 300_000, 60, 1_000)
    assert (ran.code, ran.output, ran.stderr) == (3, "300000\n", "ä\n")
    assert (ran.timed_out, ran.truncated) == (False, False)
    assert run(["true"], "x" * 300_000, 60, 0).code == 0
    assert run([PYTHON, "-c", "print('x' * 99)"], "", 60, 100).output == "x" * 99 + "\n"


def test_process_with_too_much_output_is_killed() -> None:
    """A program is killed one byte above the limit, even if it would print much more."""
    for text in ("print('x' * 100)", "while True: print('x' * 100)"):
        ran = run([PYTHON, "-c", text], "", 60, 100)
        assert (ran.truncated, ran.timed_out, ran.output) == (True, False, "x" * 100)


class GivenUp(Exception):
    """The program is no longer needed."""


def test_process_children_are_killed_with_the_program(tmp_path: Path) -> None:
    """All child processes of a program are killed when it exits or is killed."""
    file, other = tmp_path / "left", tmp_path / "waits"
    assert not run([PYTHON, "-c", CHILD, str(file), "leave"], "", 60, 100).timed_out
    until(lambda: all_gone(file))

    def pause(seconds: float) -> None:
        if other.exists():
            raise GivenUp
        time.sleep(seconds)

    with pytest.raises(GivenUp):
        run([PYTHON, "-c", CHILD, str(other)], "", 60, 100, pause=pause)
    until(lambda: all_gone(other))


def test_process_run_enforces_timeout() -> None:
    """The timeout stops a program that runs too long."""
    assert run(
        [PYTHON, "-c", "import time; print(flush=True); time.sleep(600)"], "", 2, 9
    ).timed_out


@pytest.mark.parametrize("ending", ["sys.exit()", "time.sleep(600)"], ids=["ends", "goes on"])
def test_process_that_left_its_group_with_open_pipes_does_not_block(
    tmp_path: Path, ending: str
) -> None:
    """A child that left the group with the pipes open leaves no thread or open file behind."""
    file = tmp_path / "pid"
    code = f"""
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep, start_new_session=True)
with open({str(file)!r}, "w") as pid:
    pid.write(str(child.pid))
print("said", flush=True)
{ending}
"""
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    try:
        ran = run([PYTHON, "-c", code], "x" * 300_000, 5, 100)
        assert (ran.output, ran.timed_out) == ("said\n", "sleep" in ending)
        assert threading.active_count() == threads
        assert len(os.listdir("/proc/self/fd")) == files
        assert is_alive(int(file.read_text("utf-8")))
    finally:
        os.kill(int(file.read_text("utf-8")), signal.SIGKILL)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signal_terminates_child_processes(
    folder: Path, tmp_path: Path, sent: signal.Signals
) -> None:
    """Ctrl-C and SIGTERM stop memvault, the tool it runs and the tool's own children."""
    file = tmp_path / "pids"
    header = f"description: x\ncommand: [python3, child.py, {file}]"
    write(folder, "tools/child.md", f"---\n{header}\n---\n")
    write(folder, "tools/child.py", CHILD)
    command = [PYTHON, "-m", "memvault"]
    subprocess.run([*command, "tools", "trust", "child", "--yes"], cwd=folder, check=True)
    process = subprocess.Popen([*command, "call", "child"], cwd=folder, stdout=subprocess.PIPE)
    until(file.exists)
    process.send_signal(sent)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + sent, b"")
    until(lambda: all_gone(file))


def test_process_lookup_searches_only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the working directory is never run for a program name without a slash."""
    write(tmp_path, "mine", "#!/bin/sh\necho ran\n").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(UsageError):
        run(["mine"], "", 60, 100, tmp_path)
    assert run(["./mine"], "", 60, 100, tmp_path).output == "ran\n"


def test_process_start_failure_is_reported(tmp_path: Path) -> None:
    """A missing file or one that is not a program is reported in one sentence."""
    write(tmp_path, "text", "no program")
    for command in (["no-such-program"], ["./none"], ["./text"], ["true", "\0"]):
        with pytest.raises(UsageError):
            run(command, "", 60, 100, tmp_path)


def test_process_with_endless_output_does_not_block_threads() -> None:
    """While a program writes endlessly, other threads can still acquire the same lock."""
    turn = threading.Condition()
    turns = 0

    def other() -> None:
        nonlocal turns
        while not over.is_set():
            with turn:
                turns += 1
            time.sleep(0.001)

    over = threading.Event()
    thread = threading.Thread(target=other)
    with turn:
        thread.start()
        code = "import os\nwhile True: os.write(2, b'x' * 65536)"
        ran = run([PYTHON, "-c", code], "", 1, 100, pause=turn.wait)
    over.set()
    thread.join()
    assert (ran.timed_out, len(ran.stderr)) == (True, 64 * 1024)
    assert turns > 20


def test_process_exchange_of_30_mb_is_complete() -> None:
    """A program that echoes 30 MB while reading returns every byte, in linear time."""
    code = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"

    def exchanged(text: str) -> None:
        assert run([PYTHON, "-c", code], text, 60, 40_000_000).output == text

    def work(size: int) -> Steps:
        yield lambda: exchanged("0123456789abcdef" * (size // 16))

    check_growth(work, 8_000_000)


def test_process_may_close_its_pipes_and_continue() -> None:
    """A program may close its input and output and continue to run until it exits."""
    code = "import os, time; [os.close(n) for n in (0, 1, 2)]; time.sleep(0.5); os._exit(7)"
    ran = run([PYTHON, "-c", code], "x" * 300_000, 60, 100)
    assert (ran.code, ran.timed_out, ran.output) == (7, False, "")


def test_process_children_may_write_after_parent_exits() -> None:
    """A child in the program's group has a grace period to write after its parent has exited."""
    code = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3); print('late')"])
"""
    ran = run([PYTHON, "-c", code], "", 60, 100)
    assert (ran.output, ran.timed_out) == ("late\n", False)


SWALLOWING = """
import os, sys, time
from memvault.cli.shutdown import run_guarded
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0.01)
def run():
    Dropped()
    time.sleep(60)
    return 0
sys.exit(run_guarded(run))
"""
BOTH = pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)


@BOTH
def test_process_exits_on_signal_dropped_in_finalizer(sent: signal.Signals, code: int) -> None:
    """Python drops an exception raised in a finalizer, but the process still exits."""
    command = [sys.executable, "-c", SWALLOWING, str(int(sent))]
    process = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (code, b"", b"")


BUSY = """
import sys, threading
from memvault.cli.shutdown import exit_process, run_guarded
def work():
    while True:
        pass
def run():
    threading.Thread(target=work).start()
    print("ready", flush=True)
    threading.Event().wait(60)
    return 0
exit_process(run_guarded(run))
"""


@BOTH
def test_process_with_running_threads_exits_on_signal(sent: signal.Signals, code: int) -> None:
    """A thread that never ends does not keep a terminated process running."""
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(sent)
    try:
        assert process.wait(30) == code
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


WAITING = """
import os, signal, sys, threading, time
from memvault.cli.shutdown import exit_process, run_guarded
from memvault.process import run_interactive
def send():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), int(sys.argv[1]))
    time.sleep(60)
def run():
    threading.Thread(target=send, daemon=True).start()
    command = [sys.executable, "-c", "import time; time.sleep(120)"]
    return run_interactive(command, dict(os.environ))
exit_process(run_guarded(run))
"""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_process_wait_ends_on_signal_to_other_thread(sent: signal.Signals, code: int) -> None:
    """A signal to any thread, as from a closing terminal, ends a wait for an editor."""
    command = [sys.executable, "-c", WAITING, str(int(sent))]
    null = subprocess.DEVNULL
    assert subprocess.run(command, stdout=null, timeout=60, check=False).returncode == code


STARTING = """
import atexit, os, runpy, sys
sent, last, seen = int(sys.argv[1]), int(sys.argv[2]), 0
def hook(event, arguments):
    global seen
    if event == "import":
        seen += 1
        if seen == last:
            os.kill(os.getpid(), sent)
sys.argv = ["memvault", *sys.argv[3:]]
sys.addaudithook(hook)
if not last:
    atexit.register(lambda: print(seen))
runpy.run_module("memvault", run_name="__main__", alter_sys=True)
"""


@BOTH
def test_process_exits_on_signal_during_startup(
    folder: Path, sent: signal.Signals, code: int
) -> None:
    """A signal at any import during startup ends a wait, silently after the first imports."""

    def started(number: int, *words: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", STARTING, str(int(sent)), str(number), *words]
        return subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)

    total = int(started(0, "wait", "for", "time:0").stdout.split()[-1])
    handled = 0
    for number in [*range(2, total, total // 10), total - 1]:
        process = started(number, "wait", "for", "hook:never")
        if handled or process.returncode == code:
            assert (process.returncode, process.stdout, process.stderr) == (code, b"", b""), number
            handled += 1
        assert process.returncode in (code, -sent, 1)
    assert handled >= 8


def test_process_wait_handles_repeated_signals(folder: Path) -> None:
    """Many simultaneous signals stop a process once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "memvault", "wait", "for", "hook:never"], cwd=folder
    )
    time.sleep(0.5)
    for _ in range(5):
        process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) in (143, -signal.SIGTERM)


LEAVING = """
import contextlib, sys, time
from memvault.cli.shutdown import run_guarded
def tidy():
    print("tidying", flush=True)
    for _ in range(50):
        with contextlib.suppress(ZeroDivisionError):
            try:
                1 / 0
            finally:
                time.sleep(0.03)
    print("tidy", flush=True)
@contextlib.contextmanager
def tidied():
    try:
        yield
    finally:
        tidy()
class Tidied:
    def __enter__(self):
        pass
    def __exit__(self, *_):
        tidy()
def finally_():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        tidy()
def caught():
    try:
        print("ready", flush=True)
        time.sleep(60)
    except BaseException:
        tidy()
        raise
def generator():
    with tidied():
        print("ready", flush=True)
        time.sleep(60)
def manager():
    with Tidied():
        print("ready", flush=True)
        time.sleep(60)
def endless():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("tidying", flush=True)
        time.sleep(600)
sys.exit(run_guarded(lambda: globals()[sys.argv[1]]() or 0))
"""


@sampled(3)
@pytest.mark.parametrize("way", ["finally_", "caught", "generator", "manager"])
@BOTH
def test_process_cleanup_survives_second_signal(way: str, sent: signal.Signals, code: int) -> None:
    """Cleanup after a termination signal is completed even if many signals follow."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVING, way], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(sent)
    assert process.stdout.readline() == "tidying\n"
    for again in (signal.SIGINT, signal.SIGTERM, sent):  # cleanup takes 1.5 seconds
        process.send_signal(again)
        time.sleep(0.3)
        assert process.poll() is None
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == ("tidy\n", code)


def test_process_with_endless_cleanup_exits() -> None:
    """A process whose cleanup never finishes still exits."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVING, "endless"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for line in ("tidying\n", ""):
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == line
    assert process.wait(timeout=30) == 143
    process.stdout.close()


@pytest.mark.parametrize("seconds", [0.0, 0.1, 1.0])
def test_process_requeues_events_after_second_signal(folder: Path, seconds: float) -> None:
    """Events that a terminated caller has not received are requeued after a second signal."""
    inbox = Inbox(folder, Address("main"))
    for number in range(3):
        inbox.deliver("service", {"name": "n", "message": "x" * 200_000}, f"event-{number}")
    process = subprocess.Popen(
        [sys.executable, "-m", "memvault", "inbox", "peek", "--count", "3", "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"{", "it writes, and nobody reads on"
    claims = folder / ".memvault/agents/main/leases"
    with agent_lock(folder, Address("main")):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)  # to requeue the events, the process waits for the lock
        process.send_signal(signal.SIGTERM)
        time.sleep(seconds)
        assert process.poll() is None
        assert len(list(claims.glob("*/*.md"))) == 3
    assert process.wait(timeout=30) == 143
    process.stdout.close()
    assert not list(claims.glob("*/*.md"))
    assert len(list(inbox.folder.glob("*.md"))) == 3


@sampled(3)
@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["list", "--json"], b""),
        (["recall", "wombats", "--explain"], b""),
        (["remember"], b""),
        (["remember", "Piped", "-", "--dry-run"], b"caf\xe9"),
        (["show", "no such memory"], b""),
        (["--help"], b""),
        (["recall", "x" * 100_000], b""),
        (["call", "memory_recall", '{"query": "\udcff"}'], b""),
    ],
)
def test_launched_command_behaves_like_new_process(
    folder: Path, launcher: Launcher, arguments: list[str], stdin: bytes
) -> None:
    """A launched command has the same exit code, output and errors as a new Python process."""
    (folder / "fact").mkdir()
    (folder / "fact/a.md").write_text("# A\n\nWombats dig.\n", "utf-8")
    for _ in range(2):  # the first run creates the index
        launched = launcher.run(arguments, stdin, folder, 60)
        assert launched is not None
        code, out, err = launched
        started = child(folder, *arguments, stdin=stdin)
    assert Ran(code, out.decode(), err.decode()) == started


def test_process_launched_command_uses_test_environment(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that a test sets or removes, and its folder, apply to the next command."""
    assert run("list").code == 0
    monkeypatch.setenv("MEMVAULT_VAULT", str(folder / "none"))
    assert run("list").code == 3
    monkeypatch.delenv("MEMVAULT_VAULT")
    assert run("list", cwd=Path("/")).code == 3


@pytest.mark.parametrize(("name", "value"), [("PYTHONUTF8", "0"), ("LC_ALL", "C")])
def test_process_is_not_forked_if_startup_settings_change(
    folder: Path, launcher: Launcher, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """If a variable or limit that Python reads at startup changes, no process is forked."""
    assert launcher.run(["--version"], b"", folder, 60) is not None
    monkeypatch.setenv(name, value)
    assert launcher.run(["--version"], b"", folder, 60) is None


def test_process_launched_command_is_killed_after_timeout(folder: Path) -> None:
    """The test that runs the command fails, and the next command gets a new launcher."""
    launcher = Launcher()
    with pytest.raises(subprocess.TimeoutExpired):
        launcher.run(["wait", "for", "time:60"], b"", folder, 0.5)
    assert launcher.run(["--version"], b"", folder, 60) is not None
    launcher.close()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")
def test_processes_run_concurrently_and_share_nothing(folder: Path, run: Run) -> None:
    """Each process exits independently and has no more open files than a freshly started one."""
    words = ["wait", "for", "hook:never", "--timeout", "60"]
    begun = [start(words, folder), start(words, folder), start(words, folder, fresh=True)]

    def opened(process: Process) -> list[str]:
        with suppress(FileNotFoundError):  # a file was closed during the listing
            links = Path(f"/proc/{process.pid}/fd").iterdir()
            return sorted(str(link.readlink()).partition("[")[0] for link in links)
        return []

    assert run("list").code == 0
    until(lambda: all("anon_inode:inotify" in opened(process) for process in begun))
    until(lambda: opened(begun[0]) == opened(begun[1]) == opened(begun[2]))
    assert [process.poll() for process in begun] == [None] * 3
    for process in begun:
        process.kill()
        assert process.communicate(timeout=60) == (b"", b"")
    assert [process.returncode for process in begun] == [-signal.SIGKILL] * 3


@pytest.mark.parametrize("fresh", [True, False])
def test_process_has_usual_input_output_and_exit_code(folder: Path, fresh: bool) -> None:
    """Input, output and exit code are those of an ordinary Python process."""
    process = start(["remember", "Piped", "-"], folder, fresh=fresh)
    assert process.stdin
    process.stdin.write(b"Wombats dig.")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, b"piped" in out, err) == (0, True, b"")
    process = start(["show", "nothing"], folder, fresh=fresh)
    assert process.wait(60) == 1
    assert b"There is no memory" in process.communicate()[1]
