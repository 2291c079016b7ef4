"""Trust covers what well-known programs read unasked in the vault's folder."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from conftest import Run, refused, write
from memvault import open_vault
from memvault.call import LOCAL
from memvault.plugins import tool_file, trust
from memvault.plugins.trust import fingerprint_of
from memvault.tools.core import available
from memvault.workspace import Workspace

READ = [
    ("make", "Makefile"),
    ("make", "GNUmakefile"),
    ("/usr/bin/make -s all", "makefile"),
    ("sh -c 'cd . && make all'", "Makefile"),
    ("""sh -c 'm"ak"e all'""", "Makefile"),
    ("bash -c'make all'", "Makefile"),
    ("env X=1 gmake", "Makefile"),
    ("just build", "justfile"),
    ("npm test", "package.json"),
    ("npx x", "package.json"),
    ("pnpm i", "pnpm-lock.yaml"),
    ("yarn x", ".yarnrc.yml"),
    ("cargo run", "Cargo.toml"),
    ("cargo run", "build.rs"),
    ("go run", "go.mod"),
    ("docker compose up", "compose.yaml"),
    ("docker-compose up", "docker-compose.yml"),
    ("podman compose up", "Containerfile"),
    ("rake", "Rakefile"),
    ("tox", "tox.ini"),
    ("nox", "noxfile.py"),
    ("pytest -q", "conftest.py"),
    ("python3 -m pytest", "pyproject.toml"),
    ("uv run x", "pyproject.toml"),
    ("poetry run x", "poetry.toml"),
    ("git status", ".git/config"),
    ("ninja", "build.ninja"),
    ("cmake .", "CMakeLists.txt"),
    ("python3 -m helper", "helper.py"),
    ("python3 -Im helper", "helper.py"),
    ("python3.11 -W error -mhelper", "helper.py"),
    ("sh -c 'X=1 python -m helper x'", "helper.py"),
    ("python3 -m helper.deep", "helper/deep/__main__.py"),
    ("python3 -m helper", "helper/other.py"),
    ("uv run python -m helper", "helper.py"),
]


@pytest.mark.parametrize(("command", "path"), READ)
def test_trust_covers_what_a_program_reads_unasked(
    folder: Path, run: Run, command: str, path: str
) -> None:
    """Where a command runs such a program, what it reads there is covered, and the rest named."""
    write(folder, path, "1\n")
    write(folder, "tools/t.md", f"---\ndescription: x\ncommand: {json.dumps(command)}\n---\n")
    shown = run("tools", "trust", "t", "--yes", "--json").json
    assert path in shown["covers"]
    assert any("reads besides in the vault's folder" in entry for entry in shown["notCovered"])
    assert f"{path.partition('/')[0]}/" not in shown["notCovered"]


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_a_changed_makefile_ends_trust(folder: Path, run: Run) -> None:
    """A tool that runs make is not trusted any more once the Makefile is another."""
    write(folder, "Makefile", "all:\n\t@echo '{\"ran\": 1}'\n")
    write(folder, "tools/t.md", "---\ndescription: x\ncommand: [make, -s]\n---\n")
    done = run("tools", "trust", "t", "--yes")
    assert "as long as Makefile stays as it is" in done.out
    assert "not covered: what make reads besides in the vault's folder" in done.out
    assert run("call", "t").json["ran"] == 1
    write(folder, "Makefile", "all:\n\t@touch ran.txt\n")
    assert "changed since it was trusted" in refused(run("t"), 1)
    assert not (folder / "ran.txt").exists()
    (folder / "Makefile").unlink()
    assert "changed since it was trusted" in refused(run("t"), 1)


def test_a_file_that_comes_later_ends_trust(folder: Path, run: Run) -> None:
    """A Makefile or module that was not there when the tool was trusted counts as a change."""
    write(folder, "tools/t.md", "---\ndescription: x\ncommand: [sh, -c, 'true make']\n---\n")
    write(folder, "tools/u.md", "---\ndescription: x\ncommand: [sh, -c, ':; python -m u']\n---\n")
    for name, path in (("t", "GNUmakefile"), ("u", "u.py")):
        assert run("tools", "trust", name, "--yes").code == 0
        with open_vault(folder) as vault:
            assert "changed since it was trusted" not in str(vault.call(name))
        write(folder, path, "\n")
        with open_vault(folder) as vault:
            assert "changed since it was trusted" in vault.call(name)["error"]["message"]


def test_a_link_in_such_a_files_place_is_refused(folder: Path, run: Run, tmp_path: Path) -> None:
    """What a program would read through a link in the vault cannot be trusted."""
    (folder / "Makefile").symlink_to(write(tmp_path, "elsewhere", "all:\n"))
    write(folder, "tools/t.md", "---\ndescription: x\ncommand: make\n---\n")
    assert "Makefile is a link" in refused(run("tools", "trust", "t", "--yes"), 1)


@pytest.mark.parametrize("command", ["tools/x.sh", "cat tools/x.py -m words", "echo x"])
def test_nothing_is_said_of_programs_that_do_not_run(folder: Path, run: Run, command: str) -> None:
    """A command that runs no such program is shown with what it names and no more."""
    for path in ("Makefile", "words.py", "tools/x.py", "tools/x.sh"):
        write(folder, path, "\n")
    write(folder, "tools/t.md", f"---\ndescription: x\ncommand: {command}\n---\n")
    shown = run("tools", "trust", "t", "--yes", "--json").json
    assert "notCovered" not in shown
    assert not {"Makefile", "words.py"} & set(shown["covers"])


def test_a_list_of_tools_reads_each_file_once(folder: Path) -> None:
    """However many tools are trusted, listing them reads a file once; running one reads it anew."""
    names = [f"tool-{number}" for number in range(30)]
    script = write(folder, "tools/shared.py", "print('{\"ran\": true}')\n")
    write(folder, "tools/data.bin", b"\0" * 100_000)
    for name in names:
        command = json.dumps([sys.executable, "tools/shared.py", name])
        write(folder, f"tools/{name}.md", f"---\ndescription: x\ncommand: {command}\n---\n")
    for kept in tool_file.read_all(folder).tools.values():
        trust.grant(folder, kept, fingerprint_of(folder, kept))
    read: list[str] = []
    listening = True

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if listening and event == "open" and str(arguments[0]).endswith(("shared.py", "data.bin")):
            read.append(Path(str(arguments[0])).name)

    sys.addaudithook(note)
    with open_vault(folder) as vault:
        listed = vault.call("get_available_tools")["tools"]
        assert [entry["trusted"] for entry in listed if "trusted" in entry] == [True] * 30
        assert sorted(read) == ["data.bin", "shared.py"]
        read.clear()
        assert len(available.advertised_tools(Workspace(folder), LOCAL)) > 30
        assert sorted(read) == ["data.bin", "shared.py"]
        assert vault.call(names[0])["ran"]
        listening = False
        script.write_text('print(\'{"ran": "something else"}\')\n')
        listed = vault.call("get_available_tools")["tools"]
        assert [entry["trusted"] for entry in listed if "trusted" in entry] == [False] * 30
        assert not vault.call(names[0])["success"]


LOADING = [
    ("node tools/x.js", "node"),
    ("/usr/bin/ruby3.2 tools/x.rb", "ruby3.2"),
    ("perl tools/x.pl", "perl"),
    ("python3 tools/x.py", "python3"),
    ("bash tools/x.sh", "bash"),
    ("sh -c 'cd x && exec \"php\" y'", "php"),
    ("tools/run", "node"),
    ("env -S tools/run", "node"),
]


@pytest.mark.parametrize(("command", "name"), LOADING)
def test_a_program_that_loads_more_is_named(
    folder: Path, run: Run, command: str, name: str
) -> None:
    """Whoever gives trust reads which interpreter loads files that trust does not cover."""
    write(folder, "tools/run", "#!/usr/bin/env -S node --no-warnings\nrequire('../shared/x')\n")
    write(folder, "tools/t.md", f"---\ndescription: x\ncommand: {json.dumps(command)}\n---\n")
    said = f"modules and files that {name} loads from elsewhere"
    assert said in run("tools", "trust", "t", "--yes", "--json").json["notCovered"]
    assert f"not covered: {said}" in run("tools", "trust", "t", "--yes").out


@pytest.mark.parametrize(
    "place", ["tools/lib", "tools/a/b/lib", "tools/lib.md", "tools/a.txt", "package/lib"]
)
def test_a_link_below_tools_is_refused(folder: Path, run: Run, place: str) -> None:
    """A linked file or folder, at any depth, is refused as trust is given and as a tool runs."""
    write(folder, "shared/x.sh", "touch ran.txt\n")
    write(folder, "package/__main__.py", "print(1)\n")
    command = '[sh, -c, "true tools/t.md python -m package; . tools/lib/x.sh"]'
    write(folder, "tools/t.md", f"---\ndescription: x\ncommand: {command}\n---\n")
    link = folder / place
    link.parent.mkdir(parents=True, exist_ok=True)
    to = folder / ("shared/x.sh" if place.endswith(".txt") else "shared")
    link.symlink_to(to)
    said = refused(run("tools", "trust", "t", "--yes"), 1)
    assert f"{place} is a link" in said
    assert "put a copy in its place" in run("tools", "trust", "t", "--yes").err
    link.unlink()
    assert run("tools", "trust", "t", "--yes").code == 0
    link.symlink_to(to)
    assert f"{place} is a link" in refused(run("t"), 1)
    assert not (folder / "ran.txt").exists()
