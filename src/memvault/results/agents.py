"""Results of ``tools.state`` and ``tools.talk``."""

from typing import Any, Literal, NotRequired, TypedDict

from memvault.results.shared import CutList, Listing, ToolResult


class SetEntries(ToolResult):
    """The result of ``set_memories`` and ``set_goals``."""

    count: int


class DeletedEntries(ToolResult):
    """The result of ``delete_memories``, ``delete_goals`` and ``delete_plans``."""

    deleted: int


class StoredValue(TypedDict):
    """A value of the agent."""

    key: str
    value: str


class StoredValues(Listing):
    """The result of ``get_memories``."""

    memories: list[StoredValue]


class StoredGoal(TypedDict):
    """A goal of the agent."""

    id: str
    description: str
    status: str


class StoredGoals(Listing):
    """The result of ``get_goals``."""

    goals: list[StoredGoal]


class StoredPlan(TypedDict):
    """A plan of the agent; its status is any word in its file."""

    id: str
    name: str
    instruction: NotRequired[str]
    cron: NotRequired[str]
    runAfter: NotRequired[str]
    scheduledAt: NotRequired[str]
    nextRunAt: NotRequired[str]
    lastRunAt: NotRequired[str]
    status: str


class SetPlans(ToolResult):
    """The result of ``set_plans``."""

    plans: list[StoredPlan]


class StoredPlans(Listing):
    """The result of ``get_plans``."""

    plans: list[StoredPlan]


class SentTalk(ToolResult):
    """The result of ``talk_user``, ``talk_agent``, ``talk_brain``, ``talk_log`` and ``reply``."""

    talkId: int


class InboxEvent(TypedDict):
    """An event in an inbox; the keys of ``data`` depend on its type."""

    eventId: str
    type: str
    timestamp: str
    data: dict[str, Any]


class AwaitedEvent(TypedDict):
    """The awaited event."""

    eventType: Literal["User", "Agent", "Time", "Hook"]
    parameter: str
    talkId: int


class EventResult(TypedDict, total=False):
    """The event that ended a wait; ``seconds`` if a time was awaited."""

    eventId: str
    type: str
    timestamp: str
    data: dict[str, Any]
    seconds: float


class HappenedEvent(TypedDict):
    """An awaited event, and its data."""

    event: AwaitedEvent
    result: EventResult


class HappenedEvents(ToolResult):
    """The result of ``wait_for``."""

    events: list[HappenedEvent]


class InboxEvents(ToolResult):
    """The result of ``peek_inbox``."""

    events: list[InboxEvent]
    remaining: int


class InboxListing(Listing):
    """The result of ``list_inbox``."""

    events: list[InboxEvent]


class PushedEvent(ToolResult):
    """The result of ``push_service``."""

    eventId: str


class AgentEntry(TypedDict):
    """An agent; other agents' counts are shown only to callers that may see their files."""

    agent: str
    memories: NotRequired[int]
    goals: NotRequired[int]
    plans: NotRequired[int]
    inbox: NotRequired[int]
    changed: NotRequired[str]


class AgentListing(Listing):
    """The result of ``list_agents``."""

    agents: list[AgentEntry]


class SpaceMessage(TypedDict):
    """A message in a space."""

    id: str
    senderName: str
    senderType: str
    content: str
    timestamp: str


class EnteredSpace(ToolResult, CutList):
    """The result of ``enter_space``."""

    spaceId: str
    spaceName: str
    history: list[SpaceMessage]
    totalMessages: int


class SentMessage(ToolResult):
    """The result of ``send_message``."""

    messageId: str
    status: Literal["delivered"]


class SpaceMessages(Listing):
    """The result of ``read_messages``."""

    messages: list[SpaceMessage]


class SpaceEntry(TypedDict):
    """A space."""

    spaceId: str
    spaceName: str
    members: list[str]
    joined: bool
    totalMessages: int
    lastMessage: str


class SpaceListing(Listing):
    """The result of ``list_spaces``."""

    spaces: list[SpaceEntry]
