"""List files that programs automatically read as instructions, settings or code.

An agent program reads ``AGENTS.md`` in its working directory, an editor reads ``.vscode``, and npm
reads ``package.json``. Such a file from a stranger could instruct the user's agents or run code. An
import leaves these files out, a git sync reports or refuses them, and doctor lists them.

Two kinds of files are not listed: files that a program reads only on request, such as aider's
``CONVENTIONS.md``, and files that a program reads only in its own folder, such as OpenClaw's
``SOUL.md`` and ``MEMORY.md``, because notes have such names. ``repository.approval`` checks git's
own files.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from memvault.vault.names import names_folded

Reader = Literal["", "instructions", "settings"]
"""How programs use a file; empty if no program reads it automatically."""

_INSTRUCTIONS = frozenset(
    (
        # Instructions for agent programs, which also read these files in nested folders.
        *("agents.md", "agent.md", "agents.override.md", "agents.local.md", "claude.md"),
        *("claude.local.md", "gemini.md", "qwen.md", "crush.md", "warp.md"),
        *("copilot-instructions.md", "skill.md"),
        *(".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".goosehints", ".rules"),
        *(".kilocoderules", ".augment-guidelines", ".openhands_instructions"),
    )
)
_INSTRUCTION_ENDINGS = (".instructions.md", ".prompt.md", ".chatmode.md", ".agent.md", ".mdc")
"""Suffixes of instruction files for VS Code, Copilot and Cursor."""
_SETTINGS = frozenset(
    (
        # Agent programs: MCP servers, hooks and permissions.
        *("opencode.json", "opencode.jsonc", "mcp.json", "crush.json", "gemini-extension.json"),
        *(".mcp.json", ".opencode.json", ".crush.json", ".claude.json"),
        # Shells and version managers, which load these on entering the folder.
        *(".env", ".envrc", ".tool-versions", "mise.toml", ".mise.toml", ".nvmrc", ".node-version"),
        *(".python-version", ".ruby-version", ".sdkmanrc"),
        # Editors and debuggers, which run these on opening the folder.
        *(".dir-locals.el", ".dir-locals-2.el", ".exrc", ".vimrc", ".gvimrc", ".nvimrc"),
        *(".nvim.lua", ".lvimrc", ".lldbinit", ".gdbinit", ".sublime-project"),
        # Interpreters and package managers, which run code from the working directory.
        *("sitecustomize.py", "usercustomize.py", ".pythonrc", ".pdbrc", ".irbrc"),
        *("deno.json", "deno.jsonc", "bunfig.toml", "lerna.json", "nx.json", "turbo.json"),
        *(".eslintrc.js", ".eslintrc.cjs", "eslint.config.js", "eslint.config.mjs"),
        *(".prettierrc.js", "prettier.config.js", "babel.config.js", "jest.config.js"),
        *("vite.config.js", "vite.config.ts", "webpack.config.js", "gruntfile.js", "gulpfile.js"),
        *("gemfile", "guardfile", "podfile", "vagrantfile", "fastfile"),
        *("taskfile.yml", "taskfile.yaml", "build.gradle", "build.gradle.kts", "settings.gradle"),
        *("pom.xml", "build.xml", "meson.build", "sconstruct", "snakefile", "tiltfile"),
        *("composer.json", "mix.exs", "rebar.config", "shard.yml", "dune-project", "flake.nix"),
        *("shell.nix", "default.nix", "devbox.json", "pixi.toml", "pipfile"),
        # Build tools, test runners and containers.
        *(".dockerignore", ".justfile", ".npmrc", ".pnpmfile.cjs", ".pre-commit-config.yaml"),
        *(".pre-commit-hooks.yaml", ".pytest.ini", ".yarnrc", ".yarnrc.yml", "build.ninja"),
        *("build.rs", "cargo.lock", "cargo.toml", "cmakelists.txt", "cmakepresets.json"),
        *("cmakeuserpresets.json", "compose.override.yaml", "compose.override.yml"),
        *("compose.yaml", "compose.yml", "conftest.py", "containerfile"),
        *("docker-compose.override.yaml", "docker-compose.override.yml", "docker-compose.yaml"),
        *("docker-compose.yml", "dockerfile", "gnumakefile", "go.mod", "go.sum", "go.work"),
        *("justfile", "makefile", "noxfile.py", "package-lock.json", "package.json"),
        *("pnpm-lock.yaml", "pnpm-workspace.yaml", "poetry.lock", "poetry.toml"),
        *("pyproject.toml", "pytest.ini", "pytest.toml", "rakefile", "rakefile.rb"),
        *("rust-toolchain", "rust-toolchain.toml", "setup.cfg", "setup.py", "tox.ini"),
        *("tox.toml", "uv.lock", "uv.toml", "yarn.lock"),
        # The Windows shell.
        *("desktop.ini", "autorun.inf"),
    )
)
_SETTINGS_ENDINGS = (".code-workspace", ".sublime-project", ".suo")
_FOLDERS = frozenset(
    (
        *(".agent", ".agents", ".aider", ".amazonq", ".augment", ".claude", ".claude-plugin"),
        *(".clinerules", ".codex", ".continue", ".crush", ".cursor", ".gemini", ".goose", ".junie"),
        *(".kilocode", ".kiro", ".openhands", ".opencode", ".qwen", ".roo", ".trae", ".windsurf"),
        *(".cargo", ".devcontainer", ".direnv", ".fleet", ".husky", ".idea", ".mvn", ".pi"),
        *(".vim", ".vs", ".vscode", ".yarn", ".zed", ".bundle", ".venv", "node_modules"),
    )
)
"""Folders in which programs read every file, at any depth."""
_PATHS = (
    (".github", "copilot-instructions.md"),
    (".github", "instructions"),
    (".github", "prompts"),
    (".github", "chatmodes"),
    (".github", "agents"),
    (".github", "skills"),
    (".github", "hooks"),
    (".obsidian", "plugins"),
    (".obsidian", "community-plugins.json"),
    (".config", "mise"),
    (".config", "opencode"),
    ("logseq", "custom.js"),
)
"""Pairs of a folder and an entry in it that programs read."""


def read_as(path: str) -> Reader:
    """Return how programs use a file at this path of a folder.

    Paths are compared as on Linux, macOS and Windows.
    """
    names = names_folded(path)
    if any(name in _FOLDERS for name in names) or any(pair in _PATHS for pair in pairwise(names)):
        return "settings"
    name = names[-1]
    if name in _INSTRUCTIONS or name.endswith(_INSTRUCTION_ENDINGS):
        return "instructions"
    is_setting = name in _SETTINGS or name.endswith(_SETTINGS_ENDINGS)
    return "settings" if is_setting or name.startswith(".aider") else ""
