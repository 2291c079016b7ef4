"""Any file in a plans folder is a plan or is reported; a plan that replaces it is stored."""

from __future__ import annotations

from memvault import clock
from memvault.agents.address import Address
from memvault.agents.agent_files import AgentFileUpdate
from memvault.agents.plans import agent_plans, plan_files
from memvault.errors import MemvaultError
from targets.shapes import HEADER_TOKENS, file_in, store

TOKENS = (
    *HEADER_TOKENS,
    'cron: "0 9 * * *"\n',
    "runAfter: 2 hours\n",
    "scheduledAt: 2026-12-01T08:00:00Z\n",
    "nextRunAt: 2026-12-01T08:00:00Z\n",
    "name: Report\n",
    "status: completed\n",
    "status: active\n",
)
_MAIN = Address("main")


def check(data: bytes) -> None:
    """Read an agenda that contains the bytes, and set a line and the text of each entry."""
    file_in("agents/main/plans/p.md")(data)
    agent = agent_plans.AgentPlans(store(), _MAIN, clock.zone("Europe/Berlin"))
    stands, notes = agent.statuses()
    assert len(stands) == 1 or notes
    for stand in stands:
        assert (stand.next_run is not None) is (stand.status == plan_files.ACTIVE)
    entries = agent.files
    for name, old in entries.read().entries.items():
        entries.put(
            [AgentFileUpdate(name, old, {"status": "late, or not"}, "Do it\n\nnow", stem="p")]
        )
        try:
            new = entries.read().entries[name]
        except MemvaultError as error:
            raise AssertionError("the entry is gone") from error
        assert new.text == "Do it\n\nnow"
        kept = {key: value for key, value in old.header.items() if key != "id"}
        assert new.header == {**kept, "id": new.header["id"], "status": "late, or not"}
