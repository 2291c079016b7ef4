"""Simulate the example world, stored in editable files ``places/*.md`` and ``agents/NAME.md``."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from memvault.agents.address import Address, address, agent_lock
from memvault.errors import Conflict, NotFound, Refused, UsageError
from memvault.named_tuple import NamedTuple
from memvault.sanitize import replace_surrogates
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore
from memvault.vault import document, memory_file
from memvault.vault.header_files import read_header_files
from memvault.vault.paths import require_plain_folders

STEP = 0.01
"""The stamina used to move by one cell."""
REACH = 5.0
"""The distance in cells within which an agent can be talked to; also a place's default radius."""
_DECIMALS = 9
"""Number of decimals to round to, so a hundred steps of 0.01 add up to exactly one."""


class WorldPlace(NamedTuple):
    """A circular place; a resource whose amount is None is unlimited."""

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
        """Return the distance to another agent or to the center of a place."""
        return math.hypot(self.x - other.x, self.y - other.y)


def rounded(value: float) -> float:
    """Return a number without floating-point errors; an integer if it is whole."""
    short = round(value, _DECIMALS)
    return int(short) if float(short).is_integer() else short


def parse_character(name: str, header: Mapping[str, Any]) -> Character:
    """Parse an agent from a header; missing and invalid values get their defaults."""
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


def parse_place(name: str, path: str, header: Mapping[str, Any]) -> WorldPlace | None:
    """Parse a place from a header, or return None if it has no x and y."""
    x, y = (_number(header.get(key), None) for key in ("x", "y"))
    if x is None or y is None:
        return None
    header_resources = header.get("resources")
    resources: dict[str, float | None] = {}
    if isinstance(header_resources, Mapping):
        resources = {str(key): max(0, _number(value, 0)) for key, value in header_resources.items()}
    elif isinstance(header_resources, list):
        resources = {str(entry): None for entry in header_resources}
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


def _number(value: Any, default: Any) -> Any:
    """Return a header's number, rounded, or ``default`` if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e12:
        return default
    return rounded(value)


def walk(me: Character, x: float, y: float) -> tuple[Character, float]:
    """Move an agent in a straight line; return it and the stamina used.

    Raises:
        Refused: the agent has too little stamina.
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
    """Return the places that overlap a radius, starting with the places that contain the agent.

    Both groups are ordered by distance.
    """
    distances = ((me.distance(place), place) for place in places)
    reachable = [
        (distance > place.radius, distance, place)
        for distance, place in distances
        if distance <= radius + place.radius
    ]
    return [place for *_, place in sorted(reachable, key=lambda entry: (*entry[:2], entry[2][:2]))]


_PLACES = "places"
_AGENTS = "agents"


class Observation(NamedTuple):
    """The places and other agents that an agent sees, by distance."""

    me: Character
    places: list[WorldPlace]
    figures: list[tuple[Character, float]]


class GatherResult(NamedTuple):
    """The resource taken and its place, the amount left there, and the amount carried now."""

    resource: str
    place: str
    left: float | None
    carried: float


class World:
    """The world as seen by one agent; all of an agent's brains share one character.

    ``warn`` is called for each file that is skipped.
    """

    def __init__(self, store: MemoryStore, me: Address, warn: Callable[[str], object]) -> None:
        self._store = store
        self._address = Address(me.agent)
        self._path = f"{_AGENTS}/{me.agent}.md"
        self._warn = warn

    def observe(self, radius: float) -> Observation:
        """Return the places and agents within a radius."""
        _, me = self._read_self()
        distances = ((other, me.distance(other)) for other in self._others())
        near = [(other, distance) for other, distance in distances if distance <= radius]
        near.sort(key=lambda pair: (pair[1], pair[0].name))
        return Observation(me, visible_places(self._places(), me, radius), near)

    def move(self, x: float, y: float) -> tuple[Character, float]:
        """Move straight to a cell; return the agent there, and the stamina used.

        Raises:
            Refused: the agent has too little stamina and was not moved.
        """
        with agent_lock(self._store.root, self._address):
            data, me = self._read_self()
            after, used = walk(me, x, y)
            changes = {"x": after.x, "y": after.y, "stamina": after.stamina}
            self._write(data, document.edit(data or self._initial_file(), changes, None))
        return after, used

    def gather(self, resource: str, amount: int) -> GatherResult:
        """Take an amount of a resource from a place at the agent's position.

        Raises:
            Refused: no place has that much; nothing is taken.
        """
        with agent_lock(self._store.root, self._address):
            data, me = self._read_self()
            place, name = self._find_source(me, resource, amount)
            carried = rounded(me.inventory.get(name, 0) + amount)
            # Compute this before removing the resource from the place, so an error cannot lose it.
            fresh = document.edit_entry(data or self._initial_file(), "inventory", name, carried)
            rest = self._take_from(place.path, name, amount)
            try:
                self._write(data, fresh)
            except BaseException:
                self._take_from(place.path, name, -amount)
                raise
        return GatherResult(name, place.name, rest, carried)

    def within_reach(self, name: str) -> tuple[Address, float]:
        """Return another agent's address and its distance.

        Raises:
            NotFound: the agent is not in the world.
            Refused: the agent is too far away.
        """
        to = address(name)
        if to.agent == self._address.agent:
            raise Refused(f"{name} is the calling agent", "choose another agent")
        _, me = self._read_self()
        try:
            path = f"{_AGENTS}/{to.agent}.md"
            header = _header_of(path, self._store.read_bytes(path)[0])
        except NotFound as error:
            raise NotFound(
                f"{to.agent} is not in this world", "the agent enters it with `memvault world move`"
            ) from error
        distance = me.distance(parse_character(to.agent, header))
        if distance > REACH:
            raise Refused(
                f"{to.agent} is {distance:g} cells away, out of reach",
                f"`memvault world move` within {REACH:g} cells",
            )
        return to, distance

    def _find_source(self, me: Character, resource: str, amount: int) -> tuple[WorldPlace, str]:
        """Return a place here that has enough of a resource, and the resource's exact name."""
        normalized = resource.strip().casefold()
        max_available = 0.0
        for place in visible_places(self._places(), me, 0):
            for name, available in place.resources.items():
                if name.casefold() != normalized:
                    continue
                if available is None or available >= amount:
                    return place, name
                max_available = max(max_available, available)
        if max_available:
            raise Refused(
                f"There is only {max_available:g} {resource} here", f"`--amount {max_available:g}`"
            )
        raise Refused(
            f"There is no {resource!r} at the position of {self._address.agent}",
            "find a place with `memvault world observe` and go there with `memvault world move`",
        )

    def _take_from(self, path: str, name: str, amount: int) -> float | None:
        """Take an amount of a resource from a place; return the rest, or None if unlimited."""
        with self._store.lock():
            data, state = self._store.read_bytes(path)
            memory = self._store.parse(data, state)
            place = parse_place(memory.title, path, memory.metadata)
            available = place.resources.get(name, 0) if place else 0
            if available is None:
                return None
            if available < amount:
                raise Refused(
                    f"There is only {available:g} {name} here", "another agent took it first"
                )
            rest = rounded(available - amount)
            fresh = document.edit_entry(data, "resources", name, rest)
            subject = FileRef(memory.mem_id, memory.title)
            self._store.changes.replace(path, data, fresh, subject)
        return rest

    def _read_self(self) -> tuple[bytes | None, Character]:
        """Return the agent's file, or None, and the agent, which is at 0, 0 without a file.

        Raises:
            Refused: the file's front matter is broken, or the file is a link.
        """
        require_plain_folders(self._store.root, _AGENTS)
        try:
            data, _ = self._store.read_bytes(self._path)
        except NotFound as error:
            if os.path.lexists(self._store.root / self._path):
                raise Refused(f"{self._path} is not a regular file", "remove it") from error
            return None, parse_character(self._address.agent, {})
        return data, parse_character(self._address.agent, _header_of(self._path, data))

    def _initial_file(self) -> bytes:
        """Return the initial content of an agent's file."""
        header = {"x": 0, "y": 0, "stamina": 1, "type": "agent"}
        return document.encode_new(header, f"# {self._address.agent}")

    def _write(self, old: bytes | None, new: bytes) -> None:
        """Write the agent's file if it is unchanged since it was read.

        The caller must hold its lock.

        Raises:
            Conflict: the file was changed concurrently.
            StorageError: the disk cannot be written.
        """
        subject = FileRef.at(self._path, self._address.agent)
        try:
            if old is None:
                self._store.changes.create([self._path], new, subject)
            else:
                self._store.changes.replace(self._path, old, new, subject)
        except (FileExistsError, NotFound) as error:
            raise Conflict.changed(self._path) from error

    def _places(self) -> Iterator[WorldPlace]:
        for path, _, parsed, _ in read_header_files(self._store.root, _PLACES, self._skip):
            header = parsed.header or {}
            name = memory_file.title_of(header, parsed.parts.body, path)
            place = parse_place(name, path, header)
            if place is not None:
                yield place
            elif header:
                self._skip(path, "x and y are not both numbers")

    def _others(self) -> Iterator[Character]:
        for path, _, parsed, _ in read_header_files(self._store.root, _AGENTS, self._skip):
            if path == self._path:
                continue
            try:
                name = address(PurePosixPath(path).stem).agent
            except UsageError as error:
                self._skip(replace_surrogates(path), error.message)
            else:
                yield parse_character(name, parsed.header or {})

    def _skip(self, path: str, reason: str) -> None:
        self._warn(f"{path} is skipped: {reason}")


def _header_of(path: str, data: bytes) -> dict[str, Any]:
    """Return a file's header.

    Raises:
        Refused: the header is broken.
    """
    parsed = document.Document.parse(data)
    if parsed.problem:
        raise Refused(f"{path} is broken: {parsed.problem}", "edit it")
    return parsed.header or {}
