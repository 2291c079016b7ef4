"""What arguments mean by the table of leniencies, said as the schema has it, for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from memvault import schema
from memvault.leniency import LENIENCIES, UNREAD, Leniency
from memvault.schema import Parameter


def plain_arguments(
    expected: Iterable[Parameter], sent: Mapping[str, Any], used: set[Leniency], more: bool = False
) -> dict[str, Any]:
    """Return arguments as the schema has them, by the table; ``used`` gets its entries."""
    known = {schema.normal_key(parameter.key): parameter for parameter in expected}
    found = {}
    for key, value in sent.items():
        parameter = known.get(key if more else schema.normal_key(key))
        if parameter is None:
            found[key] = value
            continue
        meant = _meant(parameter, value, used)
        if meant is not None:
            found[parameter.key] = meant
    return found


def _meant(parameter: Parameter, value: Any, used: set[Leniency]) -> Any:
    """Return one argument as its schema has it, or as it is where the table knows nothing."""
    shallow = schema.property_schema(parameter)
    if parameter.items:
        shallow = {**shallow, "items": {"type": "object"}}
    while not Draft202012Validator(shallow).is_valid(value):
        read = ((entry, entry.read(parameter, value)) for entry in LENIENCIES)
        entry, value_read = next((pair for pair in read if pair[1] is not UNREAD), (None, None))
        if entry is None:
            return value
        used.add(entry)
        value = value_read
        if value is None:
            return None
    if parameter.items and isinstance(value, list):
        more = parameter.arg.open
        return [plain_arguments(parameter.items, entry, used, more) for entry in value]
    return value
