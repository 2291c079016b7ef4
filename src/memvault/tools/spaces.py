"""Tools for spaces, the shared channels of agents: enter, send, read and list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.results import LISTED, Limit, Offset, page_info, paginate

if TYPE_CHECKING:
    from memvault.agents.messages.spaces import Message, Spaces

group = ToolGroup("talk", place=71)

_LIMIT_HELP = "How many messages at most"


@group.tool(
    "space enter",
    examples=("memvault space enter team", "memvault space enter team --limit 5"),
    view="""
        {spaceName}  {spaceId}
        *history
        {senderName}  {timestamp}
           > {content:each}

        {history:#} of {totalMessages:message|messages}
        """,
)
def enter_space(
    call: Call,
    space: Annotated[
        str, Arg("The space's id or name", key="spaceId", positional=True, names="space")
    ],
    limit: Annotated[int, Arg(_LIMIT_HELP, minimum=0)] = LISTED,
) -> dict[str, Any]:
    """Enter a space: become a member, read its last messages, and send to it from now on.

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
)
def send_message(
    call: Call,
    text: Annotated[str, Arg("The message", positional=True, text=True)],
) -> dict[str, Any]:
    """Send a message to the space entered last; every other member gets an inbox event."""
    spaces = _spaces(call)
    message = spaces.send(spaces.entered(), text)
    return {"messageId": message.message_id, "status": "delivered"}


@group.tool(
    "space read",
    read_only=True,
    examples=("memvault space read", "memvault space read --space-id team --limit 5"),
    view="""
        *messages
        {senderName}  {timestamp}
           > {content:each}

        {messages:#} of {total:message|messages}
        """,
)
def read_messages(
    call: Call,
    space: Annotated[
        str | None,
        Arg(
            "The space to read; by default the one entered last",
            key="spaceId",
            flag="--space",
            names="space",
        ),
    ] = None,
    limit: Annotated[int, Arg(_LIMIT_HELP, minimum=0)] = LISTED,
    offset: Annotated[int, Arg("Skip this many of the newest messages", minimum=0)] = 0,
) -> dict[str, Any]:
    """Read a space's messages, the newest last."""
    spaces = _spaces(call)
    found = spaces.find(space) if space and space.strip() else spaces.entered()
    messages, total = spaces.messages(found, limit, offset)
    paging = page_info(total, offset, len(messages))
    return {"messages": [_message(message) for message in messages], **paging}


@group.tool(
    "space list",
    read_only=True,
    examples=("memvault space list", "memvault space list --json"),
    view="""
        *spaces
        {spaceName}  {spaceId}  {joined:joined|}
           {totalMessages:message|messages}  last {lastMessage:.19}  members: {members}
        """,
)
def list_spaces(call: Call, limit: Limit = LISTED, offset: Offset = 0) -> dict[str, Any]:
    """List the spaces with their members, number of messages and time of the last message."""
    spaces = _spaces(call)
    shown, paging = paginate(spaces.every(), limit, offset, "There are no spaces")
    found = []
    for space in shown:
        members = spaces.members(space)
        last, total = spaces.messages(space, 1)
        found.append(
            {
                "spaceId": space.space_id,
                "spaceName": space.name,
                "members": members,
                "joined": str(call.address) in members,
                "totalMessages": total,
                "lastMessage": last[0].timestamp if last else "",
            }
        )
    return {"spaces": found, **paging}


def _spaces(call: Call) -> Spaces:
    from memvault.agents.messages.spaces import Spaces

    return Spaces(call.store.changes, call.address, call.notes.append)


def _message(message: Message) -> dict[str, Any]:
    return {
        "id": message.message_id,
        "senderName": message.sender,
        "senderType": message.sender_type,
        "content": message.content,
        "timestamp": message.timestamp,
    }
