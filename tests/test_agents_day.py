"""What the tools of an agent's day do together: plans, inbox, waiting, context."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from memvault import Vault, open_vault


def test_a_due_plan_is_one_event_whoever_looks_first(folder: Path, vault: Vault) -> None:
    """A plan that has become due is shown by context, popped once from the inbox, and completed."""
    later = {"name": "Later", "runAfter": "1 hour", "instruction": "Look again"}
    assert vault.call("set_plans", plans=[later])["success"]
    assert vault.call("peek_inbox")["events"] == []
    past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    plan = {"name": "Look", "scheduledAt": past, "instruction": "Look at the harbour"}
    assert vault.call("set_plans", plans=[plan])["success"]
    block = vault.call("context")["context"]
    assert "DUE PLANS" in block
    assert "Look at the harbour" in block
    with open_vault(folder) as other:
        first = other.call("peek_inbox")
    assert [event["type"] for event in first["events"]] == ["plan"]
    assert first["events"][0]["data"]["instruction"] == "Look at the harbour"
    assert vault.call("peek_inbox")["events"] == []
    plans = vault.call("get_plans")["plans"]
    assert {plan["name"]: plan["status"] for plan in plans} == {
        "Later": "active",
        "Look": "completed",
    }


def test_a_wait_for_a_hook_is_not_ended_by_a_plan(vault: Vault) -> None:
    """A plan that becomes due during a wait lies in the inbox afterwards."""
    plan = {"name": "Look", "runAfter": "1 second", "instruction": "Look"}
    assert vault.call("set_plans", plans=[plan])["success"]
    wanted = [
        {"eventType": "Hook", "parameter": "build"},
        {"eventType": "Time", "parameter": "1.5"},
    ]
    happened = vault.call("wait_for", events=wanted)["events"]
    assert happened[0]["event"]["eventType"] == "Time"
    assert [event["type"] for event in vault.call("peek_inbox")["events"]] == ["plan"]


def test_the_context_names_what_waits_in_the_inbox(folder: Path, vault: Vault) -> None:
    """What others said is in the block, with who said it, and stays in the inbox."""
    with open_vault(folder, agent="ana") as ana:
        assert ana.call("talk_agent", agent="main", message="The gate is open")["success"]
    found = vault.call("context")
    assert "ana: The gate is open" in found["context"]
    assert len(vault.call("peek_inbox", count=5)["events"]) == 1
