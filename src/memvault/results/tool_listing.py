"""Results of ``tools.tool_listing`` and ``tools.world``."""

from typing import Any, NotRequired, TypedDict

from memvault.results.shared import Listing, ToolResult


class ToolEntry(TypedDict):
    """A tool in a listing; a vault's own tool has a file, and runs only if ``trusted``.

    With a token budget it may have only its name.
    """

    name: str
    title: NotRequired[str]
    description: NotRequired[str]
    inputSchema: NotRequired[dict[str, Any]]
    outputSchema: NotRequired[dict[str, Any]]
    annotations: NotRequired[dict[str, Any]]
    filePath: NotRequired[str]
    trusted: NotRequired[bool]


class ToolListing(Listing):
    """The result of ``get_available_tools``."""

    tools: list[ToolEntry]


class RegisteredTool(ToolResult):
    """The result of ``register_tool``."""

    name: str
    filePath: str
    trusted: bool
    previousRevision: NotRequired[str]


class CalledTool(ToolResult):
    """The result of ``call_tool``, including the called tool's result."""

    result: dict[str, Any]


class WorldResource(TypedDict):
    """A resource of a place; without ``amount`` it is unlimited."""

    name: str
    amount: NotRequired[float]
    place: str


class NearbyAgent(TypedDict):
    """An agent in the surroundings."""

    name: str
    type: str
    distance: float


class WorldPosition(TypedDict):
    """A position in cells."""

    x: float
    y: float


class ObservedLocation(ToolResult):
    """The result of ``observe_location``."""

    terrain: str
    climate: str
    resources: list[WorldResource]
    nearbyAgents: list[NearbyAgent]
    position: WorldPosition
    stamina: float


class MovedAgent(ToolResult):
    """The result of ``move_to``."""

    newPosition: WorldPosition
    staminaUsed: float
    stamina: float


class GatheredResource(ToolResult):
    """The result of ``gather_resource``."""

    resource: str
    amount: int
    place: str
    carried: float
    left: NotRequired[float]


class InteractedAgent(ToolResult):
    """The result of ``interact_with_agent``."""

    talkId: int
    agent: str
    distance: float
