"""Lines for people of what the tools for state, talk, inboxes and spaces return."""

from __future__ import annotations

from collections.abc import Callable

from memvault.cli.lines import Line, Result

__all__ = ["WORK_FORMS"]


def _kept(found: Result) -> list[Line]:
    return [[(f"Kept {found['count']}", "")]]


def _deleted(found: Result) -> list[Line]:
    return [[(f"Deleted {found['deleted']}", "")]]


def _memories(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["memories"]:
        first, *more = entry["value"].split("\n")
        out.append([(entry["key"], "bold"), ("" if more else f"  {first}", "")])
        out += [[(f"   {line}", "")] for line in (first, *more) if more]
    return out or [[("No such memories are kept", "")]]


def _goals(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["goals"]:
        first, *more = entry["description"].split("\n")
        out.append([(entry["id"], "bold"), (f"  {entry['status']}", "cyan"), (f"  {first}", "")])
        out += [[(f"   {line}", "")] for line in more]
    return out or [[("There are no goals", "")]]


def _plans(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["plans"]:
        out.append([(entry["name"], "bold"), (f"  {entry['status']}", "cyan")])
        written = next((entry[key] for key in ("cron", "runAfter") if key in entry), "")
        for key, before in (("nextRunAt", "next"), ("lastRunAt", "last")):
            if key in entry:
                written += f"  {before} {entry[key]}"
        out.append([(f"   {entry['id']}  {written.strip()}", "dim")])
        out += [[(f"   {line}", "")] for line in entry.get("instruction", "").splitlines()]
    return out or [[("There are no plans", "")]]


def _talk(found: Result) -> list[Line]:
    return [[("talk ", "dim"), (str(found["talkId"]), "bold")]]


def _messages(found: Result) -> list[Line]:
    messages = found["messages"] if "messages" in found else found["history"]
    total = found["total"] if "total" in found else found["totalMessages"]
    out: list[Line] = []
    if "spaceName" in found:
        out.append([(found["spaceName"], "bold"), (f"  {found['spaceId']}", "dim")])
    for message in messages:
        out.append([(message["senderName"], "cyan"), (f"  {message['timestamp']}", "dim")])
        out += [[(f"   {line}", "")] for line in message["content"].splitlines()]
    shown = f"{len(messages)} of {total}" if len(messages) < total else str(total)
    return [*out, [(f"{shown} message{'' if total == 1 else 's'}", "dim")]]


def _event(event: Result) -> list[Line]:
    from memvault.agents.messages.services import SERVICE, SPACE_MESSAGE, TALK, speaker

    data, kind = event["data"], event["type"]
    sender = speaker(kind, data)
    if kind in (TALK, SPACE_MESSAGE):
        number = f" {data['talkId']}" if "talkId" in data else ""
        line: Line = [(kind, "cyan"), (number, "bold"), (f" from {sender}", "bold")]
    else:
        line = [(kind, "cyan"), (f" {sender.removeprefix(f'{SERVICE} ')}", "bold")]
    if "spaceName" in data:
        line.append((f" in {data['spaceName']}", "bold"))
    if "inReplyTo" in data:
        line.append((f" in reply to {data['inReplyTo']}", ""))
    text = str(data.get("message") or data.get("content") or data.get("instruction") or "")
    return [
        [*line, (f"  {event['timestamp']}", "dim")],
        *([(f"   {part}", "")] for part in text.splitlines()),
    ]


def _inbox(found: Result) -> list[Line]:
    out = [line for event in found["events"] for line in _event(event)]
    if not out and not found["remaining"]:
        return [[("The inbox is empty", "")]]
    return [*out, [(f"{found['remaining']} more in the inbox", "dim")]]


def _waited(found: Result) -> list[Line]:
    out: list[Line] = []
    for pair in found["events"]:
        if "data" in pair["result"]:
            out += _event(pair["result"])
        else:
            out.append([(f"{pair['result']['seconds']:g} seconds have passed", "")])
    return out


WORK_FORMS: dict[str, Callable[[Result], list[Line]]] = {
    "set_memories": _kept,
    "get_memories": _memories,
    "delete_memories": _deleted,
    "set_goals": _kept,
    "get_goals": _goals,
    "delete_goals": _deleted,
    "set_plans": _plans,
    "get_plans": _plans,
    "delete_plans": _deleted,
    "enter_space": _messages,
    "read_messages": _messages,
    "peek_inbox": _inbox,
    "wait_for": _waited,
    **dict.fromkeys(("talk_user", "talk_agent", "talk_brain", "talk_log", "reply"), _talk),
}
