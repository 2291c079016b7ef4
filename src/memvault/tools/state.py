"""Tools for what an agent keeps from one conversation to the next: key-values, goals, plans."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

from memvault.errors import UsageError
from memvault.tools.registry import Arg, shell, tool
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memvault.work.agenda import Standing
    from memvault.work.agents import Address

__all__ = [
    "delete_goals",
    "delete_memories",
    "delete_plans",
    "get_goals",
    "get_memories",
    "get_plans",
    "set_goals",
    "set_memories",
    "set_plans",
]


class KeyValue(TypedDict):
    """A value under a key."""

    key: Annotated[str, Arg("One line that names the value")]
    value: Annotated[str, Arg("Any text")]


class GoalItem(TypedDict):
    """A goal."""

    id: Annotated[str, Arg("One line that names the goal")]
    description: NotRequired[
        Annotated[str, Arg("What is to be reached; a goal that is there keeps its own without it")]
    ]
    status: NotRequired[Annotated[str, Arg("One word; a new goal is active")]]


class PlanItem(TypedDict):
    """A plan, with exactly one of its three schedules."""

    name: Annotated[str, Arg("One line that names the plan")]
    instruction: Annotated[str, Arg("What is to be done when it is due")]
    cron: NotRequired[
        Annotated[str, Arg("Every time that a cron line of five fields fits, as in 0 9 * * *")]
    ]
    run_after: NotRequired[Annotated[str, Arg("Once, after a delay such as 2 hours or 1 day")]]
    scheduled_at: NotRequired[Annotated[str, Arg("Once, at a moment in ISO 8601")]]


@contextmanager
def _writing(workspace: Workspace) -> Iterator[Address]:
    """Hold the lock of the agent that is asking."""
    from memvault.work.locking import agent_lock

    with agent_lock(workspace.root, workspace.address):
        yield workspace.address


def _deleted(workspace: Workspace, what: str, wanted: list[str], missing: list[str]) -> int:
    """Return how many were deleted, and note those that were not there."""
    workspace.notes += [f"there is no {what} {name!r}" for name in missing]
    return len(set(wanted)) - len(missing)


@tool("set_memories", "memories set", "state", destructive=True)
def set_memories(
    workspace: Workspace,
    memories: Annotated[list[KeyValue], Arg("Values with their keys")],
) -> dict[str, Any]:
    """Keep values under keys; a key that is there gets the new value.

    Each agent has its own keys. A value is a file that may be edited by hand;
    what it held before stays in the history.
    """
    from memvault.work import keyvalues

    with _writing(workspace) as address:
        pairs = [(entry["key"], entry["value"]) for entry in memories]
        return {"count": keyvalues.put(workspace.store, address, pairs)}


@shell("set_memories")
def _set_memories(
    pairs: Annotated[
        list[str], Arg("A key and its value", key="key=value", positional=True, text=True)
    ],
) -> dict[str, Any]:
    memories = []
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign:
            raise UsageError(
                f"{pair[:40]!r} has no value", "write KEY=VALUE, or KEY=- for standard input"
            )
        memories.append({"key": key, "value": value})
    return {"memories": memories}


@tool("get_memories", "memories get", "state", read_only=True)
def get_memories(
    workspace: Workspace,
    keys: Annotated[
        list[str] | None, Arg("The keys; all where none is given", key="keys", positional=True)
    ] = None,
) -> dict[str, Any]:
    """Get the values that are kept, in the order of their keys."""
    from memvault.work.entries import normal
    from memvault.work.keyvalues import all_values

    found, notes = all_values(workspace.store, workspace.address)
    values = {entry.key: entry.value for entry in found}
    wanted = {normal(key) for key in keys} if keys else set(values)
    workspace.notes += [
        *notes,
        *(f"there is no memory {key!r}" for key in sorted(wanted - set(values))),
    ]
    return {"memories": [{"key": key, "value": values[key]} for key in values if key in wanted]}


@tool("delete_memories", "memories delete", "state", destructive=True)
def delete_memories(
    workspace: Workspace,
    keys: Annotated[list[str], Arg("The keys", positional=True)],
) -> dict[str, Any]:
    """Delete values by their keys; what they held stays in the history."""
    from memvault.work import keyvalues

    with _writing(workspace) as address:
        missing = keyvalues.delete(workspace.store, address, keys)
    return {"deleted": _deleted(workspace, "memory", keys, missing)}


@tool("set_goals", "goals set", "state", destructive=True)
def set_goals(
    workspace: Workspace,
    goals: Annotated[list[GoalItem], Arg("Goals with their ids")],
) -> dict[str, Any]:
    """Set goals; one whose id is there is changed.

    Goals with the status active are what the agent is after; any other word,
    such as completed, puts one aside.
    """
    from memvault.work.goals import Goal, put, status_word

    with _writing(workspace) as address:
        wanted = [
            Goal(
                entry["id"],
                entry.get("description", ""),
                status_word(entry["status"]) if "status" in entry else "",
            )
            for entry in goals
        ]
        return {"count": put(workspace.store, address, wanted)}


@shell("set_goals")
def _set_goals(
    name: Annotated[str, Arg("One word or line that names the goal", key="id", positional=True)],
    description: Annotated[
        str | None, Arg("What is to be reached", positional=True, text=True)
    ] = None,
    status: Annotated[str | None, Arg("One word; a new goal is active")] = None,
) -> dict[str, Any]:
    goal = {"id": name, "description": description, "status": status}
    return {"goals": [{key: value for key, value in goal.items() if value is not None}]}


@tool("get_goals", "goals get", "state", read_only=True)
def get_goals(
    workspace: Workspace,
    status: Annotated[str | None, Arg("Only goals with this status")] = None,
) -> dict[str, Any]:
    """Get the goals, in the order of their ids."""
    from memvault.work.goals import all_goals, status_word

    wanted = status_word(status) if status else ""
    goals, notes = all_goals(workspace.store, workspace.address)
    workspace.notes += notes
    return {
        "goals": [
            {"id": goal.id, "description": goal.description, "status": goal.status}
            for goal in goals
            if wanted in ("", goal.status)
        ]
    }


@tool("delete_goals", "goals delete", "state", destructive=True)
def delete_goals(
    workspace: Workspace,
    goal_ids: Annotated[list[str], Arg("Ids of goals", positional=True)],
) -> dict[str, Any]:
    """Delete goals by their ids; what they said stays in the history."""
    from memvault.work import goals

    with _writing(workspace) as address:
        missing = goals.delete(workspace.store, address, goal_ids)
    return {"deleted": _deleted(workspace, "goal", goal_ids, missing)}


@tool("set_plans", "plans set", "state", destructive=True)
def set_plans(
    workspace: Workspace,
    plans: Annotated[list[PlanItem], Arg("Plans, each with exactly one schedule")],
) -> dict[str, Any]:
    """Set plans; one whose name is there is changed.

    A plan that is due becomes one event in the agent's inbox, exactly once,
    whoever looks. A cron line that was missed several times runs once. Cron
    lines are meant in the time zone that memvault.toml names, else UTC.
    """
    from memvault import clock
    from memvault.work.agenda import Wanted, put

    zone = clock.zone(workspace.settings.timezone)
    with _writing(workspace) as address:
        wanted = [Wanted(plan["name"], plan["instruction"], _schedule(plan)) for plan in plans]
        done = put(workspace.store, address, wanted, clock.now(), zone)
    return {
        "plans": [
            {key: entry[key] for key in ("id", "name", "nextRunAt", "status") if key in entry}
            for entry in map(_shown, done)
        ]
    }


def _schedule(plan: PlanItem) -> Any:
    from memvault.work.schedule import Schedule

    given = {
        "cron": plan.get("cron"),
        "runAfter": plan.get("run_after"),
        "scheduledAt": plan.get("scheduled_at"),
    }
    found = [Schedule(kind, text) for kind, text in given.items() if text]
    if len(found) != 1:
        said = " and ".join(entry.kind for entry in found) or "none"
        raise UsageError(
            f"The plan {plan['name']!r} needs exactly one schedule and has {said}",
            "give cron (--cron), runAfter (--run-after) or scheduledAt (--at)",
        )
    return found[0]


@shell("set_plans")
def _set_plans(
    name: Annotated[str, Arg("What the plan is called", positional=True)],
    instruction: Annotated[
        str, Arg("What is to be done when it is due", positional=True, text=True)
    ],
    cron: Annotated[str | None, Arg("A cron line of five fields, as in '0 9 * * *'")] = None,
    run_after: Annotated[str | None, Arg("A delay, as in '2 hours'")] = None,
    scheduled_at: Annotated[
        str | None, Arg("A moment, as in 2026-03-01T08:00:00Z", flag="--at")
    ] = None,
) -> dict[str, Any]:
    plan = {
        "name": name,
        "instruction": instruction,
        "cron": cron,
        "runAfter": run_after,
        "scheduledAt": scheduled_at,
    }
    return {"plans": [{key: value for key, value in plan.items() if value is not None}]}


@tool("get_plans", "plans get", "state", read_only=True)
def get_plans(
    workspace: Workspace,
    status: Annotated[
        Literal["active", "completed", "expired"] | None, Arg("Only plans with this status")
    ] = None,
) -> dict[str, Any]:
    """Get the plans, the next due first."""
    from memvault import clock
    from memvault.work.agenda import upcoming

    zone = clock.zone(workspace.settings.timezone)
    stands, notes = upcoming(workspace.store, workspace.address, clock.now(), zone)
    workspace.notes += notes
    return {"plans": [_shown(stand) for stand in stands if status in (None, stand.status)]}


def _shown(stand: Standing) -> dict[str, Any]:
    """Return what is said of a plan; of a delay, the moment that it comes to."""
    from memvault import clock

    plan = stand.plan
    shown: dict[str, Any] = {"id": plan.id, "name": plan.name, "instruction": plan.instruction}
    shown[plan.schedule.kind] = plan.schedule.text
    once = stand.next_run or stand.last_run or plan.since
    if plan.schedule.kind == "runAfter" and once is not None:
        shown["scheduledAt"] = clock.iso(once)
    for key, at in (("nextRunAt", stand.next_run), ("lastRunAt", stand.last_run)):
        if at is not None:
            shown[key] = clock.iso(at)
    return {**shown, "status": stand.status}


@tool("delete_plans", "plans delete", "state", destructive=True)
def delete_plans(
    workspace: Workspace,
    plan_ids: Annotated[list[str], Arg("Ids or names of plans", positional=True)],
) -> dict[str, Any]:
    """Delete plans by their ids; what they said stays in the history."""
    from memvault.work import agenda

    with _writing(workspace) as address:
        missing = agenda.delete(workspace.store, address, plan_ids)
    return {"deleted": _deleted(workspace, "plan", plan_ids, missing)}
