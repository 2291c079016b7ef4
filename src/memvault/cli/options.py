"""Parse global options, which are accepted anywhere on the command line."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence
    from pathlib import Path

    from memvault.call import Caller
    from memvault.memories.create import RenderedTemplate
    from memvault.workspace import Workspace

GLOBAL_OPTIONS = (
    ("vault", "--vault", "DIR", "The vault (default MEMVAULT_VAULT or the nearest memvault.toml)"),
    ("agent", "--agent", "NAME", "The agent (default MEMVAULT_AGENT or main)"),
    ("json", "--json", "", "Print the result as JSON (or set MEMVAULT_JSON=1)"),
    ("each", "--format", "FORM", "Print each entry with a template such as '{memId} {title}'"),
    ("csv", "--csv", "", "Print a list as CSV"),
    ("quiet", "--quiet", "", "Print no notes, warnings or progress to standard error"),
    ("no_pager", "--no-pager", "", "Print long output without a pager"),
)
"""Name, flag, metavar and help of the options that every command accepts."""


def decode(argument: str) -> str:
    """Decode an argument as UTF-8 if Python decoded it in a locale with another encoding."""
    try:
        return argument if argument.isascii() else os.fsencode(argument).decode()
    except UnicodeError:
        return argument


_NEGATIVE = lazy_pattern(r"-\d+(?:\.\d*)?")
_SPACED = lazy_pattern(r"(?!--[\w-]+=)\S*\s")


class ScannedLine(NamedTuple):
    """The parts of a command line that may be incomplete or wrong.

    ``options`` maps each option to its value (empty for a switch), and ``words`` are the other
    words. ``pending`` is the last option if its value is missing.
    """

    options: dict[str, str]
    words: list[str]
    pending: str


_WITH_VALUE = frozenset(flag for _, flag, takes, _ in GLOBAL_OPTIONS if takes)


def scan(arguments: Iterable[str], with_value: Container[str] = _WITH_VALUE) -> ScannedLine:
    """Split a command line into options and words, without checking either.

    ``with_value`` contains the options that take a value.
    """
    options: dict[str, str] = {}
    positionals: list[str] = []
    pending = ""
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if pending:
            options[pending], pending = argument, ""
        elif argument == "--":
            positionals += rest
        elif not argument.startswith("-"):
            positionals.append(argument)
        elif name in with_value and not equals:
            pending = name
        else:
            options[name] = value
    return ScannedLine(options, positionals, pending)


class GlobalOptions:
    """The values of the global options: the vault, the agent and the output format."""

    def __init__(self) -> None:
        self.vault: str | None = None
        self.agent: str | None = None
        self.json = False
        self.quiet = False
        self.row_format: str | None = None
        self.csv = False
        self.no_pager = False
        self.template: RenderedTemplate | None = None
        self._placeholders: dict[str, str] = {}
        self._vault_on_line: str | None = None
        self._has_noted_default = False

    @classmethod
    def from_environment(cls) -> GlobalOptions:
        """Create options with the defaults from the environment variables."""
        options = cls()
        options.agent = os.environ.get("MEMVAULT_AGENT") or None
        options.json = os.environ.get("MEMVAULT_JSON", "") not in ("", "0", "false")
        return options

    def update(
        self,
        vault: str | None,
        agent: str | None,
        json: bool,
        quiet: bool,
        each: str | None = None,
        csv: bool = False,
        no_pager: bool = False,
    ) -> None:
        """Set the given options; all other options keep their values.

        Raises:
            UsageError: the vault is an empty string, for example from an unset shell variable.
        """
        if vault == "":
            from memvault.errors import UsageError

            raise UsageError("`--vault` is empty", "pass the vault's folder or name")
        self.row_format = self.unescape(each) if each is not None else self.row_format
        self.csv = self.csv or csv
        self.no_pager = self.no_pager or no_pager
        self.vault = self.unescape(vault) if vault is not None else self.vault
        self.agent = self.unescape(agent) if agent is not None else self.agent
        self.json = self.json or json
        self.quiet = self.quiet or quiet

    def escape_dash_values(self, arguments: list[str]) -> list[str]:
        """Replace values that start with a dash, so that Typer does not parse them as options.

        A negative number is a value, and so is text with whitespace, unless it starts with
        ``--NAME=``. A number directly after an option is not replaced, because Typer parses it as
        that option's value.
        """
        # A custom command is defined in the vault, so the vault must be known before parsing.
        self._vault_on_line = scan(arguments).options.get("--vault")
        escaped = []
        previous = ""
        for argument in map(decode, arguments):
            number = _NEGATIVE.fullmatch(argument) and not previous.startswith("-")
            previous = "" if number else argument
            if number or (argument.startswith("-") and _SPACED.match(argument)):
                escaped.append(self.escape(argument))
            else:
                escaped.append(argument)
        return escaped

    def escape(self, argument: str) -> str:
        """Return a placeholder for a value that Typer would parse as an option."""
        placeholder = f"\ufdd0{len(self._placeholders)}\ufdd1"
        self._placeholders[placeholder] = argument
        return placeholder

    @property
    def has_explicit_vault(self) -> bool:
        """Whether the command line or the environment selects a vault."""
        return bool(self.vault or self._vault_on_line or os.environ.get("MEMVAULT_VAULT"))

    def named_workspace(self) -> Workspace:
        """Open the vault given on the command line, before the whole line has been parsed.

        Raises:
            VaultNotFound: there is no vault.
        """
        from memvault.settings.locate import find_vault
        from memvault.workspace import Workspace

        root = find_vault(self.vault or self._vault_on_line, lambda *_: None)
        return Workspace(root)

    def unescape(self, value: str) -> str:
        """Return the value that a placeholder stands for, or the argument itself."""
        return self._placeholders.get(value, value)

    def unescape_message(self, message: str) -> str:
        """Replace placeholders in Typer's messages, plain or as ``repr``, with the typed text."""
        for placeholder, text in self._placeholders.items():
            message = message.replace(placeholder, text)
            message = message.replace(repr(placeholder), repr(text))
        return message

    def workspace(self) -> Workspace:
        """Open the vault.

        Raises:
            VaultNotFound: there is no vault.
        """
        from memvault.cli.output import ProgressBar
        from memvault.workspace import open_workspace

        return open_workspace(self.root(), ProgressBar(self.quiet))

    def root(self) -> Path:
        """Return the vault's folder; outside any vault, use the default vault and print a note.

        Raises:
            VaultNotFound: there is no vault.
        """
        from memvault.settings.locate import find_vault

        return find_vault(self.vault, self._note_default)

    def use_named_vault(self, names: Sequence[str]) -> None:
        """If there is no current or default vault, use the first of these vaults.

        Vaults whose folder is missing are used only if there are no others.
        """
        from memvault.errors import VaultNotFound
        from memvault.files.user_folders import SETTINGS_FILE
        from memvault.settings import locate

        try:
            locate.find_vault(self.vault, lambda *_: None)
        except VaultNotFound:
            if self.has_explicit_vault:
                return
            known = locate.reachable_vaults(None)
            chosen = known if locate.ALL in names else names
            folders = [known[name] for name in chosen if name in known]
            folders.sort(key=lambda folder: not (folder / SETTINGS_FILE).is_file())
            self.vault = next(map(str, folders), None)

    def _note_default(self, name: str, root: Path) -> None:
        from memvault.cli import output

        if not self.quiet and not self._has_noted_default:
            self._has_noted_default = True
            output.notes([f"using your default vault {name}: {root}"])

    @property
    def may_ask(self) -> bool:
        """Whether a user at a terminal reads the output and can answer questions."""
        from memvault.cli import output

        is_for_programs = self.json or self.csv or self.row_format is not None
        return not is_for_programs and output.has_terminal() and output.is_shown()

    def caller(self) -> Caller:
        """Return the caller; a local user may pass programs and paths."""
        from memvault.call import LOCAL
        from memvault.cli import output

        accepted: set[str] = set()

        def confirm(lines: Sequence[str], question: str) -> bool:
            """Ask the user to confirm something, such as the changes in a preview."""
            if question not in accepted and output.confirm(lines, question):
                accepted.add(question)
            return question in accepted

        caller = LOCAL._replace(secrets="asked", template=self.template)
        if self.may_ask:
            suggestion = None if self.quiet else partial(output.confirm, default=True)
            caller = caller._replace(confirm=confirm, confirm_suggestion=suggestion)
        return caller._replace(agent=self.agent) if self.agent else caller
