"""A malicious repository cannot run programs that its user has not explicitly allowed.

A vault may be unpacked with its ``.git``, whose settings, hooks and pipes git would use.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from conftest import Run, refused, sampled, succeeded, write
from git_clones import cloned, git
from memvault import Vault, grants, open_vault
from memvault.call import Call, Caller
from memvault.errors import Refused
from memvault.git.sync import sync
from memvault.tools.core.messages import render
from memvault.workspace import Workspace
from terminal import at_terminal

CLIENT = Caller(may_run_programs=False, may_see_paths=False)
"""A client over MCP whose server was started without ``--programs``."""
EVIL = "evil"
"""A placeholder for the attacker's program in files that a test writes."""
AUTOCOMMIT = "version = 1\n\n[git]\nautocommit = true\n"
UNFINISHED = ".git/refs/worktree/memvault-sync"
"""The ref of the commit that a killed sync was checking out."""


pytestmark = pytest.mark.usefixtures("nobody")


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The file that only the attacker's program writes."""
    return tmp_path / "ran"


@pytest.fixture
def begun(folder: Path) -> Path:
    """A vault in a repository in which git has not been approved yet."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def configure(folder: Path, text: str) -> None:
    """Append text to a repository's settings."""
    with (folder / ".git/config").open("ab") as file:
        file.write(text.encode())


def program(ran: Path, file: Path) -> str:
    """Write the attacker's program; return its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho $0 >>'{ran}'\ncat\n")
    file.chmod(0o755)
    return str(file)


def filtered(folder: Path, ran: Path) -> None:
    """Create a repository with an unfinished merge and a filter over every file."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    write(folder, "a.md", "zebra\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "First")
    (folder / ".git/MERGE_HEAD").write_text(git(folder, "rev-parse", "HEAD"))
    evil = program(ran, folder / "evil.sh")
    for name in ("filter.x.clean", "filter.x.process", "core.fsmonitor"):
        git(folder, "config", name, evil)
    write(folder, ".gitattributes", "* filter=x\n")
    os.utime(folder / "a.md", (1, 1))  # so that git reads it again
    ran.unlink(missing_ok=True)


def lazy(folder: Path, ran: Path) -> None:
    """Create a repository without some objects, which git would fetch with a configured program."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    evil = program(ran, folder / "evil.sh")
    missing = "1234567890123456789012345678901234567890"
    (folder / ".git/refs/remotes/origin").mkdir(parents=True)
    write(folder, ".git/refs/heads/main", f"{missing}\n")
    write(folder, ".git/refs/remotes/origin/main", f"{missing[::-1]}\n")
    settings = {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": "ssh://nowhere.invalid/x",
        "remote.origin.promisor": "true",
        "core.sshCommand": evil,
        "branch.main.remote": "origin",
        "branch.main.merge": "refs/heads/main",
    }
    for name, value in settings.items():
        subprocess.run(
            ["git", "config", "--file", str(folder / ".git/config"), name, value], check=True
        )
    ran.unlink(missing_ok=True)


def pulled(folder: Path, ran: Path) -> None:
    """Create a repository that configures the remote's program."""
    lazy(folder, ran)
    file = ["git", "config", "--file", str(folder / ".git/config")]
    program(ran, folder / "evil.sh")
    subprocess.run([*file, "remote.origin.url", str(folder)], check=True)
    subprocess.run([*file, "remote.origin.uploadpack", str(folder / "evil.sh")], check=True)


KINDS = {"filter": filtered, "ssh": lazy, "uploadpack": pulled}


@pytest.mark.promise("S21")
@pytest.mark.parametrize("kind", KINDS)
def test_status_runs_nothing_from_untrusted_repository(folder: Path, ran: Path, kind: str) -> None:
    """Status never runs a filter, monitor or transport from .git, in the shell or over MCP."""
    KINDS[kind](folder, ran)
    with open_vault(folder) as vault:
        found = vault.call("git_status")
    assert found["success"], found
    assert (found["repository"], found["branch"]) == (True, "main")
    assert "git_init" in found["todo"][-1]
    workspace = Workspace(folder)
    with pytest.raises(Refused, match="not approved on this machine") as refused:
        sync(Call(workspace, CLIENT))
    workspace.close()
    assert "`git_init`" in render(refused.value.hint, None, CLIENT)
    assert not ran.exists()


@pytest.mark.promise("S28")
def test_doctor_runs_nothing_from_untrusted_repository(
    begun: Path, ran: Path, vault: Vault
) -> None:
    """Doctor does not run hooks, filters or monitors, and an MCP sync is refused first."""
    evil = program(ran, begun / "evil.sh")
    for name in ("pre-commit", "post-index-change", "reference-transaction"):
        program(ran, begun / ".git/hooks" / name)
    git(begun, "config", "filter.x.clean", evil)
    git(begun, "config", "core.fsmonitor", evil)
    write(begun, ".gitattributes", "* filter=x\n")
    write(begun, "a.md", "zebra\n")
    ran.unlink(missing_ok=True)
    workspace = Workspace(begun)
    with pytest.raises(Refused, match="not approved on this machine"):
        sync(Call(workspace, CLIENT))
    workspace.close()
    assert vault.call("vault_doctor", fix=True)["success"]
    assert not ran.exists()


@pytest.mark.promise("S21", "S28")
@pytest.mark.parametrize("asks", [True, False], ids=["hostile", "harmless"])
def test_no_command_starts_git_before_approval(
    folder: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """Until git init or sync is confirmed in a vault, no command starts a git process."""
    if asks:
        filtered(folder, tmp_path / "ran")
    else:
        git(folder, "init", "--quiet", "--initial-branch=main")
        write(folder, "a.md", "zebra\n")
    write(folder, "memvault.toml", AUTOCOMMIT)
    log, real = tmp_path / "log", shutil.which("git")
    write(tmp_path, "bin/git", f"#!/bin/sh\necho $* >>'{log}'\nexec {real} \"$@\"\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for command in (
        ("git", "status"), ("status",), ("doctor",), ("doctor", "--fix"), ("recall", "zebra"),
        ("context",), ("log",), ("remember", "New", "Text"), ("undo",), ("show", "a.md"),
        ("setup", "claude-code", "--dry-run"),
    ):  # fmt: skip
        assert run(*command).code in (0, 1), command
    if asks:
        assert "memvault git sync --confirm" in run("git", "sync").err
        assert "memvault git init --confirm" in run("git", "init").err
    assert not log.exists(), log.read_text()
    succeeded(run("git", "init", "--confirm", "true"))
    assert log.exists()


@pytest.mark.promise("S56")
def test_named_pipe_in_git_folder_is_refused(begun: Path, run: Run) -> None:
    """A named pipe in place of one of git's files is reported, before and after approval."""
    head = begun / ".git/HEAD"
    head.unlink()
    os.mkfifo(head)
    succeeded(run("git", "status"))
    for command in ("init", "sync"):
        assert "HEAD" in refused(run("git", command), 1)
    head.unlink()
    head.write_text("ref: refs/heads/main\n")
    succeeded(run("git", "init"))
    for name in ("MERGE_HEAD", "index", "info/exclude", "refs/heads/main", "packed-refs"):
        file = begun / ".git" / name
        before = file.read_bytes() if file.exists() else None
        file.unlink(missing_ok=True)
        os.mkfifo(file)
        assert name in refused(run("git", "status"), 1)
        file.unlink()
        if before is not None:
            file.write_bytes(before)
    succeeded(run("git", "status"))


@pytest.mark.promise("S56")
def test_git_blocked_by_named_pipe_times_out(
    folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a named pipe blocks git, the call times out with a hint that mentions pipes."""
    assert vault.call("git_init")["success"]
    (folder / "deep").mkdir()
    os.mkfifo(folder / "deep/.gitignore")
    write(folder, "deep/a.md", "x\n")
    monkeypatch.setattr("memvault.repository.program._SECONDS", 0.5)
    failed = vault.call("git_status")["error"]
    assert failed["code"] == "timed_out", failed
    assert "pipe" in failed["hint"]


@pytest.mark.promise("S27")
def test_git_worktree_outside_vault_is_refused(folder: Path, vault: Vault, tmp_path: Path) -> None:
    """After approval, a core.worktree outside the vault is refused without being read."""
    assert vault.call("git_init")["success"]
    write(tmp_path, "elsewhere/private.md", "zebra\n")
    git(folder, "config", "core.worktree", str(tmp_path / "elsewhere"))
    for tool in ("git_status", "git_init", "git_sync"):
        failed = vault.call(tool)["error"]
        assert "core.worktree" in failed["message"], failed
    git(folder, "--git-dir=.git", "config", "core.worktree", str(folder))
    found = vault.call("git_status")
    assert found["changed"] == 3, found  # memvault.toml, .gitignore, .gitattributes


@pytest.mark.promise("S27")
def test_missing_git_object_is_not_fetched(folder: Path, ran: Path, vault: Vault) -> None:
    """After approval, a missing git object is an error and does not open a connection."""
    lazy(folder, ran)
    assert vault.call("git_init", confirm=True)["success"]
    vault.call("git_status")
    assert not ran.exists()


@pytest.mark.promise("S27")
def test_nested_repository_runs_nothing(folder: Path, ran: Path, vault: Vault) -> None:
    """A repository nested in the vault's, such as a submodule, cannot run anything."""
    assert vault.call("git_init")["success"]
    inner = folder / "sub"
    inner.mkdir()
    filtered(inner, ran)
    (inner / ".git/MERGE_HEAD").unlink()
    git(folder, "-c", "protocol.file.allow=always", "-c", "core.fsmonitor=false",
        "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")  # fmt: skip
    write(folder, ".gitmodules", '[submodule "sub"]\npath = sub\nurl = ./sub\nignore = none\n')
    write(folder, "memvault.toml", AUTOCOMMIT)
    with open_vault(folder) as again:
        assert again.call("git_status")["success"]
        again.call("memory_remember", title="Wombats", content="Dig.", memoryType="fact")
        again.call("git_sync")
    assert not ran.exists()


@pytest.mark.parametrize(
    ("named", "setting", "files"),
    [
        ("hooks/pre-commit", "", {".git/hooks/pre-commit": EVIL}),
        ("filter.x.clean", "filter.x.clean ./evil.sh", {".gitattributes": "*.md filter=x\n"}),
        ("include.path", "include.path ../more", {"more": "[core]\n\tsshCommand = ./evil.sh\n"}),
        ("info/attributes", "filter.x.clean ./evil.sh", {".git/info/attributes": "* filter=x\n"}),
        ("core.hookspath", "core.hooksPath inner", {"inner/pre-commit": EVIL}),
        ("core.sshcommand", "core.sshCommand ./evil.sh", {}),
    ],
)
@pytest.mark.promise("S22")
def test_replaced_git_repository_needs_new_approval(
    folder: Path, ran: Path, vault: Vault, named: str, setting: str, files: dict[str, str]
) -> None:
    """Approval covers .git as it was; a replaced repository is reported and needs approval."""
    write(folder, "memvault.toml", AUTOCOMMIT)
    assert vault.call("git_init")["success"]
    shutil.rmtree(folder / ".git")
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name, text in {**files, "evil.sh": EVIL}.items():
        if text == EVIL:
            program(ran, folder / name)
        else:
            write(folder, name, text)
    if setting:
        git(folder, "config", *setting.split())
    ran.unlink(missing_ok=True)
    with open_vault(folder) as again:
        made = again.call("memory_remember", title="Wombats", content="Dig.", memoryType="fact")
        assert made["success"]
        assert named in made["warnings"][0].lower()
        for tool in ("git_sync", "git_init"):
            failed = again.call(tool)
            assert failed["error"]["code"] == "refused"
            assert named in failed["error"]["message"].lower()
            assert failed["confirmToken"] in failed["error"]["hint"]
            assert any(named in entry.lower() for entry in failed["runs"])
        assert not ran.exists()
        assert again.call("git_init", confirm="abc")["error"]["code"] == "conflict"
        token = again.call("git_init")["confirmToken"]
        assert again.call("git_init", confirm=token)["success"]
        more = again.call("memory_compound", query=made["memId"], modifications="More.")
        assert "warnings" not in more


@pytest.mark.parametrize(
    "file", [".git/hooks/pre-commit", ".git/info/attributes", "inner/pre-commit", "more.txt"]
)
@pytest.mark.promise("S22")
def test_changed_git_hook_needs_new_approval(begun: Path, vault: Vault, file: str) -> None:
    """A change to a hook, or to a file used in the settings, needs approval again."""
    write(begun, file, "#!/bin/sh\n").chmod(0o755)
    git(begun, "config", "core.hooksPath", "inner")
    git(begun, "config", "include.path", "../more.txt")
    write(begun, "more.txt", "[user]\n" if file != "more.txt" else "")
    assert vault.call("git_init", confirm=True)["success"]
    assert "warnings" not in vault.call("git_status")
    write(begun, file, "#!/bin/sh\nexit 1\n" if file != "more.txt" else "[core]\n\tpager = x\n")
    warned = vault.call("git_status")["warnings"][0]
    assert Path(file).name in warned or "core.pager" in warned


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tx = a\\\n[user]\n\tname = {}\n\thooksPath = {}\n",
        "[core] hooksPath = {}\n",
        "[user][core]\n\thooksPath = {}\n",
        "[CORE]\n\thooksPath = {}\n",
        '[user]\n\tname = "a\\\n[core]\n\thookspath = {}\n',
        "[user]\n\tname = x\n[alias]\n\tsshCommand = x\n[core]\n\tsshCommand = {}\n",
        "[include] path = {}\n",
        '[remote "origin"]\n\turl = ext::{}\n',
        '[remote "origin"]\n\turl = -{}\n',
        '[remote "--upload-pack={}"]\n\turl = ssh://example.org/x\n',
        '[remote "origin"]\n\turl = {}\n',
        '[branch "main"]\n\tremote = {}\n\tmerge = refs/heads/main\n',
        '[remote "origin"]\n\turl = https://example.org/x\n\tfetch = +refs/heads/*:refs/heads/*\n',
        "[merge]\n\tdriver = {}\n",
        '[branch "main"]\n\tmergeOptions = --squash\n',
        "\ufeff[core]\n\tfsmonitor = {}\n",
        '[remote "origin"]\n\turl = C:x\n',
    ],
)
@pytest.mark.promise("S26", "S33")
def test_git_setting_is_detected_in_any_spelling(
    begun: Path, ran: Path, vault: Vault, text: str
) -> None:
    """Git does not run before approval of an executable setting in any spelling."""
    evil = program(ran, begun / "evil.sh")
    configure(begun, text.replace("{}", evil))
    assert vault.call("git_init")["error"]["code"] == "refused"
    assert not ran.exists()


@pytest.mark.promise("S26")
def test_harmless_git_settings_need_no_approval(begun: Path, vault: Vault, run: Run) -> None:
    """A plain clone, a network remote and a user name need no approval."""
    for url in ("https://example.org/a.git", "git@example.org:me/notes.git", "ssh://me@h/x"):
        git(begun, "remote", "add", "origin", url)
        git(begun, "config", "user.name", "Me O'Neill")
        git(begun, "config", "branch.main.remote", "origin")
        git(begun, "config", "branch.main.merge", "refs/heads/main")
        assert "warnings" not in vault.call("git_init")
        git(begun, "remote", "remove", "origin")
    succeeded(run("git", "init"))
    git(begun, "remote", "add", "origin", "../shared.git")
    assert "remote.origin.url" in vault.call("git_sync")["error"]["message"]


@pytest.mark.promise("S22")
def test_git_init_asks_on_terminal(begun: Path, ran: Path) -> None:
    """A terminal user sees what git would run and is asked; answering no changes nothing."""
    program(ran, begun / ".git/hooks/pre-commit")
    for answer, code in (("n", 1), ("y", 0)):
        returned, shown = at_terminal(begun, "git", "init", answer=f"{answer}\n")
        assert "hooks/pre-commit" in shown
        assert returned == code, shown
        assert (begun / ".gitattributes").exists() == (answer == "y")
    assert not ran.exists()


def test_git_approval_without_digest_stays_valid(begun: Path, vault: Vault) -> None:
    """After an update, an old approval stays valid if the repository cannot run anything."""
    git(begun, "config", "merge.memvault.driver", "memvault git merge-file %O %A %B %L %P")
    grants.add(begun, "git", "repository", {"folder": str(begun / ".git")})
    assert vault.call("git_status")["changed"] == 1
    git(begun, "config", "core.pager", "less")
    assert "core.pager" in vault.call("git_status")["warnings"][0]


def test_git_init_rechecks_repaired_repository(folder: Path, ran: Path, vault: Vault) -> None:
    """Hooks that an incomplete repository gains when git init repairs it need approval too."""
    write(folder, ".git/HEAD", "ref: refs/heads/main\n")
    write(folder, ".git/commondir", "../other\n")
    write(folder, "other/config", "[core]\n\tbare = false\n")
    program(ran, folder / "other/hooks/post-index-change")
    assert vault.call("git_init")["error"]["code"] == "refused"
    vault.call("git_sync")
    vault.call("git_status")
    assert not ran.exists()


def test_fsmonitor_socket_in_git_folder_is_allowed(
    folder: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket that git's file monitor leaves in .git does not block any command."""
    assert vault.call("git_init")["success"]
    monkeypatch.chdir(folder)  # a socket's path has 107 bytes at most
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(".git/fsmonitor--daemon.ipc")
        assert vault.call("git_status")["success"]


def repository_as_remote(folder: Path, ran: Path, name: str = "origin") -> None:
    """Write a bare repository into the vault whose hook records that it ran."""
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", name)
    program(ran, folder / name / "hooks/pre-receive")


@pytest.mark.parametrize(
    "text",
    [
        '[remote "origin"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
        '[remote "origin"]\n\tpushurl = https://example.org/x\n',
        '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
        '[branch "main"]\n\tpushRemote = origin\n',
        "[remote]\n\tpushDefault = origin\n",
        '[remote "origin"]\n\turl = https://example.org/x\n\turl =\n',
        '[remote "origin"]\n\turl\n',
        '[remote "Origin"]\n\turl = https://example.org/x\n[branch "main"]\n\tremote = origin\n',
    ],
)
@pytest.mark.promise("S24")
def test_git_remote_without_url_needs_approval(
    begun: Path, ran: Path, vault: Vault, text: str
) -> None:
    """A remote without a URL, whose name git could take for a folder, needs approval first."""
    repository_as_remote(begun, ran)
    configure(begun, text)
    failed = vault.call("git_sync")
    assert failed["error"]["code"] == "refused", failed
    assert "remote.origin.url = origin" in failed["runs"]
    assert not ran.exists()


@pytest.mark.promise("S24")
def test_url_from_conditional_include_needs_approval(begun: Path, vault: Vault) -> None:
    """A remote URL in a conditionally included file does not replace the approval question."""
    write(begun, ".git/more", '[remote "origin"]\n\turl = https://example.org/x\n')
    git(begun, "config", "includeIf.onbranch:other.path", "more")
    git(begun, "config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    assert "remote.origin.url = origin" in vault.call("git_init")["runs"]


@pytest.mark.promise("S24")
@pytest.mark.parametrize("name", ["origin", "a origin", "a\u2028remote.origin"])
def test_sync_skips_remote_without_url(begun: Path, ran: Path, vault: Vault, name: str) -> None:
    """Sync pushes only to a remote that has a URL, even after everything was approved."""
    repository_as_remote(begun, ran)
    git(begun, "config", f"remote.{name}.fetch", "+refs/heads/*:refs/remotes/origin/*")
    if name != "origin":
        git(begun, "config", f"remote.{name}.url", "https://nowhere.invalid/x")
    failed = vault.call("git_sync", confirm=True)["error"]
    assert name == "origin" or "nowhere.invalid" in failed["message"], failed
    assert not ran.exists()


@pytest.mark.promise("S26")
@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2028", "\x85"])
@pytest.mark.parametrize("setting", ["hooksPath", "path"])
def test_git_config_trailing_unicode_blank_is_refused(
    begun: Path, ran: Path, vault: Vault, blank: str, setting: str
) -> None:
    """A configured path that ends with a Unicode blank is refused, because git would keep it."""
    if setting == "hooksPath":
        program(ran, begun / f"h{blank}" / "pre-commit")
        text = f"[core]\n\thooksPath = h{blank}\n"
    else:
        program(ran, begun / "hooks/pre-commit")
        write(begun, f".git/inc{blank}", "[core]\n\thooksPath = hooks\n")
        text = f"[include]\n\tpath = inc{blank}\n"
    configure(begun, text)
    failed = vault.call("git_sync", confirm=True)["error"]
    assert failed["message"].startswith("config cannot be read"), failed
    assert not ran.exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(
            ("filter.f.clean", command)
            for command in (
                'sh "clean.sh"',
                "sh 'clean.sh'",
                "sh clean.sh # as ever",
                "true; sh clean.sh",
                "true;sh<clean.sh",
                "sh $(echo clean.sh)",
                "sh `echo clean.sh`",
                "F=clean.sh; sh $F",
                "sh ./\\clean.sh",
                "sh $PWD/clean.sh",
                'sh "a clean.sh"',
                "awk -fclean.sh",
                "!./clean.sh",
            )
        ),
        ("gpg.program", "named #1"),
        ("core.attributesFile", "named #1"),
        ("core.askPass", "named #1"),
    ],
)
@pytest.mark.promise("S22")
def test_git_setting_approval_covers_referenced_file(
    begun: Path, vault: Vault, setting: str, value: str
) -> None:
    """A change to a file in the vault needs approval if a setting refers to it with any quoting."""
    names = ("a clean.sh", "named #1")
    name = next((name for name in names if name in value), "clean.sh")
    write(begun, name, "cat\n")
    git(begun, "config", setting, value)
    assert vault.call("git_init", confirm=True)["success"]
    assert "warnings" not in vault.call("git_status")
    write(begun, name, "touch ran; cat\n")
    assert name in vault.call("git_status")["warnings"][0]


@pytest.mark.promise("S25")
def test_git_include_through_symlink_is_followed(begun: Path, ran: Path, vault: Vault) -> None:
    """A config included through a symlink resolves its own includes from the symlink's folder."""
    program(ran, begun / "hooks/pre-commit")
    write(begun, ".git/z/real.inc", "[include]\n\tpath = more.inc\n")
    write(begun, ".git/z/more.inc", "")
    write(begun, ".git/a/more.inc", "[core]\n\thooksPath = hooks\n")
    (begun / ".git/a/link.inc").symlink_to("../z/real.inc")
    git(begun, "config", "include.path", "a/link.inc")
    assert git(begun, "config", "core.hooksPath").strip() == "hooks"
    runs = vault.call("git_init")["runs"]
    assert "core.hookspath = hooks" in [run.lower() for run in runs]
    assert "hooks/pre-commit" in runs


@pytest.mark.promise("S25")
@pytest.mark.parametrize("include", ["include.path", "includeIf.gitdir:**.path"])
def test_included_command_file_is_read_as_git_config(
    begun: Path, ran: Path, vault: Vault, include: str
) -> None:
    """A file that is both a filter command and a config include is also parsed as config."""
    program(ran, begun / "hooks/pre-commit")
    write(begun, "inc", "[core]\n\thooksPath = hooks\n")
    git(begun, "config", "filter.f.clean", "inc")
    git(begun, "config", include, "../inc")
    runs = vault.call("git_init")["runs"]
    assert {"inc", "core.hookspath = hooks", "hooks/pre-commit"} <= {run.lower() for run in runs}


@pytest.mark.parametrize(
    "text",
    [
        '[include]\n\tpath = "inc"\n',
        "[include]\n\tpath = inc # as ever\n",
        "[include]\r\n\tpath = in\\\r\nc\r\n",
        '[includeIf "gitdir:**"]\n\tpath = "inc"\n',
        '[includeIf "gitdir:\\*\\*"]\n\tpath = inc\n',
    ],
)
@pytest.mark.promise("S25")
def test_unparsable_git_include_is_refused(begun: Path, vault: Vault, text: str) -> None:
    """A git config include that memvault cannot parse the way git does is refused."""
    write(begun, ".git/inc", "[core]\n\thooksPath = hooks\n")
    configure(begun, text)
    assert git(begun, "config", "core.hooksPath").strip() == "hooks"
    failed = vault.call("git_init", confirm=True)["error"]
    assert failed["message"].startswith("config cannot be read"), failed


@pytest.mark.promise("S25")
def test_circular_git_includes_end(begun: Path, vault: Vault) -> None:
    """Config files that include themselves under different paths are read once per path."""
    (begun / ".git/a").mkdir()
    lines = "".join(f"\tpath = {'a/../' * count}inc\n" for count in range(15))
    write(begun, ".git/inc", f"[include]\n{lines}")
    git(begun, "config", "include.path", "inc")
    assert len(vault.call("git_init")["runs"]) == 15


@sampled(4)
@pytest.mark.parametrize(
    "what",
    ["hook", "new hook", "linked hook", "smudge", "new smudge", "folder of a smudge", "include"],
)
@pytest.mark.promise("S23")
def test_sync_does_not_run_pushed_files(tmp_path: Path, ran: Path, what: str) -> None:
    """A pushed replacement for a file that git was approved to run is refused and not run."""
    for one, two in cloned(tmp_path):
        write(one.root, ".gitattributes", "*.md -text merge=memvault\nz.txt filter=f\n")
        write(one.root, "z.txt", "text\n")
        if not what.startswith("new"):
            write(one.root, "hooks/pre-push", "#!/bin/sh\nexit 0\n").chmod(0o755)
            write(one.root, "a/smudge.sh", "cat\n")
        one.sync()
        two.sync()
        if what.endswith("hook"):
            two.git("config", "core.hooksPath", "hooks")
            name = "hooks/pre-push"
            if what.startswith("linked"):
                two.git("config", "--unset", "core.hooksPath")
                (two.root / ".git/hooks").mkdir(exist_ok=True)
                (two.root / ".git/hooks/pre-push").symlink_to("../../hooks/pre-push")
        elif what == "include":
            two.git("config", "include.path", "../shared.inc")
            name = "shared.inc"
        else:
            two.git("config", "filter.f.smudge", 'sh "a/smudge.sh"')
            two.git("config", "filter.f.clean", "cat")
            name = "a/smudge.sh"
        write(two.root, "own.md", "zebra\n")
        two.sync()
        one.sync()
        if what.startswith("folder"):
            program(ran, one.root / "b/smudge.sh")
            shutil.rmtree(one.root / "a")
            (one.root / "a").symlink_to("b")
            name = "a"
        elif what == "include":
            evil = program(ran, one.root / "evil.sh")
            write(one.root, name, f'[filter "f"]\n\tsmudge = sh {Path(evil).name}\n')
        else:
            program(ran, one.root / name)
        write(one.root, "z.txt", "other text\n")
        one.sync()
        write(two.root, "own.md", "zebras\n")
        failed = two.vault.call("git_sync")
        assert not ran.exists()
        assert failed["error"]["code"] == "refused", failed
        assert f"{name} " in failed["error"]["message"]
        two.git("pull", "--quiet", "--rebase")
        ran.unlink(missing_ok=True)
        assert two.vault.call("git_sync")["confirmToken"]
        assert not ran.exists()
        two.sync()


@pytest.mark.promise("S33")
def test_forged_sync_ref_is_not_passed_as_git_option(
    begun: Path, vault: Vault, tmp_path: Path
) -> None:
    """A forged ref of an unfinished sync is never passed to git as an option."""
    git(begun, "remote", "add", "origin", "../shared.git")
    file = tmp_path / "outside"
    write(begun, UNFINISHED, f"--output={file}\n")
    vault.call("git_sync", confirm=True)
    assert not file.exists()


@pytest.mark.promise("S23")
def test_unfinished_sync_ref_cannot_replace_hook(begun: Path, ran: Path, vault: Vault) -> None:
    """A forged ref of an unfinished sync cannot replace an approved hook."""
    program(ran, begun / "hooks/pre-commit")
    git(begun, "add", "--all")
    git(begun, "commit", "--quiet", "--message", "First")
    write(begun, "hooks/pre-commit", "#!/bin/sh\n")
    git(begun, "add", "--all")
    new = git(begun, "commit-tree", "-m", "x", git(begun, "write-tree").strip())
    git(begun, "reset", "--quiet")
    git(begun, "config", "core.hooksPath", "hooks")
    git(begun, "remote", "add", "origin", "../shared.git")
    write(begun, UNFINISHED, new)
    write(begun, "note.md", "zebra\n")
    vault.call("git_sync", confirm=True)
    assert not ran.exists()
    assert "note.md" in git(begun, "ls-files")
