"""Tools for messages: talk, reply, wait, inbox, and spaces, which are shared channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict

from memvault.arguments.parameters import Arg, CommandLineForm
from memvault.call import Call
from memvault.errors import NotFound, UsageError, did_you_mean
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template
from memvault.tools.core.result_parts import page_info, paginate, without_none
from memvault.tools.core.shared_args import (
    LIMIT_ALIASES,
    LISTED,
    MESSAGE_ARG,
    Limit,
    MessageText,
    Offset,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from memvault import results
    from memvault.agents.address import Address
    from memvault.agents.messages.inbox import Event, EventBatch
    from memvault.agents.messages.spaces import Message, Spaces
    from memvault.agents.messages.talks import TalkLog

group = ToolGroup("talk", "Spaces, talk and wait", place=70)

_SEVERITIES = {
    "trace": "debug",
    "verbose": "debug",
    "notice": "info",
    "information": "info",
    "warn": "warning",
    "err": "error",
    **dict.fromkeys(("fatal", "crit", "alert", "panic", "emerg", "emergency"), "critical"),
}
"""Severity names used by other logs; numbers are ambiguous, because syslog and Python differ."""
_MIN_EVENT_BUDGET = 300
"""Minimum token budget for a result with one event; the event is shortened to fit."""
_EVENTS_ROOM = 100
"""Tokens reserved in a result for everything except the events."""
_MAX_TALK_ID_DIGITS = 16
"""Maximum number of digits in a talkId, which is always below 2**53."""


class EventSpec(TypedDict):
    """An event to wait for."""

    event_type: Annotated[
        Literal["User", "Agent", "Time", "Hook"],
        Arg("Kind of event", json_aliases=("type", "kind", "event")),
    ]
    parameter: NotRequired[
        Annotated[
            str | float,
            Arg(
                "Agent: its name; Time: seconds; Hook: its name; User: empty",
                minimum=0,
                maximum=1e9,
            ),
        ]
    ]
    talk_id: NotRequired[
        Annotated[
            int,
            Arg(
                "Only the answer to this talk: a reply, or the other side's next message; "
                "0 for any",
                minimum=0,
                maximum=2**53,
            ),
        ]
    ]


def _with_heads(result: Result) -> Result:
    """Add a heading and a body to each event.

    Only talks and space messages have a sender; it is ignored in other events.
    """
    from memvault.agents.messages.service_names import SERVICE, SPACE_MESSAGE, TALK, sender_label

    events = []
    for entry in result["events"]:
        event = entry.get("result", entry)
        if "data" in event:
            data, kind = event["data"], event["type"]
            sender = sender_label(kind, data)
            text = data.get("message") or data.get("content") or data.get("instruction")
            event = {**event, "head": f"{kind} {sender.removeprefix(f'{SERVICE} ')}", "text": text}
            if kind in (TALK, SPACE_MESSAGE):
                number = f" {data['talkId']}" if "talkId" in data else ""
                event |= {"head": f"{kind}{number}", "sender": sender}
        events.append(event)
    return {**result, "events": events}


_EVENTS = Template(
    """*events
    {head}  from {sender}  in {data[spaceName]}  in reply to {data[inReplyTo]}  {timestamp:second}
    {seconds:second has|seconds have} passed
       > {text:each}

    {remaining} left in the inbox""",
    _with_heads,
)


@group.tool(
    "talk user",
    examples=('memvault talk user "Which of the two?"', "memvault talk user @notes.txt"),
    view="talk {talkId}",
    reveals=True,
)
def talk_user(
    call: Call,
    message: MessageText,
    user: Annotated[str, Arg("Must be empty: there is only one user")] = "",
) -> results.SentTalk:
    """Send a message to the user, without waiting for an answer.

    The message goes to the inbox of the agent named user, where `memvault inbox peek` shows it.
    """
    if user.strip():
        raise UsageError(f"There is only one user, not {user!r}", "omit `--user`")
    from memvault.agents.address import USER, Address

    return _send(call, Address(USER), message)


@group.tool(
    "talk agent",
    examples=(
        'memvault talk agent designer "Is the mockup ready?"',
        "memvault talk agent designer @notes.txt",
    ),
    view="talk {talkId}",
    reveals=True,
)
def talk_agent(
    call: Call,
    other: Annotated[
        str,
        Arg(
            "The agent's name",
            key="agent",
            positional=True,
            completes="agent",
            json_aliases=("name", "to", "recipient"),
        ),
    ],
    message: MessageText,
) -> results.SentTalk:
    """Send a message to another agent, without waiting for an answer."""
    from memvault.agents.address import address, closest_agent

    to = address(other)
    if to.brain:
        to = call.address.of_brain(str(to))
    similar = closest_agent(call.root, to)
    if similar:
        call.notes.append(f"{to} is a new agent; did you mean {similar}?")
    return _send(call, to, message)


@group.tool(
    "talk brain",
    examples=(
        'memvault talk brain planner "What is next?"',
        'memvault talk brain primary "All done." --agent main/planner',
    ),
    view="talk {talkId}",
    reveals=True,
)
def talk_brain(
    call: Call,
    subbrain: Annotated[
        str,
        Arg(
            "The brain's name; primary is the main brain",
            positional=True,
            json_aliases=("name", "brain", "to"),
        ),
    ],
    message: MessageText,
) -> results.SentTalk:
    """Send a message to another brain of the same agent, without waiting for an answer."""
    from memvault.agents import overview
    from memvault.agents.address import PRIMARY

    to = call.address.of_brain(subbrain)
    known = [brain.brain or PRIMARY for brain in overview.brains(call.root, to.agent)]
    if to.brain not in ("", *known) and (near := did_you_mean(to.brain, known)):
        call.notes.append(f"{to.brain!r} is a new brain{near}")
    return _send(call, to, message)


@group.tool(
    "talk log",
    examples=('memvault talk log info "Started"', 'memvault talk log error "No disk space left"'),
    view="talk {talkId}",
)
def talk_log(
    call: Call,
    severity: Annotated[
        Literal["debug", "info", "warning", "error", "critical"],
        Arg("Severity", positional=True, json_aliases=("level",), synonyms=_SEVERITIES),
    ],
    message: MessageText,
) -> results.SentTalk:
    """Write a message to the agent's log, .memvault/agents/AGENT/log.jsonl."""
    return {"talkId": _talks(call).log(severity, message)}


@group.tool(
    "reply",
    examples=(
        'memvault reply 1 "The second." --agent user',
        "memvault reply 1 @notes.txt --agent user",
    ),
    view="talk {talkId}",
)
def reply(
    call: Call,
    talk_id: Annotated[
        int, Arg("The talk to answer", positional=True, minimum=1, json_aliases=("id", "inReplyTo"))
    ],
    message: MessageText,
) -> results.SentTalk:
    """Answer a talk; its sender receives the message and the id of the talk.

    The result contains the reply's talk id.
    """
    talks = _talks(call)
    try:
        return {"talkId": talks.answer(talk_id, message, call.inbox)}
    except NotFound as error:
        if call.caller.message_style != "tools":  # Only shell callers can act as another agent.
            error.hint += "; add `--agent NAME` for another agent's inbox, such as user"
        raise


def _parse_event(word: str) -> dict[str, Any]:
    """Parse an event to wait for from the command line, such as ``agent:NAME#TALKID``."""
    kind, _, rest = word.partition(":")
    talk_id = ""
    if kind.lower().startswith(("agent", "user")) and "#" in word:
        kind, _, rest = word.rpartition("#")[0].partition(":")
        talk_id = word.rpartition("#")[2]
        if not talk_id.isdecimal() or len(talk_id) > _MAX_TALK_ID_DIGITS:
            raise UsageError(f"{talk_id!r} is not a talk id", "write agent:NAME#TALKID")
    if kind.lower() not in ("user", "agent", "time", "hook"):
        seconds = kind.replace(".", "", 1).isdecimal()
        suggestion = f"time:{kind}" if seconds else f"agent:{word}"
        formats = "use agent:NAME, user, time:SECONDS or hook:NAME"
        raise UsageError(
            f"{word!r} is not an event",
            formats if ":" in word else f"did you mean {suggestion}? {formats}",
        )
    event: dict[str, Any] = {"eventType": kind, "parameter": rest}
    return {**event, "talkId": int(talk_id)} if talk_id else event


@group.tool(
    "wait for",
    takes_long=True,
    paged_keys=(),
    continuation_hint="list_inbox with its eventId and budget 0 returns it in full",
    destructive=True,
    examples=("memvault wait for time:1", "memvault wait for user --timeout 600"),
    view=_EVENTS,
    reveals=True,
)
def wait_for(
    call: Call,
    events: Annotated[
        list[EventSpec],
        Arg(
            'Events, such as {"eventType": "Hook", "parameter": "ci"}; the first ends the wait',
            positional=True,
            cli_override=CommandLineForm(
                "agent:NAME[#TALKID], user[#TALKID], time:SECONDS, hook:NAME", _parse_event
            ),
        ),
    ],
    timeout: Annotated[
        float | None,
        Arg("Give up after this many seconds; by default never", minimum=0, maximum=1e9),
    ] = None,
) -> results.HappenedEvents:
    """Wait for the first of several events, remove it from the inbox, and return it.

    An Agent or User event is a message from them. With a talk id, it is the response to that talk:
    a direct reply, or else the next message that does not reply to another talk. You must have
    talked to them before. A Hook event is delivered by `memvault inbox push NAME`. An event that
    is already in the inbox ends the wait immediately.
    """
    from memvault.agents.messages import service_names, waiting

    if not events:
        raise UsageError("No events to wait for were given", "pass an event such as agent:NAME")
    patterns = [
        waiting.EventPattern(
            entry["event_type"], _parameter(entry), entry.get("talk_id") or 0
        ).checked()
        for entry in events
    ]
    for entry in patterns:
        if entry.kind == "Hook":  # A hook with an invalid name could never be pushed.
            service_names.check_service_name(call.root, entry.parameter)
    _check_room(call.budget)
    talks = _talks(call)
    happened = waiting.wait(
        call.inbox,
        patterns,
        talks.has_talked_to,
        call.workspace.condition,
        timeout,
        call.workspace.executor.let_next_run,
        call.is_cancelled,
    )
    pattern = happened.wanted
    delivered = _event_list(call, happened.popped)
    result: results.EventResult = (
        {**delivered[0]} if delivered else {"seconds": round(happened.seconds, 3)}
    )
    event: results.AwaitedEvent = {
        "eventType": pattern.kind,
        "parameter": pattern.parameter,
        "talkId": pattern.talk_id,
    }
    return {"events": [{"event": event, "result": result}]}


def _parameter(entry: EventSpec) -> str:
    """Return a parameter as text; an integer that JSON parsed as 5.0 becomes ``5``."""
    value = entry.get("parameter", "")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


@group.tool(
    "inbox peek",
    paged_keys=(),
    continuation_hint="list_inbox with its eventId and budget 0 returns it in full",
    destructive=True,
    examples=("memvault inbox peek", "memvault inbox peek --count 5 --filter plan"),
    view=_EVENTS,
    reveals=True,
)
def peek_inbox(
    call: Call,
    count: Limit = 1,
    kind: Annotated[
        Literal["space_message", "plan", "service", "talk"] | None,
        Arg("Only events of this type", key="filter", json_aliases=("type", "kind", "eventType")),
    ] = None,
) -> results.InboxEvents:
    """Remove the oldest events from the agent's inbox and return them.

    Each event is delivered to exactly one caller, or again if that caller is killed during
    delivery. remaining is the number of events of all types that are left.
    """
    _check_room(call.budget)
    popped = call.inbox.pop_if_possible(count, kind, _fitting(call.budget))
    return {"events": _event_list(call, popped), "remaining": popped.remaining}


def _check_room(limit: int) -> None:
    """Check that a budget is large enough before an event is removed from the inbox.

    Raises:
        UsageError: an event might not fit into it.
    """
    if 0 < limit < _MIN_EVENT_BUDGET:
        raise UsageError(
            f"A budget of {limit} tokens is too small for an event",
            f"use at least {_MIN_EVENT_BUDGET}, or 0 for no limit",
        )


def _fitting(limit: int) -> Callable[[Event], bool]:
    """Return a function that accepts the first event, and further events while they fit.

    The first event of a result is shortened if it does not fit; after an event that does not fit,
    no more events are removed from the inbox.
    """
    used = 0

    def fits(event: Event) -> bool:
        nonlocal used
        if not limit:
            return True
        from memvault.tools.core import budget

        room = limit - _EVENTS_ROOM
        item = _event_item(event)
        cost = budget.count(item) if budget.fits(item, room) else limit
        is_first = not used
        used += cost
        return is_first or used <= room

    return fits


@group.tool(
    "inbox list",
    paged_keys=("events",),
    read_only=True,
    examples=("memvault inbox list", "memvault inbox list --agent user"),
    view=_EVENTS,
)
def list_inbox(
    call: Call,
    event_id: Annotated[
        str | None, Arg("Only this event, even if it was recently removed", key="eventId")
    ] = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.InboxListing:
    """List the events in the agent's inbox, oldest first, without removing them."""
    inbox = call.inbox
    batch = inbox.waiting() if event_id is None else inbox.find(event_id)
    nothing = "The inbox is empty" if event_id is None else "There is no such event"
    shown, paging = paginate(batch.events, limit, offset, nothing)
    return {"events": _event_list(call, batch._replace(events=list(shown))), **paging}


@group.tool(
    "agents",
    paged_keys=("agents",),
    read_only=True,
    examples=("memvault agents", "memvault agents --json"),
    view="""*agents
        {agent}  {memories:value|values}  {goals:goal|goals}  {plans:plan|plans}  \
        {inbox:event|events}  changed {changed:second}""",
)
def list_agents(call: Call, limit: Limit = LISTED, offset: Offset = 0) -> results.AgentListing:
    """List the vault's agents and brains, with counts of their entries and the last change."""
    from memvault.agents.overview import entries

    nothing = "No agent has stored anything yet"
    shown, paging = paginate(entries(call.root), limit, offset, nothing)
    agents: list[results.AgentEntry] = [
        {"agent": str(entry.address), **without_none(**entry.counts, changed=entry.changed)}
        if call.change_set.can_see(f"agents/{entry.address.agent}/")
        else {"agent": str(entry.address)}
        for entry in shown
    ]
    return {"agents": agents, **paging}


@group.tool(
    "inbox push",
    examples=(
        'memvault inbox push ci "Build 7 failed"',
        'memvault inbox push ci "Build 8 is fine" --agent historian',
    ),
    view="Added the event {eventId}",
)
def push_service(
    call: Call,
    name: Annotated[str, Arg("The hook's name", positional=True)],
    message: Annotated[str, MESSAGE_ARG._replace(help="The event's message")] = "",
) -> results.PushedEvent:
    """Add an event to the agent's own inbox, for example from a git hook or a CI job.

    A running `memvault wait for hook:NAME` returns the event.
    """
    from memvault.agents.messages import service_names

    data = {"name": service_names.check_service_name(call.root, name), "message": message}
    event_id = call.inbox.deliver(service_names.SERVICE, data, changes=call.store.changes)
    return {"eventId": event_id}


def _talks(call: Call) -> TalkLog:
    from memvault.agents.messages.talks import TalkLog

    return TalkLog(call.store.changes, call.address)


def _send(call: Call, to: Address, message: str) -> results.SentTalk:
    return {"talkId": _talks(call).send(to, message)}


def _event_list(call: Call, batch: EventBatch) -> list[results.InboxEvent]:
    """Return events as results; popped ones are acknowledged once the caller has the result."""
    call.notes += batch.notes
    if batch.lease is not None:
        call.delivery.add(batch.lease)
        _talks(call).record_received(batch.events)
    return [_event_item(event) for event in batch.events]


def _event_item(event: Event) -> results.InboxEvent:
    return {
        "eventId": event.event_id,
        "type": event.kind,
        "timestamp": event.timestamp,
        "data": event.data,
    }


_LIMIT_HELP = "Maximum number of messages"
_SPACE_ALIASES = ("space", "id", "name", "spaceName")


@group.tool(
    "space enter",
    paged_keys=("history",),
    newest_last=True,
    idempotent=True,
    continuation_hint="read_messages with limit 1 and budget 0 returns it in full",
    examples=("memvault space enter team", "memvault space enter team --limit 5"),
    view="""{spaceName}  {spaceId}
        *history
        {senderName}  {timestamp:second}
           > {content:each}

        {history:#} of {totalMessages:message|messages}""",
    reveals=True,
)
def enter_space(
    call: Call,
    space: Annotated[
        str,
        Arg(
            "The space's id or name",
            key="spaceId",
            positional=True,
            completes="space",
            json_aliases=_SPACE_ALIASES,
        ),
    ],
    limit: Annotated[int, Arg(_LIMIT_HELP, minimum=0, json_aliases=LIMIT_ALIASES)] = LISTED,
) -> results.EnteredSpace:
    """Enter a space: join it, read its last messages, and make it the target of new ones.

    A space that does not exist is created, with no history.
    """
    spaces = _spaces(call)
    entered = spaces.enter(space)
    history, total = spaces.messages(entered, limit)
    return {
        "spaceId": entered.space_id,
        "spaceName": entered.name,
        "history": [_message(message) for message in history],
        "totalMessages": total,
    }


@group.tool(
    "space send",
    examples=('memvault space send "Good morning"', "memvault space send @notes.txt"),
    view="Sent the message {messageId}",
)
def send_message(
    call: Call,
    text: Annotated[
        str, Arg("The message", positional=True, text=True, json_aliases=("message", "content"))
    ],
) -> results.SentMessage:
    """Send a message to the space entered last; every other member gets an inbox event."""
    spaces = _spaces(call)
    message = spaces.send(spaces.entered(), text)
    return {"messageId": message.message_id, "status": "delivered"}


@group.tool(
    "space read",
    paged_keys=("messages",),
    newest_last=True,
    read_only=True,
    examples=("memvault space read", "memvault space read --space team --limit 5"),
    view="""*messages
        {senderName}  {timestamp:second}
           > {content:each}

        {messages:#} of {total:message|messages}""",
    reveals=True,
)
def read_messages(
    call: Call,
    space: Annotated[
        str | None,
        Arg(
            "The space to read; by default the one entered last",
            key="spaceId",
            flag="--space",
            completes="space",
            json_aliases=_SPACE_ALIASES,
        ),
    ] = None,
    limit: Annotated[int, Arg(_LIMIT_HELP, minimum=0, json_aliases=LIMIT_ALIASES)] = LISTED,
    offset: Annotated[int, Arg("Skip this many of the newest messages", minimum=0)] = 0,
) -> results.SpaceMessages:
    """Read a space's messages, newest last."""
    spaces = _spaces(call)
    chosen_space = spaces.find(space) if space and space.strip() else spaces.entered()
    messages, total = spaces.messages(chosen_space, limit, offset)
    paging = page_info(total, offset, len(messages))
    return {"messages": [_message(message) for message in messages], **paging}


@group.tool(
    "space list",
    paged_keys=("spaces",),
    read_only=True,
    examples=("memvault space list", "memvault space list --json"),
    view="""*spaces
        {spaceName}  {spaceId}  {joined:joined|}
           {totalMessages:message|messages}  last {lastMessage:second}  members: {members}""",
)
def list_spaces(call: Call, limit: Limit = LISTED, offset: Offset = 0) -> results.SpaceListing:
    """List the spaces with their members, number of messages and time of the last message."""
    spaces = _spaces(call)
    shown, paging = paginate(spaces.every(), limit, offset, "There are no spaces")
    space_entries: list[results.SpaceEntry] = []
    for space in shown:
        members = spaces.members(space)
        last, total = spaces.messages(space, 1)
        space_entries.append(
            {
                "spaceId": space.space_id,
                "spaceName": space.name,
                "members": members,
                "joined": str(call.address) in members,
                "totalMessages": total,
                "lastMessage": last[0].timestamp if last else "",
            }
        )
    return {"spaces": space_entries, **paging}


def _spaces(call: Call) -> Spaces:
    from memvault.agents.messages.spaces import Spaces

    return Spaces(call.store.changes, call.address, call.notes.append)


def _message(message: Message) -> results.SpaceMessage:
    return {
        "id": message.message_id,
        "senderName": message.sender,
        "senderType": message.sender_type,
        "content": message.content,
        "timestamp": message.timestamp,
    }
