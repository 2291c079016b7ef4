"""Shared fixtures: real folders, real processes, and no network access."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, settings

import result_types
from children import in_child, mount_in_memory
from launcher import Launcher, close_all, launcher_with
from memvault import Vault, open_vault
from memvault.index.folder import prepare_folder
from memvault.index.local.index_files import INDEX
from memvault.threads import BLAS_THREADS
from racing import Racing
from ran import Ran as Ran

if TYPE_CHECKING:
    from git_clones import Clone
    from lsp_client import LspClient
    from tool_matrix import Matrix

ROOT = Path(__file__).resolve().parents[1]
SUPPORT = ROOT / "tests" / "support"
"""Helpers of the tests; some are programs."""
SHARED = ROOT.parent / "shared"

_IN_MEMORY = Path("/dev/shm")
_ENOUGH = 4 << 30
"""Bytes that must be free in memory for the tests' folders; a run leaves about half of that."""


def _keep_folders_in_memory() -> None:
    """Put temporary folders in memory if programs can run from there and there is room.

    An fsync on a disk takes milliseconds, and the tests make tens of thousands.
    """
    if "TMPDIR" in os.environ or not _IN_MEMORY.is_dir():
        return
    state = os.statvfs(_IN_MEMORY)
    free = state.f_bavail * state.f_frsize
    if free >= _ENOUGH and not state.f_flag & os.ST_NOEXEC and os.access(_IN_MEMORY, os.W_OK):
        os.environ["TMPDIR"] = str(_IN_MEMORY)
        tempfile.tempdir = None


def _restore_signals() -> None:
    """Reset signals ignored because of ``nohup`` or ``&``, which children would inherit."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_KEPT = {"PATH", "HOME", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}
"""Inherited variables: the locations of programs, libraries and temporary files."""
_KNOBS = {
    *("SOAK_SECONDS", "KILL_ROUNDS", "HYPOTHESIS_PROFILE", "MEMVAULT_RECALLS"),
    *("MEMVAULT_GIT_STEPS", "MEMVAULT_GIT_SEEDS", "MEMVAULT_GIT_STRIDE"),
    *("MEMVAULT_ENGINE_ROUNDS", "MEMVAULT_ENGINE_NOTES"),
    *("MEMVAULT_CLIENTS", "MEMVAULT_INSPECTOR", "MEMVAULT_TEST_ZONE"),
}
"""Variables that control how much is tested, with which programs, and in which time zone."""
_RUNNERS = ("PYTEST_", "COVERAGE_", "PLAYWRIGHT_")
"""Prefixes of the variables of the programs that run the tests or a browser."""


def _isolate_from_machine() -> None:
    """Run the tests as on a fresh machine: with few variables, in UTC, with the usual umask.

    ``test_environments.py``, and tests that set variables explicitly, cover other environments.
    MEMVAULT_TEST_ZONE sets another time zone, in which all tests must pass too.
    """
    for name in os.environ.keys() - _KEPT - _KNOBS:
        if not name.startswith(_RUNNERS):
            del os.environ[name]
    zone = os.environ.get("MEMVAULT_TEST_ZONE", "UTC")
    os.environ |= {"LANG": "C.UTF-8", "TZ": zone, "GIT_CONFIG_NOSYSTEM": "1"}
    if sys.platform != "win32":
        time.tzset()
    os.umask(0o022)


def pytest_configure() -> None:
    """Close the tests' standard input; test programs that load this file keep theirs."""
    if sys.stdin is None or not sys.stdin.isatty():
        null = os.open(os.devnull, os.O_RDONLY)
        if null:
            os.dup2(null, 0)
            os.close(null)


def _compute_in_one_thread() -> None:
    """Limit numpy to one thread, as the command line does; threads of workers block each other.

    ``make soak`` uses numpy's default, as programs that import memvault do.
    """
    if not float(os.environ.get("SOAK_SECONDS", "0")):
        os.putenv(BLAS_THREADS, "1")
        importlib.import_module("numpy")  # reads it; processes started later do not
        os.unsetenv(BLAS_THREADS)


_isolate_from_machine()
_compute_in_one_thread()
_keep_folders_in_memory()
_restore_signals()

SOAK = float(os.environ.get("SOAK_SECONDS", "0"))
"""The seconds that ``make soak`` allows; if they are set, the long variants of tests run."""

PROFILES = {"dev": 15, "ci": 20, "long": 1_500}
"""The number of examples per property; HYPOTHESIS_PROFILE selects one."""
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
for _name, _most in PROFILES.items():
    settings.register_profile(
        _name,
        deadline=None,
        # Make the result of ``make test`` deterministic; Hypothesis would do so only in CI.
        derandomize=_name == "ci",
        max_examples=_most,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
settings.load_profile(PROFILE)


Case = TypeVar("Case")


def examples(number: int) -> int:
    """Return the profile's number of examples for a property that sets its own number.

    The given number applies to a profile with 60 examples.
    """
    return -(-number * PROFILES[PROFILE] // 60)


def sampled(every: int) -> pytest.MarkDecorator:
    """Run every ``every``-th case of a test, starting with the first; ``make soak`` runs all."""
    return pytest.mark.sampled(every)


soak_only = pytest.mark.sampled(0)
"""Runs a test only in ``make soak``; the suite contains a shorter variant."""


def sampled_tests(every: int) -> pytest.MarkDecorator:
    """Run every ``every``-th test of a module, starting with the first; ``make soak`` runs all."""
    return pytest.mark.sampled(1, tests=every)


def some_of(cases: Sequence[Case], every: int = 4, first: int = 0) -> list[Case]:
    """Return every ``every``-th case of a test, which is marked ``sampled(1)``.

    ``make soak`` runs all cases. Tests of one kind start with different cases.
    """
    return list(cases if SOAK else cases[first::every])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect cases that only ``make soak`` runs, except one per guarantee."""
    seen: Counter[str] = Counter()
    names: dict[Path, list[str]] = {}
    left_out: list[pytest.Item] = []
    for item in items:
        marks = list(item.iter_markers("sampled"))
        every = marks[0].args[0] if marks else 1
        tests = max((mark.kwargs.get("tests", 1) for mark in marks), default=1)
        test = item.nodeid.partition("[")[0]
        of_module = names.setdefault(item.path, [])
        if test not in of_module:
            of_module.append(test)
        is_played = every > 0 and seen[test] % every == 0 and of_module.index(test) % tests == 0
        if not (SOAK or is_played):
            left_out.append(item)
        seen[test] += 1
    unplayed = set(left_out)
    shown = {promise for item in items if item not in unplayed for promise in _promises(item)}
    for item in left_out:
        if not shown.issuperset(_promises(item)):
            shown |= _promises(item)
            unplayed.remove(item)
    if unplayed:
        config.hook.pytest_deselected(items=[item for item in left_out if item in unplayed])
        items[:] = [item for item in items if item not in unplayed]


def pytest_collection_finish() -> None:
    """Exclude modules and tests from later garbage collections, which would visit all of them."""
    gc.collect()
    gc.freeze()


def _promises(item: pytest.Item) -> set[str]:
    return {promise for mark in item.iter_markers("promise") for promise in mark.args}


def only_with(*modules: str, extra: str) -> pytest.MarkDecorator:
    """Skip tests if a module is not installed; loading it takes a second in each worker."""
    missing = [name for name in modules if find_spec(name) is None]
    reason = f"{' and '.join(missing)} not installed: pip install 'memvault[{extra}]'"
    return pytest.mark.skipif(bool(missing), reason=reason)


Run = Callable[..., Ran]
_WEAK = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


def _keep_apart(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in list(os.environ):
        if name.startswith("MEMVAULT_"):
            monkeypatch.delenv(name)
    for kind in ("cache", "state", "config"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(folder / kind))
    monkeypatch.setenv("MEMVAULT_RESIDENT", "off")  # tests must not leave processes behind


@pytest.fixture(scope="session", autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Protect the user's folders from shared test data."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        _keep_apart(monkeypatch, tmp_path_factory.mktemp("user"))
        # Ignore the user's git settings.
        monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


_violations: list[str] = []
"""Problems with tools' results since the last test."""


@pytest.fixture(scope="session", autouse=True)
def _results_are_validated() -> None:
    """Check each tool result against its declared type."""
    result_types.install(_violations.append)


@pytest.fixture(autouse=True)
def _results_are_valid() -> Iterator[None]:
    """Fail a test in which a tool's result did not match its type."""
    yield
    found = _violations.copy()
    _violations.clear()
    assert not found


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Isolate the tests from the user's settings and caches, and vice versa."""
    _keep_apart(monkeypatch, tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("MEMVAULT_DEEP", "off")  # for the same reason
    monkeypatch.setenv("PYTHONWARNINGS", "error::ResourceWarning:memvault")


@pytest.fixture
def deep_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute transformer vectors within the call that needs them."""
    monkeypatch.setenv("MEMVAULT_DEEP", "now")


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run git without a user name."""
    from git_clones import without_identity

    without_identity(monkeypatch, tmp_path / "home")


@pytest.fixture
def clones(nobody: None, tmp_path: Path) -> Iterator[tuple[Clone, ...]]:
    """Two clones of one vault, without a git user name."""
    from git_clones import cloned

    yield from cloned(tmp_path)


@pytest.fixture(scope="module")
def _server(root: Path) -> Iterator[LspClient]:
    from lsp_client import LspClient

    with LspClient(root) as client:
        yield client
        assert client.exit() == 0
        assert b"Traceback" not in b"".join(client.errors)


@pytest.fixture
def editor(_server: LspClient) -> Iterator[LspClient]:
    """An editor on the vault ``root`` of a test file, whose files are closed after each test."""
    yield _server
    for uri in list(_server.texts):
        _server.close(_server.path(uri))


@pytest.fixture
def auto(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Allow a background process, and stop it at the end of the test."""
    if not Path("/proc/self").exists():
        pytest.skip("there is no list of processes")
    monkeypatch.setenv("MEMVAULT_DEEP", "auto")
    yield
    for number in followers(folder):
        os.kill(number, signal.SIGKILL)
    until(lambda: not followers(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of an empty vault, created with ``init --bare``."""
    root = tmp_path / "vault"
    root.mkdir()
    (root / "memvault.toml").write_text("version = 1\n", "utf-8")
    return root


@pytest.fixture
def vault(folder: Path) -> Iterator[Vault]:
    """The same vault, opened in this process."""
    with open_vault(folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def filled(_filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with sample data of each kind; each copy rebuilds its index."""
    return Path(shutil.copytree(_filled, tmp_path_factory.mktemp("filled") / "vault"))


@pytest.fixture(scope="session")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("filled") / "vault"
    write(root, "memvault.toml", "version = 1\nworld.enabled = true\nsearches.zoo = 'zebra'\n")
    write(root, "places/wood.md", "---\nx: 0\ny: 0\nterrain: wood\nresources: {wood: 30}\n---\n")
    write(root, "agents/bob.md", "---\nx: 1\n---\n")
    fact = "---\nid: m3\nmemory_type: fact\n---\n\nZebras sleep.\n"
    write(root, "fact/zebras.md", fact)
    write(root, "alpha.md", "---\nid: m1\ntags: [x]\nb: 1\n---\n\n# Alpha\n\nThe zebra sleeps.\n")
    write(root, "beta.md", "---\nid: m2\n---\n\n# Beta\n\n## When\n\nThe zebra eats.\n")
    asked = "type: talk\ntimestamp: 2026-01-31T12:00:00.000Z\nfrom: bob\ntalkId: 7"
    write(root, "agents/main/inbox/asked.md", f"---\n{asked}\n---\n\nReady?\n")
    with open_vault(root) as vault:
        vault.call("set_memories", memories=[{"key": "k", "value": "v"}])
        vault.call("set_goals", goals=[{"id": "g", "description": "d"}])
        vault.call("set_plans", plans=[{"name": "p", "instruction": "i", "runAfter": "1 day"}])
        vault.call("enter_space", spaceId="team")
        skill = {"procedurePrompt": "Dig.", "skillId": "life.dig.deep", "initialSuccessRate": 0.75}
        vault.call("store_procedure", procedureName="zebra", **skill)
        vault.call("store_episode", actions=["Fed the zebra"], skillsUsed=["life.dig.deep"])
        vault.call("talk_agent", agent="bob", message="Hello")
        vault.call("talk_agent", agent="main", message="Hello, me")
        vault.call("push_service", name="ci", message="green")
        vault.call("memory_compound", query="m2", modifications="It drinks, too.\n\n- [ ] Water")
        vault.call("memory_load", memId="m1")
    return root


@pytest.fixture(scope="session")
def matrix(_filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """The recorded calls of each tool on each front end, shared by all workers."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
    import tool_matrix

    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return tool_matrix.shared_record(_filled, tmp_path_factory.mktemp("matrix"), shared)


@pytest.fixture(scope="session", autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """Stop the launchers and all processes that they started."""
    yield
    close_all()


@pytest.fixture
def launcher(request: pytest.FixtureRequest) -> Launcher:
    """The launcher of commands for a test file, with the modules in its ``LOADED`` preloaded."""
    return launcher_with(getattr(request.module, "LOADED", ()))


@pytest.fixture(scope="session")
def racing() -> Iterator[Racing]:
    """A runner of many concurrent processes on one folder."""
    racing = Racing()
    yield racing
    racing.close()


@pytest.fixture
def run(folder: Path, launcher: Launcher) -> Run:
    """Run ``memvault`` as a process in the vault; ``stdin`` and ``cwd`` may be given."""

    def runner(*arguments: str, stdin: str | bytes = b"", cwd: Path | None = None) -> Ran:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        launched = launcher.run(arguments, given, cwd or folder, 120)
        if launched is None:
            return child(cwd or folder, *arguments, stdin=given)
        code, out, err = launched
        return Ran(code, out.decode(), err.decode())

    return runner


def child(
    folder: Path,
    *arguments: str | bytes,
    prefix: Sequence[str] = (),
    before: Callable[[], None] | None = None,
    stdin: bytes = b"",
    seconds: float = 120,
) -> Ran:
    """Run memvault as ``run`` does, under another program or with limits."""
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "memvault", *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=seconds,
        preexec_fn=before,
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def require_time_for_hooks(folder: Path) -> None:
    """Skip a test of hooks on a machine too busy for them: they end after 0.9 seconds."""
    began = time.monotonic()
    child(folder, "recall", "anything")
    if time.monotonic() - began > 0.5:
        pytest.skip("this machine is too busy for hooks, which end after 0.9 seconds")


def without_rights() -> list[str]:
    """Return a command prefix that drops root's privilege to read and write everything."""
    if os.geteuid() != 0:
        return []
    if not shutil.which(_WEAK[0]) or subprocess.run([*_WEAK, "true"], check=False).returncode:
        pytest.skip("root may read and write everything, and setpriv cannot change that here")
    return _WEAK


@pytest.fixture
def write_protect(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """A function that removes write permission for a file, even for root."""
    access, protected = os.access, set[str]()

    def is_permitted(path: str | Path, mode: int, **more: Any) -> bool:
        return not (mode & os.W_OK and str(path) in protected) and access(path, mode, **more)

    def protect(path: Path) -> None:
        path.chmod(0o400)
        protected.add(str(path))

    monkeypatch.setattr(os, "access", is_permitted)
    return protect


def index_of(root: Path) -> Path:
    """Return the folder of a vault's index, created if missing."""
    folder = prepare_folder(root).folder
    assert folder is not None
    return folder


def indexed(root: Path, path: str) -> bool:
    """Wait up to half a minute until a memory is indexed; return whether it is."""
    manifest = f"file:{index_of(root)}/{INDEX}/manifest.db?mode=ro"
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with suppress(sqlite3.Error), closing(sqlite3.connect(manifest, uri=True)) as database:
            if database.execute("SELECT 1 FROM memories WHERE path = ?", [path]).fetchall():
                return True
        time.sleep(0.05)
    return False


def contents(root: Path) -> dict[Path, bytes]:
    """Return the bytes of every file in a vault, including ``.memvault``."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def vault_files(root: Path) -> dict[str, bytes]:
    """Return the bytes of every file in a vault that is not machine-local, by path."""
    files = {path.relative_to(root): path for path in root.rglob("*") if path.is_file()}
    return {
        name.as_posix(): path.read_bytes()
        for name, path in files.items()
        if not {".git", ".memvault"}.intersection(name.parts)
    }


def note_texts(root: Path) -> dict[str, str]:
    """Return the text of every memory by path."""
    return {path: data.decode() for path, data in vault_files(root).items() if path.endswith(".md")}


def write(root: Path, path: str, text: str | bytes) -> Path:
    """Write a file and its parent folders, as an editor does."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


@contextmanager
def user_in(zone: str) -> Iterator[None]:
    """Set the user's time zone, in this process and in child processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        try:
            yield
        finally:
            patch.undo()
            time.tzset()


@pytest.fixture
def in_utc() -> Iterator[None]:
    """Set the user's time zone to UTC, for a test whose files have times on certain days."""
    with user_in("UTC"):
        yield


@pytest.fixture
def mounting(tmp_path: Path) -> None:
    """Skip a test if mounting is not permitted."""
    target = tmp_path / "mounting"
    target.mkdir()

    def attempt() -> str:
        try:
            mount_in_memory(target, "64k")
        except OSError as error:
            return str(error)
        return ""

    if reason := in_child(attempt):
        pytest.skip(f"mounting is not permitted: {reason}")


class Git(Protocol):
    """Runs git in a folder below the test's folder."""

    def __call__(self, name: str, *words: str) -> None: ...


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Run git with a user name; skip the test if git is not installed."""
    program = shutil.which("git")
    if program is None:
        pytest.skip("there is no git")

    def runner(name: str, *words: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run([program, "-C", str(tmp_path / name), *who, *words], check=True)

    return runner


def succeeded(ran: Ran) -> Ran:
    """Check that a command succeeded; return it."""
    assert ran.code == 0, ran
    assert "Traceback" not in ran.err
    return ran


def refused(ran: Ran, code: int) -> str:
    """Check that a command failed with one sentence and a hint; return the sentence."""
    assert ran.code == code, ran
    assert "Traceback" not in ran.err
    assert "hit a bug" not in ran.err
    assert ran.out == ""
    first, *rest = ran.err.splitlines()
    assert first.startswith("error: ")
    assert rest
    assert rest[0].startswith("hint: ")
    assert not first.endswith(".")
    return first


def titles(result: dict[str, Any]) -> list[str]:
    """Return the titles that a recall or list returned, in order."""
    assert result["success"], result
    return [entry["title"] for entry in result["memories"]]


def recalled(vault: Vault, query: str, **more: Any) -> list[dict[str, Any]]:
    """Return the memories that a recall finds, in order."""
    result = vault.call("memory_recall", query=query, **more)
    assert result["success"], result
    found: list[dict[str, Any]] = result["memories"]
    return found


def called(vault: Vault, tool: str, **arguments: Any) -> dict[str, Any]:
    """Run a tool that must succeed."""
    result = vault.call(tool, **arguments)
    assert result["success"], result
    return result


def explained(vault: Vault, query: str, **more: Any) -> list[dict[str, Any]]:
    """Return the memories that a recall finds, each with the parts of its score."""
    return recalled(vault, query, explain=True, **more)


def parts(entry: dict[str, Any]) -> dict[str, float]:
    """Return the parts of a memory's score."""
    found: dict[str, float] = entry["why"]["parts"]
    return found


def until(happens: Callable[[], object]) -> None:
    """Wait for a condition that must become true, even on a slow machine.

    Each pause is twice as long as the check, so that checking slows nothing down.
    """
    began = time.monotonic()
    deadline = began + 180
    while not happens():
        now = time.monotonic()
        assert now < deadline
        time.sleep(min(max(0.01, 2 * (now - began)), 0.5))
        began = time.monotonic()


def lie_still(root: Path) -> None:
    """Wait until no file below a folder has changed within the last second.

    The index rereads such files on each refresh, using a time that no program can set back.
    """
    newest = max(path.lstat().st_ctime_ns for path in root.rglob("*"))
    until(lambda: time.time_ns() > newest + 1_000_000_000)


def sooner_or_later(ask: Callable[[], str]) -> str:
    """Repeat a hook until it prints something, because it times out on a busy machine."""
    deadline = time.monotonic() + 60
    while not (said := ask()).strip():
        assert time.monotonic() < deadline
    return said


def is_alive(number: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    try:
        state = Path(f"/proc/{number}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def followers(folder: Path) -> list[int]:
    """Return the background processes that compute a vault's transformer vectors."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        number = int(path.parent.name)
        if b"memvault.index.embedding_worker" in words and os.fsencode(folder) in words:
            found += [number] if is_alive(number) else []
    return found


def all_gone(file: Path) -> bool:
    """Return whether none of the processes listed in a file is running."""
    return not any(is_alive(int(number)) for number in file.read_text("utf-8").split())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that makes ``make docs`` rewrite the transcripts."""
    parser.addoption("--rewrite-transcripts", action="store_true", default=False)
