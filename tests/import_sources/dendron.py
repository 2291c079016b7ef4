"""Workspaces of Dendron 0.124: a hierarchy of dotted names, a link with its label first; vaults.

The workspaces follow wiki.dendron.so; no real workspace was available.
"""

from __future__ import annotations

from pathlib import Path

from conftest import write

_TIMES = "updated: 1762164900000\ncreated: 1762161300000"


def _header(key: str, title: str) -> str:
    return f"---\nid: {key}\ntitle: {title}\ndesc: ''\n{_TIMES}\n---\n\n"


def make(folder: Path) -> Path:
    """Write the folder."""
    made = folder / "dendron"
    write(made, "dendron.yml", "version: 5\n")
    write(made, "vault/root.md", _header("root1", "Root") + "# Welcome\n")
    text = "See [[the design|proj.design]].\n\n![[proj.design#goals,1:#*]]\n"
    write(made, "vault/proj.site.md", _header("abc123", "Site") + text)
    write(made, "vault/proj.design.md", _header("def456", "Design") + "## goals\n\nSmall.\n")
    write(made, "vault/root.schema.yml", "version: 1\n")
    return made


_VAULTS = """version: 5
workspace:
  vaults: []
vaults:
  - fsPath: vault
    name: main
  - fsPath: dependencies/bees
    name: hive
    selfContained: true
"""


def make_workspace(folder: Path) -> Path:
    """Write a workspace of two vaults with notes of the same name and id."""
    made = folder / "workspace"
    write(made, "dendron.yml", _VAULTS)
    text = (
        "[[queen]] [[the other|dendron://hive/queen]] ![[dendron://hive/queen#egg:#larva]] @ann.\n"
        "\n![[queen#*]] ![[label|queen#egg,1:#*]] ![](/assets/images/a.png) #work a@ann `@ann`\n"
    )
    write(made, "vault/root.md", _header("root", "Root") + text)
    write(made, "vault/queen.md", _header("q1", "Queen") + "The first.\n")
    write(made, "vault/user.ann.md", _header("u1", "Ann") + "She keeps bees.\n")
    write(made, "vault/tags.work.md", _header("t1", "Work") + "What is to do.\n")
    write(made, "vault/proj.md", _header("p1", "Proj").replace("desc: ''", "desc: x\nstub: true"))
    write(made, "vault/assets/images/a.png", b"a picture")
    write(made, "vault/assets/data.json", b"{}")
    write(made, "dependencies/bees/notes/root.md", _header("root", "Root") + "[[queen]]\n")
    write(made, "dependencies/bees/notes/queen.md", _header("q2", "Queen") + "## egg\n")
    write(made, "vault/root.schema.yml", "version: 1\n")
    return made
