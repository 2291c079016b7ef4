"""The resident process and its clients check each other before trusting each other."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import sandboxes
from conftest import SUPPORT, Git, Ran, child, until, write
from test_resident import Watching, blocked, is_reading, reading

if sys.platform != "linux":
    pytest.skip("the process needs Linux", allow_module_level=True)

from memvault.cli.daemon import client, peer_check

_SANDBOX = [sys.executable, str(Path(sandboxes.__file__))]
_OTHER_CLOCK = "import time; now = time.time; time.time = lambda: now() + 86_400"
_RUN = "import sys; from memvault.__main__ import main; sys.exit(main())"


@pytest.fixture
def watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    """A resident process for one test, with its socket in a runtime folder."""
    monkeypatch.delenv("MEMVAULT_RESIDENT")
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    # Like its child processes.
    monkeypatch.setattr(sys, "warnoptions", [os.environ["PYTHONWARNINGS"]])
    found = Watching()
    yield found
    found.end()


def sandbox(kind: str) -> list[str]:
    """Return a function that runs a command in a sandbox."""
    if not sandboxes.is_available(kind):
        pytest.skip(f"this kernel or user has no {kind}")
    return [*_SANDBOX, kind]


@pytest.mark.promise("S81")
@pytest.mark.parametrize("kind", sandboxes.KINDS)
def test_resident_does_not_serve_sandboxed_process(
    kind: str, folder: Path, watching: Watching
) -> None:
    """A command in a sandbox runs there, not with the resident process's permissions."""
    child(folder, "list")
    answered = watching.answered()
    ran = child(folder, "remember", "Escaped", "text", prefix=sandbox(kind))
    assert (ran.code == 0) == (kind == "no_new_privs"), ran
    assert (folder / "context/escaped.md").exists() == (kind == "no_new_privs")
    assert watching.answered() == answered + 1


@pytest.mark.promise("S81")
@pytest.mark.parametrize("kind", sandboxes.KINDS)
def test_resident_in_sandbox_does_not_serve_clients(kind: str, folder: Path) -> None:
    """A resident process in a sandbox serves nobody and is not started if one is detected."""
    os.environ.pop("MEMVAULT_RESIDENT", None)
    command = [*sandbox(kind), sys.executable, "-m", "memvault", "watch"]
    Path(client.socket_folder(os.environ)).mkdir(mode=0o700, parents=True)
    Path(client.socket_folder(os.environ), "lock").touch()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        if kind == "landlock_of_root":
            time.sleep(1)
        else:
            assert b"in a sandbox" in process.communicate(timeout=60)[1]
        child(folder, "remember", "Outside", "text")
        assert (folder / "context/outside.md").exists()
    finally:
        process.kill()
        process.communicate()


_FORGED = """
import os, socket, sys
sys.path.insert(0, {tests!r})
import sandboxes
from memvault.cli.daemon import client, peer_check
def connect():
    connection = socket.socket(socket.AF_UNIX)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    connection.settimeout(2)
    connection.connect({place!r})
    return connection
def forge(connection, descriptor):
    try:
        theirs = peer_check.Process({server}).secret(client.SECRET_DESCRIPTOR)
    except OSError:
        theirs = 1
    connection.sendall(theirs.to_bytes(8, "big") + descriptor.to_bytes(4, "big"))
    number = connection.recv(16)[8:]
    message = client.request(["list"])
    connection.sendall(len(message).to_bytes(4, "big") + number + message)
    return connection.recv(1)
def result(connection, descriptor):
    try:
        return forge(connection, descriptor)
    except OSError as error:
        return str(error).encode()
if {before!r}:
    sandboxes.enter({before!r})
descriptor = {descriptor} or peer_check.keep_secret()[1]
connection = connect()
print(os.getpid(), flush=True)
if {forks}:
    if os.fork():
        input()
        os._exit(0)
    os.close(0)
    os.close(1)
if {after!r}:
    sandboxes.enter({after!r})
with open({go!r}) as go:
    go.read()
os.write({out}, result(connection, descriptor) + b".")
"""


class Forger:
    """A process that connects, and then forges a request, or lets its child do so."""

    def __init__(self, watching: Watching, tmp_path: Path, **values: Any) -> None:
        reader, writer = os.pipe()
        self._out = open(reader, "rb")  # noqa: SIM115
        self._go = tmp_path / "go"
        self._go.unlink(missing_ok=True)
        os.mkfifo(self._go)
        values = {"before": "", "after": "", "descriptor": 0, "forks": True, **values}
        script = _FORGED.format(
            tests=str(SUPPORT),
            place=str(Path(*client.socket_place(str(watching.folder)))),
            server=watching.process.pid,
            go=str(self._go),
            out=writer,
            **values,
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[writer],
        )
        os.close(writer)
        assert self._process.stdout is not None
        self.number = int(self._process.stdout.readline())

    def end_parent(self) -> None:
        """Kill the process that has connected, and keep its child running."""
        self._process.communicate(b"\n", timeout=30)

    def answer(self) -> bytes:
        """Return the answer to the forged request."""
        self._go.write_text("")
        with self._out:
            found = os.read(self._out.fileno(), 999)
        if self._process.poll() is None:
            self.end_parent()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        return found.removesuffix(b".")


@pytest.mark.promise("S81")
@pytest.mark.parametrize("kind", sandboxes.KINDS)
def test_resident_refuses_forged_request_from_sandbox(
    kind: str, tmp_path: Path, watching: Watching
) -> None:
    """A sandboxed program that speaks the protocol itself is also refused."""
    sandbox(kind)
    answer = Forger(watching, tmp_path, before=kind, forks=False).answer()
    assert answer not in (client.READS, client.WRITES)


@pytest.mark.promise("S81")
@pytest.mark.parametrize("after", ["no_new_privs", ""])
def test_resident_refuses_inherited_connection(
    after: str, tmp_path: Path, watching: Watching
) -> None:
    """Data that another process sends over a connection is refused, sandboxed or not."""
    answer = Forger(watching, tmp_path, after=after).answer()
    assert answer not in (client.READS, client.WRITES)
    own = Forger(watching, tmp_path, forks=False).answer()
    assert own == client.READS


@pytest.mark.promise("S81")
def test_resident_refuses_reused_connection_pid(tmp_path: Path, watching: Watching) -> None:
    """A sandboxed process is not served if the pid of its connection was reused by another one."""
    if not os.access("/proc/sys/kernel/ns_last_pid", os.W_OK):
        pytest.skip("only root can choose the number of a process")
    event = os.eventfd(1)  # the other process has it as well
    try:
        for _ in range(10):
            watching.process.send_signal(signal.SIGSTOP)
            forger = Forger(watching, tmp_path, before="no_new_privs", descriptor=event)
            forger.end_parent()
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(forger.number - 1))
            with subprocess.Popen(["sleep", "60"], pass_fds=[event]) as innocent:
                watching.process.send_signal(signal.SIGCONT)
                answer = forger.answer()
                innocent.kill()
            assert answer not in (client.READS, client.WRITES)
            if innocent.pid == forger.number:
                return
    finally:
        os.close(event)
    pytest.skip("another process took the number each time")


def connected(watching: Watching) -> socket.socket:
    """Return a connection to the process."""
    place = Path(*client.socket_place(str(watching.folder)))
    connection = socket.socket(socket.AF_UNIX)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    connection.settimeout(60)
    connection.connect(str(place))
    return connection


def agreed(watching: Watching) -> tuple[socket.socket, bytes]:
    """Return a connection after both sides' checks, and the number to send."""
    connection = connected(watching)
    with peer_check.find_peer(connection) as server:
        return connection, client._agree(connection, server)


def sent(watching: Watching, body: bytes) -> bytes:
    """Return the answer to a request with any content from an accepted process."""
    connection, number = agreed(watching)
    with connection:
        connection.sendall(len(body).to_bytes(4, "big") + number + body)
        with contextlib.suppress(ConnectionError):
            return connection.recv(1 << 16)
    return b""


def body(*texts: str | bytes) -> bytes:
    """Return a request with valid fixed fields."""
    fixed = [client.identity(), str(int(time.time() * 1_000)), "strict", ""]
    return b"\0".join(t if isinstance(t, bytes) else os.fsencode(t) for t in (*fixed, *texts))


@pytest.mark.promise("S92")
def test_resident_survives_malformed_request(folder: Path, watching: Watching) -> None:
    """After a request with any content, the process serves the next one."""
    variables = [f"{n}={v}" for n, v in os.environ.items() if client.is_sent(n)]
    malformed: list[tuple[str | bytes, ...]] = [
        ("9" * 5_000, "list"),
        ("-1", "list"),
        ("٣", "list"),
        ("2", "list"),
        ("", "list"),
        ("1", "list", "OPENAI_API_KEY=x", *variables),
        ("1", "list", "HOME", *variables),
        ("3", "list", "--limit", "9" * 5_000, *variables),
        ("1", b"\xff\xfe", *variables),
        ("0", *variables),
        ("2", "call", "\udcff", *variables),
    ]
    for texts in malformed:
        assert sent(watching, body(*texts))[:1] in (b"", client.LEFT), texts
    for whole in (b"", b"\0" * 99, b"\xff" * 999, body()):
        assert sent(watching, whole)[:1] in (b"", client.LEFT)
    wrong_errors = body("1", "list", *variables).replace(b"\0strict\0", b"\0nonsense\0")
    assert sent(watching, wrong_errors) == b""
    connection, number = agreed(watching)
    with connection:
        connection.sendall(b"\xff" * 4 + number)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""
    connection, number = agreed(watching)
    with connection:
        good = body("1", "list", *variables)
        connection.sendall(len(good).to_bytes(4, "big") + os.urandom(8) + good)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""
    assert sent(watching, body("1", "list", *variables)) == client.READS
    answered = watching.answered()
    child(folder, "list")
    assert watching.answered() == answered + 2


@pytest.mark.promise("S92")
def test_resident_slow_request_does_not_delay_others(folder: Path, watching: Watching) -> None:
    """A request that is sent byte by byte is dropped after a second; others are served."""
    child(folder, "list")
    answered = watching.answered()
    slow, number = agreed(watching)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(slow)
        slow.sendall((1 << 19).to_bytes(4, "big") + number)
        silent = [stack.enter_context(connected(watching)) for _ in range(20)][-1]
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < began + 20:
                slow.sendall(b"x")
                assert child(folder, "list").code == 0
        with contextlib.suppress(ConnectionError):
            assert silent.recv(1) == b""
    assert time.monotonic() < began + 20
    assert watching.answered() > answered  # On a busy machine a command takes a second.


@pytest.mark.promise("S91")
def test_resident_compares_environment_without_sending_secrets(
    folder: Path, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that select programs and folders must be equal; secrets are not sent."""
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-others")
    monkeypatch.setenv("EDITOR", "not-for-others")
    assert b"not-for-others" not in client.request(["list"])
    assert sent(watching, client.request(["list"])) == client.READS
    assert b"\0PATH=" not in client.request(["list"])
    for name in ("MEMVAULT_STATE", "HOME", "LD_PRELOAD", "SUDO_UID", "https_proxy"):
        with monkeypatch.context() as other:
            other.setenv(name, "/other")
            answer = sent(watching, client.request(["list"]))
            assert (answer[:1], name.encode() in answer) == (client.LEFT, True)
    for name, value in (("NO_COLOR", "1"), ("MEMVAULT_AGENT", "bob"), ("TZ", "Asia/Tokyo")):
        with monkeypatch.context() as other:
            other.setenv(name, value)
            assert sent(watching, client.request(["list"])) == client.READS
    answered = watching.answered()
    with monkeypatch.context() as other:
        other.setenv("MEMVAULT_STATE", str(folder.parent / "granted"))
        assert child(folder, "list").code == 0
    assert watching.answered() == answered + 1


@pytest.mark.promise("S91")
def test_resident_variables_last_for_one_command(
    folder: Path, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command's agent and time zone do not carry over to the next command."""
    with monkeypatch.context() as other:
        other.setenv("MEMVAULT_AGENT", "bob")
        other.setenv("TZ", "Pacific/Kiritimati")
        child(folder, "memories", "set", "k=v")
        assert "v" in child(folder, "memories", "get").out
    answered = watching.answered()
    assert child(folder, "memories", "get", "--json").json["memories"] == []
    assert watching.answered() == answered + 2


@pytest.mark.promise("S91")
def test_resident_uses_the_clients_path(
    folder: Path, tmp_path: Path, watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a tool is trusted depends on the command's PATH, not the resident process's."""
    script = write(folder, "counter.sh", "#!/bin/sh\necho '{}'\n")
    script.chmod(0o755)
    program = tmp_path / "bin/counter"
    program.parent.mkdir()
    program.symlink_to(script)  # so that trust covers the script
    definition = {"name": "count", "description": "Counts.", "command": ["counter"]}
    write(folder, "count.json", json.dumps(definition))

    def trusted() -> list[bool]:
        tools = child(folder, "tools", "list", "--json").json["tools"]
        return [tool["trusted"] for tool in tools if "trusted" in tool]

    with monkeypatch.context() as own:
        own.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        assert child(folder, "tools", "register", "count.json").code == 0
        assert child(folder, "tools", "trust", "count", "--yes").code == 0
        assert trusted() == [True]
    assert trusted() == [False]
    assert watching.answered() == 1


@pytest.mark.promise("S91")
def test_resident_never_runs_git_for_a_client(
    folder: Path, tmp_path: Path, watching: Watching, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client itself runs a change that git commits, with all of its variables."""
    write(folder, "memvault.toml", "version = 1\ngit.autocommit = true\n")
    git("vault", "init", "-q")
    hook = write(folder, ".git/hooks/pre-commit", f'#!/bin/sh\necho "$MARK" > {tmp_path}/mark\n')
    hook.chmod(0o755)
    assert child(folder, "git", "init", "--confirm", "true").code == 0
    child(folder, "list")
    answered = watching.answered()
    monkeypatch.setenv("MARK", "mine")
    ran = child(folder, "remember", "Committed", "-", stdin=b"text")
    assert ran.code == 0, ran
    assert (tmp_path / "mark").read_text() == "mine\n"
    assert "text" in child(folder, "show", "Committed").out
    assert watching.answered() == answered + 2


_FAKE = """
import os, socket, sys
sys.path.insert(0, {tests!r})
import sandboxes
from memvault.cli.daemon import peer_check
_, descriptor = peer_check.keep_secret()
if descriptor != 3:
    os.dup2(descriptor, 3)
listener = socket.socket(socket.AF_UNIX)
listener.bind({place!r})
listener.listen()
print(flush=True)
{restrict}
while True:
    connection, _ = listener.accept()
    connection.settimeout(0.5)
    data = connection.recv(12)
    try:
        theirs = peer_check.find_peer(connection).secret(int.from_bytes(data[8:], "big"))
    except OSError:
        theirs = 1
    try:
        connection.sendall(theirs.to_bytes(8, "big") + bytes(8))
        while piece := connection.recv(1 << 16):
            data += piece
    except OSError:
        pass
    print(data.hex(), flush=True)
"""


@pytest.mark.promise("S90")
@pytest.mark.parametrize("kind", sandboxes.KINDS)
def test_resident_cannot_be_impersonated_from_sandbox(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sandboxed process that listens in the cache folder does not receive commands."""
    monkeypatch.delenv("MEMVAULT_RESIDENT")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    sandbox(kind)
    cache = Path(client.socket_folder(os.environ))
    cache.mkdir(mode=0o700, parents=True)
    place = Path(*client.socket_place(str(cache)))
    restrict = f"sandboxes.enter({kind!r})"
    script = _FAKE.format(tests=str(SUPPORT), place=str(place), restrict=restrict)
    fake = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert fake.stdout is not None
        fake.stdout.readline()
        ran = child(folder, "remember", "Private", "confidential", stdin=b"input")
        assert ran.code == 0
        assert (folder / "context/private.md").exists()
        received = bytes.fromhex(fake.stdout.readline())
        assert b"confidential" not in received
        assert len(received) <= 12
        status = child(folder, "watch", "--status", "--json").json
        assert (status["running"], bool(status.get("unused"))) == (True, True)
    finally:
        fake.kill()
        fake.communicate()
        place.unlink()


@pytest.mark.promise("S90")
def test_resident_socket_is_in_runtime_folder(
    folder: Path, tmp_path: Path, watching: Watching
) -> None:
    """The socket is in a folder where a sandbox with a writable cache can't replace it."""
    (found,) = (tmp_path / "runtime").iterdir()
    assert found.is_socket()
    assert found.stat().st_mode & 0o777 == 0o600
    assert not (watching.folder / "socket").exists()
    child(folder, "list")
    assert watching.answered() == 2
    os.environ["XDG_CACHE_HOME"] += "/other"  # another cache folder, another process
    assert not child(folder, "watch", "--status", "--json").json["running"]


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_resident_ignores_runtime_folder_open_to_others(mode: int, tmp_path: Path) -> None:
    """No socket is created in a runtime folder that others can access."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    runtime.chmod(mode)
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    try:
        assert client.socket_place(str(tmp_path))[0] != str(runtime)
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


def limited(*limits: str) -> Sequence[str]:
    """Return a command prefix that runs a program with different limits."""
    if not shutil.which("prlimit"):
        pytest.skip("there is no prlimit")
    return ["prlimit", *limits]


def test_resident_rejects_process_with_other_file_limit(folder: Path, watching: Watching) -> None:
    """A process with a different open file limit runs its commands itself."""
    child(folder, "list")
    answered = watching.answered()
    assert child(folder, "list", prefix=limited("--nofile=300")).code == 0
    status = child(folder, "watch", "--status", "--json", prefix=limited("--nofile=300")).json
    assert "limits" in status["unused"]
    assert watching.answered() == answered + 1


def test_resident_with_few_descriptors_is_not_started(folder: Path) -> None:
    """A process with a low open file limit does not become a resident process."""
    ran = child(folder, "watch", prefix=limited("--nofile=64"))
    assert (ran.code, "256 open files" in ran.err, "ulimit -n 256" in ran.err) == (1, True, True)


@pytest.mark.parametrize("descriptors", [5, 12])
def test_resident_closes_client_output_when_out_of_descriptors(
    descriptors: int, folder: Path, watching: Watching
) -> None:
    """A finished command's output is closed, however few files may be open."""
    write(folder, "long.md", "# Long\n\n" + "zebra crossing\n" * 20_000)
    child(folder, "list")
    started = blocked(folder, watching.process.pid, "show", "Long")
    bound = (descriptors, descriptors)
    resource.prlimit(watching.process.pid, resource.RLIMIT_NOFILE, bound)
    out, err = started.communicate(timeout=30)
    assert (started.returncode, err, len(out) > 250_000) == (0, b"", True)
    assert "Long" in child(folder, "list").out
    watching.process.wait(30)  # without descriptors, it exits


def test_resident_killed_process_is_reported_as_json(folder: Path, watching: Watching) -> None:
    """With ``--json`` a command whose resident process is killed prints a failed result."""
    started = reading(folder, watching.process.pid, "--json")
    watching.process.kill()
    watching.process.wait()
    out, err = started.communicate(timeout=30)
    assert (started.returncode, err) == (70, b"")
    error = json.loads(out)["error"]
    assert "resident process died" in error["message"]
    assert child(folder, "list", "--json").json["memories"] == []


def test_resident_ignores_json_option_after_double_dash(folder: Path, watching: Watching) -> None:
    """If its resident process is killed, a command with ``--json`` after ``--`` prints text."""
    started = reading(folder, watching.process.pid, "--", title="--json")
    watching.process.kill()
    watching.process.wait()
    out, err = started.communicate(timeout=30)
    assert (started.returncode, out) == (70, b"")
    assert err.startswith(b"error: The resident process died")


@pytest.mark.parametrize("side", ["client", "server"])
def test_resident_with_other_system_time_is_not_used(
    side: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command is never run by a process with a different system time."""
    monkeypatch.delenv("MEMVAULT_RESIDENT")
    code = {side: f"{_OTHER_CLOCK}; {_RUN}"}
    server = [sys.executable, "-c", code.get("server", _RUN), "watch"]
    process = subprocess.Popen(server, stdin=subprocess.DEVNULL)
    try:
        folder_of = client.socket_folder(os.environ)
        until(lambda: Path(folder_of).exists() and Path(*client.socket_place(folder_of)).exists())
        command = [sys.executable, "-c", code.get("client", _RUN), "watch", "--status", "--json"]
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)
        assert json.loads(done.stdout)["unused"] == "different system time"
    finally:
        process.kill()
        process.wait()


def test_resident_of_other_version_is_reported(folder: Path, watching: Watching) -> None:
    """Another installation's process is not shown as serving this one."""
    assert "unused" not in watching.status()
    for variable, prefix in (("", ["-O"]), ("PYTHONHASHSEED", [])):
        if variable:
            os.environ[variable] = "1"
        try:
            ran = _memvault(folder, *prefix, words=("watch", "--status", "--json"))
            assert ran.json["process"] == watching.process.pid
            assert (variable or "different memvault version") in ran.json["unused"]
            shown = _memvault(folder, *prefix, words=("watch", "--status")).out
            assert "not used here" in shown
            detached = _memvault(folder, *prefix, words=("watch", "--detach"))
            assert (detached.code, "--stop" in detached.err) == (1, True)
        finally:
            os.environ.pop(variable, None)
    assert child(folder, "watch", "--detach").code == 0


def _memvault(folder: Path, *options: str, words: Sequence[str]) -> Ran:
    command = [sys.executable, *options, "-m", "memvault", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def test_resident_busy_process_is_reported_as_serving(folder: Path, watching: Watching) -> None:
    """While the process runs a command, ``--status`` still shows that it serves this one."""
    started = reading(folder, watching.process.pid)
    assert is_reading(watching.process.pid, started.stdin)
    status: dict[str, Any] = child(folder, "watch", "--status", "--json").json
    assert (status["running"], "unused" in status) == (True, False)
    started.communicate(b"text")
