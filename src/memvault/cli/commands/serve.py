"""The commands ``mcp``, ``serve`` and ``tokens``.

They are not tools, so neither ``call`` nor an MCP client can run them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.cli.shutdown import Exit
from memvault.errors import INSTALL, MemvaultError, UsageError
from memvault.settings import locate
from memvault.settings.vault_settings import load_settings
from memvault.tools.core.result_parts import list_result

_LSP_PACKAGES = frozenset(("attrs", "cattrs", "lsprotocol", "pygls"))
TokenName = Annotated[str, Arg("The token's name", positional=True)]


@command(
    "mcp",
    ("memvault mcp", "memvault mcp --vault . --agent historian"),
    view="""*profiles
        {name:<14}{count:>4} tools {tokens:>7} tokens  {heading}

        A token is about four characters""",
    group="programs",
)
def mcp(
    options: GlobalOptions,
    tools: Annotated[
        str, Arg("Profiles and tools to offer, such as core,talk (default core)", metavar="NAMES")
    ] = "",
    list_profiles: Annotated[bool, Arg("List the profiles and exit")] = False,
    vaults: Annotated[
        str, Arg("Names of other vaults that clients may access", metavar="NAME,NAME")
    ] = "",
    programs: Annotated[
        bool, Arg("Allow clients to run extractors and models on this machine")
    ] = False,
) -> dict[str, Any] | None:
    """Serve the tools and memories to an MCP client, on standard input and output.

    It serves the vault in `--vault` to the agent in `--agent` until the input ends. `--tools`
    selects the tools it offers; the default is [mcp] tools in memvault.toml or in your own
    settings. `--vaults` lists the other vaults that the client may reach; no others are reachable.
    It needs the MCP SDK, which the extra mcp installs: pip install '.[mcp]' in a checkout.
    """
    from memvault.mcp import profiles

    if list_profiles:
        return profiles.table()
    with _require_sdk("mcp"):
        from memvault.mcp import server
    from memvault.agents.address import address

    # A model that calls tools must not run arbitrary programs or see the machine's paths.
    vault_names = _vaults(vaults)
    caller = options.caller()._replace(
        may_run_programs=programs,
        may_see_paths=False,
        has_token_budget=True,
        vaults=vault_names,
        secrets="masked",
    )
    root = options.root()
    address(caller.agent)  # Report an invalid name now, not at each call.
    selection = profiles.ToolSelection(tools)
    try:
        settings = load_settings(root)
    except MemvaultError:  # Each call reports the error; the settings may be fixed by then.
        pass
    else:
        selection.selected(settings)  # Report an unknown name now, not when tools are listed.
    code = server.serve(root, caller, selection)
    if code:
        raise Exit(code)
    return None


@command("lsp", ("memvault lsp", "memvault lsp --vault ."), group="programs")
def lsp(options: GlobalOptions) -> None:
    """Serve memories to an editor over the Language Server Protocol, on standard input and output.

    It completes links, tags and headers, finds definitions and references, renames memories, and
    reports problems. The vault of a file is the nearest one above it; with `--vault`, only that
    vault is served. It writes nothing: the editor applies the edits. It needs pygls, which the
    extra lsp installs: pip install '.[lsp]' in a checkout.
    """
    try:
        from memvault.lsp import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LSP_PACKAGES:
            raise
        raise MemvaultError("`memvault lsp` needs pygls", f"{INSTALL} '.[lsp]'") from error
    code = server.serve(options.root() if options.has_explicit_vault else None)
    if code:
        raise Exit(code)


@command(
    "serve",
    (
        "memvault serve --http :8420",
        "memvault serve --http 10.0.0.5:8420 --name memory.example.org --audit audit.jsonl",
    ),
    group="programs",
)
def serve(
    _: GlobalOptions,
    http: Annotated[str, Arg("The address to listen on", metavar="[HOST]:PORT")] = "",
    vaults: Annotated[
        str, Arg("Vaults to serve (default all named vaults)", metavar="NAME,NAME")
    ] = "",
    tools: Annotated[
        str, Arg("Profiles and tools to offer; see `memvault mcp`", metavar="NAMES")
    ] = "",
    names: Annotated[
        list[str] | None,
        Arg("A host name that clients use for this server", flag="--name", metavar="HOST"),
    ] = None,
    audit: Annotated[str, Arg("Audit log file (default stderr)", metavar="FILE")] = "",
    calls: Annotated[int, Arg("Maximum concurrent requests per token", minimum=1)] = 16,
    queue: Annotated[int, Arg("Maximum queued requests per token", minimum=0)] = 100,
    rate: Annotated[int, Arg("Maximum requests per second per token", minimum=1)] = 50,
    body: Annotated[int, Arg("Maximum size of a request in megabytes", minimum=1, maximum=64)] = 4,
    workers: Annotated[
        int, Arg("Number of extra processes for read-only tools", minimum=0, maximum=64)
    ] = 0,
    certificate: Annotated[
        str, Arg("TLS certificate in PEM format, for https", metavar="FILE")
    ] = "",
    key: Annotated[str, Arg("The certificate's private key", metavar="FILE")] = "",
) -> None:
    """Serve named vaults to a team: MCP over HTTP, for clients that have a token.

    `memvault tokens add` creates a token. It gives access only to the vaults listed in it: the
    first is at /mcp, and each is at /mcp/NAME. Without a host it listens on this machine only.
    `--audit` logs one line per call, without contents. `--workers N` runs read-only tools in N
    processes.
    """
    with _require_sdk("serve"):
        from memvault.server import http_server
    from memvault.mcp.profiles import ToolSelection
    from memvault.server.audit import AuditLog
    from memvault.server.gateway import RequestLimits

    if not http.strip():
        raise UsageError("The address is missing", "pass one, as in `memvault serve --http :8420`")
    limits = RequestLimits(body * 1024 * 1024, calls=calls, rate=float(rate), queue=queue)
    address = http_server.ListenAddress.read(http, names or [])
    tls_certificate = http_server.TlsCertificate(certificate, key)
    code = http_server.serve(
        address,
        tls_certificate,
        _vaults(vaults),
        ToolSelection(tools),
        limits,
        AuditLog(audit),
        workers,
    )
    if code:
        raise Exit(code)


@contextlib.contextmanager
def _require_sdk(command: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MemvaultError(
            f"`memvault {command}` needs the MCP SDK: {error}", f"{INSTALL} '.[mcp]'"
        ) from error


def _vaults(text: str) -> tuple[str, ...]:
    """Parse a list of vault names, reporting unknown names immediately rather than at each call."""
    vault_names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in vault_names:
        locate.vault_named(name)
    return vault_names


@command(
    "tokens add",
    (
        "memvault tokens add ann --vaults work",
        "memvault tokens add ci --vaults work,home --scope write --as builder --days 90",
    ),
    view="""{token}

        It will not be shown again
           {name} may {scope} {vaults} as {agent}  until {expires:day}""",
    group="programs",
    reveals=True,
)
def add(
    _: GlobalOptions,
    name: TokenName,
    vaults: Annotated[str, Arg("The vaults it gives access to", metavar="NAME,NAME")] = "",
    scope: Annotated[str, Arg("Its permissions", metavar="read|write")] = "read",
    as_agent: Annotated[
        str, Arg("The agent it acts as (default NAME)", flag="--as", metavar="AGENT")
    ] = "",
    days: Annotated[int, Arg("Days until it expires; 0 for never", minimum=0, maximum=36_500)] = 0,
) -> dict[str, Any]:
    """Create a token for `memvault serve`; it is shown only once.

    It gives access to the vaults in `--vaults`; the first is the default if a client does
    not specify one. Its holder acts only as the agent in `--as`, by default the token's name. The
    scope read prevents all writes.
    """
    from memvault.server import tokens

    vault_names = [part.strip() for part in vaults.split(",") if part.strip()]
    token, text = tokens.add(name, vault_names, scope, as_agent, days)
    return {**token.public_fields(), "token": text}


@command(
    "tokens list",
    ("memvault tokens list", "memvault tokens list --json"),
    view="""*tokens
        {name:<12}  {scope:<5}  {vaults}  as {agent}  until {expires:day}  {problem}""",
    group="programs",
)
def names(_: GlobalOptions) -> dict[str, Any]:
    """List the tokens with their vaults, scope and agent; the tokens themselves are not stored."""
    from memvault.server import tokens

    public_tokens = [token.public_fields() for token in tokens.all_tokens()]
    nothing = "No tokens; create one with `memvault tokens add NAME --vaults NAME,NAME`"
    return list_result("tokens", public_tokens, nothing)


@command(
    "tokens remove",
    ("memvault tokens remove ann", "memvault tokens remove ci"),
    view="Revoked token {name}",
    group="programs",
)
def remove(_: GlobalOptions, name: TokenName) -> dict[str, Any]:
    """Revoke a token; connected clients lose access immediately."""
    from memvault.server import tokens

    tokens.remove(name)
    return {"name": name}
