"""Results of ``tools.vault``, ``notes``, ``history``, ``git`` and ``doctor``."""

from typing import Any, Literal, NotRequired, TypedDict

from memvault.results.shared import (
    AsOfMark,
    CodeMarks,
    ConfirmedResult,
    CutList,
    CutText,
    Listing,
    MemoryDescription,
    MemoryReference,
    ToolResult,
    TrashEntry,
    UnmergedMarks,
    ValidityMarks,
)


class ListedMemory(MemoryDescription, ValidityMarks, AsOfMark):
    """A memory in a listing; ``problem`` explains why its header cannot be read."""

    example: NotRequired[Literal[True]]
    problem: NotRequired[str]


class ShownPart(TypedDict):
    """The position of a part of a memory's content, in characters."""

    heading: str
    offset: int
    length: int


class ShownMemory(ListedMemory, UnmergedMarks, CodeMarks, ToolResult):
    """The result of ``memory_show``: a whole memory, or ``parts`` of it."""

    etag: str
    content: str
    metadata: NotRequired[dict[str, Any]]
    revisions: NotRequired[list[str]]
    parts: NotRequired[list[ShownPart]]
    totalLength: NotRequired[int]
    wholeLength: NotRequired[int]
    next: NotRequired[int]
    message: NotRequired[str]


class ListedMemories(Listing):
    """The result of ``memory_list``."""

    memories: list[ListedMemory]
    count: int


class RestoredMemory(ToolResult):
    """The result of ``memory_restore``: the memory or, without a name, the trash."""

    memId: NotRequired[str]
    title: NotRequired[str]
    filePath: NotRequired[str]
    etag: NotRequired[str]
    trash: NotRequired[list[TrashEntry]]
    total: NotRequired[int]
    message: NotRequired[str]


class IndexSummary(TypedDict):
    """The state of a vault's index."""

    state: str
    folder: NotRequired[str]
    language: str | list[str]


class EmbedderSummary(TypedDict):
    """The state of an embedder.

    ``waiting`` is the number of memories without vectors. If there are any, ``waitingPassages`` of
    ``passages`` are yet to be embedded, which takes about ``secondsLeft`` seconds at the last
    measured rate.
    """

    name: str
    mode: NotRequired[str]
    version: NotRequired[str]
    dimension: NotRequired[int]
    vectors: NotRequired[int]
    waiting: NotRequired[int]
    passages: NotRequired[int]
    waitingPassages: NotRequired[int]
    secondsLeft: NotRequired[int]
    working: NotRequired[bool]
    process: NotRequired[int]
    since: NotRequired[str]
    problem: NotRequired[str]


class VaultSizes(TypedDict):
    """Sizes in bytes."""

    memories: int
    index: int
    history: int
    trash: int


class FileProblem(TypedDict):
    """A problem with a file."""

    filePath: str
    problem: str


class WaitingEvents(TypedDict):
    """The events in the agent's inbox, the time of the oldest, and the agent's next plan."""

    waiting: int
    since: NotRequired[str]
    nextPlan: NotRequired[str]
    planIsDue: NotRequired[bool]


class RerankerSummary(TypedDict):
    """The cross-encoder of ``recall --rerank``."""

    name: str


class VaultStatus(TypedDict):
    """The result of ``vault_status``; ``vault`` is the vault's folder."""

    success: NotRequired[bool]
    warnings: NotRequired[list[str]]
    vault: str
    memories: int
    types: dict[str, int]
    tags: int
    index: IndexSummary
    embedder: EmbedderSummary
    deep: EmbedderSummary
    reranker: NotRequired[RerankerSummary]
    pending: int
    events: WaitingEvents
    sizes: VaultSizes
    trash: int
    settings: dict[str, Any]
    problems: NotRequired[list[FileProblem]]


class RebuiltIndex(ToolResult):
    """The result of ``vault_reindex``."""

    indexed: int
    embedder: str


class AvailableModel(TypedDict):
    """A model; only embedders have a ``dimension``."""

    name: str
    dimension: NotRequired[int]
    sizeInGb: float
    license: str
    description: str


class AvailableModels(ToolResult, CutList):
    """The result of ``model_list``."""

    inUse: str
    models: list[AvailableModel]
    rerankerInUse: str
    rerankers: list[AvailableModel]
    message: NotRequired[str]


class ChosenModel(ToolResult):
    """The result of ``model_use``."""

    name: str
    version: str
    dimension: NotRequired[int]
    previous: str
    embedded: NotRequired[int]


class VerifiedModel(ToolResult):
    """The result of ``model_verify``."""

    name: str
    version: str
    dimension: NotRequired[int]
    related: float
    unrelated: float
    seconds: float
    works: Literal[True]


class DailyNote(ToolResult):
    """The result of ``memory_today``; ``memId`` is missing if there is no note for that day.

    ``added`` is the new entry as written in the note.
    """

    date: str
    filePath: str
    memId: NotRequired[str]
    title: NotRequired[str]
    isNew: bool
    line: NotRequired[int]
    added: NotRequired[str]
    content: NotRequired[str]
    message: NotRequired[str]


class NoteTask(MemoryReference):
    """A task in a note: ``- [ ]`` and its text; ``mark`` is the character between the brackets.

    A canceled task counts as done.
    """

    line: int
    text: str
    isDone: bool
    isCancelled: NotRequired[bool]
    mark: str
    due: NotRequired[str]


class NoteTasks(Listing):
    """The result of ``list_tasks``."""

    tasks: list[NoteTask]


class CompletedTask(NoteTask, ToolResult):
    """The result of ``complete_task``."""


ReviewKind = Literal[
    "conflict",
    "secret",
    "unmerged",
    "duplicate",
    "outdated",
    "code",
    "unused",
    "proposal",
    "finding",
]
"""The kinds of items to review in a vault, the most urgent first."""


class ReviewEntry(TypedDict):
    """An item to review; ``other`` is the other memory of a conflict or duplicate.

    A consolidation proposal has a ``proposalId``, and has a file only if it would change one.
    ``code`` and ``fix`` are the code of a doctor finding and the effect of its fix.
    """

    kind: ReviewKind
    filePath: str
    title: str
    reason: str
    memId: NotRequired[str]
    other: NotRequired[MemoryReference]
    code: NotRequired[str]
    fix: NotRequired[str]
    proposalId: NotRequired[str]


class ReviewedVault(Listing):
    """The result of ``vault_review``."""

    items: list[ReviewEntry]


class NamedCount(TypedDict):
    """A name and a count, such as a type and its number of memories."""

    name: str
    count: int


class CountedMemory(MemoryReference):
    """A memory with the time of its last change, and a count, such as that of its links."""

    modified: str
    count: int


class VaultStatistics(ToolResult):
    """The result of ``vault_stats``.

    ``months`` contains the number of memories at the end of each month. ``days`` contains the
    number of changes that tools made on each day. ``oldest`` lists the stale memories, least
    recently changed first. ``mostUnused`` lists memories that agents were given several times
    without using them since, according to receipts.
    """

    memories: int
    bytes: int
    links: int
    unlinked: int
    superseded: int
    expired: int
    stale: int
    types: list[NamedCount]
    tags: list[NamedCount]
    months: list[NamedCount]
    days: list[NamedCount]
    mostLinked: list[CountedMemory]
    mostRecalled: list[CountedMemory]
    mostUnused: list[CountedMemory]
    oldest: list[CountedMemory]


class RandomMemory(MemoryDescription, ToolResult):
    """The result of ``memory_random``."""

    content: str


class SavedSearch(TypedDict):
    """A saved search: a query and the filters of ``memory_recall``."""

    name: str
    query: str
    memoryType: NotRequired[str]
    tags: NotRequired[list[str]]
    since: NotRequired[str]
    until: NotRequired[str]
    filter: NotRequired[str]


class SavedSearchResult(SavedSearch, ToolResult):
    """The result of ``save_search`` and ``delete_search``."""


class SavedSearches(ToolResult):
    """The result of ``list_searches``."""

    searches: list[SavedSearch]


class MemoryPlace(TypedDict):
    """The title and the path of a memory."""

    title: str
    filePath: str


class RewrittenLinks(TypedDict):
    """A memory in which links are rewritten, and the number of links."""

    memId: str
    filePath: str
    links: int


class RenamedMemory(ConfirmedResult, CutList):
    """The result of ``memory_rename``."""

    memId: NotRequired[str]
    title: NotRequired[str]
    filePath: NotRequired[str]
    before: MemoryPlace
    after: NotRequired[MemoryPlace]
    rewritten: list[RewrittenLinks]


class OutgoingLink(TypedDict):
    """A link; ``key`` is its header key if it is not in the text."""

    link: str
    memId: NotRequired[str]
    title: NotRequired[str]
    filePath: NotRequired[str]
    problem: NotRequired[str]
    key: NotRequired[str]
    heading: NotRequired[str]
    embed: NotRequired[Literal[True]]


class MemoryLinks(Listing):
    """The result of ``memory_links``."""

    links: list[OutgoingLink]


class BacklinkEntry(MemoryReference):
    """A memory that links to another, with the line or the header key of the link."""

    key: NotRequired[str]
    line: NotRequired[int]
    text: NotRequired[str]


class MemoryBacklinks(Listing):
    """The result of ``memory_backlinks``."""

    backlinks: list[BacklinkEntry]


class OrphanedMemories(Listing):
    """The result of ``memory_orphans``."""

    orphans: list[MemoryReference]


class TagEntry(TypedDict):
    """A tag; ``count`` includes the tags nested in it."""

    tag: str
    count: int
    own: int


class TagListing(Listing):
    """The result of ``tag_list``."""

    tags: list[TagEntry]


class TaggedMemory(MemoryReference, ToolResult):
    """The result of ``tag_add`` and ``tag_remove``."""

    tags: list[str]
    etag: str
    missing: NotRequired[list[str]]


class RenamedTag(ConfirmedResult, CutList):
    """The result of ``tag_rename``."""

    changed: NotRequired[int]
    memories: list[MemoryReference]


class ChangedFile(TypedDict):
    """A change to a file; ``revision`` has the previous content."""

    change: str
    filePath: str
    memId: str
    title: str
    revision: NotRequired[str]


class ChangeEntry(TypedDict):
    """A change to the vault; ``obstacle`` is the reason it cannot be undone."""

    changeId: str
    when: str
    tool: str
    agent: str
    files: list[ChangedFile]
    undoes: NotRequired[str]
    undoneBy: NotRequired[str]
    obstacle: NotRequired[str]


class ChangeLog(Listing):
    """The result of ``memory_log``, with the memory's keys if one was named."""

    memId: NotRequired[str]
    filePath: NotRequired[str]
    edited: NotRequired[bool]
    changes: list[ChangeEntry]
    more: NotRequired[Literal[True]]


_Range = TypedDict("_Range", {"from": str, "to": str})


class LineChanges(TypedDict):
    """The numbers of added and removed lines, and a unified diff."""

    added: int
    removed: int
    diff: str


class ComparedRevisions(ToolResult, LineChanges, _Range, CutText):
    """The result of ``memory_diff``."""

    memId: str
    filePath: str
    message: NotRequired[str]


class UndoneChange(ToolResult):
    """The result of ``memory_undo``: the undone change or, with ``list``, the changes.

    ``kept`` lists files that were not reverted because they have changed since.
    """

    changeId: NotRequired[str]
    undone: NotRequired[ChangeEntry]
    files: NotRequired[list[ChangedFile]]
    kept: NotRequired[list[str]]
    changes: NotRequired[list[ChangeEntry]]
    total: NotRequired[int]
    next: NotRequired[int]
    message: NotRequired[str]


class TrashListing(Listing):
    """The result of ``trash_list``."""

    trash: list[TrashEntry]


class EmptiedTrash(ConfirmedResult):
    """The result of ``trash_empty``; ``files`` is the number of files."""

    files: NotRequired[int]
    bytes: int
    oldest: NotRequired[str]
    deletedFiles: NotRequired[int]


class InitializedRepository(ToolResult):
    """The result of ``git_init``."""

    made: bool
    branch: str
    changed: list[str]
    driver: bool


class KeptTwice(TypedDict):
    """A memory that is stored as two files."""

    filePath: str
    copyPath: str


RenamedFile = TypedDict("RenamedFile", {"from": str, "filePath": str})


class SyncedVault(ToolResult):
    """The result of ``git_sync``."""

    branch: str
    remote: str
    committed: int
    pulled: int
    pushed: int
    keptTwice: NotRequired[list[KeptTwice]]
    renamed: NotRequired[list[RenamedFile]]
    notDeleted: NotRequired[list[str]]
    notKept: NotRequired[list[str]]
    notSynced: NotRequired[list[str]]


class RepositoryStatus(ToolResult):
    """The result of ``git_status``; most keys need an approved repository."""

    repository: bool
    autocommit: bool
    keptTwice: list[KeptTwice]
    branch: NotRequired[str]
    remote: NotRequired[str]
    url: NotRequired[str]
    ahead: NotRequired[int]
    behind: NotRequired[int]
    changed: NotRequired[int]
    notSynced: NotRequired[list[str]]
    underWay: NotRequired[str]
    driver: NotRequired[bool]
    todo: NotRequired[list[str]]


class DoctorFinding(TypedDict):
    """A problem, and the effect of ``--fix``."""

    code: str
    severity: Literal["error", "warning", "note"]
    filePath: str
    message: str
    fix: str


class SeverityCounts(TypedDict):
    """The number of findings of each severity."""

    error: int
    warning: int
    note: int


class DoctorReport(TypedDict):
    """The findings of one page, and the fixed findings."""

    memories: int
    only: NotRequired[list[str]]
    findings: list[DoctorFinding]
    total: int
    more: NotRequired[int]
    fixed: NotRequired[list[DoctorFinding]]
    changeId: NotRequired[str]
    errors: int
    counts: SeverityCounts


class CheckedVault(ToolResult, DoctorReport):
    """The result of ``vault_doctor``."""

    next: NotRequired[int]
    message: NotRequired[str]
