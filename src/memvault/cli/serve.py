"""The commands ``mcp``, ``serve`` and ``tokens``.

They are not tools, so that neither ``call`` nor an MCP client can run them.
"""

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

    It speaks MCP on standard input and output, for the vault and the agent given by
    --vault and --agent, until the input ends. --tools selects the tools it offers;
    the default is [mcp] tools in memvault.toml or in your own settings. --vaults
    names the other vaults that the client may reach; no others are reachable. It
    needs the MCP SDK, which the extra mcp installs: pip install '.[mcp]' in a checkout.
    """
    from memvault.mcp import profiles

    if list_profiles:
        result = {"success": True, **profiles.table()}
        results.print_result(options, "mcp profiles", result)
        return
    with _require_sdk("mcp"):
        from memvault.mcp import server
    from memvault.agents.address import address

    # A model that may call tools must not run arbitrary programs or see the machine's paths.
    vault_names = _vaults(vaults)
    caller = options.caller()._replace(
        may_run_programs=programs, may_see_paths=False, budgeted=True, vaults=vault_names
    )
    root = locate.find_vault(options.vault)
    address(caller.agent)  # report an invalid name now, not at each call
    code = server.serve(root, caller, profiles.ToolSelection(tools))
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
    """Serve named vaults to a team: MCP over HTTP, for clients that have a token.

    memvault tokens add creates a token. It gives access to the vaults that it names, the
    first at /mcp and each at /mcp/NAME, and to nothing else on this machine. Without a host
    it listens on this machine only. --audit logs one line per call, without contents.
    """
    with _require_sdk("serve"):
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
def _require_sdk(command: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MemvaultError(
            f"memvault {command} needs the MCP SDK: {error}",
            "install memvault with the extra mcp: pip install '.[mcp]' in a checkout",
        ) from error


def _vaults(text: str) -> tuple[str, ...]:
    """Parse a list of vault names, so that an unknown name is reported now, not at each call."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in found:
        locate.vault_named(name)
    return found


def add(
    options: GlobalOptions, name: str, vaults: str, scope: str, as_agent: str, days: int
) -> None:
    """Create a token for memvault serve; it is shown only once.

    It gives access to the vaults in --vaults; the first is used if a client names none.
    Its holder acts as the agent --as, by default the agent with the token's name, and as
    no other. With the scope read nothing can be written.
    """
    from memvault.server import tokens

    vault_names = [part.strip() for part in vaults.split(",") if part.strip()]
    token, text = tokens.add(name, vault_names, scope, as_agent, days)
    _print_result(options, "tokens add", {**token.public_fields(), "token": text})


def names(options: GlobalOptions) -> None:
    """List the tokens with their vaults, scope and agent; the tokens themselves are not stored."""
    from memvault.server import tokens

    found = [token.public_fields() for token in tokens.all_tokens()]
    message = "There are no tokens; memvault tokens add NAME --vaults NAME,NAME makes one"
    _print_result(
        options, "tokens list", {"tokens": found, **({} if found else {"message": message})}
    )


def remove(options: GlobalOptions, name: str) -> None:
    """Revoke a token; this takes effect at once, also for clients that are using it."""
    from memvault.server import tokens

    tokens.remove(name)
    _print_result(options, "tokens remove", {"name": name})


def _print_result(options: GlobalOptions, command: str, found: dict[str, object]) -> None:
    results.print_result(options, command, {"success": True, **found})
