"""No code in a vault runs before its user has trusted exactly that code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Run, refused, write
from memvault import Vault, open_vault
from memvault.call import LOCAL
from memvault.tools.core import available
from memvault.vault_tools import tool_files, trust
from memvault.vault_tools.fingerprint import fingerprint_of
from memvault.workspace import Workspace
from terminal import at_terminal

SCRIPT = "#!/bin/sh\necho ran >> ../ran.txt\necho '{\"ran\": true}'\n"
TOOL = "---\ndescription: Does harm\ncommand: [sh, evil.sh]\n---\n"


@pytest.fixture
def hostile(folder: Path) -> Path:
    """A vault with a tool that creates a file in the folder in which it runs."""
    write(folder, "tools/evil.md", TOOL)
    write(folder, "tools/evil.sh", SCRIPT).chmod(0o755)
    write(folder, "tools/evil2.md", "---\ndescription: y\ncommand: ./evil.sh x\n---\n")
    write(folder, "tools/memory_recall.md", TOOL)
    write(folder, "fact/a.md", "# A\n\nwombat\n")
    return folder


def ran(folder: Path) -> bool:
    """Return whether the tool has run since the last call."""
    file = folder / "ran.txt"
    there = file.exists()
    file.unlink(missing_ok=True)
    return there


def trusted(run: Run, folder: Path) -> bool:
    """Return whether the tool may run, and check that it ran if and only if it may."""
    done = run("call", "evil", cwd=folder)
    assert ran(folder) == (done.code == 0), done
    return done.code == 0


@pytest.mark.promise("S6")
def test_trust_is_needed_in_cloned_vault(hostile: Path, run: Run, tmp_path: Path) -> None:
    """No command runs a tool of a cloned vault."""
    clone = tmp_path / "clone"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    for line in (["init", "-q"], ["add", "-f", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *line], cwd=hostile, check=True)
    subprocess.run([*git, "clone", "-q", str(hostile), str(clone)], check=True)
    called = '{"toolName": "call_tool", "parameters": {"toolName": "evil"}}'
    for line in (
        ["call", "evil"],
        ["call", "Evil", "{}"],
        ["evil"],
        ["evil", "--help"],
        ["call", "call_tool", '{"toolName": "evil"}'],
        ["call", "call_tool", called],
        ["call_tool", "evil2"],
        ["tools", "list", "--schema"],
        ["tools", "trust", "evil"],
        ["--help"],
        ["context", "wombat"],
        ["recall", "wombat"],
        ["memory_recall", "wombat"],
        ["status"],
        ["list"],
        ["tools", "untrust", "evil"],
    ):
        run(*line, cwd=clone)
        assert not ran(clone), line
    with open_vault(clone) as vault:
        failed = vault.call("evil")
        assert failed["error"]["code"] == "refused"
        assert "memvault tools trust evil" in failed["error"]["hint"]
        assert vault.call("tools_trust", name="evil")["error"]["code"] == "usage"
        assert vault.call("tools trust", name="evil")["error"]["code"] == "usage"
    assert not ran(clone)
    assert "memvault tools trust evil" in run("evil", cwd=clone).err


@pytest.mark.promise("S6")
def test_trust_is_bound_to_exact_content(hostile: Path, run: Run) -> None:
    """A changed tool or script must be trusted again; restoring the old bytes is enough."""
    assert not trusted(run, hostile)
    assert run("tools", "trust", "evil", "--yes").code == 0
    assert trusted(run, hostile)
    for path in ("tools/evil.md", "tools/evil.sh"):
        before = (hostile / path).read_bytes()
        (hostile / path).write_bytes(before + b"\n# more\n")
        assert not trusted(run, hostile)
        (hostile / path).write_bytes(before)
        assert trusted(run, hostile)
    (hostile / "tools/evil.sh").rename(hostile / "tools/old.sh")
    assert not trusted(run, hostile)
    (hostile / "tools/old.sh").rename(hostile / "tools/evil.sh")
    assert trusted(run, hostile)
    assert run("tools", "untrust", "EVIL").code == 0
    assert not trusted(run, hostile)


@pytest.mark.promise("S7")
@pytest.mark.parametrize(
    ("command", "covered"),
    [
        (["true", "../s/in.txt"], "s/in.txt"),
        (["true", "./../s/../s/in.txt"], "s/in.txt"),
        (["true", "{vault}/s/in.txt"], "s/in.txt"),
        (["true", "../../my vault/s/in.txt"], "s/in.txt"),
        (["true", "in.txt"], "tools/in.txt"),
        (["true"], "tools/deep/in.txt"),
        (["make"], "tools/Makefile"),
        (["python3", "-m", "helper"], "tools/helper.py"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_trust_covers_tools_and_command_files(
    folder: Path, run: Run, command: list[str], covered: str
) -> None:
    """Changing a file below tools/, or a vault file that a command refers to, ends trust."""
    root = folder.rename(folder.parent / "my vault")
    words = json.dumps([word.replace("{vault}", str(root)) for word in command])
    write(root, "tools/t.md", f"---\ndescription: x\ncommand: {words}\n---\n")
    write(root, "tools/other.md", "---\ndescription: x\ncommand: other\n---\n")
    for change in ("1", "2"):
        write(root, covered, f"#{change}\n")
        with open_vault(root) as vault:
            assert vault.call("t")["error"]["code"] == "refused"
        done = run("tools", "trust", "t", "--yes", cwd=root)
        assert f"until {covered} changes" in done.out
        assert "other.md" not in done.out
        with open_vault(root) as vault:
            assert "changed since it was trusted" not in str(vault.call("t"))


def test_program_is_not_searched_in_vault(
    hostile: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PATH entry inside the vault is not searched for a program without a slash."""
    monkeypatch.setenv("PATH", f"{hostile / 'tools'}{os.pathsep}{os.environ['PATH']}")
    write(hostile, "tools/evil.md", "---\ndescription: x\ncommand: evil.sh\n---\n")
    assert run("tools", "trust", "evil", "--yes").code == 0
    assert not trusted(run, hostile)


def test_trust_refuses_dotdot_after_symlink(hostile: Path, run: Run) -> None:
    """A path through a symlink and back by .. is refused; the OS resolves it differently."""
    write(hostile, "run.sh", SCRIPT).chmod(0o755)
    write(hostile, "b/run.sh", SCRIPT).chmod(0o755)
    (hostile / "b/c").mkdir()
    (hostile / "a").symlink_to("b/c")
    for command in ("../a/../run.sh", "sh ../a/../run.sh", f"sh {hostile}/a/../run.sh"):
        write(hostile, "tools/evil.md", f"---\ndescription: x\ncommand: {command}\n---\n")
        assert "a is a link" in refused(run("tools", "trust", "evil", "--yes"), 1)
        assert not trusted(run, hostile)
    write(hostile, "tools/evil.md", "---\ndescription: x\ncommand: ../b/../run.sh\n---\n")
    assert run("tools", "trust", "evil", "--yes").code == 0
    assert trusted(run, hostile)


def test_trust_refuses_overlong_command(folder: Path, run: Run) -> None:
    """A command too long to be checked makes the tool invalid."""
    words = f"[sh, '{'./' * 2_020}s/x.sh']"
    write(folder, "tools/t.md", f"---\ndescription: x\ncommand: {words}\n---\n")
    assert "longer than 4,000" in refused(run("tools", "trust", "t", "--yes"), 1)


def test_untrusted_command_files_are_not_read(hostile: Path, run: Run) -> None:
    """A command's files are not opened before it is trusted; over 50 MB cannot be trusted."""
    with open(write(hostile, "big.bin", ""), "wb") as file:
        file.truncate(10**12)  # reading this much would exceed any test's time limit
    write(hostile, "tools/evil.md", "---\ndescription: x\ncommand: cat ../big.bin\n---\n")
    assert run("tools", "list").code == 0
    assert "is not trusted here" in run("call", "evil").json["error"]["message"]
    assert "more than 50 MB" in refused(run("tools", "trust", "evil", "--yes"), 1)


def test_trust_reports_uncovered_files(folder: Path, run: Run) -> None:
    """Trusting a command that refers to a folder reports that its files can change."""
    write(folder, "tools/t.md", "---\ndescription: x\ncommand: ls .. .\n---\n")
    assert run("tools", "trust", "t", "--yes", "--json").json["notCovered"][:-1] == [".., a folder"]


def test_trust_reports_file_outside_vault(folder: Path, run: Run, tmp_path: Path) -> None:
    """A command's path outside the vault is reported as not covered by trust."""
    other = write(tmp_path, "other.py", "")
    command = f"command: [python3, ../../other.py, {other}]"
    write(folder, "tools/up.md", f"---\nname: up\ndescription: Up\n{command}\n---\n")
    shown = run("tools", "trust", "up", "--yes", "--json").json
    assert shown["notCovered"] == [
        "../../other.py, outside the vault",
        f"{other}, outside the vault",
        "files and modules that its program reads elsewhere",
    ]


def test_trust_does_not_apply_to_copied_tool(hostile: Path, run: Run, tmp_path: Path) -> None:
    """Trust applies to a tool in one vault, and a copy in another vault has none."""
    run("tools", "trust", "evil", "--yes")
    other = tmp_path / "other"
    shutil.copytree(hostile, other)
    assert trusted(run, hostile)
    assert not trusted(run, other)
    assert run("tools", "list").out.count("  trusted") == 1
    assert run("tools", "list", cwd=other).out.count("  trusted") == 0


def test_trust_stored_in_vault_is_ignored(
    hostile: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trust file in the vault, or a state folder inside a vault, has no effect."""
    state = tmp_path / "state"
    run("tools", "trust", "evil", "--yes")
    for place in (".memvault/trust", ".memvault", "trust", "tools", "state/memvault/trust"):
        shutil.copytree(state / "memvault" / "trust", hostile / place, dirs_exist_ok=True)
    shutil.rmtree(state)
    assert not trusted(run, hostile)
    monkeypatch.setenv("MEMVAULT_STATE", str(hostile / "state" / "memvault"))
    assert not trusted(run, hostile)
    assert "is in the vault" in refused(run("tools", "trust", "evil", "--yes"), 1)
    monkeypatch.setenv("MEMVAULT_STATE", "state/memvault")
    assert "not an absolute path" in refused(run("tools", "trust", "evil", "--yes"), 2)
    assert run("evil").code != 0


def test_trust_file_must_be_private(hostile: Path, run: Run, tmp_path: Path) -> None:
    """The trust file is private to its user and is ignored once others can write it."""
    run("tools", "trust", "evil", "--yes")
    folder = tmp_path / "state" / "memvault" / "trust"
    (file,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    for path in (file, folder):
        mode = path.stat().st_mode
        path.chmod(mode | 0o022)
        assert not trusted(run, hostile)
        path.chmod(mode)
        assert trusted(run, hostile)
    for text in ("", "[]", "{}", '{"digest": 1}', "\0"):
        file.write_text(text, "utf-8")
        assert not trusted(run, hostile)


def test_trust_does_not_follow_symlinks(hostile: Path, run: Run, tmp_path: Path) -> None:
    """A symlinked tool file, script or folder is not a tool that can run."""
    outside = tmp_path / "outside"
    shutil.copytree(hostile / "tools", outside)
    for name in ("evil.sh", "evil.md"):
        (hostile / "tools" / name).unlink()
        (hostile / "tools" / name).symlink_to(outside / name)
        refused(run("tools", "trust", "evil", "--yes"), 1)
        assert not trusted(run, hostile)
        (hostile / "tools" / name).unlink()
        shutil.copy(outside / name, hostile / "tools" / name)
    shutil.rmtree(hostile / "tools")
    (hostile / "tools").symlink_to(outside)
    refused(run("tools", "trust", "evil", "--yes"), 1)
    assert not trusted(run, hostile)
    assert "is a link" in run("tools", "list").err


@pytest.mark.parametrize(
    "command",
    ["python3 ../s/t.py", "python3 -E ../s/t.py", "../s/t.py", "env python3 ../s/t.py"],
)
@pytest.mark.parametrize("path", ["PATH", "PYTHONPATH", "PERL5LIB"])
def test_trusted_script_does_not_import_vault_modules(
    folder: Path,
    run: Run,
    vault: Vault,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    path: str,
) -> None:
    """No module or program in the vault shadows another, even if the user's paths include it."""
    write(folder, "tools/t.md", f"---\ndescription: x\ncommand: {command}\n---\n")
    code = "import json, os\nprint(json.dumps({'fine': os.environ.get('PERL5LIB', '/y')}))\n"
    write(folder, "s/t.py", f"#!/usr/bin/env python3\n{code}").chmod(0o755)
    for place in ("python3", "s/python3", "env", "tools/env"):
        write(folder, place, "#!/bin/sh\necho '{\"fine\": false}'\n").chmod(0o755)
    assert run("tools", "trust", "t", "--yes").code == 0
    for place in ("json.py", "s/json.py"):
        write(folder, place, "print('{\"fine\": false}'); raise SystemExit\n")
    link = folder.parent / "link"
    link.symlink_to(folder)
    entries = ["", ".", "s", f"{folder}", f"{folder}/s", f"{link}", f"{link}/s"]
    monkeypatch.setenv(path, os.pathsep.join([*entries, os.environ.get(path, "/y")]))
    assert vault.call("t") == {"success": True, "fine": "/y"}


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_trust_prompts_at_terminal(hostile: Path, run: Run, answer: str, code: int) -> None:
    """A terminal user sees the command and the covered files, and only yes grants trust."""
    came_to, shown = at_terminal(hostile, "tools", "trust", "evil", answer=f"{answer}\n")
    assert came_to == code
    assert "sh evil.sh" in shown
    assert "until tools/evil.md changes" in shown
    assert "until tools/evil.sh changes" in shown
    assert trusted(run, hostile) == (code == 0)


def test_trust_without_terminal_is_refused(hostile: Path, run: Run) -> None:
    """Without a terminal nothing is trusted, and an agent gets no hint to bypass that."""
    done = run("tools", "trust", "evil", stdin="y\n")
    assert "sh evil.sh" in refused(done, 1)
    assert "--yes" not in done.err
    assert "terminal" in done.err
    assert not trusted(run, hostile)


def test_trust_prompt_shows_hidden_characters(folder: Path, run: Run) -> None:
    """Characters that reverse or hide text are displayed as visible escapes."""
    command = '["sh", "-c", "\\u202e tcelloc"]'
    write(folder, "tools/t.md", f"---\ndescription: x\ncommand: {command}\n---\n")
    assert "\\u202e" in run("tools", "trust", "t").err


def test_restart_in_ascii_locale_imports_nothing_from_vault(folder: Path) -> None:
    """When memvault restarts for a non-UTF-8 locale, it does not import modules from the vault."""
    write(folder, "json.py", "open('ran.txt', 'w')\n")
    write(folder, "memvault.py", "open('ran.txt', 'w')\n")
    code = "import sys; from memvault.__main__ import main; sys.exit(main())"
    poor = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "list", "--json"],
        cwd=folder,
        env={**os.environ, **poor},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done
    assert not ran(folder)


@pytest.mark.promise("S7")
@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_trust_ends_if_makefile_changes(folder: Path, run: Run) -> None:
    """A tool that runs make loses trust when the Makefile in tools/ changes."""
    write(folder, "tools/Makefile", "all:\n\t@echo '{\"ran\": 1}'\n")
    write(folder, "Makefile", "all:\n\t@touch ran.txt\n")
    write(folder, "tools/t.md", "---\ndescription: x\ncommand: [make, -s]\n---\n")
    done = run("tools", "trust", "t", "--yes")
    assert "until tools/Makefile changes" in done.out
    assert "not covered: files and modules that its program reads elsewhere" in done.out
    assert run("call", "t").json["ran"] == 1
    write(folder, "tools/Makefile", "all:\n\t@touch ../ran.txt\n")
    assert "changed since it was trusted" in refused(run("t"), 1)
    (folder / "tools/Makefile").unlink()
    assert "changed since it was trusted" in refused(run("t"), 1)
    assert not (folder / "ran.txt").exists()


def test_trust_ends_if_file_is_added(folder: Path, run: Run) -> None:
    """A new file in tools/, or one that the command refers to, counts as a change."""
    write(folder, "tools/t.md", "---\ndescription: x\ncommand: [true, ../later.txt]\n---\n")
    for path in ("later.txt", "tools/GNUmakefile"):
        assert run("tools", "trust", "t", "--yes").code == 0
        with open_vault(folder) as vault:
            assert vault.call("t")["success"]
        write(folder, path, "\n")
        with open_vault(folder) as vault:
            assert "changed since it was trusted" in vault.call("t")["error"]["message"]


@pytest.mark.promise("S7")
@pytest.mark.parametrize("name", ["helper.md", "CLAUDE.md"])
def test_trust_ends_if_markdown_in_tools_changes(folder: Path, run: Run, name: str) -> None:
    """Trust covers markdown files in tools/ that do not define another tool."""
    write(folder, f"tools/{name}", "echo '{\"ran\": 1}'\n")
    write(folder, "tools/t.md", f"---\ndescription: x\ncommand: [sh, ./{name}]\n---\n")
    write(folder, "tools/other.md", "---\ndescription: x\ncommand: [sh, -c, ':']\n---\n")
    write(folder, "tools/y.sh", f". ./{name}\n")
    write(folder, "tools/u.md", "---\ndescription: x\ncommand: [sh, y.sh]\n---\n")
    assert run("tools", "trust", "u", "--yes").code == 0
    assert run("call", "u").json["ran"] == 1
    write(folder, "tools/other.md", "---\ndescription: y\ncommand: [sh, -c, ':']\n---\n")
    assert run("call", "u").json["ran"] == 1
    write(folder, f"tools/{name}", "echo '{\"ran\": 2}'\n")
    assert "changed since it was trusted" in refused(run("u"), 1)


def test_trust_check_reads_each_file_once_per_list(folder: Path) -> None:
    """Listing reads each file once however many tools are trusted; running reads it again."""
    names = [f"tool-{number}" for number in range(30)]
    script = write(folder, "tools/shared.py", "print('{\"ran\": true}')\n")
    write(folder, "tools/data.bin", b"\0" * 100_000)
    for name in names:
        command = json.dumps([sys.executable, "shared.py", name])
        write(folder, f"tools/{name}.md", f"---\ndescription: x\ncommand: {command}\n---\n")
    for kept in tool_files.read_all(folder).tools.values():
        trust.grant(folder, kept, fingerprint_of(folder, kept))
    names_read = ("shared.py", "data.bin", "tool-0.md")
    read: list[str] = []
    listening = True

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "open" and str(arguments[0]).endswith(names_read):
            read.append(Path(str(arguments[0])).name)

    sys.addaudithook(note)
    with open_vault(folder) as vault:
        listed = vault.call("get_available_tools")["tools"]
        assert [entry["trusted"] for entry in listed if "trusted" in entry] == [True] * 30
        assert sorted(set(read)) == ["data.bin", "shared.py", "tool-0.md"]
        assert [read.count(name) for name in names_read[:2]] == [1, 1]
        assert read.count("tool-0.md") <= 3  # not read once per tool
        read.clear()
        assert len(available.advertised_tools(Workspace(folder), LOCAL)) > 30
        assert [read.count(name) for name in names_read[:2]] == [1, 1]
        assert read.count("tool-0.md") <= 3
        assert vault.call(names[0])["ran"]
        listening = False
        script.write_text('print(\'{"ran": "something else"}\')\n')
        listed = vault.call("get_available_tools")["tools"]
        assert [entry["trusted"] for entry in listed if "trusted" in entry] == [False] * 30
        assert not vault.call(names[0])["success"]


@pytest.mark.parametrize("place", ["tools/lib", "tools/a/b/lib", "tools/lib.md", "tools/a.txt"])
@pytest.mark.promise("S12")
def test_trust_refuses_symlink_below_tools(folder: Path, run: Run, place: str) -> None:
    """A symlink at any depth is refused, both when trust is given and when the tool runs."""
    write(folder, "shared/x.sh", "touch ../ran.txt\n")
    command = '[sh, -c, ". lib/x.sh"]'
    write(folder, "tools/t.md", f"---\ndescription: x\ncommand: {command}\n---\n")
    link = folder / place
    link.parent.mkdir(parents=True, exist_ok=True)
    to = folder / ("shared/x.sh" if place.endswith(".txt") else "shared")
    link.symlink_to(to)
    said = refused(run("tools", "trust", "t", "--yes"), 1)
    assert f"{place} is a link" in said
    assert "replace it with a copy" in run("tools", "trust", "t", "--yes").err
    link.unlink()
    assert run("tools", "trust", "t", "--yes").code == 0
    link.symlink_to(to)
    assert f"{place} is a link" in refused(run("t"), 1)
    assert not (folder / "ran.txt").exists()


def test_untrust_of_unknown_tool_is_refused(hostile: Path, run: Run) -> None:
    """Untrusting an unknown tool fails with a hint; a deleted tool can be untrusted."""
    done = run("tools", "untrust", "nope")
    assert "No tool 'nope'" in refused(done, 1)
    assert "hint: registered tools: " in done.err
    assert "it was not trusted" in run("tools", "untrust", "evil").out
    run("tools", "trust", "evil", "--yes")
    (hostile / "tools/evil.md").unlink()
    assert run("tools", "untrust", "evil").code == 0
    assert "No tool 'evil'" in refused(run("tools", "untrust", "evil"), 1)
