"""A process for the inbox tests that takes or delivers events until it is done or killed.

``take`` takes all existing events. ``rounds`` repeatedly runs a taker and a deliverer at the same
time; each kills itself before a random file change. Both log each action before and after it, so
that the test knows where each was killed.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

from killing import die_at, forked
from memvault.agents.address import Address
from memvault.agents.messages.inbox import Inbox
from memvault.tools.core import invoke
from memvault.workspace import Workspace


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")  # A single write is atomic.
    sys.stdout.flush()


def take(root: Path, count: int, chance: random.Random | None = None) -> None:
    workspace = Workspace(root)
    while True:
        with invoke.call(workspace, "peek_inbox", {"count": count}) as outcome:
            events = outcome.result["events"]
            if not events:
                break
            if chance and chance.random() < 0.2:
                continue  # Simulate output that could not be written.
            say("has", *(event["data"]["message"] for event in events))
            outcome.acknowledge()
            say("settled")
    say("done")


def deliver(root: Path, first: int, last: int) -> None:
    inbox = Inbox(root, Address("main"))
    for number in range(first, last):
        inbox.deliver("service", {"name": "n", "message": str(number)}, event_id=f"event-{number}")
        say("delivered", number)
    say("done")


def dying(place: str) -> None:
    say("dies", place)


def rounds(root: Path, number: int) -> None:
    """For each round, report both logs, the killed process, and the number of remaining leases."""
    chance = random.Random(number)
    delivered = 0
    inbox = Inbox(root, Address("main"))
    take(root, 1)  # Takes nothing; imports the modules that forks need.
    for _ in range(number):
        for event in range(delivered, delivered + 3):
            inbox.deliver("service", {"name": "n", "message": str(event)}, f"event-{event}")
        delivered += 3
        dies = chance.randrange(1, 40), chance.randrange(1, 80)
        seed = chance.random()

        def delivering(first: int = delivered, at: int = dies[0]) -> None:
            die_at([root], at, dying)
            deliver(root, first, first + 8)

        def taking(at: int = dies[1], seed: float = seed) -> None:
            die_at([root], at, dying)
            take(root, 3, random.Random(seed))

        said, ended = [], []
        for child, words in [forked(delivering), forked(taking)]:
            with open(words, encoding="utf-8") as file:
                said.append(file.read().splitlines())
            ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        told = [int(line.split()[1]) for line in said[0] if line.startswith("delivered")]
        delivered = max([delivered, *(last + 1 for last in told)])
        leases = [path for path in root.glob(".memvault/agents/main/leases/*") if path.is_dir()]
        left = sum(1 for lease in leases if any(lease.iterdir()))
        each = {"taken": said[1], "delivered": delivered, "left": left, "ended": ended}
        say(json.dumps(each))


if __name__ == "__main__":
    if sys.argv[1] == "take":
        take(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        rounds(Path(sys.argv[2]), int(sys.argv[3]))
