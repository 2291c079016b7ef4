"""Results of ``tools.episodes``, ``experience``, ``consolidate`` and ``skills``."""

from typing import Any, NotRequired, TypedDict

from memvault.results.shared import (
    CodeMarks,
    CutList,
    Listing,
    MemoryReference,
    Strength,
    ToolResult,
    ValidityMarks,
)


class StoredEpisode(ToolResult):
    """The result of ``store_episode``; the call succeeds for an episode that failed."""

    episodeId: str
    episodeSuccess: bool
    title: str
    filePath: str


class EpisodeMetadata(TypedDict):
    """An episode's properties."""

    title: str
    filePath: str
    agent: str
    timestamp: str
    importance: float
    success: bool
    context: list[str]
    actions: list[str]
    outcomes: list[dict[str, Any]]
    skillsUsed: list[str]
    reflection: str


class EpisodeEntry(ValidityMarks):
    """An episode; search results also have ``distance`` and ``strength``."""

    episodeId: str
    summary: str
    metadata: EpisodeMetadata
    distance: NotRequired[float]
    strength: NotRequired[Strength]


class RecalledEpisodes(ToolResult, CutList):
    """The result of ``recall_similar_experience``."""

    episodes: list[EpisodeEntry]
    message: NotRequired[str]


class EpisodeListing(Listing):
    """The result of ``get_recent_episodes`` and ``get_episodes_with_skill``."""

    episodes: list[EpisodeEntry]


class SimilarFact(TypedDict):
    """An existing fact that is similar to a new one."""

    factId: str
    factText: str
    similarity: float
    filePath: str


class StoredFact(ToolResult):
    """The result of ``store_fact``."""

    factId: str
    title: str
    filePath: str
    similar: list[SimilarFact]


class RecalledFact(ValidityMarks):
    """A fact in search results."""

    factId: str
    factText: str
    category: str
    confidence: float
    source: str
    accessCount: int
    distance: float
    strength: Strength


class RecalledFacts(ToolResult, CutList):
    """The result of ``recall_fact``."""

    facts: list[RecalledFact]
    message: NotRequired[str]


class UpdatedFact(ToolResult):
    """The result of ``update_fact``."""

    factId: str
    filePath: str
    previousRevision: str


class StoredProcedure(ToolResult):
    """The result of ``store_procedure``."""

    procedureId: str
    isUpdate: bool
    filePath: str
    previousRevision: NotRequired[str]


class RecalledProcedure(TypedDict):
    """A procedure in search results."""

    name: str
    prompt: str
    successRate: float
    usageCount: int
    procedureId: str


class RecalledProcedures(ToolResult, CutList):
    """The result of ``recall_procedure``."""

    procedures: list[RecalledProcedure]
    message: NotRequired[str]


class ProcedureOutcome(ToolResult):
    """The result of ``update_success_rate``."""

    successRate: float
    usageCount: int


class ExperienceLists(TypedDict):
    """Content or memIds of facts, experiences and procedures."""

    facts: list[str]
    experiences: list[str]
    procedures: list[str]


class NamingMemory(MemoryReference, CodeMarks):
    """A memory with a line that mentions a file, a command or an error.

    ``score`` is how specifically the line mentions it, from 0 to 1.
    """

    etag: str
    line: str
    score: float


class RecalledExperience(ToolResult):
    """The result of ``recall_memory``; ``memories`` mention the given path, command or error."""

    memoryContext: ExperienceLists
    sources: ExperienceLists
    memories: NotRequired[list[NamingMemory]]
    message: NotRequired[str]


class QuotedSentence(TypedDict):
    """A sentence of an episode."""

    text: str
    episodeId: str


class ProposedFact(TypedDict):
    """A fact derived from episodes."""

    proposalId: str
    factText: str
    category: str
    confidence: float
    episodes: list[str]
    wordings: NotRequired[list[str]]
    quotes: NotRequired[list[QuotedSentence]]
    supersedes: NotRequired[list[str]]
    factId: NotRequired[str]
    filePath: NotRequired[str]


class ProposedProcedure(TypedDict):
    """A procedure derived from episodes."""

    proposalId: str
    name: str
    prompt: str
    successRate: float
    usageCount: int
    episodes: list[str]
    skillId: NotRequired[str]
    quotes: NotRequired[list[QuotedSentence]]
    varies: NotRequired[list[QuotedSentence]]
    reordered: NotRequired[list[str]]
    procedureId: NotRequired[str]
    filePath: NotRequired[str]


class ArchivedMemory(MemoryReference):
    """A memory to archive."""

    proposalId: str
    memoryType: str
    importance: float
    modified: str
    episodes: list[str]


class MergedFacts(TypedDict):
    """Two facts with the same meaning, and which one is kept."""

    proposalId: str
    keptId: str
    keptText: str
    archivedId: str
    archivedText: str
    episodes: list[str]


class ContradictoryText(TypedDict):
    """A statement, and the memories that contain it."""

    text: str
    memIds: list[str]


class ContradictoryTexts(TypedDict):
    """Contradictory statements."""

    difference: str
    statements: list[ContradictoryText]
    current: NotRequired[str]


class RefusedLine(TypedDict):
    """A line of an extractor's output that is not a proposal."""

    line: int
    text: str
    problem: str


class ConsolidatedMemories(ToolResult):
    """The result of ``consolidate_memories``."""

    facts: list[ProposedFact]
    procedures: list[ProposedProcedure]
    forgotten: list[ArchivedMemory]
    applied: bool
    merged: NotRequired[list[MergedFacts]]
    contradictions: NotRequired[list[ContradictoryTexts]]
    refused: NotRequired[list[RefusedLine]]
    message: NotRequired[str]


class SkillCategory(TypedDict):
    """A category and its number of skills."""

    categoryId: str
    skills: int


class SkillCategories(Listing):
    """The result of ``list_skill_categories``."""

    categories: list[SkillCategory]


class SkillSubcategory(TypedDict):
    """A subcategory and its number of skills."""

    subcategoryId: str
    skills: int


class SkillSubcategories(Listing):
    """The result of ``list_subcategories``."""

    subcategories: list[SkillSubcategory]


class SkillEntry(TypedDict):
    """A procedure with a skillId."""

    skillId: str
    name: str
    procedureId: str
    successRate: float
    usageCount: int


class SkillListing(Listing):
    """The result of ``list_skills``."""

    skills: list[SkillEntry]


class SkillUse(SkillEntry):
    """A skill, and how to use it for an action."""

    prompt: str
    action: str
    difficultyModifier: float
    expectedSuccess: float


class UsedSkill(ToolResult):
    """The result of ``use_skill``."""

    skillResult: SkillUse
