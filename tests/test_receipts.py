"""Receipts show what agents were given, prevent repetition, and reveal unused memories."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from conftest import Run, succeeded, write
from memvault import Vault
from memvault.agents import receipts
from memvault.files.lock import FileLock
from memvault.integrations.programs import PROGRAMS

PORT = "The gateway listens on port 8081 since the move to the new rack."
QUESTION = "which port does the gateway listen on"
Hook = Callable[..., str]


@pytest.fixture
def notes(folder: Path) -> Path:
    """A vault with a memory about a port, and unrelated ones."""
    write(folder, "gateway.md", f"---\nid: gateway-7k2m9q\n---\n# Gateway port\n\n{PORT}\n")
    for number in range(12):
        write(folder, f"{number}.md", f"# Note {number}\n\nThe bridge number {number} is open.\n")
    return folder


@pytest.fixture
def hook(notes: Path, run: Run) -> Hook:
    """Return a function that runs the hook for an event of a session."""

    def answer(event: str = "prompt", prompt: str = QUESTION, **fields: object) -> str:
        given = json.dumps({"prompt": prompt, "cwd": str(notes), **fields})
        return succeeded(run("hook", event, stdin=given)).out

    return answer


def shown(run: Run, *words: str) -> list[dict[str, Any]]:
    """Return the receipts in a session."""
    return list(run("receipt", *words, "--json").json["receipts"])


def test_memory_is_injected_once_per_session(hook: Hook) -> None:
    """A repeated question adds the memory once per session; without an id it is added each time."""
    assert PORT in hook(session_id="a")
    assert hook(session_id="a").strip() == ""
    assert PORT in hook(session_id="b")
    assert PORT in hook()
    assert PORT in hook()


@pytest.mark.promise("S105")
@pytest.mark.parametrize("key", ["session_id", "conversation_id", "sessionID"])
@pytest.mark.parametrize("value", ["a", "../../x", "é\n\x00" * 500])
def test_any_session_id_is_accepted(hook: Hook, notes: Path, key: str, value: str) -> None:
    """Each program's name for the session's id works, and an id cannot leave the folder."""
    assert PORT in hook(**{key: value})
    assert hook(**{key: value}).strip() == ""
    (file,) = (notes / ".memvault" / "receipts").glob("*.jsonl")
    names = {entry.name for entry in file.parent.iterdir()}
    assert names == {file.name, "lock", "unused.json"}


@pytest.mark.parametrize("value", [None, 7, "", [], {"a": 1}])
def test_prompts_without_session_id_get_memories_each_time(hook: Hook, value: object) -> None:
    """If the id is missing or not text, memories are injected each time."""
    assert PORT in hook(session_id=value)
    assert PORT in hook(session_id=value)


@pytest.mark.parametrize("event", ["session-start", "pre-compact"])
def test_memory_is_injected_again_after_compaction(hook: Hook, event: str) -> None:
    """After a compaction or a new start with the same id, the session starts over."""
    assert PORT in hook(session_id="a")
    hook(event, session_id="a")
    assert PORT in hook(session_id="a")
    assert hook(session_id="a").strip() == ""


def test_changed_memory_is_injected_again(hook: Hook, notes: Path) -> None:
    """A memory whose file has changed since may be added again."""
    assert PORT in hook(session_id="a")
    write(notes, "gateway.md", f"---\nid: gateway-7k2m9q\n---\n# Gateway port\n\n{PORT} Really.\n")
    assert PORT in hook(session_id="a")


def test_memory_given_at_session_start_is_not_repeated(hook: Hook, notes: Path) -> None:
    """The block at the start of a session counts, including its recalled memories."""
    project = notes.parent / "gateway port"
    project.mkdir()
    assert PORT in hook("session-start", session_id="a", cwd=str(project))
    assert hook(session_id="a").strip() == ""


WRITER = """
import sys
from pathlib import Path
from memvault.agents import receipts

for number in range(40):
    text = f"{sys.argv[2]} {number} " + "x" * 4_000
    receipts.record(Path(sys.argv[1]), receipts.Receipt("a", "main", "prompt", text=text))
"""


def test_concurrent_receipts_are_complete(tmp_path: Path) -> None:
    """Processes that record in one session at the same time do not lose or mix receipts."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, str(number)]) for number in range(3)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    kept = receipts.of_session(tmp_path, "a")
    names = {tuple(receipt.text.split()[:2]) for receipt in kept}
    assert len(kept) == len(names) == 120
    assert {len(receipt.text.split()[2]) for receipt in kept} == {4_000}


def test_receipt_contains_the_exact_text(hook: Hook, run: Run) -> None:
    """A receipt contains the exact printed text, and the reasons for it."""
    texts = [
        hook("session-start", session_id="a"),
        hook(session_id="a"),
    ]
    start, prompt = shown(run, "a")
    assert [start["text"], prompt["text"]] == [text.strip() for text in texts]
    assert (start["event"], prompt["event"], prompt["agent"]) == ("session-start", "prompt", "main")
    (memory,) = prompt["memories"]
    shown_memory = run("show", "gateway-7k2m9q", "--json").json
    assert memory == {
        "memId": "gateway-7k2m9q",
        "etag": shown_memory["etag"],
        "probability": memory["probability"],
    }
    assert 0.08 == prompt["threshold"] <= memory["probability"] <= 1
    assert 0 < prompt["tokens"] <= prompt["budget"]
    for text in texts:
        assert text.strip() in run("receipt", "a").out


def test_receipts_are_listed_by_session(hook: Hook, run: Run) -> None:
    """Without an id, the last session is shown; --list lists all; an unknown id shows nothing."""
    hook(session_id="first")
    hook(session_id="second")
    assert run("receipt", "--json").json["session"] == "second"
    listed = run("receipt", "--list", "--json").json["sessions"]
    assert {entry["session"] for entry in listed} == {"first", "second"}
    assert {entry["receipts"] for entry in listed} == {1}
    assert "first" in run("receipt", "--list").out
    nothing = run("receipt", "third", "--json").json
    assert (nothing["receipts"], nothing["message"]) == ([], "Nothing was recorded for third")


@pytest.mark.usefixtures("notes")
def test_context_is_recorded_under_the_day(run: Run, vault: Vault) -> None:
    """The block of ``context`` has a receipt in the session of the day."""
    block = vault.call("context", task=QUESTION)
    assert [entry["memId"] for entry in block["memories"]] == ["gateway-7k2m9q"]
    (entry,) = shown(run)
    assert (entry["event"], entry["text"]) == ("context", block["context"])


def test_receipts_can_be_turned_off(hook: Hook, notes: Path) -> None:
    """With ``receipts = false`` nothing is written, and memories are injected as before."""
    write(notes, "memvault.toml", "version = 1\nreceipts = false\n")
    assert PORT in hook(session_id="a")
    assert PORT in hook(session_id="a")
    assert not (notes / ".memvault" / "receipts").exists()


@pytest.mark.promise("S105")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_receipts_are_private_and_masked(hook: Hook, notes: Path, run: Run) -> None:
    """Only the owner can read a receipt, and secrets are masked even if a memory allows them."""
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    text = f"---\nid: gateway-7k2m9q\nsecrets: allowed\n---\n# Gateway port\n\n{PORT} {secret}\n"
    write(notes, "gateway.md", text)
    assert PORT in hook(session_id="a")
    for file in (notes / ".memvault" / "receipts").glob("*.json*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert secret not in file.read_text("utf-8")
        assert QUESTION not in file.read_text("utf-8")
    assert secret not in run("receipt", "a").out


def test_receipts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session's file and the number of sessions are limited; the newest remain."""
    monkeypatch.setattr(receipts, "_MAX_BYTES", 2_000)
    monkeypatch.setattr(receipts, "_MAX_SESSIONS", 3)
    for session in ("a", "b", "c", "d", "e"):
        for number in range(40):
            receipts.record(
                tmp_path, receipts.Receipt(session, "main", "prompt", text=f"{number} " + "x" * 100)
            )
    files = [*(tmp_path / ".memvault" / "receipts").glob("*.jsonl")]
    assert len(files) <= 7
    assert all(file.stat().st_size < 2_500 for file in files)
    kept = receipts.of_session(tmp_path, "e")
    assert kept[-1].text.startswith("39 ")
    assert len(kept) > 5
    assert len([*receipts.latest_first(tmp_path)]) == 3


@pytest.mark.parametrize(
    "damage",
    [
        b"\x00\xff\n",
        b"[]\n7\nnull\n",
        b'{"session": 7}\n',
        b"[" * 100_000,
        b'{"session": "a", "agent": "main", "event": "prompt", "memories": [["x", 1]]}\n',
        b'{"session": "a", "agent": "main", "event": "prompt", "memories": 7, "extra": 1}\n',
        b'{"session": "a", "agent": "main", "event": "prompt", "memories": [], "tokens": 1'
        + b"0" * 400
        + b"}\n",
        b'{"session": "a", "agent": "main", "event": "prompt", "memories": [["x", "y", NaN]]}\n',
    ],
)
def test_damaged_receipts_are_ignored(hook: Hook, notes: Path, run: Run, damage: bytes) -> None:
    """Damaged lines and counts are skipped; the rest is read, and the hook works."""
    hook(session_id="a")
    (file,) = (notes / ".memvault" / "receipts").glob("*.jsonl")
    with file.open("ab") as stream:
        stream.write(damage)
    (notes / ".memvault" / "receipts" / "unused.json").write_bytes(damage)
    assert hook(session_id="a").strip() == ""
    assert len(shown(run, "a")) == 1
    assert succeeded(run("stats", "--json")).json["mostUnused"] == []


def test_hook_answers_if_receipts_cannot_be_written(hook: Hook, notes: Path) -> None:
    """If a link or a file blocks the receipts folder, the agent still gets its memories."""
    write(notes, ".memvault/receipts", "in the way\n")
    assert PORT in hook(session_id="a")
    assert (notes / ".memvault" / "receipts").read_text() == "in the way\n"


def etag_of(root: Path) -> str:
    """Return the etag of the memory about the gateway."""
    with Vault(root) as vault:
        return str(vault.call("memory_recall", query=QUESTION, full=True)["memories"][0]["etag"])


def injected(root: Path, count: int, etag: str = "") -> None:
    """Record that the memory was injected several times, each time in a new session."""
    memory = receipts.GivenMemory("gateway-7k2m9q", etag or etag_of(root), 0.5)
    text = f"Gateway port (gateway-7k2m9q): {PORT}"
    for _ in range(count):
        receipt = receipts.Receipt(uuid4().hex, "main", "prompt", text=text, memories=(memory,))
        receipts.record(root, receipt)


def test_unused_memory_is_reported(notes: Path, run: Run) -> None:
    """Statistics list memories given three times without use; review offers those given ten."""
    injected(notes, 3)
    (entry,) = run("stats", "--json").json["mostUnused"]
    assert (entry["memId"], entry["count"]) == ("gateway-7k2m9q", 3)
    assert "Given to agents without being used" in run("stats").out
    assert run("review", "--kind", "unused", "--json").json["items"] == []
    injected(notes, 7)
    (item,) = run("review", "--kind", "unused", "--json").json["items"]
    assert item["reason"] == "It was given to agents 10 times without being used"


WEAKER = "where do the requests that come to the gateway from outside arrive"


@pytest.mark.parametrize("event", ["prompt", "session-start"])
def test_unused_memory_needs_better_match(hook: Hook, notes: Path, run: Run, event: str) -> None:
    """A memory given ten times without being used is only given if it is a strong match."""
    projects = {text: notes.parent / text for text in (QUESTION, WEAKER)}
    for folder in projects.values():
        folder.mkdir()

    def added(text: str) -> str:
        return hook(event, prompt=text, cwd=str(projects[text]))

    assert PORT in added(WEAKER)
    injected(notes, 9)
    assert PORT not in added(WEAKER)
    assert PORT in added(QUESTION)


def test_use_or_change_resets_unused_count(hook: Hook, notes: Path, run: Run) -> None:
    """After a memory was used, or its file changed, its count starts again."""
    etag = etag_of(notes)
    injected(notes, 10, etag)
    succeeded(run("show", "gateway.md"))
    injected(notes, 3, etag)
    assert [entry["count"] for entry in run("stats", "--json").json["mostUnused"]] == [3]
    injected(notes, 7, etag)
    assert hook(prompt=WEAKER).strip() == ""
    write(notes, "gateway.md", f"---\nid: gateway-7k2m9q\n---\n# Gateway port\n\n{PORT} Now.\n")
    assert run("stats", "--json").json["mostUnused"] == []
    assert run("review", "--kind", "unused", "--json").json["items"] == []
    assert PORT in hook(prompt=WEAKER)


@pytest.mark.parametrize("count", ["true", "-5000", "1e3", "9" * 4_300, "null", '["x"]'])
def test_damaged_counts_are_ignored(hook: Hook, notes: Path, run: Run, count: str) -> None:
    """Counts that are not positive numbers of a reasonable size are ignored and replaced."""
    text = f'{{"gateway-7k2m9q": [{count}, "{etag_of(notes)}"]}}'
    write(notes, ".memvault/receipts/unused.json", text)
    assert PORT in hook(prompt=WEAKER, session_id="a")
    assert run("stats", "--json").json["mostUnused"] == []
    assert [*receipts.unused(notes, 1).values()] == [1]


def test_hook_answers_if_another_process_holds_the_lock(hook: Hook, notes: Path) -> None:
    """A held lock does not delay answers, and the receipt is still recorded."""
    assert PORT in hook(session_id="a")
    with FileLock(notes / ".memvault" / "receipts" / "lock"):
        assert PORT in hook(session_id="b")
    assert len(receipts.of_session(notes, "b")) == 1


def test_requested_context_contains_unused_memories(notes: Path, vault: Vault) -> None:
    """A call of ``context`` recalls memories however often they were given without being used."""
    injected(notes, 10, etag_of(notes))
    assert PORT in vault.call("context", task=WEAKER)["context"]


CLAIMER = """
import sys
from pathlib import Path
from memvault.agents import receipts

memory = receipts.GivenMemory("gateway-7k2m9q", "x", 0.5)
receipt = receipts.Receipt("", "main", "before-tool", text="x", memories=(memory,))
print("ready", flush=True)
sys.stdin.read()
sessions = (receipt._replace(session=f"session {number}") for number in range(20))
print(*[number for number, one in enumerate(sessions) if receipts.record(Path(sys.argv[1]), one)])
"""


def test_parallel_hooks_inject_memory_once(tmp_path: Path) -> None:
    """Of hooks that run in parallel in a session, only one injects a memory.

    Agent programs start a hook for each of several tool uses at the same time.
    """
    command = [sys.executable, "-c", CLAIMER, str(tmp_path)]
    hooks = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    pipes = [(process.stdin, process.stdout) for process in hooks if process.stdin]
    assert {out.readline() for _, out in pipes if out} == {"ready\n"}
    for start, _ in pipes:
        start.close()
    given = [out.read().strip() for _, out in pipes if out]
    for process in hooks:
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()
    numbers = [int(number) for line in given for number in line.split()]
    assert sorted(numbers) == [*range(20)]


@pytest.mark.parametrize(
    "words",
    [
        ("show", "gateway.md"),
        ("load", "Gateway port"),
        ("compound", "gateway-7k2m9q", "It has a second port."),
        ("remember", "Firewall", "Opened, see gateway-7k2m9q."),
        ("remember", "Firewall", f"Rules: {PORT.lower()}"),
        ("goals", "set", "firewall", "Open the port of [[gateway-7k2m9q]]"),
    ],
)
def test_used_memory_is_not_reported(notes: Path, run: Run, words: tuple[str, ...]) -> None:
    """A memory is used if a later call shows, changes, cites or quotes it."""
    injected(notes, 10)
    succeeded(run("recall", QUESTION))
    assert run("stats", "--json").json["mostUnused"]
    succeeded(run(*words))
    assert run("stats", "--json").json["mostUnused"] == []
    assert run("review", "--kind", "unused", "--json").json["items"] == []


def test_agent_with_limited_rights_gets_only_its_own_receipts(
    hook: Hook, notes: Path, run: Run
) -> None:
    """Another agent's texts are not shown to an agent over MCP with the scope read or write."""
    from memvault.call import Caller
    from memvault.tools.core import invoke
    from memvault.workspace import Workspace

    assert PORT in hook(session_id="a")
    for scope, expected in (("read", 0), ("write", 0), ("all", 1)):
        caller = Caller("other", scope=scope)  # type: ignore[arg-type]
        result = invoke.call_result(Workspace(notes), "memory_receipt", {"session": "a"}, caller)
        assert len(result["receipts"]) == expected
        listed = invoke.call_result(Workspace(notes), "memory_receipt", {"isList": True}, caller)
        assert len(listed["sessions"]) == expected
    assert run("receipt", "a", "--json").json["receipts"]


def test_agents_in_one_session_have_their_own_receipts(hook: Hook, notes: Path, run: Run) -> None:
    """A later receipt of another agent in the same session does not hide an agent's receipts."""
    from memvault.call import Caller
    from memvault.tools.core import invoke
    from memvault.workspace import Workspace

    assert PORT in hook(session_id="a")
    receipts.record(notes, receipts.Receipt("a", "helper", "prompt", text="x", tokens=7))
    (receipt,) = shown(run, "a")[:1]
    assert [entry["agent"] for entry in shown(run)] == ["main", "helper"]
    caller = Caller("main", scope="read")
    listed = invoke.call_result(Workspace(notes), "memory_receipt", {"isList": True}, caller)
    (session,) = listed["sessions"]
    assert (session["agent"], session["receipts"]) == ("main", 1)
    assert session["tokens"] == receipt["tokens"]


def test_receipts_of_every_program_have_a_session() -> None:
    """Each program's prompt event has an id under a key that the hook reads."""
    from memvault.cli import hook as hook_module

    folder = Path(__file__).parent / "integrations"
    for program in PROGRAMS:
        cases = json.loads((folder / program / "events.json").read_text("utf-8"))
        for case in cases:
            if case["event"] in ("prompt", "session-start", "pre-compact"):
                assert hook_module._session(case["given"]), (program, case["event"])
