"""Tools of the example world: observe, move, gather, and talk to nearby agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.result_parts import without_none
from memvault.tools.core.shared_args import MessageText

if TYPE_CHECKING:
    from memvault import results
    from memvault.world import World

group = ToolGroup("world", "Example world, if memvault.toml enables it", place=90)

_MAX_COORDINATE = 1e9


@group.tool(
    "world observe",
    paged_keys=(),
    read_only=True,
    examples=("memvault world observe", "memvault world observe --radius 2"),
)
def observe_location(
    call: Call,
    radius: Annotated[float, Arg("Radius in cells", minimum=0, maximum=_MAX_COORDINATE)] = 5,
) -> results.ObservedLocation:
    """Observe the agent's surroundings: terrain, climate, resources, other agents.

    Terrain and climate come from the nearest place. Resources in all places within the radius are
    listed, nearest first; the agent can gather only resources in its current place.
    """
    view = _world(call).observe(radius)
    return {
        "terrain": next((place.terrain for place in view.places if place.terrain), ""),
        "climate": next((place.climate for place in view.places if place.climate), ""),
        "resources": [
            {"name": name, **without_none(amount=amount), "place": place.name}
            for place in view.places
            for name, amount in place.resources.items()
            if amount is None or amount > 0
        ],
        "nearbyAgents": [
            {"name": other.name, "type": other.kind, "distance": round(distance, 4)}
            for other, distance in view.figures
        ],
        "position": {"x": view.me.x, "y": view.me.y},
        "stamina": view.me.stamina,
    }


@group.tool("world move", examples=("memvault world move 3 4", "memvault world move 0.5 1"))
def move_to(
    call: Call,
    x: Annotated[
        float,
        Arg(
            "Cells to the east", positional=True, minimum=-_MAX_COORDINATE, maximum=_MAX_COORDINATE
        ),
    ],
    y: Annotated[
        float,
        Arg(
            "Cells to the north", positional=True, minimum=-_MAX_COORDINATE, maximum=_MAX_COORDINATE
        ),
    ],
) -> results.MovedAgent:
    """Move the agent to a cell; each cell of the straight path costs 0.01 stamina.

    Without enough stamina the agent does not move. Its position and stamina are stored in
    agents/NAME.md, which anyone can edit.
    """
    me, used = _world(call).move(x, y)
    position: results.WorldPosition = {"x": me.x, "y": me.y}
    return {"newPosition": position, "staminaUsed": used, "stamina": me.stamina}


@group.tool(
    "world gather", examples=("memvault world gather wood --amount 1", "memvault world gather wood")
)
def gather_resource(
    call: Call,
    resource: Annotated[
        str, Arg("The resource, as listed by `memvault world observe`", positional=True)
    ],
    amount: Annotated[
        int, Arg("The amount; if less is available, nothing is gathered", minimum=1, maximum=10**9)
    ] = 1,
) -> results.GatheredResource:
    """Gather a resource at the agent's position into its inventory.

    If two agents try to gather the last unit, only one of them gets it.
    """
    gathered = _world(call).gather(resource, amount)
    return {
        "resource": gathered.resource,
        "amount": amount,
        "place": gathered.place,
        "carried": gathered.carried,
        **without_none(left=gathered.left),
    }


@group.tool(
    "world interact",
    examples=(
        'memvault world interact bob "Good day"',
        'memvault world interact bob "Any wood?" --agent main',
    ),
    view="talk {talkId}  {agent}, {distance:g} away",
)
def interact_with_agent(
    call: Call,
    other: Annotated[
        str, Arg("An agent within 5 cells", key="agent", positional=True, completes="agent")
    ],
    message: MessageText,
) -> results.InteractedAgent:
    """Interact with an agent within reach: send it a talk, which arrives in its inbox."""
    from memvault.agents.messages.talks import TalkLog

    to, distance = _world(call).within_reach(other)
    talk_id = TalkLog(call.store.changes, call.address).send(to, message)
    return {"talkId": talk_id, "agent": str(to), "distance": round(distance, 4)}


def _world(call: Call) -> World:
    from memvault.world import World

    return World(call.store, call.address, call.notes.append)
