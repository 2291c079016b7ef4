"""Result keys shared by several tools."""

from typing import Literal, NotRequired, TypedDict

Strength = Literal["strong", "fair", "weak"]


class ToolResult(TypedDict):
    """The result of a tool; partial failures are listed in ``warnings``.

    ``vault`` is the vault in which the tool ran, if a memory's name had the prefix of a vault.
    """

    success: NotRequired[bool]
    warnings: NotRequired[list[str]]
    vault: NotRequired[str]


class PageInfo(TypedDict):
    """The total of a listing, and the offset of the next page if there is one."""

    total: int
    next: NotRequired[int]
    message: NotRequired[str]


class CutList(TypedDict, total=False):
    """The total of a truncated list, and the offset of the rest if there is one."""

    total: int
    next: int


class CutText(TypedDict, total=False):
    """The total number of characters in a truncated text, and the offset of the rest."""

    totalLength: int
    next: int


class Listing(ToolResult, PageInfo):
    """One page of a listing."""


class MemoryReference(TypedDict):
    """The keys that identify a memory."""

    memId: str
    title: str
    filePath: str


class MemoryCandidate(MemoryReference):
    """A memory that a name may refer to."""

    memoryType: str


class MemoryDescription(MemoryReference):
    """A memory without its content."""

    memoryType: str
    tags: list[str]
    created: str
    modified: str


class AsOfMark(TypedDict, total=False):
    """The time as of which a memory is shown, if not now."""

    asOf: str


class ValidityMarks(TypedDict, total=False):
    """Why a memory is not current."""

    supersededBy: str
    expired: str
    notYet: str
    newer: str


class UnmergedMarks(TypedDict, total=False):
    """The git branch that has a memory, or another version of it, that is not merged here.

    ``worktree`` is the path from this vault to the one with the memory.
    """

    unmergedBranch: str
    otherVersionOn: str
    worktree: str


CitationState = Literal["same", "moved", "changed", "gone"]


class CitedCode(TypedDict):
    """Code that a memory cites; ``line`` is where cited lines are now.

    ``movedTo`` is the path of code that is in another file, and ``since`` the commit that changed
    or removed it, if known.
    """

    path: str
    symbol: NotRequired[str]
    line: NotRequired[int]
    state: CitationState
    movedTo: NotRequired[str]
    since: NotRequired[str]


class CodeMarks(TypedDict, total=False):
    """The code that a memory cites; search results omit code that is unchanged."""

    cites: list[CitedCode]


class TrashEntry(MemoryReference):
    """A memory in the trash."""

    discarded: str


class ConfirmedResult(ToolResult):
    """The result of a tool that previews its changes until they are confirmed."""

    confirmRequired: NotRequired[Literal[True]]
    confirmToken: NotRequired[str]
    message: NotRequired[str]
