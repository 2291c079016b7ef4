"""Secrets are masked in all results except those of shell commands that print content."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run, sampled, some_of, succeeded, write
from made_secrets import MADE, made, pieces
from memvault import Vault
from memvault.call import LOCAL, Call
from memvault.cli.registry import all_commands
from memvault.errors import StorageError
from memvault.tools.core import invoke
from memvault.tools.core.registry import all_tools
from memvault.workspace import Workspace
from tool_calls import over_mcp, typed
from tool_matrix import put_secrets

ALLOWED = "secrets: allowed\n"


def deploy(root: Path, said: str, header: str = "") -> None:
    """Write a memory that contains a secret."""
    text = f"# Deploy\n\nThe deploy job reads this secret every night:\n\n{said}\n\nNothing else."
    write(root, "deploy.md", f"---\nid: deploy-1\n{header}---\n\n{text}\n")


@pytest.mark.promise("S72")
def test_secrets_in_context_are_masked(
    vault: Vault, folder: Path, subtests: pytest.Subtests
) -> None:
    """In memories, values, goals and messages, each secret is replaced by its kind."""
    for kind in some_of([*MADE]):
        with subtests.test(kind=kind):
            _context_tells_none(vault, folder, kind)


def _context_tells_none(vault: Vault, folder: Path, kind: str) -> None:
    value, said = made(kind)
    deploy(folder, said)
    vault.call("set_memories", memories=[{"key": "k", "value": said}])
    vault.call("set_goals", goals=[{"id": "g", "description": f"Use {said}"}])
    vault.call("push_service", name="hook", message=said)
    found = vault.call("context", task="which secret does the deploy job read")
    told = json.dumps(found)
    assert found["context"].count(f"[masked: {kind}]") >= 3
    assert not any(line in told for line in value.split("\n") if len(line) > 8)
    # Delivered events would be omitted from the next context.
    assert vault.call("peek_inbox", count=100)["success"]


def asked(root: Path, said: str = "deploy", vault: str = "") -> list[Any]:
    """Return tool results about the memory over MCP, whole and in parts, or in a named vault."""
    own = f"{vault}:deploy-1" if vault else "deploy-1"
    query = {"query": f"deploy job secret {said.splitlines()[0]}"}
    several = query | ({"vaults": ["all"]} if vault else {})
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_show", {"memId": own}),
        *(("memory_show", {"memId": own, "around": near}) for near in ("night", "else", "deploy")),
        *(("memory_load", {"memId": own, "offset": at, "length": 30}) for at in (55, 90)),
        ("memory_recall", several),
        ("memory_recall", several | {"brief": True}),
        ("memory_recall", several | {"budget": 200}),
    ]
    if not vault:
        calls += [
            ("memory_list", {}),
            ("memory_search", query),
            ("memory_active", {"full": True}),
            ("context", {"task": "deploy job secret"}),
            ("memory_load", query),
        ]
    found = [over_mcp(root, tool, arguments) for tool, arguments in calls]
    assert [one for one in found if not one["success"]] == []
    return found


@sampled(1)
@pytest.mark.promise("S73")
def test_secrets_are_masked_in_every_result_over_mcp(
    vault: Vault, folder: Path, subtests: pytest.Subtests
) -> None:
    """No tool shows a client a secret, nor eight characters of one at a cut."""
    for kind in some_of([*MADE]):
        with subtests.test(kind=kind):
            value, said = made(kind)
            deploy(folder, said)
            told = json.dumps(asked(folder, value))
            assert f"[masked: {kind}]" in told
            assert pieces(value, told) == []


@pytest.mark.promise("S73")
@pytest.mark.parametrize("kind", ["private key", "GitHub token"])
def test_secrets_of_other_vault_are_masked_by_its_own_header(
    vault: Vault, folder: Path, tmp_path: Path, run: Run, kind: str
) -> None:
    """The header of the other vault's memory decides, not that of a local one with its ID."""
    value, said = made(kind)
    write(folder, "deploy.md", f"---\nid: deploy-1\n{ALLOWED}---\n\n{said}\n")
    write(other := tmp_path / "other", "memvault.toml", "version = 1\n")
    deploy(other, said)
    succeeded(run("vaults", "add", "other", str(other)))
    told = asked(folder, value, "other")
    assert f"[masked: {kind}]" in json.dumps(told[0])
    assert [pieces(value, json.dumps(one)) for one in told[:6]] == [[]] * 6
    for found in told[6:]:
        entries = [entry for entry in found.get("memories", ()) if entry["vault"] == "other"]
        lines = [line for line in found.get("brief", ()) if "other" in line]
        assert entries or lines
        assert pieces(value, json.dumps([entries, lines])) == []


def test_secrets_allowed_by_header_are_shown_over_mcp(vault: Vault, folder: Path) -> None:
    """The header applies to every result that contains the memory."""
    value, said = made("GitHub token")
    deploy(folder, said, ALLOWED)
    told = [json.dumps(found) for found in asked(folder)]
    assert "masked" not in "".join(told)
    assert sum(value in one for one in told) >= 4


@pytest.mark.promise("S73")
def test_secrets_in_resources_are_masked_over_mcp(folder: Path) -> None:
    """A memory's secrets are masked when read, unless its header allows them."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
    from memvault.call import Call
    from memvault.mcp import resources
    from memvault.workspace import Workspace

    value, said = made("private key")
    for header, there in (("", False), (ALLOWED, True)):
        deploy(folder, said, header)
        call = Call(Workspace(folder))
        (content,) = resources.read(call, "memvault://memory/deploy-1").contents
        assert (value in content.text) is there  # type: ignore[union-attr]
        assert ("[masked: private key]" in content.text) is not there  # type: ignore[union-attr]
        call.workspace.close()


@pytest.mark.promise("S75")
def test_secrets_in_file_name_or_id_do_not_block_access(vault: Vault, folder: Path) -> None:
    """A file name and a memId are masked; the memory can be shown by the other one."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
    from memvault.call import Call
    from memvault.mcp import resources
    from memvault.workspace import Workspace

    (value, _), (other, _) = made("GitHub token"), made("Stripe key")
    write(folder, f"fact/use {value}.md", "One.\n")
    write(folder, "fact/two.md", f"---\nid: {other}\n---\n\nTwo.\n")
    listed = over_mcp(folder, "memory_list", {})
    first, second = sorted(listed["memories"], key=lambda entry: str(entry["filePath"]))[::-1]
    assert first["filePath"] == "fact/use [masked: GitHub token].md"
    assert second["memId"] == "[masked: Stripe key]"
    shown = [
        over_mcp(folder, "memory_show", {"memId": name})
        for name in (first["memId"], second["filePath"])
    ]
    assert [one["content"].strip() for one in shown] == ["One.", "Two."]
    call = Call(Workspace(folder))
    (resource,) = resources.listed(call, None).resources
    assert resources.read(call, str(resource.uri)).contents
    call.workspace.close()
    told = f"{listed} {shown} {resource}"
    assert value not in told
    assert other not in told


@pytest.mark.promise("S73")
def test_secrets_in_arguments_are_not_repeated_in_errors(vault: Vault, folder: Path) -> None:
    """An error over MCP does not repeat the client's arguments if they contain a secret."""
    value, said = made("GitHub token")
    found = over_mcp(folder, "memory_show", {"memId": said})
    assert not found["success"]
    assert value not in json.dumps(found)


@pytest.mark.promise("S76")
def test_secrets_are_not_logged(vault: Vault, folder: Path) -> None:
    """Neither an agent's log nor the change journal contains a secret."""
    value, said = made("GitHub token")
    vault.call("talk_log", severity="info", message=f"I use {said}")
    vault.call("memory_remember", title=f"Use {said}", content="x", memoryType="fact")
    assert value not in json.dumps(vault.call("memory_log"))
    files = [path for path in (folder / ".memvault").rglob("*") if path.is_file()]
    logs = {path.name: path.read_text("utf-8") for path in files if path.suffix == ".jsonl"}
    assert "log.jsonl" in logs
    assert len(logs) == 2
    assert not any(value in text for text in logs.values())


def test_secrets_are_not_overwritten_by_masks(vault: Vault, folder: Path) -> None:
    """Writing masked content back is refused, but adding to the memory still works."""
    value, said = made("GitHub token")
    deploy(folder, said)
    shown = over_mcp(folder, "memory_show", {"memId": "deploy-1"})
    assert vault.call("memory_load", memId="deploy-1")["success"]
    found = vault.call("memory_mutate", memId="deploy-1", value=shown["content"] + "More.")
    assert found["error"]["code"] == "refused"
    assert value in (folder / "deploy.md").read_text("utf-8")
    for tool, given in (
        ("memory_compound", {"query": "deploy-1", "modifications": "More."}),
        ("memory_mutate", {"memId": "deploy-1", "value": "Gone."}),
        ("memory_mutate", {"memId": "deploy-1", "value": "It was [masked: GitHub token]."}),
    ):
        assert vault.call(tool, **given)["success"]


REMOVED = ("{}", "- {}", "x: {}", "  {}\n\n{}")
"""Contexts of a secret in text that a diff displays by line."""


@sampled(3)
@pytest.mark.promise("S74")
@pytest.mark.parametrize("kind", MADE)
def test_secrets_in_diff_are_masked_over_mcp(vault: Vault, folder: Path, kind: str) -> None:
    """A secret that was added, removed or cut off is masked in the diff and in its revision."""
    for number, form in enumerate(REMOVED):
        value, said = made(kind)
        text = form.replace("{}", said)
        named = {"memId": f"diff-{number}"}
        write(folder, f"diff-{number}.md", f"---\nid: diff-{number}\n---\n\n# Deploy\n\n{text}\n")
        cut = text[: len(text) // 2] + "\nCut here.\n" + text[len(text) // 2 :]
        for content in (cut, "Nothing.", text):
            assert vault.call(
                "memory_compound", query=named["memId"], modifications=content, mode="replace"
            )["success"]
        revisions = vault.call("memory_show", **named)["revisions"]
        told = [
            over_mcp(folder, "memory_diff", named),
            over_mcp(folder, "memory_diff", {**named, "revision": revisions[0]}),
            over_mcp(
                folder, "memory_diff", {**named, "revision": revisions[0], "other": revisions[2]}
            ),
            over_mcp(
                folder, "memory_show", {**named, "revision": revisions[0], "around": "deploy"}
            ),
            over_mcp(folder, "memory_show", {**named, "revision": revisions[0]}),
        ]
        assert told[0]["added"]
        assert pieces(value, json.dumps([told[0], told[2:]])) == []
        assert f"[masked: {kind}]" in told[0]["diff"]
        assert value.split("\n")[0] in vault.call("memory_diff", **named)["diff"]


@pytest.mark.promise("S74")
def test_secrets_in_remote_url_are_masked(folder: Path) -> None:
    """The password in a remote's URL is masked in git output and in sync errors."""
    value, _ = made("password in a URL")
    address = f"http://app:{value}@127.0.0.1:1/x.git"
    for line in (["init", "-q"], ["remote", "add", "origin", address]):
        subprocess.run(["git", "-C", str(folder), *line], check=True)
    for tool in ("git_init", "git_status", "git_sync", "git_status"):
        assert pieces(value, json.dumps(over_mcp(folder, tool, {}))) == [], tool


@pytest.mark.promise("S58")
def test_secrets_masking_reads_each_memory_once(folder: Path) -> None:
    """A result over MCP reads a memory once, even if a header refers to it often."""
    write(folder, "big.md", "# Big\n\n" + "lorem ipsum\n" * 1_000)
    reads, listening = list[int](), True

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "open" and str(arguments[0]).endswith("big.md"):
            reads[-1] += 1

    sys.addaudithook(note)
    for number in (10, 200):
        entries = "- {filePath: big.md, text: x}\n" * number
        write(folder, "meta.md", f"---\nid: meta\nx:\n{entries}---\n\nText.\n")
        reads.append(0)
        assert len(over_mcp(folder, "memory_show", {"memId": "meta"})["metadata"]["x"]) == number
    listening = False
    assert reads[1] <= reads[0]


SHOWN = {
    *("memory_recall", "memory_search", "memory_show", "memory_load", "memory_diff"),
    *("memory_today", "get_memories", "get_goals", "get_plans", "call_tool"),
    *("recall_memory", "recall_fact", "recall_procedure", "recall_similar_experience"),
    *("talk_user", "talk_agent", "talk_brain", "wait_for", "peek_inbox"),
    *("enter_space", "read_messages"),
}
"""Tools that return content, with its secrets if the caller is a person or a program."""
SHOWING_COMMANDS = {"path", "open", "tokens add"}
"""The same for commands that are not generated from tools."""


@pytest.mark.promise("S87")
def test_secrets_table_in_documentation_is_complete() -> None:
    """The security page lists exactly the commands that show secrets in the shell."""
    tools, others = all_tools(), all_commands()
    assert {tool.name for tool in tools if tool.reveals} == SHOWN
    assert {one.words for one in others if one.reveals} == SHOWING_COMMANDS
    text = (ROOT / "docs/guarantees/security.md").read_text("utf-8")
    (row,) = [line for line in text.splitlines() if line.startswith("| The requested content")]
    listed = set(re.findall("`([a-z -]+)`", row))
    assert listed == {tool.command for tool in tools if tool.reveals} | SHOWING_COMMANDS


@pytest.mark.promise("S87")
@pytest.mark.parametrize(
    "line",
    [
        *("stats", "tags", "orphans", "links m1", "backlinks m1", "list", "types"),
        *("review", "doctor", "log", "status", "tasks", "searches list", "trash list", "random"),
        *("inbox list", "space list", "context zebra", "active --full", "log m1"),
        *("show zebra-of-no-name", "consolidate", "list --format {title}{filePath}", "list --csv"),
    ],
)
def test_secrets_in_shell_overviews_are_masked(
    filled_with_secrets: tuple[Path, dict[str, str]], line: str
) -> None:
    """Lists, statistics and findings on the terminal do not show secrets."""
    root, told = filled_with_secrets
    ran = typed("--vault", str(root), *line.split())
    output = f"{ran.out}{ran.err}"
    assert [place for place, value in told.items() if pieces(value, output)] == []


@pytest.fixture(scope="module")
def filled_with_secrets(filled: Path) -> tuple[Path, dict[str, str]]:
    """A vault with a secret in each place, and the secrets."""
    return filled, put_secrets(filled)


def test_secrets_are_shown_by_show_and_recall_in_shell(
    filled_with_secrets: tuple[Path, dict[str, str]],
) -> None:
    """In the shell, show and recall print the file's text unmasked."""
    root, told = filled_with_secrets
    for line in (("show", "m1"), ("recall", "zebra says", "--json"), ("memories", "get")):
        place = "value" if line[0] == "memories" else "body"
        assert told[place] in typed("--vault", str(root), *line).out, line


def test_secrets_in_completions_and_suggestions_are_masked(
    filled_with_secrets: tuple[Path, dict[str, str]],
) -> None:
    """Shell completions, and the memories suggested for a wrong name, are masked."""
    from memvault.cli.complete import candidates

    root, told = filled_with_secrets
    offered = [
        f"{item}"
        for words in (["show", ""], ["list", "--tags", ""], ["list", "--type", ""], ["undo", ""])
        for item in candidates(["--vault", str(root), *words[:-1]], words[-1])
    ]
    ran = [typed("--vault", str(root), *line) for line in (["edit", "zebr"], ["path", "alph"])]
    shown = " ".join([*offered, *(f"{one.out} {one.err}" for one in ran)])
    assert "named" in shown
    assert [place for place, value in told.items() if pieces(value, shown)] == []


def test_secrets_in_import_preview_are_masked(folder: Path, tmp_path: Path) -> None:
    """The list of entries to import masks secrets in file names."""
    value, _ = made("GitHub token")
    write(tmp_path / "notes", f"{value}.md", "# A\n")
    write(tmp_path / "notes", f"{value}.png", b"\x89PNG")
    ran = typed("--vault", str(folder), "import", str(tmp_path / "notes"))
    assert "1 new note" in ran.out
    assert pieces(value, ran.out + ran.err) == []


FRONT_ENDS = ("mcp", "hook", "memory tool", "page", "graph", "site", "context")


@pytest.mark.promise("S88")
@pytest.mark.parametrize("header", ["", ALLOWED])
@pytest.mark.parametrize("front_end", FRONT_ENDS)
def test_secrets_header_applies_in_every_front_end(
    folder: Path, tmp_path: Path, front_end: str, header: str
) -> None:
    """A memory's secrets are masked everywhere, or nowhere if its header allows them."""
    value, said = made("GitHub token")
    write(
        folder,
        "memories/deploy.md",
        f"---\nid: deploy-1\ntitle: Deploy {value}\n{header}---\n\n"
        f"The deploy job reads the secret {said} every night.\n",
    )
    told = _shown_by(front_end, folder, tmp_path)
    assert "deploy job reads" in told
    assert (value in told) is bool(header)
    assert ("[masked: GitHub token]" in told) is not bool(header)


def _shown_by(front_end: str, root: Path, tmp_path: Path) -> str:
    """Return how a front end shows the only memory in a vault."""
    match front_end:
        case "mcp":
            return json.dumps(over_mcp(root, "memory_show", {"memId": "deploy-1"}))
        case "context":
            return json.dumps(
                over_mcp(root, "context", {"task": "which secret does the deploy job read"})
            )
        case "hook":
            from memvault.cli import hook

            line = hook.HookInvocation("prompt", "", str(root), None)
            return hook._response(line, {"prompt": "which secret does the deploy job read"}).text
        case "memory tool":
            from memvault.anthropic.memory_tool import MemoryFiles

            files = MemoryFiles(root)
            text = files.run("view", {"path": "/memories/deploy.md"})
            files.close()
            return text
        case "page" | "graph":
            pytest.importorskip("markdown_it", reason="pip install 'memvault[web]'")
            from memvault.web import graph_file
            from memvault.web.addresses import ServedAddresses
            from memvault.web.session import WebSession

            session = WebSession(root)
            read = session.read("deploy-1", ServedAddresses(""))
            found = f"{read.entry} {read.text.html}"
            found = graph_file.document(session)[0] if front_end == "graph" else found
            session.close()
            return found
        case _:
            pytest.importorskip("markdown_it", reason="pip install 'memvault[web]'")
            ran = typed("--vault", str(root), "export", str(tmp_path / "site"), "--to", "site")
            assert ran.code == 0, ran
            pages = (tmp_path / "site").rglob("*")
            return "".join(page.read_text("utf-8") for page in pages if page.is_file())


def test_failure_note_hides_local_paths(folder: Path) -> None:
    """A failure after a change is noted without paths that the client may not see."""
    workspace = Workspace(folder)
    caller = LOCAL._replace(may_see_paths=False)

    def present(call: Call, *_: object) -> dict[str, Any]:
        raise StorageError(f"The disk is full: {call.root}/index/terms")

    invoke.call(workspace, "memory_remember", {"title": "Tea", "content": "Green."}, caller)
    with invoke.call(workspace, "memory_undo", {}, caller, present=present) as outcome:
        (note,) = outcome.result["warnings"]
    workspace.close()
    assert "The disk is full: index/terms" in note
    assert str(folder) not in note


@pytest.mark.skipif(sys.platform == "win32", reason="the editor is a shell script")
def test_current_permission_applies_to_earlier_versions(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a memory no longer allows its secrets, a recall of an earlier version masks them."""
    value, said = made("GitHub token")
    times = "created: 2026-11-01T12:00:00Z\nmodified: 2026-11-01T12:00:00Z\n"
    deploy(folder, said, f"{times}{ALLOWED}")
    asked = {"query": "which secret does the deploy job read", "asOf": "2026-11-02"}
    workspace = Workspace(folder)

    def recalled() -> Any:
        return invoke.call_json(workspace, "memory_recall", asked, LOCAL).result["memories"]

    assert value in str(recalled())
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i.old "/^secrets:/d" "$1"\nrm "$1.old"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    succeeded(run("edit", "deploy-1"))
    (found,) = recalled()
    assert value not in str(found)
    assert "[masked: GitHub token]" in found["snippet"]


def test_comment_marker_does_not_disable_masking_in_other_values(folder: Path) -> None:
    """A comment marker in one value does not prevent secrets in another from being masked."""
    value, _ = made("GitHub token")
    header = f"note: growth was 5%%p\ntoken: {value[:20]}%%x%%{value[20:]}\n"
    write(folder, "rate.md", f"---\n{header}---\n\n# Rate\n\nThe growth rate is steady.\n")
    shown = invoke.call_json(Workspace(folder), "memory_show", {"memId": "rate"}, LOCAL).result
    assert shown["metadata"]["note"] == "growth was 5%%p"
    assert value[20:] not in json.dumps(shown)
