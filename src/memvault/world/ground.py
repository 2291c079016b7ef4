"""Places, figures and distances of the example world; nothing here reads or writes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from memvault.errors import Refused

STEP = 0.01
"""Stamina for each cell of a way."""
REACH = 5.0
"""Cells within which an agent can be spoken to, and the radius of a place that names none."""
_DIGITS = 9
"""Decimals that are kept, so that a hundred steps of 0.01 are one."""


class WorldPlace(NamedTuple):
    """A round place; a resource whose amount is None never ends."""

    name: str
    path: str
    x: float
    y: float
    radius: float
    terrain: str
    climate: str
    resources: Mapping[str, float | None]


class Character(NamedTuple):
    """An agent in the world."""

    name: str
    x: float
    y: float
    stamina: float
    kind: str
    inventory: Mapping[str, float]

    def distance(self, other: Character | WorldPlace) -> float:
        """Return how far another agent is, or the middle of a place."""
        return math.hypot(self.x - other.x, self.y - other.y)


def rounded(value: float) -> float:
    """Return a number without digits that arithmetic has left; a whole one as an integer."""
    short = round(value, _DIGITS)
    return int(short) if float(short).is_integer() else short


def figure(name: str, header: Mapping[str, Any]) -> Character:
    """Read an agent; what a person left out or wrote otherwise is as at the beginning."""
    inventory = header.get("inventory")
    carried = inventory.items() if isinstance(inventory, Mapping) else ()
    return Character(
        name,
        _number(header.get("x"), 0),
        _number(header.get("y"), 0),
        max(0, _number(header.get("stamina"), 1)),
        str(header.get("type") or "agent"),
        {str(key): _number(value, 0) for key, value in carried},
    )


def place(name: str, path: str, header: Mapping[str, Any]) -> WorldPlace | None:
    """Read a place; one without x and y is on no map."""
    x, y = (_number(header.get(key), None) for key in ("x", "y"))
    if x is None or y is None:
        return None
    given = header.get("resources")
    resources: dict[str, float | None] = {}
    if isinstance(given, Mapping):
        resources = {str(key): max(0, _number(value, 0)) for key, value in given.items()}
    elif isinstance(given, list):
        resources = {str(entry): None for entry in given}
    return WorldPlace(
        name,
        path,
        x,
        y,
        max(0, _number(header.get("radius"), REACH)),
        str(header.get("terrain") or ""),
        str(header.get("climate") or ""),
        resources,
    )


def _number(value: Any, otherwise: Any) -> Any:
    """Return a header's number, or what stands for an invalid one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e12:
        return otherwise
    return rounded(value)


def walk(me: Character, x: float, y: float) -> tuple[Character, float]:
    """Return an agent after a straight way, and the stamina that it took.

    Raises:
        Refused: it has not enough.
    """
    distance = math.hypot(x - me.x, y - me.y)
    used = rounded(distance * STEP)
    if used > me.stamina:
        raise Refused(
            f"{me.name} has too little stamina: {distance:g} cells cost {used:g}, "
            f"and {me.stamina:g} is left",
            f"go {me.stamina / STEP:g} cells at most, or edit stamina in agents/{me.name}.md",
        )
    return me._replace(x=rounded(x), y=rounded(y), stamina=rounded(me.stamina - used)), used


def visible_places(places: Iterable[WorldPlace], me: Character, radius: float) -> list[WorldPlace]:
    """Return the places that a look reaches, those that hold the agent first, then the nearest."""
    ways = ((me.distance(place), place) for place in places)
    found = [(far > spot.radius, far, spot) for far, spot in ways if far <= radius + spot.radius]
    return [spot for *_, spot in sorted(found, key=lambda entry: (*entry[:2], entry[2][:2]))]
