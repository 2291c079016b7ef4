"""The commands ``web`` and ``graph``, which show the vault in a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from memvault import sanitize
from memvault.arguments.parameters import Arg
from memvault.cli import output
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.cli.run_editor import open_call
from memvault.errors import INSTALL, MemvaultError, Refused, UsageError

_EXTRA = frozenset(("jinja2", "markupsafe", "starlette", "uvicorn"))


@command(
    "web",
    ("memvault web", "memvault web --write", "memvault web --port 8421 --no-open"),
    group="moving",
)
def web(
    options: GlobalOptions,
    port: Annotated[
        int | None,
        Arg(
            "Port on 127.0.0.1, for example for SSH forwarding; 0 picks a free one",
            minimum=0,
            maximum=65_535,
        ),
    ] = None,
    no_open: Annotated[bool, Arg("Do not open the browser")] = False,
    write: Annotated[bool, Arg("Allow editing memories in the browser")] = False,
) -> None:
    """Show the vault in a browser: search, memories, map, growth, items to review.

    It serves only this machine, and only the browser that opens the printed URL.
    Pages are read-only without `--write`. Press Ctrl-C to stop. Requires the extra web.
    """
    root = options.root()
    with require_extra():
        from memvault.web import pages, server

        pages.render("refused", title="", message="")

    with open_call(options, tool="web") as (call, _):
        call.engine.on_view(lambda _: None)  # The first index may take minutes and shows progress.
    with contextlib.ExitStack() as files:

        def ready(address: str) -> None:
            output.text(f"{address}\n", options.json)
            output.flush()
            if not no_open:
                _open(address, root, files)

        with require_extra():
            server.serve(root, port, ready, files.close, write)


def _open(address: str, root: Path, files: contextlib.ExitStack) -> None:
    """Open a URL in the browser; ``files`` later deletes the redirect file."""
    from memvault.cli import desktop

    try:
        desktop.open_in_browser(files.enter_context(desktop.redirect_file(address)), root)
    except (OSError, MemvaultError) as error:
        reason = error.message if isinstance(error, MemvaultError) else error.strerror or error
        output.notes([f"No browser was opened: {reason}"])


@command(
    "graph",
    ("memvault graph ~/map.html", "memvault graph ~/map.html --force"),
    view="Wrote {filePath}  {memories:memory|memories}  {size}",
    group="moving",
)
def graph(
    options: GlobalOptions,
    file: Annotated[str, Arg("The HTML file to write", positional=True, completes="file")],
    force: Annotated[bool, Arg("Replace the file even if another program created it")] = False,
) -> dict[str, Any]:
    """Write the vault's map, with all memories, as one HTML file.

    The file needs no server and loads nothing else; secrets are masked, and only you can read it.
    It needs the extra web.
    """
    from memvault.files.target import target_file
    from memvault.vault.paths import require_outside

    root = options.root()
    target = Path(file).expanduser()
    if target.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{file} is not an HTML file", "use a name ending in .html")
    require_outside(root, target)
    with require_extra():
        from memvault.web import graph_file
        from memvault.web.session import WebSession
    with target_file(target, force, graph_file.MARK.encode()) as stream:
        session = WebSession(root)
        try:
            with require_extra():
                text, count = graph_file.document(session)
        finally:
            session.close()
        data = text.encode("utf-8", "replace")
        stream.write(data)
    size = f"{len(data) / 1_000_000:.1f} MB"
    return {"filePath": str(target), "memories": count, "bytes": len(data), "size": size}


@contextlib.contextmanager
def require_extra() -> Iterator[None]:
    """Raise an error about the missing extra if one of its packages is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        name = sanitize.escape_line(error.name or "")
        hint = f"{INSTALL} '.[web]'"
        raise Refused(f"The package {name} is missing", hint) from error
