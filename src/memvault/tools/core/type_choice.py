"""Choose the type of a memory to write, asking about a similar known type."""

from __future__ import annotations

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.named_tuple import NamedTuple


class TypeChoice(NamedTuple):
    """The type of a memory to write (empty: the default), and similar known types."""

    name: str
    meant: tuple[str, ...] = ()

    def warn(self, call: Call, mem_id: str) -> None:
        """Add a note that suggests the known types for the memory that was written."""
        if self.meant:
            call.notes.append(
                f"{self.name!r} is a new memory type; if you mean {' or '.join(self.meant)}, "
                f'run `memvault compound {mem_id} "" --type {self.meant[0]}`'
            )


def choose_type(call: Call, requested_type: str | None) -> TypeChoice:
    """Return the type for a memory, after asking the user at the terminal about a similar one.

    Only a type that is neither built in nor declared is compared with the types of existing
    memories and templates; if they cannot be read immediately, the type is used as it is.

    Raises:
        UsageError: the type's name is not valid.
    """
    from memvault.vault import naming

    name = naming.normal_type(requested_type) if requested_type and requested_type.strip() else ""
    if not name or name in call.store.known_types:
        return TypeChoice(name)
    from memvault.index.protocol import NO_WAIT
    from memvault.memories import templates
    from memvault.recall.filters import suggest_types
    from memvault.recall.recall_engine import RecallEngine

    if name in templates.template_names(call.root):
        return TypeChoice(name)
    try:
        engine = RecallEngine(call.reader, call.workspace.search_index, NO_WAIT)
        declared = [entry.name for entry in call.settings.types]
        meant = engine.visit_records(lambda records: suggest_types(name, records, declared))
    except (MemvaultError, OSError, MemoryError):
        return TypeChoice(name)
    if not meant or call.caller.confirm_suggestion is None:
        return TypeChoice(name, tuple(meant))
    line = f"There is no memory type {name!r} yet; similar: {', '.join(meant)}"
    uses_known = call.caller.confirm_suggestion([line], f"Use {meant[0]}? n keeps {name}")
    return TypeChoice(meant[0] if uses_known else name)
