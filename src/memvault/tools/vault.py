"""Tools for the vault itself: show, list, restore, status, reindex, models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from memvault.errors import NotFound
from memvault.tools.historian import FILTER_HELP, TAGS_HELP, TYPE_HELP
from memvault.tools.registry import Arg, tool
from memvault.tools.shapes import filters, item, seen
from memvault.workspace import Workspace

__all__ = [
    "memory_list",
    "memory_restore",
    "memory_show",
    "model_list",
    "model_use",
    "model_verify",
    "vault_reindex",
    "vault_status",
]


Purpose = Annotated[
    Literal["embed", "rerank"],
    Arg("What the model is for: vectors, or recall --rerank", key="for"),
]


@tool("memory_show", "show", "vault", read_only=True)
def memory_show(
    workspace: Workspace,
    name: Annotated[
        str, Arg("memId or its beginning, path, or exact title", key="memId", positional=True)
    ],
    revision: Annotated[
        str | None, Arg("Show the content as it was in this revision, or the beginning of its name")
    ] = None,
) -> dict[str, Any]:
    """Show one memory whole, with its etag and the revisions that are kept."""
    memory = workspace.engine.resolve(name)
    history = workspace.store.history
    if revision:
        from memvault.model import FileState

        data = history.read(memory.mem_id, revision)
        memory = workspace.store.parse(data, FileState(memory.path, len(data), 0, 0, 0))
    result = {
        **item(memory),
        "etag": memory.etag,
        "content": memory.body,
        "metadata": memory.metadata,
        "revisions": history.revisions(memory.mem_id),
    }
    if memory.problem:
        result["problem"] = memory.problem
    seen(workspace, [memory])
    return result


@tool("memory_list", "list", "vault", read_only=True)
def memory_list(
    workspace: Workspace,
    memory_type: Annotated[str | None, Arg(TYPE_HELP, flag="--type")] = None,
    tags: Annotated[list[str] | None, Arg(TAGS_HELP)] = None,
    expression: Annotated[str | None, Arg(FILTER_HELP, key="filter")] = None,
    since: Annotated[str | None, Arg("Changed since a date, a time, or an age such as 7d")] = None,
    until: Annotated[str | None, Arg("Changed until a date, a time, or an age")] = None,
    limit: Annotated[int | None, Arg("How many at most; all where it is left out", least=1)] = None,
) -> dict[str, Any]:
    """List memories without their content, newest change first."""
    records = workspace.engine.listed(filters(memory_type, tags, since, until, expression))
    memories = []
    for record in records[:limit]:
        entry = item(record)
        if record.problem:
            entry["problem"] = record.problem
        memories.append(entry)
    return {"memories": memories, "count": len(memories), "total": len(records)}


@tool("memory_restore", "restore", "vault", destructive=True)
def memory_restore(
    workspace: Workspace,
    name: Annotated[
        str,
        Arg("memId, path or title; without it the trash is listed", key="memId", positional=True),
    ] = "",
    revision: Annotated[
        str | None, Arg("Put an existing memory back to this revision instead")
    ] = None,
) -> dict[str, Any]:
    """Restore a memory from the trash, or put one back to an earlier revision.

    A file returns to its old path, or beside it where that is taken. The
    content that a revision replaces becomes a revision itself.
    """
    from memvault.memories import restoring

    if not name.strip():
        trash = restoring.trash(workspace.store)
        return {
            "trash": [
                {
                    "memId": entry.memory.mem_id,
                    "title": entry.memory.title,
                    "filePath": entry.item.path,
                    "discarded": entry.when,
                }
                for entry in trash
            ]
        }
    if revision:
        memory = workspace.engine.resolve(name)
        restored = restoring.revert(workspace.store, memory, revision)
    else:
        restored = restoring.restore(workspace.store, name)
    return {
        "filePath": restored.path,
        "memId": restored.mem_id,
        "title": restored.title,
        "etag": restored.etag,
    }


@tool("vault_status", "status", "vault", read_only=True)
def vault_status(workspace: Workspace) -> dict[str, Any]:
    """Say how the vault is: counts, index, embedder, sizes, and what is pending."""
    from memvault.upkeep.status import status

    return status(workspace)


@tool("vault_reindex", "reindex", "vault")
def vault_reindex(workspace: Workspace) -> dict[str, Any]:
    """Make the index anew and embed whatever has no vectors yet.

    Never needed to see an edit; useful after changing the embedder, or to have
    slow work done now.
    """
    from memvault.recall.filters import Filters
    from memvault.upkeep.paths import told

    workspace.index.rebuild()
    workspace.index.embed_all()
    return {
        "indexed": len(workspace.engine.listed(Filters())),
        "embedder": told(workspace, workspace.index.wanted),
    }


@tool("model_list", "model list", "vault", read_only=True)
def model_list(workspace: Workspace) -> dict[str, Any]:
    """List the models that can be used, to embed and to rerank, and those in use."""
    from memvault.index.embed_static import StaticEmbedder
    from memvault.index.fastembed_models import CROSS_ENCODER, EMBEDDING, known_models
    from memvault.upkeep.paths import told

    builtin = StaticEmbedder()
    own = {
        "name": builtin.name,
        "dimension": builtin.dimension,
        "sizeInGb": 0.01,
        "licence": "Apache-2.0",
        "description": "Built in: works offline at once. English",
    }
    return {
        "inUse": told(workspace, workspace.index.wanted),
        "models": [own, *known_models(EMBEDDING)],
        "rerankerInUse": told(workspace, workspace.settings.reranker),
        "rerankers": known_models(CROSS_ENCODER),
    }


@tool("model_use", "model use", "vault", open_world=True)
def model_use(
    workspace: Workspace,
    name: Annotated[
        str,
        Arg("builtin, a fastembed model, or a folder with model.onnx", positional=True),
    ],
    purpose: Purpose = "embed",
) -> dict[str, Any]:
    """Use another model: fetch it if need be, and embed every memory with it.

    Recall goes on with the old vectors until the new ones are complete. With
    for = rerank it is the cross-encoder of recall's rerank, and nothing is
    embedded. This is the only command that uses the network, and only for a
    model that is not on this machine.
    """
    from memvault.upkeep import models, paths

    models.check_caller(workspace, name)
    use = models.use if purpose == "embed" else models.use_reranker
    found = use(workspace, name)
    named = {key: paths.told(workspace, found[key]) for key in ("name", "previous")}
    return {**found, **named}


@tool("model_verify", "model verify", "vault", read_only=True)
def model_verify(
    workspace: Workspace,
    name: Annotated[
        str | None, Arg("A model or folder; the one in use where it is left out", positional=True)
    ] = None,
    purpose: Purpose = "embed",
) -> dict[str, Any]:
    """Check that a model loads here and tells related texts from unrelated ones."""
    from memvault.upkeep import models, paths

    models.check_caller(workspace, name or "")
    if purpose == "embed":
        found = models.verify(workspace, name)
        hint = "memvault model use builtin goes back to the embedder that always works"
    else:
        found = models.verify_reranker(workspace, name)
        hint = "memvault model list names fastembed's cross-encoders"
    if not found["works"]:
        raise NotFound(f"The model {found['name']} loads, but does not tell texts apart", hint)
    return {**found, "name": paths.told(workspace, found["name"])}
