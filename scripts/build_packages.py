"""Build the wheel, the source distribution, the desktop bundle and the Homebrew formula.

``make packages`` runs it, writes to ``build/packages``, and starts the bundle's server with uv. The
bundle follows version 0.4 of the MCPB manifest
(https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md): it contains the wheel, and the
client's uv installs the dependencies. The formula installs the source distribution from the same
folder.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import check_dist
from memvault import __version__
from memvault.command_table import TOOLS

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "build" / "packages"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "packages", "version": "1"},
    },
}
BUNDLED = """\
[project]
name = "memvault-bundle"
version = "{version}"
requires-python = "{python}"
dependencies = ["memvault[mcp]"]

[tool.uv]
package = false

[tool.uv.sources]
memvault = {{ path = "{wheel}" }}
"""
FORMULA = """\
class Memvault < Formula
  desc "{description}"
  url "file://{source}"
  sha256 "{digest}"
  license "{license}"

  depends_on "python@3.13"

  def install
    system "python3.13", "-m", "venv", libexec
    system libexec/"bin/python", "-m", "pip", "install", "#{{buildpath}}[mcp,web]"
    bin.install_symlink libexec/"bin/memvault"
    man1.install_symlink (libexec/"share/man/man1").children
    bash_completion.install_symlink libexec/"share/bash-completion/completions/memvault"
    zsh_completion.install_symlink libexec/"share/zsh/site-functions/_memvault"
    fish_completion.install_symlink libexec/"share/fish/vendor_completions.d/memvault.fish"
  end

  test do
    system bin/"memvault", "init", "notes"
    system bin/"memvault", "--vault", "notes", "remember", "Use PostgreSQL", "Version 17."
    assert_match "Use PostgreSQL", shell_output("#{{bin}}/memvault --vault notes recall database")
  end
end
"""


def manifest() -> dict[str, Any]:
    """Return the bundle's manifest, with the core tools."""
    return {
        "manifest_version": "0.4",
        "name": PROJECT["name"],
        "version": __version__,
        "description": PROJECT["description"],
        "author": {"name": "The authors of memvault"},
        "license": PROJECT["license"],
        "keywords": PROJECT["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": [
                    *("run", "--directory", "${__dirname}"),
                    *("server.py", "${user_config.vault}"),
                ],
            },
        },
        "user_config": {
            "vault": {
                "type": "directory",
                "title": "Vault",
                "description": "Your folder of markdown notes. Existing files are not changed.",
                "default": "${HOME}/memvault",
                "required": True,
            }
        },
        "tools": [{"name": tool.tool, "description": tool.summary} for tool in TOOLS if tool.core],
        "tools_generated": True,
        "compatibility": {"runtimes": {"python": PROJECT["requires-python"]}},
    }


def bundle(wheel: Path, target: Path) -> None:
    """Write the desktop bundle of a wheel."""
    project = BUNDLED.format(
        version=__version__, python=PROJECT["requires-python"], wheel=wheel.name
    )
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(manifest(), indent=2))
        archive.writestr("pyproject.toml", project)
        archive.write(ROOT / "packaging" / "server.py", "server.py")
        archive.write(wheel, wheel.name)


def start(bundle_file: Path, place: Path, runner: Sequence[str]) -> dict[str, Any]:
    """Unpack a bundle, start its server for a new vault, and return its first response.

    ``runner`` replaces the manifest's command and its options before ``server.py``.
    """
    with zipfile.ZipFile(bundle_file) as archive:
        archive.extractall(place)
    server = json.loads((place / "manifest.json").read_text("utf-8"))["server"]
    arguments = server["mcp_config"]["args"]
    options = [
        argument.replace("${user_config.vault}", str(place / "vault"))
        for argument in arguments[arguments.index(server["entry_point"]) :]
    ]
    done = subprocess.run(
        [*runner, *options],
        cwd=place,
        input=f"{json.dumps(HELLO)}\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    response: dict[str, Any] = json.loads(done.stdout)
    return response


def formula(source: Path) -> str:
    """Return a Homebrew formula that installs a source distribution on this machine."""
    return FORMULA.format(
        description=PROJECT["description"].partition(":")[0],
        source=source,
        digest=hashlib.sha256(source.read_bytes()).hexdigest(),
        license=PROJECT["license"],
    )


def main() -> None:
    """Build all packages."""
    shutil.rmtree(TARGET, ignore_errors=True)
    wheel, source = check_dist.build(TARGET)
    bundled = TARGET / "memvault.mcpb"
    bundle(wheel, bundled)
    with tempfile.TemporaryDirectory() as folder:
        uv = [sys.executable, "-m", "uv", "run", "--quiet", "--directory", folder]
        name = start(bundled, Path(folder), uv)["result"]["serverInfo"]["name"]
        print(f"{bundled.name}: uv starts the server {name}")
    (TARGET / "memvault.rb").write_text(formula(source), "utf-8")
    for path in sorted(TARGET.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1_000_000:.1f} MB")


if __name__ == "__main__":
    main()
