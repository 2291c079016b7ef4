"""Tools for an agent's state between conversations: key-value pairs, goals and plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypedDict, cast

from memvault.arguments.parameters import Arg, CommandLineForm
from memvault.call import Call
from memvault.errors import NotFound, UsageError, did_you_mean, suggestion
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.result_parts import fields, paginate, without_none
from memvault.tools.core.shared_args import CONTENT_ALIASES, LISTED, Limit, Offset

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memvault import results
    from memvault.agents.plans.status import PlanStatus

group = ToolGroup("state", "An agent's key-value pairs, goals and plans", place=40)


class KeyValue(TypedDict):
    """A key and its value."""

    key: Annotated[str, Arg("A key, one line", json_aliases=("name", "id"))]
    value: Annotated[str, Arg("Any string", text=True, json_aliases=CONTENT_ALIASES)]


class GoalItem(TypedDict):
    """A goal."""

    id: Annotated[str, Arg("A goal id, one line", positional=True, json_aliases=("goalId", "name"))]
    description: NotRequired[
        Annotated[
            str,
            Arg(
                "The goal's description; omit it to keep the existing one",
                positional=True,
                text=True,
                json_aliases=("goal", *CONTENT_ALIASES),
            ),
        ]
    ]
    status: NotRequired[Annotated[str, Arg("One word; active by default")]]


class PlanItem(TypedDict):
    """A plan, with exactly one of its three schedules."""

    name: Annotated[
        str, Arg("The plan's name, one line", positional=True, json_aliases=("title", "id"))
    ]
    instruction: Annotated[
        str,
        Arg(
            "What to do when it is due",
            positional=True,
            text=True,
            json_aliases=("prompt", "task", "description", *CONTENT_ALIASES),
        ),
    ]
    cron: NotRequired[
        Annotated[
            str,
            Arg(
                "A cron expression of five fields, such as 0 9 * * *",
                cli_override=CommandLineForm(
                    "A cron expression of five fields, such as '0 9 * * *'"
                ),
            ),
        ]
    ]
    run_after: NotRequired[
        Annotated[
            str,
            Arg(
                "Once, after a delay, such as 2 hours or 1 day",
                cli_override=CommandLineForm("A delay, such as '2 hours'"),
                json_aliases=("delay", "after"),
            ),
        ]
    ]
    scheduled_at: NotRequired[
        Annotated[
            str,
            Arg(
                "Once, at a time in ISO 8601",
                flag="--at",
                cli_override=CommandLineForm("A time, such as 2026-03-01T08:00:00Z"),
                json_aliases=("at", "time", "when"),
            ),
        ]
    ]


def _pair(word: str) -> dict[str, str]:
    """Parse ``KEY=VALUE`` from the command line."""
    key, separator, value = word.partition("=")
    if not separator:
        raise UsageError(
            f"{word[:40]!r} has no value", "pass KEY=VALUE, or KEY=- to read standard input"
        )
    return {"key": key, "value": value}


_GET = {"key": "memories get", "goal": "goals get", "plan": "plans get"}
"""The command that lists the entries of each kind."""


def _delete(
    call: Call,
    kind: str,
    delete: Callable[[list[str]], list[str]],
    names: list[str],
    ids: Mapping[str, str],
) -> results.DeletedEntries:
    """Delete the entries with these names, and add notes for those that do not exist.

    ``ids`` maps the names of the existing entries to their ids.

    Raises:
        NotFound: none of them exists.
    """
    missing = delete(names)
    deleted_count = len({ids.get(name, name) for name in names if name not in missing})
    if missing and not deleted_count:
        raise NotFound(
            f"There is no {kind} {' or '.join(map(repr, missing))}",
            suggestion(missing[0], ids, f"`memvault {_GET[kind]}` lists the existing ones"),
        )
    call.notes += [f"there is no {kind} {name!r}{did_you_mean(name, ids)}" for name in missing]
    return {"deleted": deleted_count}


@group.tool(
    "memories set",
    destructive=True,
    idempotent=True,
    examples=(
        'memvault memories set deadline="28 February"',
        "memvault memories set tone=friendly plan=@notes.txt",
    ),
    view="Set {count}",
)
def set_memories(
    call: Call,
    memories: Annotated[
        list[KeyValue],
        Arg(
            "Values with their keys",
            positional=True,
            text=True,
            cli_override=CommandLineForm("A key and its value", _pair, "key=value"),
        ),
    ],
) -> results.SetEntries:
    """Set values by key, replacing existing ones.

    Each agent has its own keys. Each value is a file that you may edit; old values stay in the
    history.
    """
    from memvault.agents import values

    pairs = [(entry["key"], entry["value"]) for entry in memories]
    return {"count": values.set_values(call.store, call.address, pairs)}


@group.tool(
    "memories get",
    paged_keys=("memories",),
    read_only=True,
    examples=("memvault memories get", "memvault memories get deadline"),
    view="""*memories | There are no such memories
        {key}  {value:first}
           > {value:rest}""",
    reveals=True,
)
def get_memories(
    call: Call,
    keys: Annotated[
        list[str] | None,
        Arg("The keys; all by default", key="keys", positional=True, json_aliases=("key",)),
    ] = None,
    limit: Annotated[
        int | None, Arg("Maximum number; all if keys are given", minimum=1, default=LISTED)
    ] = None,
    offset: Offset = 0,
) -> results.StoredValues:
    """Get values, in the order of the given keys, or else sorted by key."""
    from memvault.agents.agent_files import normalize_name
    from memvault.agents.values import all_values

    entries, notes = all_values(call.store, call.address)
    values = {entry.name: entry.text for entry in entries}
    requested_names = list(dict.fromkeys(map(normalize_name, keys))) if keys else list(values)
    call.notes += notes + [
        f"there is no memory {key!r}{did_you_mean(key, values)}"
        for key in requested_names
        if key not in values
    ]
    selected = [key for key in requested_names if key in values]
    shown, paging = paginate(selected, limit or (len(selected) if keys else LISTED), offset)
    return {"memories": [{"key": key, "value": values[key]} for key in shown], **paging}


@group.tool(
    "memories delete",
    destructive=True,
    idempotent=True,
    examples=("memvault memories delete deadline", "memvault memories delete a b"),
    view="Deleted {deleted}",
)
def delete_memories(
    call: Call,
    keys: Annotated[list[str], Arg("The keys", positional=True, json_aliases=("key", "ids"))],
) -> results.DeletedEntries:
    """Delete values by their keys; they stay in the history.

    A warning lists unknown keys. If none of the keys exists, the call fails.
    """
    from memvault.agents import values

    files = values.values_of(call.store, call.address)
    ids = {key: key for key in files.read().entries}
    return _delete(call, "key", files.delete, keys, ids)


@group.tool(
    "goals set",
    destructive=True,
    idempotent=True,
    examples=(
        'memvault goals set report "Hand in the report"',
        "memvault goals set report --status completed",
    ),
    view="Set {count}",
)
def set_goals(
    call: Call, goals: Annotated[list[GoalItem], Arg("Goals with their ids", flatten=True)]
) -> results.SetEntries:
    """Set goals by id; existing goals are updated.

    The agent pursues goals whose status is active; any other word, such as
    completed, makes a goal inactive.
    """
    from memvault.agents.goals import Goal
    from memvault.agents.goals import set_goals as write

    goals_to_set = [
        Goal(entry["id"], entry.get("description", ""), entry.get("status")) for entry in goals
    ]
    return {"count": write(call.store, call.address, goals_to_set)}


@group.tool(
    "goals get",
    paged_keys=("goals",),
    read_only=True,
    examples=("memvault goals get", "memvault goals get --status active"),
    view="""*goals | There are no goals
        {id}  {status}  {description:first}
           > {description:rest}""",
    reveals=True,
)
def get_goals(
    call: Call,
    status: Annotated[str | None, Arg("Only goals with this status")] = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.StoredGoals:
    """Get the goals, sorted by id."""
    from memvault.agents.goals import all_goals, status_word

    wanted_status = status_word(status) if status else ""
    goals, notes = all_goals(call.store, call.address)
    call.notes += notes
    selected_goals = [goal for goal in goals if wanted_status in ("", goal.status)]
    shown, paging = paginate(selected_goals, limit, offset)
    goals_shown = [fields(goal, "id", "description", "status") for goal in shown]
    return {"goals": cast("list[results.StoredGoal]", goals_shown), **paging}


@group.tool(
    "goals delete",
    destructive=True,
    idempotent=True,
    examples=("memvault goals delete report", "memvault goals delete report launch"),
    view="Deleted {deleted}",
)
def delete_goals(
    call: Call,
    goal_ids: Annotated[
        list[str],
        Arg("The goals' ids", positional=True, json_aliases=("ids", "id", "goalId", "goals")),
    ],
) -> results.DeletedEntries:
    """Delete goals by their ids; they stay in the history.

    A warning lists unknown ids. If none of the goals exists, the call fails.
    """
    from memvault.agents import goals

    files = goals.goals_of(call.store, call.address)
    ids = {key: key for key in files.read().entries}
    return _delete(call, "goal", files.delete, goal_ids, ids)


_PLANS = """*plans | There are no plans
    {name}  {status}
       {id}  {cron}  {runAfter}  next {nextRunAt:second}  last {lastRunAt:second}
       > {instruction:each}"""


@group.tool(
    "plans set",
    destructive=True,
    examples=(
        'memvault plans set "Daily numbers" "Post them" --cron "0 9 * * *"',
        'memvault plans set "Ask again" "Is it done?" --run-after "2 hours"',
        'memvault plans set Launch "Check everything" --at 2999-03-01T08:00',
    ),
    view=_PLANS,
)
def set_plans(
    call: Call,
    plans: Annotated[list[PlanItem], Arg("Plans, each with exactly one schedule", flatten=True)],
) -> results.SetPlans:
    """Set plans by name; existing plans are updated.

    A due plan becomes exactly one event in the agent's inbox, even with several
    processes. A cron schedule that was missed several times runs once. Cron expressions, and
    times without an offset, use the time zone set in memvault.toml, else UTC.
    """
    from memvault.agents.plans.schedule import only_schedule
    from memvault.agents.plans.status import PlanRequest

    try:
        requests = [
            PlanRequest(
                plan["name"],
                plan["instruction"],
                only_schedule(
                    plan["name"],
                    cron=plan.get("cron"),
                    runAfter=plan.get("run_after"),
                    scheduledAt=plan.get("scheduled_at"),
                ),
            )
            for plan in plans
        ]
        statuses = call.plans.set(requests)
    except UsageError as error:
        if len(plans) > 1:
            error.message += "; no plan was set"
        raise
    return {
        "plans": [
            {
                "id": entry["id"],
                "name": entry["name"],
                **without_none(nextRunAt=entry.get("nextRunAt")),
                "status": entry["status"],
            }
            for entry in map(_plan, statuses)
        ]
    }


@group.tool(
    "plans get",
    paged_keys=("plans",),
    read_only=True,
    examples=("memvault plans get", "memvault plans get --status active"),
    view=_PLANS,
    reveals=True,
)
def get_plans(
    call: Call,
    status: Annotated[
        Literal["active", "completed", "expired"] | None, Arg("Only plans with this status")
    ] = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.StoredPlans:
    """Get the plans, next due first."""
    statuses, notes = call.plans.statuses()
    call.notes += notes
    selected_plans = [
        status_entry for status_entry in statuses if status in (None, status_entry.status)
    ]
    shown, paging = paginate(selected_plans, limit, offset)
    return {"plans": [_plan(status_entry) for status_entry in shown], **paging}


def _plan(plan_status: PlanStatus) -> results.StoredPlan:
    """Return a plan as an entry in a result, with the resolved time of a delay."""
    from memvault import clock

    plan = plan_status.plan
    delayed = plan.schedule.kind == "runAfter"
    once = plan_status.next_run or plan_status.last_run or plan.due_at if delayed else None
    times = without_none(
        scheduledAt=once, nextRunAt=plan_status.next_run, lastRunAt=plan_status.last_run
    )
    schedule = {plan.schedule.kind: plan.schedule.text}
    schedule |= {key: clock.iso(at) for key, at in times.items()}
    return {
        "id": plan.id,
        "name": plan.name,
        "instruction": plan.instruction,
        **without_none(**schedule),
        "status": plan_status.status,
    }


@group.tool(
    "plans delete",
    destructive=True,
    idempotent=True,
    examples=('memvault plans delete "Follow up"', "memvault plans delete a b"),
    view="Deleted {deleted}",
)
def delete_plans(
    call: Call,
    plan_ids: Annotated[
        list[str],
        Arg(
            "Ids or names of plans",
            positional=True,
            json_aliases=("ids", "id", "planId", "plans", "names"),
        ),
    ],
) -> results.DeletedEntries:
    """Delete plans by their ids; they stay in the history.

    A warning lists unknown ids. If none of the plans exists, the call fails.
    """
    plans = [entry.plan for entry in call.plans.statuses()[0]]
    ids = {name: plan.id for plan in plans for name in (plan.name, plan.id)}
    return _delete(call, "plan", call.plans.delete, plan_ids, ids)
