"""The tools of spaces: enter, send, read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from memvault.tools.registry import Arg, tool
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.work.spaces import Message, Spaces

__all__ = ["enter_space", "read_messages", "send_message"]

_LIMIT_HELP = "How many messages at most"


@tool("enter_space", "space enter", "talk")
def enter_space(
    workspace: Workspace,
    space: Annotated[str, Arg("The space's id or name", key="spaceId", positional=True)],
    limit: Annotated[int, Arg(_LIMIT_HELP, least=0)] = 50,
) -> dict[str, Any]:
    """Enter a space: become its member, read its last messages, and send to it from now on.

    A space that is not there is made, and has no history yet.
    """
    spaces = _spaces(workspace)
    entered = spaces.enter(space)
    history, total = spaces.messages(entered, limit)
    workspace.notes += spaces.problems
    return {
        "spaceId": entered.space_id,
        "spaceName": entered.name,
        "history": [_shown(message) for message in history],
        "totalMessages": total,
    }


@tool("send_message", "space send", "talk")
def send_message(
    workspace: Workspace,
    text: Annotated[str, Arg("The message", positional=True, text=True)],
) -> dict[str, Any]:
    """Send a message to the space entered last; every other member's inbox gets an event."""
    spaces = _spaces(workspace)
    message = spaces.send(spaces.entered(), text)
    workspace.notes += spaces.problems
    return {"messageId": message.message_id, "status": "delivered"}


@tool("read_messages", "space read", "talk", read_only=True)
def read_messages(
    workspace: Workspace,
    space: Annotated[
        str | None, Arg("Another space than the one entered last", key="spaceId", flag="--space")
    ] = None,
    limit: Annotated[int, Arg(_LIMIT_HELP, least=0)] = 50,
    offset: Annotated[int, Arg("Leave out this many of the newest, to page back", least=0)] = 0,
) -> dict[str, Any]:
    """Read a space's messages, the newest last."""
    spaces = _spaces(workspace)
    found = spaces.find(space) if space and space.strip() else spaces.entered()
    messages, total = spaces.messages(found, limit, offset)
    workspace.notes += spaces.problems
    return {"messages": [_shown(message) for message in messages], "total": total}


def _spaces(workspace: Workspace) -> Spaces:
    from memvault.work.spaces import Spaces

    return Spaces(workspace.root, workspace.address)


def _shown(message: Message) -> dict[str, Any]:
    return {
        "id": message.message_id,
        "senderName": message.sender,
        "senderType": message.sender_type,
        "content": message.content,
        "timestamp": message.timestamp,
    }
