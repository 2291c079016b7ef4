"""An extractor is a command of the user's: what it prints is checked, and it never outlives us."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from conftest import Run, is_alive, refused, until
from episodes import WEEK, put_all
from memvault import Vault
from memvault.consolidation.extractor import extract
from memvault.errors import Refused, TimedOut
from memvault.process import run as run_command

FACT = {"fact": "Releases need a quiet hour.", "confidence": 0.8, "episodes": ["release-one-id"]}
PROCEDURE = {
    "procedure": "release",
    "prompt": "Run the tests, then push the tag.",
    "episodes": ["release-one-id", "release-three-id"],
}


def command(folder: Path, code: str) -> str:
    """Write a program and return the command that runs it."""
    path = folder.parent / "extract it.py"
    path.write_text(code, "utf-8")
    return shlex.join([sys.executable, str(path)])


def printing(folder: Path, *lines: object) -> str:
    """Return a command that prints lines, of objects as JSON, whatever it gets."""
    told = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return command(folder, f"print({chr(10).join(told)!r})")


def test_an_extractor_gets_episodes_and_proposes(vault: Vault, folder: Path) -> None:
    """Facts and procedures come from the command, with rates measured over its episodes."""
    put_all(folder, WEEK)
    code = f"""
import json, sys
seen = [json.loads(line) for line in sys.stdin]
assert len(seen) == 7 and seen[0]["episodeId"] == "cache-bug-id", seen
assert seen[0]["actions"][0] == "Look at the logs" and seen[0]["success"] is True
print({json.dumps(FACT)!r})
print()
print({json.dumps(PROCEDURE)!r})
"""
    result = vault.call("consolidate_memories", extractor=command(folder, code), apply=True)
    assert result["success"], result
    (fact,), (procedure,) = result["facts"], result["procedures"]
    assert (fact["factText"], fact["confidence"]) == (FACT["fact"], 0.8)
    assert (procedure["name"], procedure["successRate"]) == ("release", 0.5)
    shown = vault.call("memory_show", memId=fact["factId"])
    assert shown["content"].strip().endswith("From [[release-one]]")
    again = vault.call("consolidate_memories", extractor=command(folder, code), apply=True)
    assert again["facts"] == again["procedures"] == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("Here are the facts:", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ("[" * 100_000, "it is not JSON"),
        ({"episodes": ["release-one-id"]}, "it needs either fact or procedure"),
        ({**FACT, **PROCEDURE}, "it needs either fact or procedure"),
        ({**FACT, "confidence": 1.5}, "confidence must be a number from 0 to 1"),
        ({**FACT, "confidence": True}, "confidence must be a number from 0 to 1"),
        ('{"fact": "a b", "confidence": NaN, "episodes": ["release-one-id"]}', "confidence must"),
        ({**FACT, "episodes": ["nobody"]}, "'nobody' is not one of the episodes"),
        ({**FACT, "episodes": [["release-one-id"]]}, "is not one of the episodes"),
        ({**FACT, "episodes": []}, "episodes must name the episodes that it came from"),
        ({**FACT, "fact": " "}, "fact must be a text"),
        ({**FACT, "fact": "\ud800 x"}, "fact is not valid Unicode"),
        ({**FACT, "importance": 1}, "'importance' is not a key of a fact"),
        ({**PROCEDURE, "prompt": 3}, "prompt must be a text"),
        ({**PROCEDURE, "skillId": "not a skill id!!"}, "cannot be the id of a skill"),
        ({**PROCEDURE, "skillId": "x" * 200}, "cannot be the id of a skill"),
        ({**PROCEDURE, "procedure": "name " * 500}, "procedure is longer than 200 characters"),
        ({**FACT, "category": "c" * 5_000}, "category is longer than 200 characters"),
    ],
)
def test_bad_lines_are_shown_and_nothing_is_applied(
    vault: Vault, folder: Path, line: object, problem: str
) -> None:
    """A line that is no proposal is shown with its number; applying refuses the whole run."""
    put_all(folder, WEEK)
    extractor = printing(folder, FACT, line)
    preview = vault.call("consolidate_memories", extractor=extractor)
    assert [entry["factText"] for entry in preview["facts"]] == [FACT["fact"]]
    (shown,) = preview["refused"]
    assert shown["line"] == 2
    assert problem in shown["problem"]
    applied = vault.call("consolidate_memories", extractor=extractor, apply=True)
    assert applied["error"]["code"] == "refused"
    assert applied["refused"] == preview["refused"]
    assert not (folder / "fact").exists()


def test_what_no_file_should_hold_is_left_out(vault: Vault, folder: Path) -> None:
    """What is shown of a line is what is written: no control characters, no line ends in names."""
    put_all(folder, WEEK)
    fact = {**FACT, "fact": "Releases need\0 a quiet hour.", "category": " ops \n rules "}
    procedure = {**PROCEDURE, "procedure": "rel\0ease\nit", "prompt": "Run\0 the tests\r\nPush"}
    extractor = printing(folder, fact, {**procedure, "skillId": " git.release\n"})
    result = vault.call("consolidate_memories", extractor=extractor, apply=True)
    (made,), (done,) = result["facts"], result["procedures"]
    assert (made["factText"], made["category"]) == (FACT["fact"], "ops rules")
    assert (done["name"], done["skillId"]) == ("release it", "git.release")
    assert done["prompt"] == "Run the tests\nPush"
    written = (folder / done["filePath"]).read_text("utf-8")
    assert "\nRun the tests\nPush\n" in written
    assert "\0" not in written


def test_an_extractor_that_fails_says_why(run: Run, folder: Path) -> None:
    """The last line that it wrote to standard error is in the message."""
    put_all(folder, WEEK)
    failing = command(folder, "import sys; print('x'); sys.exit('first\\nno key for the model')")
    told = refused(run("consolidate", "--extractor", failing), 1)
    assert told.endswith("ended with code 1: no key for the model")
    assert "no such program" in refused(run("consolidate", "--extractor", "no-such-thing"), 2)
    refused(run("consolidate", "--extractor", "'open"), 2)
    refused(run("consolidate", "--extractor", " "), 2)


def test_an_extractor_is_no_shell_line(vault: Vault, folder: Path) -> None:
    """What a shell would act on is an argument like any other."""
    touched = folder.parent / "touched"
    extractor = f"{printing(folder, FACT)} ; touch {shlex.quote(str(touched))} $(touch {touched})"
    put_all(folder, WEEK)
    assert len(vault.call("consolidate_memories", extractor=extractor)["facts"]) == 1
    assert not touched.exists()


def test_an_extractor_that_hangs_is_ended_with_all_that_it_started(folder: Path) -> None:
    """After its time nothing of it is left running, whatever it had come to by then."""
    note = folder.parent / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"with open({str(note)!r}, 'w') as file: print(child.pid, file=file)\n"
        "time.sleep(600)\n"
    )
    seconds = 1.0
    while not note.exists() or not note.read_text("utf-8").endswith("\n"):  # it was too slow
        seconds *= 2
        assert seconds < 300
        with pytest.raises(TimedOut, match=f"did not end within {seconds:g} seconds"):
            extract(command(folder, code), [], seconds=seconds)
    until(lambda: not is_alive(int(note.read_text("utf-8"))))


def test_an_extractor_that_never_stops_talking_is_stopped(folder: Path) -> None:
    """Output beyond the limit ends the command; memory does not fill up."""
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    with pytest.raises(Refused, match="printed more than"):
        extract(command(folder, code), [], seconds=300)


def test_a_command_may_leave_its_input_unread(folder: Path) -> None:
    """A command that reads nothing of a long input, or only its beginning, is no failure."""
    text = "ä" * 1_500_000
    for code, output in (
        ("print('done')", "done"),
        ("import sys; print(sys.stdin.buffer.read(3) == 'ä'.encode() + b'\\xc3')", "True"),
        ("import sys; print(len(sys.stdin.buffer.read()))", "3000000"),
    ):
        ended = run_command([sys.executable, "-c", code], text, 60, 1_000)
        assert ended == (0, f"{output}\n".encode(), "", False, False)
