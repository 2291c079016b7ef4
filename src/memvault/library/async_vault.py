"""The class ``AsyncVault``; written from the tools by ``make docs``; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from memvault.library.async_calls import AsyncOpenVault

if TYPE_CHECKING:
    from memvault.results import (
        ActiveMemories,
        AgentListing,
        AvailableModels,
        ChangeLog,
        CheckedVault,
        ChosenModel,
        ComparedRevisions,
        CompletedTask,
        CompoundedMemory,
        ConsolidatedMemories,
        CreatedMemory,
        DailyNote,
        DeletedEntries,
        DeletedMemories,
        EmptiedTrash,
        EnteredSpace,
        EpisodeListing,
        EvictedMemory,
        ForgottenMemories,
        FoundMemories,
        GatheredResource,
        GivenTexts,
        HappenedEvents,
        InboxEvents,
        InboxListing,
        InitializedRepository,
        InteractedAgent,
        ListedMemories,
        LoadedMemory,
        MemoryBacklinks,
        MemoryLinks,
        MemoryTypes,
        MovedAgent,
        MutatedMemory,
        NoteTasks,
        ObservedLocation,
        OrphanedMemories,
        ProcedureOutcome,
        PromptContextBlock,
        PushedEvent,
        RandomMemory,
        RebuiltIndex,
        RecalledEpisodes,
        RecalledExperience,
        RecalledFacts,
        RecalledMemories,
        RecalledProcedures,
        RegisteredTool,
        RememberedMemory,
        RenamedMemory,
        RenamedTag,
        RepositoryStatus,
        RestoredMemory,
        ReviewedVault,
        SavedSearches,
        SavedSearchResult,
        SavedText,
        SentMessage,
        SentTalk,
        SetEntries,
        SetPlans,
        ShownMemory,
        SkillCategories,
        SkillListing,
        SkillSubcategories,
        SpaceListing,
        SpaceMessages,
        StoredEpisode,
        StoredFact,
        StoredGoals,
        StoredPlans,
        StoredProcedure,
        StoredValues,
        SyncedVault,
        TaggedMemory,
        TagListing,
        ToolListing,
        TrashListing,
        UndoneChange,
        UpdatedFact,
        UsedSkill,
        VaultStatistics,
        VaultStatus,
        VerifiedModel,
    )
    from memvault.tools.episodes import EpisodeOutcome
    from memvault.tools.state import GoalItem, KeyValue, PlanItem
    from memvault.tools.talk import EventSpec
    from memvault.vault_tools.definition import ToolParameter


class AsyncVault(AsyncOpenVault):
    """An open vault for asyncio: the methods of ``Vault``, which run in threads.

    Each method raises ``memvault.MemvaultError`` if the tool fails.
    """

    async def recall(
        self,
        query: str = "",
        *,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        mode: Literal["hybrid", "keyword", "vector", "tag"] = "hybrid",
        threshold: float = 0.0,
        strict: bool = False,
        specific: bool = False,
        expression: str | None = None,
        since: str | None = None,
        until: str | None = None,
        as_of: str | None = None,
        is_all: bool = False,
        full: bool = False,
        explain: bool = False,
        brief: bool = False,
        budget: int | None = None,
        rerank: bool = False,
        include: Sequence[str] | None = None,
        vaults: Sequence[str] | None = None,
    ) -> RecalledMemories:
        """Recall the memories that best answer a question, each with its best passage."""
        return cast("RecalledMemories", await self._run("memory_recall", locals()))

    async def remember(
        self,
        title: str,
        content: str,
        *,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
        importance: float | None = None,
        source: str | None = None,
        supersedes: str | None = None,
        file_path: str | None = None,
    ) -> RememberedMemory:
        """Remember something as a new memory; existing ones are never overwritten."""
        return cast("RememberedMemory", await self._run("memory_remember", locals()))

    async def compound(
        self,
        query: str,
        modifications: str,
        *,
        memory_type: str | None = None,
        mode: Literal["append", "replace", "section"] = "append",
        section: str | None = None,
        if_match: str | None = None,
    ) -> CompoundedMemory:
        """Compound a memory: add to it instead of writing a second one."""
        return cast("CompoundedMemory", await self._run("memory_compound", locals()))

    async def forget(
        self,
        query: str,
        *,
        memory_type: str | None = None,
        threshold: float = 0.25,
        expression: str | None = None,
        confirm: bool | str | None = None,
        offset: int | None = None,
    ) -> ForgottenMemories:
        """Forget memories: preview them, and move them to the trash once confirmed."""
        return cast("ForgottenMemories", await self._run("memory_forget", locals()))

    async def types(self, *, offset: int | None = None) -> MemoryTypes:
        """List the memory types with their counts, and the default type."""
        return cast("MemoryTypes", await self._run("memory_list_types", locals()))

    async def create(
        self,
        name: str,
        value: str,
        *,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> CreatedMemory:
        """Create a memory and load it into active memory."""
        return cast("CreatedMemory", await self._run("memory_create", locals()))

    async def load(
        self,
        mem_id: str | None = None,
        *,
        offset: int | None = None,
        length: int | None = None,
        query: str | None = None,
        threshold: float | None = None,
        limit: int | None = None,
        expression: str | None = None,
    ) -> LoadedMemory:
        """Load a memory into active memory by memory id, or load long-term memories by query."""
        return cast("LoadedMemory", await self._run("memory_load", locals()))

    async def evict(self, mem_id: str) -> EvictedMemory:
        """Evict a memory from active memory; the memory itself stays in the vault."""
        return cast("EvictedMemory", await self._run("memory_evict", locals()))

    async def mutate(
        self, mem_id: str, value: str, *, if_match: str | None = None
    ) -> MutatedMemory:
        """Replace a memory's content in active memory and in its file."""
        return cast("MutatedMemory", await self._run("memory_mutate", locals()))

    async def search(
        self,
        query: str,
        *,
        mode: Literal["Vector", "Keyword", "Tag", "Hybrid"] = "Hybrid",
        limit: int = 10,
        offset: int | None = None,
    ) -> FoundMemories:
        """Search for memories to load: memory ids with short snippets."""
        return cast("FoundMemories", await self._run("memory_search", locals()))

    async def active(
        self, *, full: bool = False, limit: int = 50, offset: int = 0
    ) -> ActiveMemories:
        """List active memory, last used first, with sizes in tokens and the remaining budget."""
        return cast("ActiveMemories", await self._run("memory_active", locals()))

    async def context(self, task: str = "", *, budget: int | None = None) -> PromptContextBlock:
        """Write a block for a system prompt: memories, goals, due plans, inbox, recalled memories."""
        return cast("PromptContextBlock", await self._run("context", locals()))

    async def receipt(
        self, session: str = "", *, is_list: bool = False, limit: int = 50, offset: int = 0
    ) -> GivenTexts:
        """Show the exact text that hooks and `memvault context` gave an agent, and why."""
        return cast("GivenTexts", await self._run("memory_receipt", locals()))

    async def save(
        self, text: str, *, area: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> SavedText:
        """Save text as a new memory, exactly as it is."""
        return cast("SavedText", await self._run("memory_save", locals()))

    async def delete(self, ids: Sequence[str] | str) -> DeletedMemories:
        """Move exactly these memories to the trash, all or none."""
        return cast("DeletedMemories", await self._run("memory_delete", locals()))

    async def memories_set(self, memories: Sequence[KeyValue]) -> SetEntries:
        """Set values by key, replacing existing ones."""
        return cast("SetEntries", await self._run("set_memories", locals()))

    async def memories_get(
        self, keys: Sequence[str] | None = None, *, limit: int | None = None, offset: int = 0
    ) -> StoredValues:
        """Get values, in the order of the given keys, or else sorted by key."""
        return cast("StoredValues", await self._run("get_memories", locals()))

    async def memories_delete(self, keys: Sequence[str]) -> DeletedEntries:
        """Delete values by their keys; they stay in the history."""
        return cast("DeletedEntries", await self._run("delete_memories", locals()))

    async def goals_set(self, goals: Sequence[GoalItem]) -> SetEntries:
        """Set goals by id; existing goals are updated."""
        return cast("SetEntries", await self._run("set_goals", locals()))

    async def goals_get(
        self, *, status: str | None = None, limit: int = 50, offset: int = 0
    ) -> StoredGoals:
        """Get the goals, sorted by id."""
        return cast("StoredGoals", await self._run("get_goals", locals()))

    async def goals_delete(self, goal_ids: Sequence[str]) -> DeletedEntries:
        """Delete goals by their ids; they stay in the history."""
        return cast("DeletedEntries", await self._run("delete_goals", locals()))

    async def plans_set(self, plans: Sequence[PlanItem]) -> SetPlans:
        """Set plans by name; existing plans are updated."""
        return cast("SetPlans", await self._run("set_plans", locals()))

    async def plans_get(
        self,
        *,
        status: Literal["active", "completed", "expired"] | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> StoredPlans:
        """Get the plans, next due first."""
        return cast("StoredPlans", await self._run("get_plans", locals()))

    async def plans_delete(self, plan_ids: Sequence[str]) -> DeletedEntries:
        """Delete plans by their ids; they stay in the history."""
        return cast("DeletedEntries", await self._run("delete_plans", locals()))

    async def episode_store(
        self,
        *,
        context: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        outcomes: Sequence[EpisodeOutcome] | None = None,
        skills_used: Sequence[str] | None = None,
        reflection: str = "",
        importance: float = 0.5,
    ) -> StoredEpisode:
        """Store an episode: the situation, the actions and the outcomes."""
        return cast("StoredEpisode", await self._run("store_episode", locals()))

    async def episode_recall(
        self, query: str, *, limit: int = 5, min_importance: float = 0.3, offset: int | None = None
    ) -> RecalledEpisodes:
        """Recall episodes similar to a situation, best match first."""
        return cast("RecalledEpisodes", await self._run("recall_similar_experience", locals()))

    async def episode_recent(
        self, *, days: int = 7, limit: int = 10, offset: int = 0
    ) -> EpisodeListing:
        """List recent episodes, newest first, without archived ones."""
        return cast("EpisodeListing", await self._run("get_recent_episodes", locals()))

    async def episode_with_skill(
        self, skill_id: str, *, limit: int = 5, offset: int = 0
    ) -> EpisodeListing:
        """List the episodes in which a skill was used, newest first, without archived ones."""
        return cast("EpisodeListing", await self._run("get_episodes_with_skill", locals()))

    async def fact_store(
        self,
        fact: str,
        *,
        category: str = "general",
        confidence: float = 1.0,
        source: str = "experience",
    ) -> StoredFact:
        """Store a fact: a statement without its context."""
        return cast("StoredFact", await self._run("store_fact", locals()))

    async def fact_recall(
        self, query: str, *, limit: int = 5, category: str | None = None, offset: int | None = None
    ) -> RecalledFacts:
        """Recall facts, best match first, and count the access."""
        return cast("RecalledFacts", await self._run("recall_fact", locals()))

    async def fact_update(
        self, fact_id: str, *, new_text: str | None = None, new_confidence: float | None = None
    ) -> UpdatedFact:
        """Update a fact's text, its confidence, or both."""
        return cast("UpdatedFact", await self._run("update_fact", locals()))

    async def procedure_store(
        self,
        procedure_name: str,
        procedure_prompt: str,
        *,
        initial_success_rate: float = 0.5,
        skill_id: str | None = None,
    ) -> StoredProcedure:
        """Store a procedure: instructions under a unique name."""
        return cast("StoredProcedure", await self._run("store_procedure", locals()))

    async def procedure_recall(
        self, context: str, *, min_success_rate: float = 0.6, offset: int | None = None
    ) -> RecalledProcedures:
        """Recall the procedures for a task or situation, best success rate first."""
        return cast("RecalledProcedures", await self._run("recall_procedure", locals()))

    async def procedure_outcome(self, procedure_name: str, *, success: bool) -> ProcedureOutcome:
        """Record a use of a procedure, and whether it succeeded."""
        return cast("ProcedureOutcome", await self._run("update_success_rate", locals()))

    async def experience(
        self,
        observations: Sequence[str] | None = None,
        *,
        path: str | None = None,
        command: str | None = None,
        change: str | None = None,
        error: str | None = None,
    ) -> RecalledExperience:
        """Recall everything about a situation: facts, experiences and procedures."""
        return cast("RecalledExperience", await self._run("recall_memory", locals()))

    async def consolidate(
        self, *, days: int = 7, apply: bool = False, extractor: str | None = None
    ) -> ConsolidatedMemories:
        """Consolidate episodes: propose facts and procedures for repeated statements and actions."""
        return cast("ConsolidatedMemories", await self._run("consolidate_memories", locals()))

    async def skills_categories(self, *, limit: int = 50, offset: int = 0) -> SkillCategories:
        """List the skill categories (the first part of each skill id), with the number of skills."""
        return cast("SkillCategories", await self._run("list_skill_categories", locals()))

    async def skills_subcategories(
        self, category_id: str, *, limit: int = 50, offset: int = 0
    ) -> SkillSubcategories:
        """List the subcategories of a category (the first two parts of each skill id)."""
        return cast("SkillSubcategories", await self._run("list_subcategories", locals()))

    async def skills_list(
        self, subcategory_id: str, *, limit: int = 50, offset: int = 0
    ) -> SkillListing:
        """List the skills in a subcategory, sorted by id."""
        return cast("SkillListing", await self._run("list_skills", locals()))

    async def skills_use(
        self, skill_id: str, action_description: str, *, difficulty_modifier: float = 0.0
    ) -> UsedSkill:
        """Use a skill: get the procedure to follow, and how likely it is to succeed."""
        return cast("UsedSkill", await self._run("use_skill", locals()))

    async def talk_user(self, message: str, *, user: str = "") -> SentTalk:
        """Send a message to the user, without waiting for an answer."""
        return cast("SentTalk", await self._run("talk_user", locals()))

    async def talk_agent(self, other: str, message: str) -> SentTalk:
        """Send a message to another agent, without waiting for an answer."""
        return cast("SentTalk", await self._run("talk_agent", locals()))

    async def talk_brain(self, subbrain: str, message: str) -> SentTalk:
        """Send a message to another brain of the same agent, without waiting for an answer."""
        return cast("SentTalk", await self._run("talk_brain", locals()))

    async def talk_log(
        self, severity: Literal["debug", "info", "warning", "error", "critical"], message: str
    ) -> SentTalk:
        """Write a message to the agent's log, .memvault/agents/AGENT/log.jsonl."""
        return cast("SentTalk", await self._run("talk_log", locals()))

    async def reply(self, talk_id: int, message: str) -> SentTalk:
        """Answer a talk; its sender receives the message and the id of the talk."""
        return cast("SentTalk", await self._run("reply", locals()))

    async def wait_for(
        self, events: Sequence[EventSpec], *, timeout: float | None = None
    ) -> HappenedEvents:
        """Wait for the first of several events, remove it from the inbox, and return it."""
        return cast("HappenedEvents", await self._run("wait_for", locals()))

    async def inbox_peek(
        self,
        *,
        count: int = 1,
        kind: Literal["space_message", "plan", "service", "talk"] | None = None,
    ) -> InboxEvents:
        """Remove the oldest events from the agent's inbox and return them."""
        return cast("InboxEvents", await self._run("peek_inbox", locals()))

    async def inbox_list(
        self, *, event_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> InboxListing:
        """List the events in the agent's inbox, oldest first, without removing them."""
        return cast("InboxListing", await self._run("list_inbox", locals()))

    async def agents(self, *, limit: int = 50, offset: int = 0) -> AgentListing:
        """List the vault's agents and brains, with counts of their entries and the last change."""
        return cast("AgentListing", await self._run("list_agents", locals()))

    async def inbox_push(self, name: str, message: str = "") -> PushedEvent:
        """Add an event to the agent's own inbox, for example from a git hook or a CI job."""
        return cast("PushedEvent", await self._run("push_service", locals()))

    async def space_enter(
        self, space: str, *, limit: int = 50, offset: int | None = None
    ) -> EnteredSpace:
        """Enter a space: join it, read its last messages, and make it the target of new ones."""
        return cast("EnteredSpace", await self._run("enter_space", locals()))

    async def space_send(self, text: str) -> SentMessage:
        """Send a message to the space entered last; every other member gets an inbox event."""
        return cast("SentMessage", await self._run("send_message", locals()))

    async def space_read(
        self, *, space: str | None = None, limit: int = 50, offset: int = 0
    ) -> SpaceMessages:
        """Read a space's messages, newest last."""
        return cast("SpaceMessages", await self._run("read_messages", locals()))

    async def space_list(self, *, limit: int = 50, offset: int = 0) -> SpaceListing:
        """List the spaces with their members, number of messages and time of the last message."""
        return cast("SpaceListing", await self._run("list_spaces", locals()))

    async def tools_list(
        self,
        names: Sequence[str] | None = None,
        *,
        schemas: bool | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> ToolListing:
        """List the tools in this vault: the built-in ones, and those registered in it."""
        return cast("ToolListing", await self._run("get_available_tools", locals()))

    async def tools_register(
        self,
        *,
        name: str,
        description: str,
        command: str | Sequence[str],
        parameters: Sequence[ToolParameter] | None = None,
        timeout: float | None = None,
        documentation: str | None = None,
    ) -> RegisteredTool:
        """Register a tool in the vault: a program, defined in tools/NAME.md."""
        return cast("RegisteredTool", await self._run("register_tool", locals()))

    async def world_observe(self, *, radius: float = 5) -> ObservedLocation:
        """Observe the agent's surroundings: terrain, climate, resources, other agents."""
        return cast("ObservedLocation", await self._run("observe_location", locals()))

    async def world_move(self, x: float, y: float) -> MovedAgent:
        """Move the agent to a cell; each cell of the straight path costs 0.01 stamina."""
        return cast("MovedAgent", await self._run("move_to", locals()))

    async def world_gather(self, resource: str, *, amount: int = 1) -> GatheredResource:
        """Gather a resource at the agent's position into its inventory."""
        return cast("GatheredResource", await self._run("gather_resource", locals()))

    async def world_interact(self, other: str, message: str) -> InteractedAgent:
        """Interact with an agent within reach: send it a talk, which arrives in its inbox."""
        return cast("InteractedAgent", await self._run("interact_with_agent", locals()))

    async def rename(
        self,
        name: str,
        title: str | None = None,
        *,
        to: str | None = None,
        confirm: bool | str | None = None,
        offset: int | None = None,
    ) -> RenamedMemory:
        """Rename or move a memory, and rewrite the links to it."""
        return cast("RenamedMemory", await self._run("memory_rename", locals()))

    async def links(self, name: str, *, limit: int = 50, offset: int = 0) -> MemoryLinks:
        """List a memory's links: wikilinks, embeds, markdown links, and links in its header."""
        return cast("MemoryLinks", await self._run("memory_links", locals()))

    async def backlinks(self, name: str, *, limit: int = 50, offset: int = 0) -> MemoryBacklinks:
        """List the memories that link to a memory, with each line that contains a link."""
        return cast("MemoryBacklinks", await self._run("memory_backlinks", locals()))

    async def orphans(self, *, limit: int = 50, offset: int = 0) -> OrphanedMemories:
        """List memories without links to or from other memories."""
        return cast("OrphanedMemories", await self._run("memory_orphans", locals()))

    async def tags(
        self,
        under: str | None = None,
        *,
        sort: Literal["count", "name"] = "count",
        limit: int = 50,
        offset: int = 0,
    ) -> TagListing:
        """List the tags in headers and bodies, with the number of memories for each tag."""
        return cast("TagListing", await self._run("tag_list", locals()))

    async def tag_add(self, name: str, tags: Sequence[str]) -> TaggedMemory:
        """Add tags to a memory's header."""
        return cast("TaggedMemory", await self._run("tag_add", locals()))

    async def tag_remove(self, name: str, tags: Sequence[str]) -> TaggedMemory:
        """Remove tags from a memory; a tag in its text loses the # and stays as a word."""
        return cast("TaggedMemory", await self._run("tag_remove", locals()))

    async def tag_rename(
        self, old: str, new: str, *, confirm: bool | str | None = None, offset: int | None = None
    ) -> RenamedTag:
        """Rename a tag and the tags nested in it, in the headers and bodies of all memories."""
        return cast("RenamedTag", await self._run("tag_rename", locals()))

    async def today(
        self,
        text: str = "",
        *,
        day: str | None = None,
        offset: int | None = None,
        length: int | None = None,
    ) -> DailyNote:
        """Add an entry to today's daily note, or show the note."""
        return cast("DailyNote", await self._run("memory_today", locals()))

    async def tasks(
        self,
        query: str = "",
        *,
        done: bool = False,
        include_done: bool = False,
        due: Literal["overdue", "today", "week"] | None = None,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        expression: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> NoteTasks:
        """List tasks in notes, such as `- [ ] Call Ann`, by due date; undated tasks come last."""
        return cast("NoteTasks", await self._run("list_tasks", locals()))

    async def task_done(self, memory: str, line: int | None = None) -> CompletedTask:
        """Mark a task as done: `- [ ]` becomes `- [x]`."""
        return cast("CompletedTask", await self._run("complete_task", locals()))

    async def random(
        self,
        *,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        expression: str | None = None,
    ) -> RandomMemory:
        """Show a random memory, to rediscover forgotten ones."""
        return cast("RandomMemory", await self._run("memory_random", locals()))

    async def searches_save(
        self,
        name: str,
        query: str = "",
        *,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        expression: str | None = None,
    ) -> SavedSearchResult:
        """Save a search under a name; use @NAME in place of a query."""
        return cast("SavedSearchResult", await self._run("save_search", locals()))

    async def searches_list(self) -> SavedSearches:
        """List the vault's saved searches."""
        return cast("SavedSearches", await self._run("list_searches", locals()))

    async def searches_delete(self, name: str) -> SavedSearchResult:
        """Delete a saved search."""
        return cast("SavedSearchResult", await self._run("delete_search", locals()))

    async def show(
        self,
        name: str,
        *,
        revision: str | None = None,
        section: str | None = None,
        around: str | None = None,
        page: int | None = None,
        offset: int | None = None,
        length: int | None = None,
    ) -> ShownMemory:
        """Show a memory in full, or part of it."""
        return cast("ShownMemory", await self._run("memory_show", locals()))

    async def list(
        self,
        query: str = "",
        *,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
        expression: str | None = None,
        since: str | None = None,
        until: str | None = None,
        sort: Literal["modified", "created", "title", "type", "path"] = "modified",
        limit: int = 50,
        offset: int = 0,
    ) -> ListedMemories:
        """List memories without their content, last changed first; examples are marked."""
        return cast("ListedMemories", await self._run("memory_list", locals()))

    async def restore(self, name: str = "", *, revision: str | None = None) -> RestoredMemory:
        """Restore a memory from the trash, or revert one to an earlier revision."""
        return cast("RestoredMemory", await self._run("memory_restore", locals()))

    async def status(self) -> VaultStatus:
        """Show the vault's state: counts, index, embedder, sizes, and pending work."""
        return cast("VaultStatus", await self._run("vault_status", locals()))

    async def reindex(self) -> RebuiltIndex:
        """Rebuild the index, and embed the memories without vectors with both embedders."""
        return cast("RebuiltIndex", await self._run("vault_reindex", locals()))

    async def model_list(self, *, offset: int | None = None) -> AvailableModels:
        """List the available models for embedding and reranking, and the models in use."""
        return cast("AvailableModels", await self._run("model_list", locals()))

    async def model_use(
        self, name: str, *, purpose: Literal["embed", "rerank"] = "embed"
    ) -> ChosenModel:
        """Use another model: download it if needed, and embed every memory with it."""
        return cast("ChosenModel", await self._run("model_use", locals()))

    async def model_verify(
        self, name: str | None = None, *, purpose: Literal["embed", "rerank"] = "embed"
    ) -> VerifiedModel:
        """Check that a model loads here and can tell related passages from unrelated ones."""
        return cast("VerifiedModel", await self._run("model_verify", locals()))

    async def log(self, name: str = "", *, limit: int = 50, offset: int = 0) -> ChangeLog:
        """List the changes, newest first, each with its time, tool and agent."""
        return cast("ChangeLog", await self._run("memory_log", locals()))

    async def diff(
        self,
        name: str,
        revision: str = "",
        other: str = "",
        *,
        offset: int | None = None,
        length: int | None = None,
    ) -> ComparedRevisions:
        """Compare two revisions of a memory, or a revision and the current file."""
        return cast("ComparedRevisions", await self._run("memory_diff", locals()))

    async def undo(
        self,
        change: str | None = None,
        *,
        listing: bool = False,
        keep_changed: bool = False,
        limit: int | None = None,
        offset: int | None = None,
    ) -> UndoneChange:
        """Undo the last change by a tool: restore every file to its previous state."""
        return cast("UndoneChange", await self._run("memory_undo", locals()))

    async def trash_list(self, *, limit: int = 50, offset: int = 0) -> TrashListing:
        """List the forgotten memories that can be restored, newest first."""
        return cast("TrashListing", await self._run("trash_list", locals()))

    async def trash_empty(
        self, *, older: str | None = None, confirm: bool | str | None = None
    ) -> EmptiedTrash:
        """Delete the trash permanently: preview it, and delete it once confirmed."""
        return cast("EmptiedTrash", await self._run("trash_empty", locals()))

    async def doctor(
        self,
        *,
        fix: bool = False,
        only: Sequence[str] | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> CheckedVault:
        """Check the vault for broken, duplicate, lost or leftover files, links and vectors."""
        return cast("CheckedVault", await self._run("vault_doctor", locals()))

    async def review(
        self,
        *,
        kind: Literal[
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
        | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> ReviewedVault:
        """List items to review: conflicts, secrets, duplicates, outdated memories, proposals."""
        return cast("ReviewedVault", await self._run("vault_review", locals()))

    async def stats(self) -> VaultStatistics:
        """Show vault statistics: growth, activity, types, tags, links, recalls, stale memories."""
        return cast("VaultStatistics", await self._run("vault_stats", locals()))

    async def git_init(self, *, confirm: bool | str | None = None) -> InitializedRepository:
        """Set up git for the vault: create a repository if needed, and a merge driver."""
        return cast("InitializedRepository", await self._run("git_init", locals()))

    async def git_sync(self, *, confirm: bool | str | None = None) -> SyncedVault:
        """Sync the vault with git: commit all changes, merge the remote's, and push."""
        return cast("SyncedVault", await self._run("git_sync", locals()))

    async def git_status(self) -> RepositoryStatus:
        """Show the vault's state in git: branch, remote, pending changes, memories kept as two files."""
        return cast("RepositoryStatus", await self._run("git_status", locals()))
