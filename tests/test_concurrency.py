"""Concurrent processes do not lose data, and dead processes do not hold locks."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conftest import SOAK, Run, index_of, sampled, titles, write
from memvault import Vault, open_vault
from memvault.agents.address import Address, agent_lock
from memvault.agents.messages.inbox import Inbox
from memvault.agents.messages.leases import Lease
from memvault.errors import Unwritable
from memvault.files.lock import FileLock
from memvault.index.local.index_files import INDEX
from memvault.index.local.sqlite_file import Database
from memvault.index.protocol import COMPLETE, KeywordQuery
from memvault.store.memory_store import MemoryStore
from memvault.tools.core import invoke
from memvault.vault.scan import Scan
from memvault.workspace import Workspace
from racing import Racing, raced

pytest.importorskip("fcntl", reason="flock exists only on Unix")

WRITER = """
import sys
from memvault import open_vault

def work(who, count, *asking):
    with open_vault(".") as vault:
        for number in range(count):
            word = f"w{who}n{number}"
            title = f"Note {number}" if number % 2 else f"Note {word}"  # which others use too
            done = vault.call(
                "memory_remember", title=title, content=f"shared {word}", memoryType="fact"
            )
            assert done["success"], (word, done)
            for warning in done.get("warnings", ()):
                print(warning, file=sys.stderr)
            for mode in asking:
                found = vault.call("memory_recall", query=word, type=mode)
                paths = [entry["filePath"] for entry in found["memories"]]
                if paths[:1] != [done["filePath"]] or len(set(paths)) < len(paths):
                    print(mode, word, paths, found.get("warnings"))
"""

LIMITED = """
import resource, sys
from memvault.__main__ import main

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.exit(main(sys.argv[1:]))
"""


def _recall(vault: Vault, query: str, mode: str = "keyword", **more: Any) -> list[str]:
    return titles(vault.call("memory_recall", query=query, type=mode, limit=500, **more))


def _listed(vault: Vault) -> set[str]:
    return set(titles(vault.call("memory_list", limit=1_000)))


def test_eight_processes_remember_concurrently(folder: Path, racing: Racing) -> None:
    """Eight processes that remember concurrently lose nothing and report no errors."""
    each = 25 if SOAK else 10
    told = raced(racing.run(folder, WRITER, [[who, each] for who in range(8)]))
    assert told == [[]] * 8
    assert len(list(folder.glob("fact/*.md"))) == 8 * each
    assert not list(folder.glob("fact/.*"))
    with open_vault(folder) as vault:
        assert len(titles(vault.call("memory_list", limit=1_000))) == 8 * each
        assert len(_recall(vault, "shared")) == 8 * each
        assert len(_recall(vault, "shared", "vector")) == 8 * each
        for who in range(8):
            for number in (each - 2, each - 1):
                title = f"Note {number}" if number % 2 else f"Note w{who}n{number}"
                assert _recall(vault, f"w{who}n{number}") == [title]


def test_process_recalls_its_new_memory_during_concurrent_writes(
    folder: Path, racing: Racing
) -> None:
    """A process recalls its new memory immediately, and once, while others write and index."""
    each = 15 if SOAK else 8
    ended = racing.run(folder, WRITER, [[who, each, "keyword", "hybrid"] for who in range(6)])
    assert [(process.code, process.out) for process in ended] == [(0, "")] * 6, ended


def test_recall_finds_memory_indexed_by_concurrent_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory that another process indexes between two reads of the index is found."""
    write(folder, "old.md", "# Old\n\nwombat\n")
    with open_vault(folder) as vault, open_vault(folder) as other, ExitStack() as held:
        assert _recall(vault, "wombat") == ["Old"]
        scan = MemoryStore.scan

        def scan_late(self: MemoryStore, *arguments: Any) -> Scan:
            monkeypatch.setattr(MemoryStore, "scan", scan)
            write(folder, "new.md", "# New\n\nquokka\n")
            assert _recall(other, "quokka") == ["New"]
            held.enter_context(FileLock(index_of(folder) / "lock"))
            return scan(self, *arguments)

        monkeypatch.setattr(MemoryStore, "scan", scan_late)
        assert _recall(vault, "quokka") == ["New"]


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "never indexed"])
def test_recall_reads_changes_while_index_is_locked(folder: Path, run: Run, indexed: bool) -> None:
    """While another process locks the index, recall reads changed files directly."""
    write(folder, "kept.md", "# Kept\n\nwombat and bilby\n")
    write(folder, "edited.md", "# Edited\n\nwombat\n")
    write(folder, "gone.md", "# Gone\n\nwombat\n")
    if indexed:
        assert len(run("recall", "wombat", "--json").json["memories"]) == 3
    with ExitStack() as held:
        if indexed:
            held.enter_context(FileLock(index_of(folder) / "lock"))
        write(folder, "edited.md", "# Edited\n\nquokka\n")
        write(folder, "added.md", "---\ntags: [new]\n---\n\n# Added\n\nA wombat, at last\n")
        (folder / "gone.md").unlink()
        with open_vault(folder) as vault:
            for _ in range(2):
                for mode in ("keyword", "hybrid"):
                    assert set(_recall(vault, "wombat", mode)) >= {"Kept", "Added"}
                    assert "Gone" not in _recall(vault, "wombat", mode)
                assert set(_recall(vault, "wombat")) == {"Kept", "Added"}
                assert _recall(vault, "quokka") == ["Edited"]
                assert _recall(vault, '"at last"') == ["Added"]
                assert _recall(vault, "new", "tag") == ["Added"]
                assert set(_recall(vault, "wombat", "vector")) == {"Kept", "Added", "Edited"}
                assert _recall(vault, "wombat", tags=["new"]) == ["Added"]
                assert _listed(vault) == {"Kept", "Edited", "Added"}
                assert vault.call("memory_show", memId="Added")["success"]
                assert vault.call("memory_show", memId="added.md")["success"]
                assert not vault.call("memory_show", memId="Gone")["success"]
        ran = run("recall", "quokka", "--mode", "keyword")
        assert ran.code == 0
        assert "Edited" in ran.out


def test_view_shows_each_memory_once(folder: Path) -> None:
    """A memory that another process indexes while one recalls is not found twice."""
    write(folder, "old.md", "# Old\n\nwombat\n")
    workspace = Workspace(folder)
    workspace.index.refresh(True, COMPLETE)
    write(folder, "new.md", "# New\n\nwombat\n")
    write(folder, "old.md", "# Old\n\nwombat again\n")
    with FileLock(index_of(folder) / "lock"):
        view = workspace.index.refresh(True, COMPLETE)
    with open_vault(folder) as other:
        assert len(_recall(other, "wombat", "hybrid")) == 2
    hits = view.keyword(KeywordQuery([("wombat",)])).hits
    records = [record for hit in hits if (record := view.record(hit.uid))]
    for found in (records, view.records()):
        assert sorted(record.path for record in found) == ["new.md", "old.md"]
    workspace.close()


def test_remember_works_while_index_is_locked(folder: Path, run: Run) -> None:
    """A memory can be written and recalled while another process locks the index."""
    write(folder, "first.md", "# First\n\nwombat\n")
    run("list")
    with FileLock(index_of(folder) / "lock"):
        ran = run("remember", "Second", "another wombat", "--json")
        assert (ran.code, ran.err) == (0, "")
        found = run("recall", "wombat", "--mode", "keyword", "--json").json
        assert set(titles(found)) == {"First", "Second"}


def test_threads_share_one_vault(folder: Path, vault: Vault) -> None:
    """Threads that remember, recall and list through one Vault get correct results."""
    wrong: list[object] = []

    def work(who: int) -> None:
        for number in range(15):
            word = f"t{who}n{number}"
            done = vault.call(
                "memory_remember", title=word, content=f"common {word}", memoryType="fact"
            )
            found = _recall(vault, word)
            if found != [word] or not done["success"] or word not in _listed(vault):
                wrong.append((word, done, found))

    threads = [threading.Thread(target=work, args=(who,)) for who in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(_recall(vault, "common")) == 30


def test_two_open_vaults_see_each_others_changes(folder: Path) -> None:
    """Two open vaults return the same answers after every change by either."""
    with open_vault(folder) as one, open_vault(folder) as two:
        for number in range(12):
            writer, reader = (one, two) if number % 2 else (two, one)
            done = writer.call(
                "memory_remember",
                title=f"Note {number}",
                content=f"word{number} common",
                memoryType="fact",
            )
            assert _recall(reader, f"word{number}") == [f"Note {number}"]
            assert len(_recall(writer, "common")) == number // 3 * 2 + number % 3 + 1
            if number % 3 == 2:
                (folder / done["filePath"]).unlink()
                assert _recall(writer, f"word{number}") == []
                assert _recall(reader, f"word{number}") == []


def _overwrite(data: bytes) -> Callable[[Path], None]:
    def damage(file: Path) -> None:
        file.write_bytes(data * (len(file.read_bytes()) if data == b"\xa5" else 1))

    return damage


def _foldered(file: Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "within").write_bytes(b"")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "same length": _overwrite(b"\xa5"),
    "shorter": _overwrite(b"{}"),
    "longer": _overwrite(b"\x80\x04}garbage\n" * 100_000),
    "empty": _overwrite(b""),
    "a folder": _foldered,
    "deleted": Path.unlink,
}


def _files(folder: Path) -> list[Path]:
    return sorted(
        Path(parent, name)
        for whole in (folder / ".memvault", index_of(folder))
        for parent, _, names in os.walk(whole)
        for name in names
    )


def _kind(file: Path) -> str:
    """Return a file's name without its random or counted parts."""
    return f"keyword{file.suffix}" if file.parent.name == "keyword" else file.name.split("-")[0]


def _write_three(folder: Path) -> None:
    write(folder, "one.md", "# One\n\nThe wombat digs.\n")
    write(folder, "two.md", "# Two\n\nThe bilby digs.\n")
    write(folder, "three.md", "# Three\n\nThe crow flies.\n")


def _is_right(vault: Vault) -> None:
    assert _listed(vault) == {"One", "Two", "Three"}
    assert _recall(vault, "wombat") == ["One"]
    assert _recall(vault, "bilby", "hybrid")[0] == "Two"
    assert len(_recall(vault, "animals", "vector")) == 3


@sampled(4)
@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_state_file_does_not_affect_answers(folder: Path, name: str) -> None:
    """Garbage in any file of ``.memvault`` or the index does not affect answers."""
    _write_three(folder)
    time.sleep(1.1)  # No scan is saved while files were edited within the last second.
    done: set[str] = set()
    while True:
        with open_vault(folder) as before:
            _is_right(before)
            files = {_kind(file): file for file in _files(folder)}
            kind = min(files.keys() - done, default="")
            if not kind:
                break
            done.add(kind)
            if len(done) % 2:
                before._workspace.close()
            DAMAGES[name](files[kind])
            _is_right(before)
            with open_vault(folder) as after:
                _is_right(after)
    assert done >= {"vault", "manifest.db", "lock", "card.json", "rows", "hashes"}
    assert len(done) >= 9


@pytest.mark.parametrize("path", ["", INDEX, f"{INDEX}/keyword", f"{INDEX}/vectors"])
def test_file_in_place_of_index_folder_does_not_affect_answers(folder: Path, path: str) -> None:
    """A file in place of one of the index's folders does not affect answers."""
    _write_three(folder)
    for made in (False, True):
        if made:
            with open_vault(folder) as vault:
                _is_right(vault)
        place = folder / ".memvault" if not path else index_of(folder) / path
        shutil.rmtree(place, ignore_errors=True)
        write(place.parent, place.name, "not a folder\n")
        for _ in range(2):
            with open_vault(folder) as vault:
                _is_right(vault)
        if place.is_file():
            place.unlink()


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "never indexed"])
def test_recall_works_on_full_disk(folder: Path, run: Run, indexed: bool) -> None:
    """On a full disk, recall and list still answer from the files."""
    _write_three(folder)
    if indexed:
        assert run("recall", "wombat").code == 0
        write(folder, "four.md", "# Four\n\nThe quokka smiles.\n")
        (folder / "two.md").unlink()
    for arguments in (["recall", "wombat quokka bilby", "--mode", "keyword"], ["list"]):
        command = [sys.executable, "-c", LIMITED, *arguments, "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        found = set(titles(json.loads(done.stdout)))
        gone, new = ("Two", "Four") if indexed else ("Four", "Two")
        assert {"One", new} <= found
        assert gone not in found


def test_locked_manifest_is_not_rebuilt(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process locks the manifest, nothing is discarded, not even vectors."""
    monkeypatch.setattr("memvault.index.local.sqlite_file.PATIENCE", 0.2)
    write(folder, "a.md", "# A\n\nwombat\n")
    assert run("recall", "wombat").code == 0
    index = index_of(folder)
    before = {path: path.stat().st_ino for path in index.rglob("*") if path.is_file()}
    write(folder, "b.md", "# B\n\nwombat\n")
    with closing(sqlite3.connect(index / INDEX / "manifest.db", isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        with open_vault(folder) as vault:
            found = vault.call("memory_recall", query="wombat")
        assert found["error"]["code"] == "timed_out"
        assert found["error"]["hint"]
        database.execute("ROLLBACK")
    assert {path: path.stat().st_ino for path in before} == before
    assert set(titles(run("recall", "wombat", "--json").json)) == {"A", "B"}


def test_memories_read_in_batches_are_of_one_commit(tmp_path: Path) -> None:
    """If another process commits while a large index is read, all memories are read again."""
    file = tmp_path / "table.db"
    database = Database(file, "CREATE TABLE memories (uid INTEGER PRIMARY KEY, path TEXT)")
    database.execute_each(
        "INSERT INTO memories VALUES (?, ?)", ((uid, f"{uid}.md") for uid in range(1, 5_001))
    )
    query = "SELECT uid, path FROM memories WHERE uid <> 7"
    calls = []

    def read(batches: Iterator[list[tuple[Any, ...]]]) -> dict[str, int]:
        found: dict[str, int] = {}
        calls.append(0)
        for rows in batches:
            calls[-1] += 1
            found.update((path, uid) for uid, path in rows)
            if len(calls) == 2:
                with closing(sqlite3.connect(file, isolation_level=None)) as other:
                    other.execute("DELETE FROM memories WHERE uid = ?", (found["1.md"],))
                    other.execute("INSERT INTO memories VALUES (9000, '1.md')")
        return found

    expected = {f"{uid}.md": uid for uid in range(1, 5_001) if uid != 7}
    assert database.visit(query, read) == expected
    assert database.visit(query, read) == expected | {"1.md": 9_000}
    assert calls == [10, 1, 10]
    database.close()


def test_editor_save_during_change_is_kept(folder: Path, vault: Vault) -> None:
    """Each line that an editor saves, at any moment, is in the file or among its revisions."""
    made = vault.call("memory_remember", title="Log", content="begin", memoryType="fact")
    file = folder / made["filePath"]
    written: list[str] = []
    over = threading.Event()

    def edit() -> None:
        chance = random.Random(7)
        while not over.is_set():
            line = f"edited-{len(written)}"
            with file.open("a", encoding="utf-8") as opened:
                time.sleep(chance.uniform(0, 0.003))
                opened.write(f"{line}\n")
            written.append(line)

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        for number in count():
            if number >= 16 and len(written) > 20:
                break
            done = vault.call("memory_compound", query=made["memId"], modifications=f"own-{number}")
            if not done["success"]:  # the editor was always quicker
                assert done["error"]["code"] == "conflict"
    finally:
        over.set()
        editor.join()
    kept = [path.read_text("utf-8") for path in (folder / ".memvault/history").rglob("*.md")]
    texts = "\n".join([file.read_text("utf-8"), *kept]).splitlines()
    assert set(written) <= set(texts)


@pytest.mark.promise("R61")
@pytest.mark.parametrize("name", ["ENOLCK", "EOPNOTSUPP", "ENOSYS"])
def test_lock_fails_on_file_system_without_flock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Without flock support, locking is a storage error with a hint and leaves no file open."""
    number = getattr(errno, name)

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refused)
    before = len(os.listdir("/dev/fd"))
    with (
        pytest.raises(Unwritable, match="no file locks") as caught,
        FileLock(tmp_path / "lock"),
    ):
        pass
    assert "adding memories still work" in caught.value.hint
    assert len(os.listdir("/dev/fd")) == before


def test_unexpected_lock_error_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error other than missing locks is reported, and leaves no file open."""

    def refused(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("fcntl.flock", refused)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError, match="Input/output error"):
        FileLock(tmp_path / "lock").acquire(0)
    assert len(os.listdir("/dev/fd")) == before


PRIVATE = ".memvault/agents/main"


@pytest.fixture
def inbox(folder: Path) -> Inbox:
    """The inbox of the agent ``main``."""
    return Inbox(folder, Address("main"))


def taken(inbox: Inbox, count: int = 1) -> Lease:
    """Take the next events."""
    lease = inbox.pop(count).lease
    assert lease is not None
    return lease


def letters(folder: Path) -> dict[str, str]:
    """The files in a folder with their content."""
    return {path.name: path.read_text("utf-8") for path in folder.glob("*.md")}


def test_requeued_event_keeps_newer_event_with_same_name(folder: Path, inbox: Inbox) -> None:
    """Requeued events survive repeated reuse of a file name, as by CI."""
    for build in ("build 1 failed", "build 2 failed", "build 3 is fine"):
        write(folder, "agents/main/inbox/ci.md", build)
        lease = taken(inbox, 5)
        write(folder, "agents/main/inbox/ci.md", "later")
        lease.requeue()
    builds = {"build 1 failed", "build 2 failed", "build 3 is fine", "later"}
    assert set(letters(inbox.folder).values()) == builds
    wanted = [{"eventType": "Hook", "parameter": "ci"}]
    with open_vault(folder) as vault:
        heard = [vault.call("wait_for", events=wanted, timeout=0)["events"][0] for _ in builds]
        assert vault.call("peek_inbox") == {"success": True, "events": [], "remaining": 0}
    assert {each["result"]["data"]["message"] for each in heard} == builds


def test_identical_event_is_requeued_once(folder: Path, inbox: Inbox) -> None:
    """An event that is delivered again before it is requeued, with the same bytes, exists once."""
    write(folder, "agents/main/inbox/ci.md", "fine")
    lease = taken(inbox)
    write(folder, "agents/main/inbox/ci.md", "fine")
    lease.requeue()
    assert letters(inbox.folder) == {"ci.md": "fine"}
    assert not list((folder / PRIVATE / "leases").iterdir())


def test_event_with_long_name_is_requeued(folder: Path, inbox: Inbox) -> None:
    """An event whose name is too long for a suffix is not lost."""
    name = "ü" * 125
    write(folder, f"agents/main/inbox/{name}.md", "one")
    lease = taken(inbox)
    write(folder, f"agents/main/inbox/{name}.md", "two")
    lease.requeue()
    assert set(letters(inbox.folder).values()) == {"one", "two"}


def test_only_events_are_requeued_from_lease(folder: Path, inbox: Inbox) -> None:
    """Unrelated files in or next to a lease are left in place."""
    inbox.deliver("service", {"name": "x"})
    lease = taken(inbox)
    own = next(path for path in (folder / PRIVATE / "leases").iterdir() if path.is_dir())
    strange = [own / "thesis.tex", write(folder, f"{PRIVATE}/leases/docs/a.md", "a")]
    strange[0].write_text("x")
    lease.requeue()
    assert len(inbox.peek().events) == 1
    assert all(path.exists() for path in strange)


def test_events_are_requeued_under_reader_lock(folder: Path, inbox: Inbox) -> None:
    """No reader sees a half requeued event; if the lock is held, the next read requeues it."""
    inbox.deliver("service", {"name": "x"})
    lease = taken(inbox)
    with agent_lock(folder, Address("main")):
        lease.requeue()
        assert letters(inbox.folder) == {}
    assert [event.data["name"] for event in inbox.peek().events] == ["x"]


def test_lease_without_events_is_removed(folder: Path, inbox: Inbox) -> None:
    """If the event's file disappears at the last moment, no lease is left."""
    name = inbox.deliver("service", {"name": "x"})

    def vanishes(_event: object) -> bool:
        (inbox.folder / f"{name}.md").unlink()
        return True

    popped = inbox.pop(fits=vanishes)
    assert (popped.events, popped.remaining, popped.lease) == ([], 0, None)
    assert not list((folder / PRIVATE / "leases").iterdir())


@pytest.mark.parametrize("name", ["leases", "popped"])
def test_event_stays_if_lease_folder_is_blocked(vault: Vault, folder: Path, name: str) -> None:
    """If a file has the name of a required folder, the error shows its path; the event is kept."""
    vault.call("push_service", name="x")
    blocking = write(folder, f"{PRIVATE}/{name}", "")
    failed = vault.call("peek_inbox")["error"]
    assert failed["code"] == "refused"
    assert f"{name} is a file" in failed["message"]
    blocking.unlink()
    assert vault.call("peek_inbox")["events"][0]["data"]["name"] == "x"


def test_unreleased_lease_is_reported(folder: Path) -> None:
    """The call succeeds with a note that the events may be delivered again, and they are."""
    workspace = Workspace(folder)
    invoke.call(workspace, "push_service", {"name": "x"})
    outcome = invoke.call(workspace, "peek_inbox", {})
    taken = outcome.result["events"]
    blocking = write(folder, f"{PRIVATE}/popped", "")
    notes = outcome.acknowledge()
    assert len(notes) == 1
    assert "may be delivered again" in notes[0]
    blocking.unlink()
    assert invoke.call_result(workspace, "peek_inbox", {})["events"] == taken
    assert invoke.call_result(workspace, "peek_inbox", {})["events"] == []


def test_unacknowledged_result_requeues_its_events(folder: Path) -> None:
    """Events of an unacknowledged result return to the inbox, including those of nested calls."""
    workspace = Workspace(folder)
    invoke.call(workspace, "push_service", {"name": "x"})
    with invoke.call(workspace, "call_tool", {"tool_name": "peek_inbox"}) as left:
        assert len(left.result["result"]["events"]) == 1
    with invoke.call(workspace, "peek_inbox", {}) as settled:
        assert settled.result["events"] == left.result["result"]["events"]
        assert settled.acknowledge() == []
    assert invoke.call_result(workspace, "peek_inbox", {})["events"] == []


def test_last_hundred_leases_are_recorded(folder: Path, inbox: Inbox) -> None:
    """The last hundred leases can be looked up on this machine."""
    other = write(folder, f"{PRIVATE}/popped/mine/a.md", "mine")
    for number in range(103):
        inbox.deliver("service", {"name": str(number)})
        taken(inbox).acknowledge()
    kept = [path for path in (folder / PRIVATE / "popped").iterdir() if path.name != "mine"]
    assert len(kept) == 100
    assert other.exists()


def test_oldest_event_lookup_time_is_independent_of_inbox_size(folder: Path, inbox: Inbox) -> None:
    """Popping the oldest event is as fast in a full inbox as in a nearly empty one."""
    for number in range(300):
        inbox.deliver("service", {"name": str(number)})
    code = (
        "import sys\nread = set()\n"
        "sys.addaudithook(lambda event, given: read.add(given[0])"
        " if event == 'open' and '/inbox/' in str(given[0]) else None)\n"
        "from memvault import open_vault\n"
        "found = open_vault().call('peek_inbox')\n"
        "print(found['events'][0]['data']['name'], found['remaining'], len(read))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0", "299", "1"]
