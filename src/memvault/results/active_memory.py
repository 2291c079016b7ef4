"""Results of ``tools.active_memory`` and ``tools.save_delete``."""

from typing import Any, Literal, NotRequired, TypedDict

from memvault.results.shared import AsOfMark, CutList, Listing, Strength, ToolResult, ValidityMarks


class CreatedMemory(ToolResult):
    """The result of ``memory_create``; without ``evicted``, active memory has not changed."""

    memId: str
    filePath: str
    evicted: NotRequired[list[str]]


class LoadedText(ValidityMarks):
    """The full text of a result."""

    id: str
    text: str
    similarity: float
    strength: Strength
    metadata: dict[str, Any]


class LoadedMemory(ToolResult):
    """The result of ``memory_load``: part of a memory or, with a query, ``memories``."""

    memId: NotRequired[str]
    length: NotRequired[int]
    totalLength: NotRequired[int]
    offset: NotRequired[int]
    content: NotRequired[str]
    evicted: NotRequired[list[str]]
    tokens: NotRequired[int]
    etag: NotRequired[str]
    cutAt: NotRequired[Literal["maximum", "budget"]]
    maximum: NotRequired[int]
    budget: NotRequired[int]
    memories: NotRequired[list[LoadedText]]
    total: NotRequired[int]
    next: NotRequired[int]
    message: NotRequired[str]


class EvictedMemory(ToolResult):
    """The result of ``memory_evict``."""

    memId: str


class MutatedMemory(ToolResult):
    """The result of ``memory_mutate``; without ``evicted`` active memory is out of date."""

    memId: str
    etag: str
    previousRevision: str
    evicted: NotRequired[list[str]]


class FoundMemory(ValidityMarks, AsOfMark):
    """A result of ``memory_search``."""

    memId: str
    title: str
    snippet: str
    score: float
    strength: Strength


class FoundMemories(ToolResult, CutList):
    """The result of ``memory_search``."""

    best: Literal["strong", "fair", "weak", "none"]
    results: list[FoundMemory]
    message: NotRequired[str]


class ActivePart(TypedDict):
    """The part of a memory that is in active memory."""

    memId: str
    title: str
    filePath: str
    offset: int
    length: int
    totalLength: int
    tokens: int
    content: NotRequired[str]


class ActiveMemories(Listing):
    """The result of ``memory_active``."""

    agent: str
    memories: list[ActivePart]
    tokens: int
    budget: int
    left: int


class ContextEntry(TypedDict):
    """An entry of a prompt's block."""

    date: str
    text: str


class ContextSection(TypedDict):
    """A section of a prompt's block."""

    section: str
    entries: list[ContextEntry]


class ContextCut(TypedDict):
    """The number of a section's entries that the budget left out."""

    section: str
    leftOut: int
    of: int


class ContextMemory(TypedDict):
    """A recalled memory in the block, with the etag of its file."""

    memId: str
    etag: str
    probability: float


class PromptContextBlock(ToolResult):
    """The result of ``context``; ``memories`` contains the recalled memories in the block."""

    context: str
    tokens: int
    budget: int
    parts: NotRequired[list[ContextSection]]
    memories: NotRequired[list[ContextMemory]]
    cut: list[ContextCut]
    shortened: NotRequired[list[str]]


class GivenText(TypedDict):
    """A receipt: a text that an agent was given at an event, and the memories in it.

    ``threshold`` is the minimum match probability of the memories; ``tokens`` and ``budget`` are
    the size of the text and its maximum.
    """

    when: str
    agent: str
    event: str
    program: str
    text: str
    tokens: int
    budget: int
    threshold: float
    memories: list[ContextMemory]


class RecordedSession(TypedDict):
    """A session with receipts, and the time of the last one."""

    session: str
    agent: str
    program: str
    when: str
    receipts: int
    tokens: int


class GivenTexts(Listing):
    """The result of ``memory_receipt``."""

    session: NotRequired[str]
    receipts: NotRequired[list[GivenText]]
    sessions: NotRequired[list[RecordedSession]]


class SavedText(ToolResult):
    """The result of ``memory_save``."""

    id: str
    title: str
    filePath: str


class DeletedMemories(ToolResult):
    """The result of ``memory_delete``."""

    deleted: list[str]
    missing: list[str]
