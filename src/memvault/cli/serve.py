"""Tokens of served vaults, for people: no tool, so neither ``call`` nor MCP reaches them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import typer

from memvault.cli import results
from memvault.cli.options import GlobalOptions
from memvault.errors import MemvaultError, UsageError
from memvault.settings import locate


def mcp(
    options: GlobalOptions, tools: str, list_profiles: bool, programs: bool, vaults: str
) -> None:
    """Serve the vault's tools and memories to an MCP client.

    It speaks MCP on standard input and output, for the vault and the agent that
    --vault and --agent name, and ends with its input. --tools chooses what it
    offers, else [mcp] tools in memvault.toml or in your own settings. Of other
    vaults it reaches those that --vaults names, and no other. It needs the
    MCP SDK, which the extra mcp installs: pip install '.[mcp]' in a checkout.
    """
    from memvault.mcp import profiles

    if list_profiles:
        found = {"success": True, **profiles.table()}
        results.print_result(options, "mcp profiles", found)
        return
    with _sdk("mcp"):
        from memvault.mcp import server
    from memvault.agents.address import address

    # A model that may call tools may not run what it likes, nor look round the machine.
    reached = _vaults(vaults)
    caller = options.caller()._replace(
        may_run_programs=programs, may_see_paths=False, budgeted=True, vaults=reached
    )
    workspace = options.workspace()
    address(caller.agent)  # an invalid name is said now, not with each call
    code = server.serve(workspace, caller, profiles.ToolSelection(tools))
    if code:
        raise typer.Exit(code)


def serve(
    _: GlobalOptions,
    http: str,
    vaults: str,
    tools: str,
    names: list[str],
    audit: str,
    calls: int,
    queue: int,
    rate: int,
    body: int,
    certificate: str,
    key: str,
) -> None:
    """Serve named vaults to a team: MCP over HTTP, for whoever has a token.

    memvault tokens add makes a token; it opens the vaults that it names, at /mcp the first
    of them and at /mcp/NAME each, and nothing else of this machine. Without a host only
    this machine is served. --audit keeps a line for each call, without contents.
    """
    with _sdk("serve"):
        from memvault.server import http_server
    from memvault.mcp.profiles import ToolSelection
    from memvault.server.audit import AuditLog
    from memvault.server.gateway import RequestLimits

    if not http.strip():
        raise UsageError("The address is missing", "memvault serve --http :8420")
    limits = RequestLimits(body * 1024 * 1024, calls=calls, rate=float(rate), queue=queue)
    address = http_server.ListenAddress.read(http, [name for name in names if name.strip()])
    given = http_server.TlsCertificate(certificate, key)
    code = http_server.serve(
        address, given, _vaults(vaults), ToolSelection(tools), limits, AuditLog(audit)
    )
    if code:
        raise typer.Exit(code)


@contextlib.contextmanager
def _sdk(command: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MemvaultError(
            f"memvault {command} needs the MCP SDK: {error}",
            "install memvault with the extra mcp: pip install '.[mcp]' in a checkout",
        ) from error


def _vaults(text: str) -> tuple[str, ...]:
    """Return the names of vaults; one that no vault has is said now, not with each call."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in found:
        locate.vault_named(name)
    return found


def add(
    options: GlobalOptions, name: str, vaults: str, scope: str, as_agent: str, days: int
) -> None:
    """Make a token for memvault serve, and show it this once.

    It opens the vaults that --vaults names, the first of them where a client names none.
    Whoever has it speaks as the agent --as, else as one of the token's own name, and as
    nobody else. With the scope read nothing can be written.
    """
    from memvault.server import tokens

    given = [part.strip() for part in vaults.split(",") if part.strip()]
    made, text = tokens.add(name, given, scope, as_agent, days)
    _told(options, "tokens add", {**made.public_fields(), "token": text})


def names(options: GlobalOptions) -> None:
    """List the tokens: what each opens, and as which agent. The tokens themselves are not kept."""
    from memvault.server import tokens

    found = [token.public_fields() for token in tokens.all_tokens()]
    nothing = "There are no tokens; memvault tokens add NAME --vaults NAME,NAME makes one"
    _told(options, "tokens list", {"tokens": found, **({} if found else {"message": nothing})})


def remove(options: GlobalOptions, name: str) -> None:
    """End a token at once, also for whoever is using it."""
    from memvault.server import tokens

    tokens.remove(name)
    _told(options, "tokens remove", {"name": name})


def _told(options: GlobalOptions, command: str, found: dict[str, object]) -> None:
    results.print_result(options, command, {"success": True, **found})
