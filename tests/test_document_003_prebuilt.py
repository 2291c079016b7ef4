"""The example calls of the reference of prebuilt tools, as it writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memvault import Vault, clock, open_vault

MEMORIES = [
    {"key": "project_alpha_deadline", "value": "Q4 report due Feb 28"},
    {"key": "designer_prefers_png", "value": "Designer always requests PNG exports"},
]
GOALS = [
    {"id": "goal-1", "description": "Complete Q4 report by Feb 28", "status": "active"},
    {"id": "goal-2", "description": "Review Designer's mockup", "status": "completed"},
]
PLANS = [
    {
        "name": "Daily Report",
        "cron": "0 9 * * *",
        "instruction": "Generate and post the daily metrics summary",
    },
    {
        "name": "Follow Up",
        "runAfter": "2 hours",
        "instruction": "Check if Husam responded to the mockup review request",
    },
    {
        "name": "Pre-launch checklist",
        "scheduledAt": f"{clock.now().year + 1}-03-01T08:00:00Z",  # the document's lies in the past
        "instruction": "Run the pre-launch checks before the product goes live",
    },
]
CANCELLED = "Actually cancel that, I changed my mind about the Tokyo trip"


@pytest.fixture
def user(folder: Path) -> Iterator[Vault]:
    """The person, in the same vault."""
    with open_vault(folder, "user") as opened:
        yield opened


def done(result: dict[str, Any]) -> dict[str, Any]:
    """Check that a call succeeded; return its result."""
    assert result["success"] is True, result
    return result


def test_a_space_is_entered_with_its_history(vault: Vault, folder: Path, user: Vault) -> None:
    """What was said so far comes with who said it, a human or an agent, and how much there is."""
    done(user.call("enter_space", spaceId="Project Alpha"))
    done(user.call("send_message", text="Can you check the status?"))
    with open_vault(folder, "Designer") as designer:
        entered = done(designer.call("enter_space", spaceId="project-alpha"))
        done(designer.call("send_message", text="On it."))
    found = done(vault.call("enter_space", spaceId=entered["spaceId"], limit=50))
    assert found["spaceName"] == "Project Alpha"
    assert found["totalMessages"] == 2
    said = [(entry["senderType"], entry["content"]) for entry in found["history"]]
    assert said == [("human", "Can you check the status?"), ("agent", "On it.")]
    for entry in found["history"]:
        assert entry.keys() >= {"id", "senderName", "timestamp"}
    read = done(vault.call("read_messages", spaceId=entered["spaceId"], limit=1, offset=1))
    assert ([entry["content"] for entry in read["messages"]], read["total"]) == (
        ["Can you check the status?"],
        2,
    )


def test_a_message_is_delivered_to_every_other_member(vault: Vault, user: Vault) -> None:
    """The one parameter is the text; the members' inboxes have it, the sender's has not."""
    assert vault.call("send_message", text="Hello everyone")["success"] is False
    done(user.call("enter_space", spaceId="Family"))
    done(vault.call("enter_space", spaceId="Family"))
    sent = done(vault.call("send_message", text="Hello everyone"))
    assert (bool(sent["messageId"]), sent["status"]) == (True, "delivered")
    assert done(vault.call("peek_inbox"))["events"] == []
    (event,) = done(user.call("peek_inbox"))["events"]
    assert event["data"]["content"] == "Hello everyone"
    assert done(vault.call("read_messages"))["messages"][-1]["content"] == "Hello everyone"


def test_a_correction_is_pulled_from_the_inbox(vault: Vault, user: Vault) -> None:
    """The event is whole, taken out once, and what else waits is counted."""
    for member in (vault, user):
        done(member.call("enter_space", spaceId="Family"))
    done(user.call("send_message", text=CANCELLED))
    done(user.call("send_message", text="Sorry!"))
    preview = done(vault.call("context"))["context"]
    assert "Actually cancel that" in preview
    found = done(vault.call("peek_inbox", count=1))
    (event,) = found["events"]
    assert (event["type"], found["remaining"]) == ("space_message", 1)
    assert event.keys() >= {"eventId", "timestamp"}
    expected = {"spaceName": "Family", "senderType": "human", "content": CANCELLED}
    assert expected.items() <= event["data"].items()
    assert event["data"].keys() >= {"spaceId", "senderName"}
    assert done(vault.call("peek_inbox", filter="plan"))["events"] == []
    assert len(done(vault.call("peek_inbox", count=5, filter="space_message"))["events"]) == 1


def test_memories_are_kept_under_keys(vault: Vault) -> None:
    """Both pairs are stored, read back, put before the agent, and deleted by their keys."""
    assert done(vault.call("set_memories", memories=MEMORIES))["count"] == 2
    nothing: list[dict[str, Any]] = [{}, {"keys": []}]
    for asked in nothing:
        found = done(vault.call("get_memories", **asked))["memories"]
        assert sorted(found, key=lambda entry: entry["key"]) == sorted(
            MEMORIES, key=lambda entry: entry["key"]
        )
    one = done(vault.call("get_memories", keys=["designer_prefers_png"]))["memories"]
    assert one == MEMORIES[1:]
    block = done(vault.call("context"))["context"]
    assert "MEMORIES:" in block
    assert "Q4 report due Feb 28" in block
    keys = ["project_alpha_deadline", "designer_prefers_png"]
    assert done(vault.call("delete_memories", keys=keys))["deleted"] == 2
    assert done(vault.call("get_memories"))["memories"] == []


def test_goals_are_set_and_deleted(vault: Vault) -> None:
    """Both goals are kept, the active one is put before the agent, and ids delete them."""
    done(vault.call("set_goals", goals=GOALS))
    assert done(vault.call("get_goals"))["goals"] == GOALS
    block = done(vault.call("context"))["context"]
    assert "GOALS:" in block
    assert "Complete Q4 report by Feb 28" in block
    assert "mockup" not in block
    assert done(vault.call("delete_goals", goalIds=["goal-1", "goal-2"]))["deleted"] == 2


def test_plans_are_scheduled_in_three_ways(vault: Vault) -> None:
    """One call takes all three; they come back with when they run next, and ids delete them."""
    done(vault.call("set_plans", plans=PLANS))
    plans = {plan["name"]: plan for plan in done(vault.call("get_plans"))["plans"]}
    assert plans.keys() == {plan["name"] for plan in PLANS}
    assert {plan["status"] for plan in plans.values()} == {"active"}
    daily, launch = plans["Daily Report"], plans["Pre-launch checklist"]
    assert daily["cron"] == "0 9 * * *"
    assert daily["nextRunAt"].endswith("T09:00:00.000Z")
    assert launch["nextRunAt"] == launch["scheduledAt"]
    assert launch["scheduledAt"].endswith("-03-01T08:00:00.000Z")
    assert done(vault.call("get_plans", status="completed"))["plans"] == []
    assert len(done(vault.call("get_plans", status="active"))["plans"]) == 3
    both = [daily["id"], plans["Follow Up"]["id"]]
    assert done(vault.call("delete_plans", planIds=both))["deleted"] == 2


def test_a_plan_has_one_schedule(vault: Vault) -> None:
    """The three ways to schedule exclude each other."""
    both = {**PLANS[0], "runAfter": "30 minutes"}
    assert vault.call("set_plans", plans=[both])["success"] is False
    for after in ("2 hours", "30 minutes", "1 day"):
        plan = {"name": after, "runAfter": after, "instruction": "Look"}
        done(vault.call("set_plans", plans=[plan]))


def test_a_service_wakes_an_agent_too(vault: Vault) -> None:
    """An event of the third type is pulled by its filter."""
    done(vault.call("push_service", name="ci", message="The build is green"))
    (event,) = done(vault.call("peek_inbox", filter="service"))["events"]
    assert event["type"] == "service"
