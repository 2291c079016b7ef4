"""The class ``Vault``; written from the tools by ``make docs``; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from memvault.library.calls import OpenVault

if TYPE_CHECKING:
    from memvault import results
    from memvault.tools.episodes import EpisodeOutcome
    from memvault.tools.state import GoalItem, KeyValue, PlanItem
    from memvault.tools.talk import EventSpec
    from memvault.vault_tools.definition import ToolParameter


class Vault(OpenVault):
    """An open vault. Safe to share between threads: calls run one at a time.

    Each method raises ``memvault.MemvaultError`` if the tool fails.
    """

    def recall(
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
    ) -> results.RecalledMemories:
        """Recall the memories that best answer a question, each with its best passage."""
        return cast("results.RecalledMemories", self._run("memory_recall", locals()))

    def remember(
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
    ) -> results.RememberedMemory:
        """Remember something as a new memory; existing ones are never overwritten."""
        return cast("results.RememberedMemory", self._run("memory_remember", locals()))

    def compound(
        self,
        query: str,
        modifications: str,
        *,
        memory_type: str | None = None,
        mode: Literal["append", "replace", "section"] = "append",
        section: str | None = None,
        if_match: str | None = None,
    ) -> results.CompoundedMemory:
        """Compound a memory: add to it instead of writing a second one."""
        return cast("results.CompoundedMemory", self._run("memory_compound", locals()))

    def forget(
        self,
        query: str,
        *,
        memory_type: str | None = None,
        threshold: float = 0.25,
        expression: str | None = None,
        confirm: bool | str | None = None,
        offset: int | None = None,
    ) -> results.ForgottenMemories:
        """Forget memories: preview them, and move them to the trash once confirmed."""
        return cast("results.ForgottenMemories", self._run("memory_forget", locals()))

    def types(self, *, offset: int | None = None) -> results.MemoryTypes:
        """List the memory types with their counts, and the default type."""
        return cast("results.MemoryTypes", self._run("memory_list_types", locals()))

    def create(
        self,
        name: str,
        value: str,
        *,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> results.CreatedMemory:
        """Create a memory and load it into active memory."""
        return cast("results.CreatedMemory", self._run("memory_create", locals()))

    def load(
        self,
        mem_id: str | None = None,
        *,
        offset: int | None = None,
        length: int | None = None,
        query: str | None = None,
        threshold: float | None = None,
        limit: int | None = None,
        expression: str | None = None,
    ) -> results.LoadedMemory:
        """Load a memory into active memory by memory id, or load long-term memories by query."""
        return cast("results.LoadedMemory", self._run("memory_load", locals()))

    def evict(self, mem_id: str) -> results.EvictedMemory:
        """Evict a memory from active memory; the memory itself stays in the vault."""
        return cast("results.EvictedMemory", self._run("memory_evict", locals()))

    def mutate(
        self, mem_id: str, value: str, *, if_match: str | None = None
    ) -> results.MutatedMemory:
        """Replace a memory's content in active memory and in its file."""
        return cast("results.MutatedMemory", self._run("memory_mutate", locals()))

    def search(
        self,
        query: str,
        *,
        mode: Literal["Vector", "Keyword", "Tag", "Hybrid"] = "Hybrid",
        limit: int = 10,
        offset: int | None = None,
    ) -> results.FoundMemories:
        """Search for memories to load: memory ids with short snippets."""
        return cast("results.FoundMemories", self._run("memory_search", locals()))

    def active(
        self, *, full: bool = False, limit: int = 50, offset: int = 0
    ) -> results.ActiveMemories:
        """List active memory, last used first, with sizes in tokens and the remaining budget."""
        return cast("results.ActiveMemories", self._run("memory_active", locals()))

    def context(self, task: str = "", *, budget: int | None = None) -> results.PromptContextBlock:
        """Write a block for a system prompt: memories, goals, due plans, inbox, recalled memories."""
        return cast("results.PromptContextBlock", self._run("context", locals()))

    def receipt(
        self, session: str = "", *, is_list: bool = False, limit: int = 50, offset: int = 0
    ) -> results.GivenTexts:
        """Show the exact text that hooks and `memvault context` gave an agent, and why."""
        return cast("results.GivenTexts", self._run("memory_receipt", locals()))

    def save(
        self, text: str, *, area: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> results.SavedText:
        """Save text as a new memory, exactly as it is."""
        return cast("results.SavedText", self._run("memory_save", locals()))

    def delete(self, ids: Sequence[str] | str) -> results.DeletedMemories:
        """Move exactly these memories to the trash, all or none."""
        return cast("results.DeletedMemories", self._run("memory_delete", locals()))

    def memories_set(self, memories: Sequence[KeyValue]) -> results.SetEntries:
        """Set values by key, replacing existing ones."""
        return cast("results.SetEntries", self._run("set_memories", locals()))

    def memories_get(
        self, keys: Sequence[str] | None = None, *, limit: int | None = None, offset: int = 0
    ) -> results.StoredValues:
        """Get values, in the order of the given keys, or else sorted by key."""
        return cast("results.StoredValues", self._run("get_memories", locals()))

    def memories_delete(self, keys: Sequence[str]) -> results.DeletedEntries:
        """Delete values by their keys; they stay in the history."""
        return cast("results.DeletedEntries", self._run("delete_memories", locals()))

    def goals_set(self, goals: Sequence[GoalItem]) -> results.SetEntries:
        """Set goals by id; existing goals are updated."""
        return cast("results.SetEntries", self._run("set_goals", locals()))

    def goals_get(
        self, *, status: str | None = None, limit: int = 50, offset: int = 0
    ) -> results.StoredGoals:
        """Get the goals, sorted by id."""
        return cast("results.StoredGoals", self._run("get_goals", locals()))

    def goals_delete(self, goal_ids: Sequence[str]) -> results.DeletedEntries:
        """Delete goals by their ids; they stay in the history."""
        return cast("results.DeletedEntries", self._run("delete_goals", locals()))

    def plans_set(self, plans: Sequence[PlanItem]) -> results.SetPlans:
        """Set plans by name; existing plans are updated."""
        return cast("results.SetPlans", self._run("set_plans", locals()))

    def plans_get(
        self,
        *,
        status: Literal["active", "completed", "expired"] | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> results.StoredPlans:
        """Get the plans, next due first."""
        return cast("results.StoredPlans", self._run("get_plans", locals()))

    def plans_delete(self, plan_ids: Sequence[str]) -> results.DeletedEntries:
        """Delete plans by their ids; they stay in the history."""
        return cast("results.DeletedEntries", self._run("delete_plans", locals()))

    def episode_store(
        self,
        *,
        context: Sequence[str] | None = None,
        actions: Sequence[str] | None = None,
        outcomes: Sequence[EpisodeOutcome] | None = None,
        skills_used: Sequence[str] | None = None,
        reflection: str = "",
        importance: float = 0.5,
    ) -> results.StoredEpisode:
        """Store an episode: the situation, the actions and the outcomes."""
        return cast("results.StoredEpisode", self._run("store_episode", locals()))

    def episode_recall(
        self, query: str, *, limit: int = 5, min_importance: float = 0.3, offset: int | None = None
    ) -> results.RecalledEpisodes:
        """Recall episodes similar to a situation, best match first."""
        return cast("results.RecalledEpisodes", self._run("recall_similar_experience", locals()))

    def episode_recent(
        self, *, days: int = 7, limit: int = 10, offset: int = 0
    ) -> results.EpisodeListing:
        """List recent episodes, newest first, without archived ones."""
        return cast("results.EpisodeListing", self._run("get_recent_episodes", locals()))

    def episode_with_skill(
        self, skill_id: str, *, limit: int = 5, offset: int = 0
    ) -> results.EpisodeListing:
        """List the episodes in which a skill was used, newest first, without archived ones."""
        return cast("results.EpisodeListing", self._run("get_episodes_with_skill", locals()))

    def fact_store(
        self,
        fact: str,
        *,
        category: str = "general",
        confidence: float = 1.0,
        source: str = "experience",
    ) -> results.StoredFact:
        """Store a fact: a statement without its context."""
        return cast("results.StoredFact", self._run("store_fact", locals()))

    def fact_recall(
        self, query: str, *, limit: int = 5, category: str | None = None, offset: int | None = None
    ) -> results.RecalledFacts:
        """Recall facts, best match first, and count the access."""
        return cast("results.RecalledFacts", self._run("recall_fact", locals()))

    def fact_update(
        self, fact_id: str, *, new_text: str | None = None, new_confidence: float | None = None
    ) -> results.UpdatedFact:
        """Update a fact's text, its confidence, or both."""
        return cast("results.UpdatedFact", self._run("update_fact", locals()))

    def procedure_store(
        self,
        procedure_name: str,
        procedure_prompt: str,
        *,
        initial_success_rate: float = 0.5,
        skill_id: str | None = None,
    ) -> results.StoredProcedure:
        """Store a procedure: instructions under a unique name."""
        return cast("results.StoredProcedure", self._run("store_procedure", locals()))

    def procedure_recall(
        self, context: str, *, min_success_rate: float = 0.6, offset: int | None = None
    ) -> results.RecalledProcedures:
        """Recall the procedures for a task or situation, best success rate first."""
        return cast("results.RecalledProcedures", self._run("recall_procedure", locals()))

    def procedure_outcome(self, procedure_name: str, *, success: bool) -> results.ProcedureOutcome:
        """Record a use of a procedure, and whether it succeeded."""
        return cast("results.ProcedureOutcome", self._run("update_success_rate", locals()))

    def experience(
        self,
        observations: Sequence[str] | None = None,
        *,
        path: str | None = None,
        command: str | None = None,
        change: str | None = None,
        error: str | None = None,
    ) -> results.RecalledExperience:
        """Recall everything about a situation: facts, experiences and procedures."""
        return cast("results.RecalledExperience", self._run("recall_memory", locals()))

    def consolidate(
        self, *, days: int = 7, apply: bool = False, extractor: str | None = None
    ) -> results.ConsolidatedMemories:
        """Consolidate episodes: propose facts and procedures for repeated statements and actions."""
        return cast("results.ConsolidatedMemories", self._run("consolidate_memories", locals()))

    def skills_categories(self, *, limit: int = 50, offset: int = 0) -> results.SkillCategories:
        """List the skill categories (the first part of each skill id), with the number of skills."""
        return cast("results.SkillCategories", self._run("list_skill_categories", locals()))

    def skills_subcategories(
        self, category_id: str, *, limit: int = 50, offset: int = 0
    ) -> results.SkillSubcategories:
        """List the subcategories of a category (the first two parts of each skill id)."""
        return cast("results.SkillSubcategories", self._run("list_subcategories", locals()))

    def skills_list(
        self, subcategory_id: str, *, limit: int = 50, offset: int = 0
    ) -> results.SkillListing:
        """List the skills in a subcategory, sorted by id."""
        return cast("results.SkillListing", self._run("list_skills", locals()))

    def skills_use(
        self, skill_id: str, action_description: str, *, difficulty_modifier: float = 0.0
    ) -> results.UsedSkill:
        """Use a skill: get the procedure to follow, and how likely it is to succeed."""
        return cast("results.UsedSkill", self._run("use_skill", locals()))

    def talk_user(self, message: str, *, user: str = "") -> results.SentTalk:
        """Send a message to the user, without waiting for an answer."""
        return cast("results.SentTalk", self._run("talk_user", locals()))

    def talk_agent(self, other: str, message: str) -> results.SentTalk:
        """Send a message to another agent, without waiting for an answer."""
        return cast("results.SentTalk", self._run("talk_agent", locals()))

    def talk_brain(self, subbrain: str, message: str) -> results.SentTalk:
        """Send a message to another brain of the same agent, without waiting for an answer."""
        return cast("results.SentTalk", self._run("talk_brain", locals()))

    def talk_log(
        self, severity: Literal["debug", "info", "warning", "error", "critical"], message: str
    ) -> results.SentTalk:
        """Write a message to the agent's log, .memvault/agents/AGENT/log.jsonl."""
        return cast("results.SentTalk", self._run("talk_log", locals()))

    def reply(self, talk_id: int, message: str) -> results.SentTalk:
        """Answer a talk; its sender receives the message and the id of the talk."""
        return cast("results.SentTalk", self._run("reply", locals()))

    def wait_for(
        self, events: Sequence[EventSpec], *, timeout: float | None = None
    ) -> results.HappenedEvents:
        """Wait for the first of several events, remove it from the inbox, and return it."""
        return cast("results.HappenedEvents", self._run("wait_for", locals()))

    def inbox_peek(
        self,
        *,
        count: int = 1,
        kind: Literal["space_message", "plan", "service", "talk"] | None = None,
    ) -> results.InboxEvents:
        """Remove the oldest events from the agent's inbox and return them."""
        return cast("results.InboxEvents", self._run("peek_inbox", locals()))

    def inbox_list(
        self, *, event_id: str | None = None, limit: int = 50, offset: int = 0
    ) -> results.InboxListing:
        """List the events in the agent's inbox, oldest first, without removing them."""
        return cast("results.InboxListing", self._run("list_inbox", locals()))

    def agents(self, *, limit: int = 50, offset: int = 0) -> results.AgentListing:
        """List the vault's agents and brains, with counts of their entries and the last change."""
        return cast("results.AgentListing", self._run("list_agents", locals()))

    def inbox_push(self, name: str, message: str = "") -> results.PushedEvent:
        """Add an event to the agent's own inbox, for example from a git hook or a CI job."""
        return cast("results.PushedEvent", self._run("push_service", locals()))

    def space_enter(
        self, space: str, *, limit: int = 50, offset: int | None = None
    ) -> results.EnteredSpace:
        """Enter a space: join it, read its last messages, and make it the target of new ones."""
        return cast("results.EnteredSpace", self._run("enter_space", locals()))

    def space_send(self, text: str) -> results.SentMessage:
        """Send a message to the space entered last; every other member gets an inbox event."""
        return cast("results.SentMessage", self._run("send_message", locals()))

    def space_read(
        self, *, space: str | None = None, limit: int = 50, offset: int = 0
    ) -> results.SpaceMessages:
        """Read a space's messages, newest last."""
        return cast("results.SpaceMessages", self._run("read_messages", locals()))

    def space_list(self, *, limit: int = 50, offset: int = 0) -> results.SpaceListing:
        """List the spaces with their members, number of messages and time of the last message."""
        return cast("results.SpaceListing", self._run("list_spaces", locals()))

    def tools_list(
        self,
        names: Sequence[str] | None = None,
        *,
        schemas: bool | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> results.ToolListing:
        """List the tools in this vault: the built-in ones, and those registered in it."""
        return cast("results.ToolListing", self._run("get_available_tools", locals()))

    def tools_register(
        self,
        *,
        name: str,
        description: str,
        command: str | Sequence[str],
        parameters: Sequence[ToolParameter] | None = None,
        timeout: float | None = None,
        documentation: str | None = None,
    ) -> results.RegisteredTool:
        """Register a tool in the vault: a program, defined in tools/NAME.md."""
        return cast("results.RegisteredTool", self._run("register_tool", locals()))

    def world_observe(self, *, radius: float = 5) -> results.ObservedLocation:
        """Observe the agent's surroundings: terrain, climate, resources, other agents."""
        return cast("results.ObservedLocation", self._run("observe_location", locals()))

    def world_move(self, x: float, y: float) -> results.MovedAgent:
        """Move the agent to a cell; each cell of the straight path costs 0.01 stamina."""
        return cast("results.MovedAgent", self._run("move_to", locals()))

    def world_gather(self, resource: str, *, amount: int = 1) -> results.GatheredResource:
        """Gather a resource at the agent's position into its inventory."""
        return cast("results.GatheredResource", self._run("gather_resource", locals()))

    def world_interact(self, other: str, message: str) -> results.InteractedAgent:
        """Interact with an agent within reach: send it a talk, which arrives in its inbox."""
        return cast("results.InteractedAgent", self._run("interact_with_agent", locals()))

    def rename(
        self,
        name: str,
        title: str | None = None,
        *,
        to: str | None = None,
        confirm: bool | str | None = None,
        offset: int | None = None,
    ) -> results.RenamedMemory:
        """Rename or move a memory, and rewrite the links to it."""
        return cast("results.RenamedMemory", self._run("memory_rename", locals()))

    def links(self, name: str, *, limit: int = 50, offset: int = 0) -> results.MemoryLinks:
        """List a memory's links: wikilinks, embeds, markdown links, and links in its header."""
        return cast("results.MemoryLinks", self._run("memory_links", locals()))

    def backlinks(self, name: str, *, limit: int = 50, offset: int = 0) -> results.MemoryBacklinks:
        """List the memories that link to a memory, with each line that contains a link."""
        return cast("results.MemoryBacklinks", self._run("memory_backlinks", locals()))

    def orphans(self, *, limit: int = 50, offset: int = 0) -> results.OrphanedMemories:
        """List memories without links to or from other memories."""
        return cast("results.OrphanedMemories", self._run("memory_orphans", locals()))

    def tags(
        self,
        under: str | None = None,
        *,
        sort: Literal["count", "name"] = "count",
        limit: int = 50,
        offset: int = 0,
    ) -> results.TagListing:
        """List the tags in headers and bodies, with the number of memories for each tag."""
        return cast("results.TagListing", self._run("tag_list", locals()))

    def tag_add(self, name: str, tags: Sequence[str]) -> results.TaggedMemory:
        """Add tags to a memory's header."""
        return cast("results.TaggedMemory", self._run("tag_add", locals()))

    def tag_remove(self, name: str, tags: Sequence[str]) -> results.TaggedMemory:
        """Remove tags from a memory; a tag in its text loses the # and stays as a word."""
        return cast("results.TaggedMemory", self._run("tag_remove", locals()))

    def tag_rename(
        self, old: str, new: str, *, confirm: bool | str | None = None, offset: int | None = None
    ) -> results.RenamedTag:
        """Rename a tag and the tags nested in it, in the headers and bodies of all memories."""
        return cast("results.RenamedTag", self._run("tag_rename", locals()))

    def today(
        self,
        text: str = "",
        *,
        day: str | None = None,
        offset: int | None = None,
        length: int | None = None,
    ) -> results.DailyNote:
        """Add an entry to today's daily note, or show the note."""
        return cast("results.DailyNote", self._run("memory_today", locals()))

    def tasks(
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
    ) -> results.NoteTasks:
        """List tasks in notes, such as `- [ ] Call Ann`, by due date; undated tasks come last."""
        return cast("results.NoteTasks", self._run("list_tasks", locals()))

    def task_done(self, memory: str, line: int | None = None) -> results.CompletedTask:
        """Mark a task as done: `- [ ]` becomes `- [x]`."""
        return cast("results.CompletedTask", self._run("complete_task", locals()))

    def random(
        self,
        *,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        expression: str | None = None,
    ) -> results.RandomMemory:
        """Show a random memory, to rediscover forgotten ones."""
        return cast("results.RandomMemory", self._run("memory_random", locals()))

    def searches_save(
        self,
        name: str,
        query: str = "",
        *,
        memory_type: str | None = None,
        tags: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        expression: str | None = None,
    ) -> results.SavedSearchResult:
        """Save a search under a name; use @NAME in place of a query."""
        return cast("results.SavedSearchResult", self._run("save_search", locals()))

    def searches_list(self) -> results.SavedSearches:
        """List the vault's saved searches."""
        return cast("results.SavedSearches", self._run("list_searches", locals()))

    def searches_delete(self, name: str) -> results.SavedSearchResult:
        """Delete a saved search."""
        return cast("results.SavedSearchResult", self._run("delete_search", locals()))

    def show(
        self,
        name: str,
        *,
        revision: str | None = None,
        section: str | None = None,
        around: str | None = None,
        page: int | None = None,
        offset: int | None = None,
        length: int | None = None,
    ) -> results.ShownMemory:
        """Show a memory in full, or part of it."""
        return cast("results.ShownMemory", self._run("memory_show", locals()))

    def list(
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
    ) -> results.ListedMemories:
        """List memories without their content, last changed first; examples are marked."""
        return cast("results.ListedMemories", self._run("memory_list", locals()))

    def restore(self, name: str = "", *, revision: str | None = None) -> results.RestoredMemory:
        """Restore a memory from the trash, or revert one to an earlier revision."""
        return cast("results.RestoredMemory", self._run("memory_restore", locals()))

    def status(self) -> results.VaultStatus:
        """Show the vault's state: counts, index, embedder, sizes, and pending work."""
        return cast("results.VaultStatus", self._run("vault_status", locals()))

    def reindex(self) -> results.RebuiltIndex:
        """Rebuild the index, and embed the memories without vectors with both embedders."""
        return cast("results.RebuiltIndex", self._run("vault_reindex", locals()))

    def model_list(self, *, offset: int | None = None) -> results.AvailableModels:
        """List the available models for embedding and reranking, and the models in use."""
        return cast("results.AvailableModels", self._run("model_list", locals()))

    def model_use(
        self, name: str, *, purpose: Literal["embed", "rerank"] = "embed"
    ) -> results.ChosenModel:
        """Use another model: download it if needed, and embed every memory with it."""
        return cast("results.ChosenModel", self._run("model_use", locals()))

    def model_verify(
        self, name: str | None = None, *, purpose: Literal["embed", "rerank"] = "embed"
    ) -> results.VerifiedModel:
        """Check that a model loads here and can tell related passages from unrelated ones."""
        return cast("results.VerifiedModel", self._run("model_verify", locals()))

    def log(self, name: str = "", *, limit: int = 50, offset: int = 0) -> results.ChangeLog:
        """List the changes, newest first, each with its time, tool and agent."""
        return cast("results.ChangeLog", self._run("memory_log", locals()))

    def diff(
        self,
        name: str,
        revision: str = "",
        other: str = "",
        *,
        offset: int | None = None,
        length: int | None = None,
    ) -> results.ComparedRevisions:
        """Compare two revisions of a memory, or a revision and the current file."""
        return cast("results.ComparedRevisions", self._run("memory_diff", locals()))

    def undo(
        self,
        change: str | None = None,
        *,
        listing: bool = False,
        keep_changed: bool = False,
        limit: int | None = None,
        offset: int | None = None,
    ) -> results.UndoneChange:
        """Undo the last change by a tool: restore every file to its previous state."""
        return cast("results.UndoneChange", self._run("memory_undo", locals()))

    def trash_list(self, *, limit: int = 50, offset: int = 0) -> results.TrashListing:
        """List the forgotten memories that can be restored, newest first."""
        return cast("results.TrashListing", self._run("trash_list", locals()))

    def trash_empty(
        self, *, older: str | None = None, confirm: bool | str | None = None
    ) -> results.EmptiedTrash:
        """Delete the trash permanently: preview it, and delete it once confirmed."""
        return cast("results.EmptiedTrash", self._run("trash_empty", locals()))

    def doctor(
        self,
        *,
        fix: bool = False,
        only: Sequence[str] | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> results.CheckedVault:
        """Check the vault for broken, duplicate, lost or leftover files, links and vectors."""
        return cast("results.CheckedVault", self._run("vault_doctor", locals()))

    def review(
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
    ) -> results.ReviewedVault:
        """List items to review: conflicts, secrets, duplicates, outdated memories, proposals."""
        return cast("results.ReviewedVault", self._run("vault_review", locals()))

    def stats(self) -> results.VaultStatistics:
        """Show vault statistics: growth, activity, types, tags, links, recalls, stale memories."""
        return cast("results.VaultStatistics", self._run("vault_stats", locals()))

    def git_init(self, *, confirm: bool | str | None = None) -> results.InitializedRepository:
        """Set up git for the vault: create a repository if needed, and a merge driver."""
        return cast("results.InitializedRepository", self._run("git_init", locals()))

    def git_sync(self, *, confirm: bool | str | None = None) -> results.SyncedVault:
        """Sync the vault with git: commit all changes, merge the remote's, and push."""
        return cast("results.SyncedVault", self._run("git_sync", locals()))

    def git_status(self) -> results.RepositoryStatus:
        """Show the vault's state in git: branch, remote, pending changes, memories kept as two files."""
        return cast("results.RepositoryStatus", self._run("git_status", locals()))
