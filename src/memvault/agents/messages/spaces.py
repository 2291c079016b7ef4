"""Share folders of messages, called spaces, among several agents and the user.

``spaces/<space>/space.md`` contains the name of the space, ``members/`` has one file for each
member, and ``messages/`` has one file for each message.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memvault import clock
from memvault.agents.address import USER, Address, address, private_folder_of
from memvault.agents.messages import message_files
from memvault.agents.messages.inbox import Inbox
from memvault.agents.messages.service_names import SPACE_MESSAGE
from memvault.errors import MemvaultError, NotFound, Refused, UsageError, suggestion
from memvault.files import atomic, plain_files
from memvault.files.plain_files import MAX_STATE_BYTES, digest_of
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.vault import naming
from memvault.vault.names import normalize

if TYPE_CHECKING:
    from memvault.store.writer import VaultWriter

_MAX_ID = 60
_INVALID_NAME = lazy_pattern("[/\\\\\0\n\ud800-\udfff]")


class Message(NamedTuple):
    """A message that a member sent to a space."""

    message_id: str
    sender: str
    sender_type: str
    content: str
    timestamp: str


class Space(NamedTuple):
    """A space: the name of its folder, and the name shown to people."""

    space_id: str
    name: str


class Spaces:
    """The spaces in a vault, as seen by one participant.

    ``warn`` is called with warnings about files that are not messages and members that could not be
    notified.
    """

    def __init__(self, changes: VaultWriter, me: Address, warn: Callable[[str], object]) -> None:
        self._changes = changes
        self._root = changes.root
        self._me = me
        self._warn = warn

    def enter(self, name: str) -> Space:
        """Enter a space, creating it if it is missing, and become a member.

        Raises:
            UsageError: the name is invalid.
        """
        space_id, me = self._space_id(name), str(self._me)
        with contextlib.suppress(FileExistsError):
            if not self._exists(space_id):
                header = {"name": name.strip()}
                message_files.write(self._folder(space_id), "space", header, "", self._changes)
        space = self._space(space_id)
        with contextlib.suppress(FileExistsError):
            if me not in self.members(space):
                # The file has no timestamp, so two machines write the same bytes.
                folder = self._folder(space_id, "members")
                message_files.write(folder, me.replace("/", "~"), {"agent": me}, "", self._changes)
        atomic.write(self._entered_file, f"{space.space_id}\n".encode())
        return space

    def entered(self) -> Space:
        """Return the space that this participant entered last on this machine.

        Raises:
            Refused: the participant has not entered a space.
        """
        try:
            space_id = plain_files.read(self._entered_file, MAX_STATE_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError):
            space_id = ""
        if not space_id or not self._exists(space_id):
            raise Refused(
                f"{self._me} has not entered a space", "enter one with `memvault space enter SPACE`"
            )
        return self._space(space_id)

    def find(self, name: str) -> Space:
        """Return an existing space by its id or name.

        Raises:
            NotFound: there is no such space.
        """
        space_id = self._space_id(name)
        if not self._exists(space_id):
            space_ids = [path.name for path in self._folder().glob("*/") if not path.is_symlink()]
            hint = suggestion(space_id, space_ids, "create it with `memvault space enter SPACE`")
            raise NotFound(f"There is no space {name!r}", hint)
        return self._space(space_id)

    def joined(self) -> list[Space]:
        """Return the spaces that this participant is a member of."""
        me = str(self._me)
        return [space for space in self.every() if me in self.members(space)]

    def every(self) -> list[Space]:
        """Return all spaces in the vault, sorted by id."""
        ids = sorted(path.name for path in self._folder().glob("*/") if not path.is_symlink())
        return [self._space(space_id) for space_id in ids if self._exists(space_id)]

    def messages(self, space: Space, limit: int, offset: int = 0) -> tuple[list[Message], int]:
        """Return up to ``limit`` messages, oldest first, and the number of all messages.

        ``offset`` is the number of newest messages to skip, for paging back. Files with names from
        ``new_id`` are counted without being read.
        """
        folder = self._folder(space.space_id, "messages")
        names = [
            name
            for name in message_files.listed(folder)
            if message_files.is_id(name[:-3]) or self._message(folder / name)
        ]
        result: list[Message] = []
        broken = 0
        for name in reversed(names[: max(0, len(names) - offset)]):
            if len(result) == limit:
                break
            message = self._message(folder / name)
            if message is None:
                broken += 1
            else:
                result.append(message)
        return result[::-1], len(names) - broken

    def _message(self, path: Path) -> Message | None:
        """Read a message; without a header it is from the user."""
        message_file = message_files.read_or_warn(self._root, path, "a message", self._warn)
        if message_file is None:
            return None
        sender = str(message_file.header.get("senderName") or "user")
        kind = message_file.header.get("senderType")
        if kind not in ("human", "agent"):
            kind = "human" if sender == "user" else "agent"
        return Message(message_file.name, sender, kind, message_file.text, message_file.timestamp)

    def send(self, space: Space, text: str) -> Message:
        """Write a message to a space, and an event to every other member's inbox.

        Raises:
            UsageError: the text is empty.
            StorageError: the message cannot be written.
        """
        text = message_files.checked_text(text, "text")
        kind = "human" if self._me.agent == USER else "agent"
        message = Message(message_files.new_id(), str(self._me), kind, text, clock.iso())
        sender = {"senderName": message.sender, "senderType": message.sender_type}
        message_id, timestamp = message.message_id, message.timestamp
        header = {"id": message_id, **sender, "timestamp": timestamp}
        folder = self._folder(space.space_id, "messages")
        message_files.write(folder, message_id, header, text, self._changes)
        names = {"spaceId": space.space_id, "spaceName": space.name}
        event = {**names, **sender, "content": text, "messageId": message_id}
        for member in self.members(space):
            if member == str(self._me):
                continue
            try:
                inbox = Inbox(self._root, address(member))
                inbox.deliver(SPACE_MESSAGE, event, message_id, timestamp, self._changes)
            except MemvaultError as error:
                self._warn(f"{member} could not be notified: {error.message}")
        return message

    def members(self, space: Space) -> list[str]:
        """Return the names of the members, from the headers or else the names of their files."""
        folder = self._folder(space.space_id, "members")
        names = message_files.listed(folder)
        agents = [(name, message_files.header_of(folder / name).get("agent")) for name in names]
        return sorted({str(agent or name[:-3].replace("~", "/")) for name, agent in agents})

    def _space(self, space_id: str) -> Space:
        return Space(space_id, self._name(space_id) or space_id)

    def _name(self, space_id: str) -> str:
        """Return the name in a space's file; empty if it is missing."""
        header = message_files.header_of(self._folder(space_id) / "space.md")
        return str(header.get("name") or "")

    def _space_id(self, name_given: str) -> str:
        """Return the folder name for a space's name.

        If two names map to the same folder, such as C# and C++, a hash of the name distinguishes
        them.
        """
        stripped = name_given.strip()
        if stripped[:1].isalnum() and self._exists(stripped):
            return stripped
        has_letters = any(char.isalnum() for char in stripped)
        if not has_letters or len(stripped) > 200 or _INVALID_NAME.search(stripped):
            raise UsageError(
                f"{name_given!r} is not a valid space name",
                "use up to 200 characters, with a letter or digit and without slashes",
            )
        space_id = naming.slug(stripped, _MAX_ID)
        digest = digest_of(_normalized_name(stripped).encode(), 4).hex()
        other = f"{space_id}-{digest}"
        if self._exists(other):
            return other
        name = self._name(space_id)
        return other if name and _normalized_name(name) != _normalized_name(stripped) else space_id

    def _exists(self, space_id: str) -> bool:
        """Return whether a space with this id exists; raises Refused if it is a link."""
        return naming.is_mem_id(f"{space_id}-") and self._folder(space_id).is_dir()

    def _folder(self, *parts: str) -> Path:
        return message_files.inside(self._root, self._root.joinpath("spaces", *parts))

    @property
    def _entered_file(self) -> Path:
        return private_folder_of(self._root, self._me) / "space"


def _normalized_name(name: str) -> str:
    """Return a space's name, normalizing case, spaces, hyphens and underscores."""
    folded = normalize("NFC", name).casefold()
    return re.sub(r"[\s_-]+", " ", folded).strip()
