"""Convert messages from ChatGPT's export: text, code, canvases, images and citations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from memvault.importers import convert, json_source, plain_text
from memvault.importers.chat_text import fenced, message
from memvault.importers.chats import ChatDocuments, ChatTurn, with_title
from memvault.importers.content_counts import ContentCounts
from memvault.lazy_pattern import lazy_pattern
from memvault.vault import markdown

_SPEAKERS = {"user": "You", "assistant": "ChatGPT", "tool": "ChatGPT"}
_FILE_ID = lazy_pattern(r"file[-_][A-Za-z0-9]{6,64}")
_MARK = lazy_pattern(
    "\ue200[^\ue200\ue201]{0,20000}\ue201|【[^【】]{0,60}†[^【】]{0,60}】|[\ue200-\ue206]"
)
"""Matches citation marks, which only the web page renders."""
_PLAIN_PATTERN = lazy_pattern(r"(?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s]|\\[ \n])+")
_MATH = lazy_pattern(r"(?<!\\)\\(?:\(((?:[^\\\n]|\\[^()\n])++)\\\)|\[((?:[^\\]|\\[^\[\]])++)\\\])")
"""Matches a LaTeX formula, inline or as a block."""
_SILENT = ("thoughts", "reasoning_recap")
_CANVAS = "canmore."
_MEMORY = "bio"
_CODE_TOOLS = ("python", "code_interpreter")


def file_id_at_start(text: str) -> str:
    """Return the file id at the start of a string, or an empty string."""
    match = _FILE_ID.match(text)
    return match[0] if match is not None else ""


def is_conversation(entry: Any) -> bool:
    """Return whether a message was sent by the user to ChatGPT or by ChatGPT to the user."""
    return (
        isinstance(entry, dict)
        and _role(entry) in ("user", "assistant")
        and entry.get("recipient", "all") == "all"
        and not _about(entry).get("is_visually_hidden_from_conversation")
    )


def _role(entry: Mapping[str, Any]) -> str:
    return convert.text(convert.object_at(entry, "author").get("role"))


def _about(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return convert.object_at(entry, "metadata")


class MessageCollector:
    """Collects the converted messages of a conversation.

    ``files`` contains the ids of the exported files, ``instructions`` are the custom instructions
    as markdown, and ``memories`` are ChatGPT's memories about the user.
    """

    def __init__(self, counts: ContentCounts, files: frozenset[str]) -> None:
        self.turns: list[ChatTurn] = []
        self.documents = ChatDocuments()
        self.instructions = ""
        self.memories = ""
        self._counts = counts
        self._files = files

    def add(self, entry: Mapping[str, Any]) -> None:
        """Convert a message."""
        role, content = _role(entry), convert.object_at(entry, "content")
        kind = str(content.get("content_type"))
        if kind == "user_editable_context":
            self._add_instructions(content, _about(entry))
            return
        if kind == "model_editable_context":
            self.memories = convert.text(content.get("model_set_context")) or self.memories
            return
        if role not in _SPEAKERS or _about(entry).get("is_visually_hidden_from_conversation"):
            return
        if role != "tool" and is_conversation(entry):
            self._counts.converted("message")
        texts = list(self._parts(entry, role, kind, content))
        text = "\n\n".join(filter(None, texts))
        time = convert.time_or_text(entry.get("create_time"))
        self.turns.append(ChatTurn(_SPEAKERS[role], text, time))

    def _parts(
        self, entry: Mapping[str, Any], role: str, kind: str, content: Mapping[str, Any]
    ) -> Iterator[str]:
        to = str(entry.get("recipient") or "all")
        if kind in _SILENT:
            self._counts.omitted(f"message {kind}")
        elif role == "tool":
            yield from self._of_tool(entry, kind, content)
        elif to.startswith(_CANVAS):
            yield self._canvas(to.removeprefix(_CANVAS), _plain(content))
        elif to == _MEMORY:
            self._counts.converted("memory")
            yield f"**Remembered:** {plain_text.escaped(_plain(content), is_line=True)}"
        elif to in _CODE_TOOLS:
            self._counts.converted("code")
            yield fenced(_plain(content), "python")
        elif to != "all":
            self._counts.omitted(f'tool use "{to}"')
        else:
            yield from self._spoken(entry, role, kind, content)

    def _spoken(
        self, entry: Mapping[str, Any], role: str, kind: str, content: Mapping[str, Any]
    ) -> Iterator[str]:
        about = _about(entry)
        links = _links(about)
        parts = content.get("parts")
        if kind == "code":
            self._counts.converted("code")
            language = convert.text(content.get("language"))
            yield fenced(_plain(content), "" if language == "unknown" else language)
        elif isinstance(parts, list):
            shown: set[str] = set()
            for part in parts:
                yield self._part(part, role, links, shown)
            yield from self._attached(about, shown)
        else:
            self._counts.omitted(f"message {kind}")
            if content.get("text"):
                yield fenced(_plain(content))

    def _part(self, part: Any, role: str, links: Mapping[str, str], shown: set[str]) -> str:
        if isinstance(part, str):
            if role == "user":
                return message(part, is_plain=True)
            return _with_citations(message(_with_dollars(part)), links)
        if not isinstance(part, dict):
            self._counts.omitted("part")
            return ""
        kind = str(part.get("content_type"))
        if kind == "audio_transcription" or (
            "asset_pointer" not in part and isinstance(part.get("text"), str)
        ):
            return message(convert.text(part.get("text")), is_plain=role == "user")
        inner = convert.object_at(part, "audio_asset_pointer") or part
        pointer = convert.text(inner.get("asset_pointer"))
        asset_id = file_id_at_start(pointer.rpartition("/")[2])
        if not asset_id:
            self._counts.omitted(f"part {kind}")
            return ""
        shown.add(asset_id)
        is_picture = "image" in kind
        if not is_picture and asset_id not in self._files:
            self._counts.omitted("voice recording missing from the export")
            return ""
        if asset_id not in self._files:
            self._counts.omitted("image missing from the export")
        return f"![[import:{asset_id}|({'a picture' if is_picture else 'a recording'})]]"

    def _attached(self, about: Mapping[str, Any], shown: set[str]) -> Iterator[str]:
        """Yield links to the attached files that the message itself does not show."""
        for attachment in convert.objects_at(about, "attachments"):
            asset_id = file_id_at_start(str(attachment.get("id")))
            name = convert.one_line(attachment.get("name"))
            if asset_id in shown or not (asset_id or name):
                continue
            if asset_id in self._files:
                yield f"[[import:{asset_id}|{convert.label(name) or asset_id}]]"
            else:
                self._counts.omitted("file missing from the export")
                yield with_title(name or asset_id, "", "a file").strip()

    def _of_tool(
        self, entry: Mapping[str, Any], kind: str, content: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yield a tool's visible results: code output and images."""
        name = convert.text(convert.object_at(entry, "author").get("name"))
        if kind == "execution_output":
            self._counts.converted("code output")
            yield with_title("", fenced(_plain(content)), "output")
            yield from self._outputs(_about(entry))
        elif kind == "multimodal_text" and isinstance(content.get("parts"), list):
            for part in convert.objects_at(content, "parts"):
                yield self._part(part, "tool", {}, set())
        elif name.startswith(_CANVAS) or name == _MEMORY:
            return  # a confirmation without content
        else:
            self._counts.omitted(f"tool result {name or kind}")

    def _outputs(self, about: Mapping[str, Any]) -> Iterator[str]:
        for output in convert.objects_at(convert.object_at(about, "aggregate_result"), "messages"):
            if output.get("message_type") == "image":
                pointer = {"content_type": "image", "asset_pointer": output.get("image_url")}
                yield self._part(pointer, "tool", {}, set())

    def _canvas(self, command: str, text: str) -> str:
        """Return a document, or the new text of an edit; comments on it are omitted."""
        if command not in ("create_textdoc", "update_textdoc"):
            self._counts.omitted(f'tool use "{_CANVAS}{command}"')
            return ""
        self._counts.converted("canvas version")
        arguments = json_source.object_in(text)
        if arguments is None:
            return fenced(text)  # the JSON was cut off
        if command == "create_textdoc":
            name, kind = convert.text(arguments.get("name")), convert.text(arguments.get("type"))
            language = "markdown" if kind == "document" else kind.removeprefix("code/")
            content = convert.text(arguments.get("content"))
            return self.documents.write(name or text[:40], name, language, content)
        changes = map(self._change, convert.objects_at(arguments, "updates"))
        return "\n\n".join(filter(None, changes))

    def _change(self, change: Mapping[str, Any]) -> str:
        key = self.documents.last
        pattern, new = convert.text(change.get("pattern")), convert.text(change.get("replacement"))
        if pattern.strip("^$") in (".*", r"[\s\S]*", "(?s).*"):
            return self.documents.write(key, "", "", new)
        old = ""
        if _PLAIN_PATTERN.fullmatch(pattern):
            old = re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)
        else:
            self._counts.omitted("canvas edit by regular expression")
        return self.documents.replace(key, old, new, is_every=bool(change.get("multiple")))

    def _add_instructions(self, content: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        user_context = convert.object_at(about, "user_context_message_data")
        sections = {
            "About the user": user_context.get("about_user_message") or content.get("user_profile"),
            "How to answer": user_context.get("about_model_message")
            or content.get("user_instructions"),
        }
        self.instructions = "\n\n".join(
            f"## {name}\n\n{message(text, is_plain=True)}"
            for name, text in sections.items()
            if isinstance(text, str) and text.strip()
        )


def _plain(content: Mapping[str, Any]) -> str:
    """Return the plain text of a message."""
    texts = [part for part in convert.list_at(content, "parts") if isinstance(part, str)]
    return "\n".join(texts) or convert.text(content.get("text") or content.get("result"))


def _links(about: Mapping[str, Any]) -> dict[str, str]:
    """Return the replacement of each citation mark."""
    links_by_mark: dict[str, str] = {}
    for reference in convert.objects_at(about, "content_references"):
        if mark := convert.text(reference.get("matched_text")).strip():
            pages: dict[str, str] = {}
            for item in convert.objects_at(reference, "items"):
                shown = item.get("attribution") or item.get("title")
                pages[str(item.get("url"))] = convert.web_link(item.get("url"), shown)
            links = ", ".join(filter(None, pages.values()))
            alt = plain_text.escaped(convert.one_line(reference.get("alt")), is_line=True)
            links_by_mark[mark] = f"({links})" if links else alt
    return links_by_mark


def _with_dollars(text: str) -> str:
    """Replace LaTeX delimiters of formulas with markdown's dollar signs, except in code."""
    if "\\(" not in text and "\\[" not in text:
        return text

    def written(match: re.Match[str]) -> str:
        return f"$${match[2]}$$" if match[2] else f"${match[1].strip()}$"

    return markdown.replace_outside_code(_MATH, written, text)


def _with_citations(text: str, links: Mapping[str, str]) -> str:
    """Replace citation marks with links, and remove all other marks."""

    def shown(match: re.Match[str]) -> str:
        mark = match[0]
        return links[mark] if mark in links else _entity(mark)

    return markdown.replace_outside_code(_MARK, shown, text)


def _entity(mark: str) -> str:
    """Return the name in an entity mark; empty for other marks."""
    kind, _, rest = mark.strip("\ue200\ue201").partition("\ue202")
    if kind != "entity":
        return ""
    try:
        parsed = json.loads(rest)
    except (ValueError, RecursionError):
        return ""
    is_named = isinstance(parsed, list) and len(parsed) > 1 and isinstance(parsed[1], str)
    return plain_text.escaped(parsed[1], is_line=True) if is_named else ""
