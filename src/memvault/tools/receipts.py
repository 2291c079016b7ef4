"""The tool that shows what agents were given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import exclusive
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template, rounded_down
from memvault.tools.core.result_parts import paginate
from memvault.tools.core.shared_args import LISTED, Limit, Offset

if TYPE_CHECKING:
    from memvault import results
    from memvault.agents.receipts import Receipt

group = ToolGroup("brain", place=21)

_NO_RECEIPTS = "Nothing has been recorded yet"


def _with_memory_lines(result: Result) -> Result:
    """Add lines with the memories in each text."""
    receipts = [
        {
            **entry,
            "lines": [
                f"{memory['memId']}  {rounded_down(memory['probability'])}  {memory['etag']}"
                for memory in entry["memories"]
            ],
        }
        for entry in result.get("receipts", ())
    ]
    return {**result, "receipts": receipts}


@group.tool(
    "receipt",
    paged_keys=("receipts", "sessions"),
    read_only=True,
    examples=("memvault receipt", "memvault receipt --list", "memvault receipt e47ead0a --json"),
    view=Template(
        """*sessions
        {session}  {when:second}  {program}  {receipts:receipt|receipts}  {tokens:token|tokens}

        *receipts
        {when:second}  {event}  {program}  {tokens} of {budget} tokens
           {lines:each}
        {text:each}""",
        _with_memory_lines,
    ),
)
def memory_receipt(
    call: Call,
    session: Annotated[
        str,
        Arg(
            "Session id, or a date for texts without a session; by default the last session",
            positional=True,
        ),
    ] = "",
    is_list: Annotated[bool, Arg("List the sessions, most recent first", flag="--list")] = False,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.GivenTexts:
    """Show the exact text that hooks and `memvault context` gave an agent, and why.

    Each receipt has the text, the memories in it with the match probability and etag of each, the
    minimum probability, and the size in tokens. An agent with limited rights gets only its own
    receipts. Receipts are stored on this machine, for the last 200 sessions, with secrets masked;
    the setting `receipts = false` turns them off.
    """
    from memvault.agents import receipts

    exclusive({"SESSION": session, "--list": is_list})
    own = call.caller.agent if call.caller.scope != "all" else ""
    if is_list:
        sessions = list(receipts.latest_first(call.root, own))
        shown, paging = paginate(sessions, limit, offset, _NO_RECEIPTS)
        return {"sessions": [_session_item(call, entry, own) for entry in shown], **paging}
    if not session:
        latest = next(receipts.latest_first(call.root, call.caller.agent), None)
        session = latest.session if latest is not None else ""
    entries = receipts.of_session(call.root, session) if session else []
    given = [_receipt_item(entry) for entry in entries if own in ("", entry.agent) and entry.text]
    nothing = f"Nothing was recorded for {session}" if session else _NO_RECEIPTS
    shown_receipts, paging = paginate(given, limit, offset, nothing)
    return {"session": session, "receipts": list(shown_receipts), **paging}


def _session_item(call: Call, last: Receipt, own: str) -> results.RecordedSession:
    from memvault.agents import receipts

    entries = [
        entry
        for entry in receipts.of_session(call.root, last.session)
        if entry.text and own in ("", entry.agent)
    ]
    return {
        "session": last.session,
        "agent": last.agent,
        "program": last.program,
        "when": last.when,
        "receipts": len(entries),
        "tokens": sum(entry.tokens for entry in entries),
    }


def _receipt_item(receipt: Receipt) -> results.GivenText:
    return {
        "when": receipt.when,
        "agent": receipt.agent,
        "event": receipt.event,
        "program": receipt.program,
        "text": receipt.text,
        "tokens": receipt.tokens,
        "budget": receipt.budget,
        "threshold": receipt.threshold,
        "memories": [
            {"memId": memory.mem_id, "etag": memory.etag, "probability": memory.probability}
            for memory in receipt.memories
        ],
    }
