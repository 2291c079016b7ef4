"""Tenants of the HTTP server: one MCP server, with its sessions, for each token and vault.

Two tokens share only the vault itself, but no sessions, subscriptions or requests.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable

import anyio
import anyio.abc
import anyio.to_thread
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from memvault import sanitize
from memvault.call import Caller
from memvault.errors import MemvaultError
from memvault.mcp.calls import report_progress
from memvault.mcp.fair_shares import CallCosts, FairShares
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.read_runner import (
    AT_ONCE,
    FairReadRunner,
    HeavyReadRunner,
    LocalReadRunner,
    ReadRunner,
    shared_lane,
)
from memvault.mcp.request_queue import RequestQueue
from memvault.mcp.server import McpServer, new_request_queue
from memvault.named_tuple import NamedTuple
from memvault.server.audit import AuditLog, AuditMiddleware
from memvault.server.tokens import ApiToken
from memvault.settings import locate
from memvault.workspace import Workspace

_MAX_SESSIONS = 100
"""The maximum number of sessions (clients of older protocol versions) of one tenant."""
_SESSION_IDLE_TIMEOUT = 600.0
"""Seconds after which a session without requests and open streams is closed."""


class TenantServer(NamedTuple):
    """The MCP server of one token and vault; setting ``stop`` ends its sessions."""

    token: ApiToken
    workspace: Workspace
    serving: McpServer
    manager: StreamableHTTPSessionManager
    stop: anyio.Event


class TenantServers:
    """The running tenants, and the open workspaces that they share.

    ``served`` contains the names of the vaults to serve; None means all. ``offer`` selects the
    tools, ``ending`` returns whether the server is shutting down, and ``body`` is the maximum
    request size in bytes. ``heavy_reads`` runs calls that are heavy according to ``costs``, and
    ``reads`` runs all other reads in processes, if there are any. ``shares`` contains the tokens'
    shares.
    """

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        served: frozenset[str] | None,
        offer: ToolSelection,
        audit: AuditLog,
        ending: Callable[[], bool],
        body: int,
        heavy_reads: HeavyReadRunner,
        costs: CallCosts,
        shares: FairShares,
        reads: ReadRunner | None = None,
    ) -> None:
        self._heavy_reads = heavy_reads
        self._costs = costs
        self._shares = shares
        self._tasks = tasks
        self._reads = reads
        self._max_body_size = body
        self._served_names = served
        self._offer = offer
        self._audit = audit
        self._is_ending = ending
        self._tenants: dict[tuple[ApiToken, str], TenantServer] = {}
        self._vaults: dict[str, Workspace] = {}
        self._in_use: Counter[Workspace] = Counter()
        self._queues: dict[Workspace, RequestQueue] = {}
        self._local_reads: dict[Workspace, LocalReadRunner] = {}
        self._open_limiter = anyio.CapacityLimiter(1)  # More threads would only wait for the lock.
        self._tenants_lock = anyio.Lock()
        self._vaults_lock = threading.Lock()

    def vaults_of(self, token: ApiToken) -> list[str]:
        """Return the names of the served vaults that a token permits, its default first."""
        return [
            name
            for name in token.vaults
            if self._served_names is None or name in self._served_names
        ]

    async def server_for(self, token: ApiToken, vault: str) -> StreamableHTTPSessionManager:
        """Return the session manager of a token and vault, starting its MCP server if needed.

        Raises:
            MemvaultError: the vault is missing or cannot be read.
        """
        workspace = await anyio.to_thread.run_sync(
            self._open_workspace, vault, limiter=self._open_limiter
        )
        async with self._tenants_lock:
            for key, other in list(self._tenants.items()):
                if key[1] == vault and other.workspace is not workspace:
                    self._remove(key)  # The name now belongs to another folder.
            tenant = self._tenants.get((token, vault))
            if tenant is None:
                tenant = self._create(token, vault, workspace)
                await self._tasks.start(self._run, tenant)
                self._tenants[token, vault] = tenant
            return tenant.manager

    def close_revoked(self, is_in: Callable[[ApiToken], bool]) -> None:
        """Close the tenants of every token for which ``is_in`` returns false."""
        for key in [key for key in self._tenants if not is_in(key[0])]:
            self._remove(key)

    def _remove(self, key: tuple[ApiToken, str]) -> None:
        tenant = self._tenants.pop(key)
        tenant.serving.end_streams()
        tenant.stop.set()

    def close(self) -> None:
        """Close all workspaces; call this after the last tenant has shut down."""
        for workspace in self._in_use:
            self._close(workspace)

    def end_streams(self) -> None:
        """End every open stream of notifications."""
        for tenant in self._tenants.values():
            tenant.serving.end_streams()

    def wake(self) -> None:
        """Wake every waiting tool, so that it notices the shutdown."""
        for workspace in self._vaults.values():
            workspace.notify_waiters()

    def _open_workspace(self, vault: str) -> Workspace:
        # Resolved for each request, because the name may move to another folder.
        root = locate.vault_named(vault)
        with self._vaults_lock:
            workspace = self._vaults.get(vault)
            if workspace is None or workspace.root != root:
                workspace = Workspace(root, report_progress, long_lived=True)
                _ = workspace.settings
                self._vaults[vault] = workspace
                self._in_use[workspace] += 0
            return workspace

    def _create(self, token: ApiToken, vault: str, workspace: Workspace) -> TenantServer:
        caller = Caller(
            token.agent,
            may_run_programs=False,
            may_see_paths=False,
            has_token_budget=True,
            vaults=tuple(self.vaults_of(token)),
            scope=token.scope,
            sees_worktrees=False,
        )
        queue = self._queues.setdefault(workspace, new_request_queue(self._shares))
        cheap = self._reads or self._local_reads.get(workspace)
        if cheap is None:
            lane = shared_lane(AT_ONCE, self._shares, self._costs, self._heavy_reads)
            cheap = self._local_reads[workspace] = LocalReadRunner(
                workspace.root, self._offer, lane
            )
        reads = FairReadRunner(cheap, self._heavy_reads, self._costs)
        server = McpServer(workspace, caller, self._offer, self._is_ending, queue, token, reads)
        server.server.middleware.append(
            AuditMiddleware(self._audit, token.name, token.agent, vault)
        )
        manager = StreamableHTTPSessionManager(
            server.server,
            max_sessions=_MAX_SESSIONS,
            session_idle_timeout=_SESSION_IDLE_TIMEOUT,
            max_request_body_size=self._max_body_size,
        )
        return TenantServer(token, workspace, server, manager, anyio.Event())

    async def _run(self, tenant: TenantServer, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Run a tenant's server until its ``stop`` is set."""
        self._in_use[tenant.workspace] += 1
        try:
            async with tenant.manager.run():
                task_status.started()
                await tenant.stop.wait()
        finally:
            self._in_use[tenant.workspace] -= 1
        await anyio.to_thread.run_sync(self._close_unused)

    def _close_unused(self) -> None:
        """Close workspaces that no longer have a name and that no tenant uses."""
        with self._vaults_lock:
            unused = [
                workspace
                for workspace, count in self._in_use.items()
                if not count and workspace not in self._vaults.values()
            ]
            for workspace in unused:
                del self._in_use[workspace]
                self._queues.pop(workspace, None)
        for workspace in unused:
            self._close(workspace)

    def _close(self, workspace: Workspace) -> None:
        reads = self._local_reads.pop(workspace, None)
        if reads is not None:
            reads.close()
        with workspace.lock:
            workspace.close()


def log_operator_note(error: MemvaultError, vault: str = "") -> None:
    """Print an error that clients do not see because it may contain paths."""
    text = f"{vault and f'vault {vault}: '}{error.message}; {error.hint}"
    print(sanitize.escape_line(f"note: {text}"), file=sys.stderr)
