"""A process of the mailbox tests: it takes or delivers events until it is killed or done.

It says on standard output what it is about to do and what it has done, so that
the test knows exactly where it was killed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from memvault.tools import invoke
from memvault.work.agents import Address
from memvault.work.mailbox import Inbox
from memvault.workspace import Workspace


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")  # at one stroke, or not at all
    sys.stdout.flush()


def take(root: Path, count: int) -> None:
    workspace = Workspace(root)
    while True:
        found = invoke.call(workspace, "peek_inbox", {"count": count})
        if not found["events"]:
            break
        say("has", *(event["data"]["message"] for event in found["events"]))
        workspace.settle()
        say("settled")
    say("done")


def deliver(root: Path, first: int, last: int) -> None:
    inbox = Inbox(root, Address("main"))
    for number in range(first, last):
        inbox.deliver("service", {"name": "n", "message": str(number)}, event_id=f"event-{number}")
        say("delivered", number)
    say("done")


if __name__ == "__main__":
    if sys.argv[1] == "take":
        take(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        deliver(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
