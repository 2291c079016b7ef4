"""Results of ``tools.recall``."""

from typing import Any, Literal, NotRequired, TypedDict

from memvault.results.shared import (
    AsOfMark,
    CodeMarks,
    ConfirmedResult,
    CutList,
    MemoryCandidate,
    MemoryDescription,
    MemoryReference,
    Strength,
    ToolResult,
    UnmergedMarks,
    ValidityMarks,
)


class RecalledMemory(MemoryDescription, ValidityMarks, UnmergedMarks, AsOfMark, CodeMarks):
    """A memory in a result; a listed one has no ``strength``, ``probability`` or ``line``.

    ``probability`` is the match probability, to which ``threshold`` applies. ``line`` is the line
    number of the snippet in the file. It is missing if an earlier state of the memory is shown, or
    if its file is on another machine. ``place`` is the page or section of a document instead, such
    as ``report.pdf#page=3``.
    """

    line: NotRequired[int]
    place: NotRequired[str]
    score: float
    strength: NotRequired[Strength]
    probability: NotRequired[float]
    snippet: str
    content: NotRequired[str]
    etag: NotRequired[str]
    why: NotRequired[dict[str, Any]]
    vault: NotRequired[str]


class RecalledEntry(TypedDict):
    """A value, goal, plan or message of the agent."""

    kind: str
    name: str
    filePath: str
    modified: str
    score: float
    snippet: str
    content: NotRequired[str]


class RecalledMemories(ToolResult):
    """The result of ``memory_recall``."""

    memories: list[RecalledMemory]
    brief: NotRequired[list[str]]
    count: int
    best: NotRequired[Literal["strong", "fair", "weak", "none"]]
    absentWords: NotRequired[list[str]]
    more: NotRequired[int]
    next: NotRequired[int]
    total: NotRequired[int]
    others: NotRequired[list[RecalledEntry]]
    message: NotRequired[str]


class SimilarMemory(MemoryReference):
    """An existing memory that is similar to a new one."""

    similarity: float


class RememberedMemory(ToolResult):
    """The result of ``memory_remember``."""

    filePath: str
    memId: str
    memoryType: str
    tags: list[str]
    isUpdate: bool
    cites: NotRequired[list[str]]
    similar: list[SimilarMemory]


class CompoundedMemory(ToolResult):
    """The result of ``memory_compound``."""

    filePath: str
    memId: str
    memoryType: str
    etag: str
    previousRevision: str
    cites: NotRequired[list[str]]


class ForgetCandidate(MemoryCandidate, ValidityMarks):
    """A memory that would be forgotten."""

    score: float
    strength: NotRequired[Strength]


class ForgottenMemories(ConfirmedResult, CutList):
    """The result of ``memory_forget``."""

    candidates: NotRequired[list[ForgetCandidate]]
    deletedFiles: NotRequired[int]
    files: NotRequired[list[str]]


class MemoryTypeCount(TypedDict):
    """A type of memory, and the number of memories with it."""

    name: str
    description: str
    count: int


class MemoryTypes(ToolResult, CutList):
    """The result of ``memory_list_types``."""

    types: list[MemoryTypeCount]
    fallbackType: str
    fallbackDescription: str
    message: NotRequired[str]
