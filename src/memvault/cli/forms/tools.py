"""Lines for people of what the tools about tools and the small world return."""

from __future__ import annotations

import json
from collections.abc import Callable

from memvault.cli.lines import Line, Result

__all__ = ["TOOL_FORMS"]


def _tools(found: Result) -> list[Line]:
    out: list[Line] = []
    for entry in found["tools"]:
        summary = entry["description"].split("\n", 1)[0].rstrip(".")
        line: Line = [(entry["name"], "bold"), (f"  {summary}", "")]
        if "trusted" in entry:
            said, style = ("trusted", "green") if entry["trusted"] else ("not trusted", "yellow")
            line += [(f"  {entry['filePath']}", "dim"), (f"  {said}", style)]
        out.append(line)
        if "inputSchema" in entry:
            out.append([(f"   {json.dumps(entry['inputSchema'], ensure_ascii=False)}", "dim")])
    return out


def _registered(found: Result) -> list[Line]:
    out: list[Line] = [
        [("Registered ", ""), (found["name"], "bold"), (f"  {found['filePath']}", "dim")]
    ]
    if "previousRevision" in found:
        out.append([(f"Before: revision {found['previousRevision']}", "dim")])
    if not found["trusted"]:
        said = f"memvault tools trust {found['name']}"
        out.append([("It runs on this machine after ", ""), (said, "bold")])
    return out


def _trust(found: Result) -> list[Line]:
    out: list[Line] = [[(found["name"], "bold"), (" may run here: ", ""), (found["command"], "")]]
    out += [[(f"   as long as {path} stays as it is", "dim")] for path in found["covers"]]
    for entry in found.get("notCovered", ()):
        what = f"whatever lies in {entry}" if entry.endswith("/") else entry
        out.append([(f"   {what}, which is not looked at", "yellow")])
    return out


def _untrust(found: Result) -> list[Line]:
    before = "" if found["wasTrusted"] else ", and did not before"
    return [[(found["name"], "bold"), (f" no longer runs here{before}", "")]]


def _observed(found: Result) -> list[Line]:
    at = found["position"]
    where = f"At {at['x']:g}, {at['y']:g} with stamina {found['stamina']:g}"
    out: list[Line] = [[(where, "bold")]]
    said = [key for key in ("terrain", "climate") if found[key]]
    out += [[(f"   {key}: ", "dim"), (found[key], "")] for key in said]
    for entry in found["resources"]:
        amount = f"{entry['amount']:g} " if "amount" in entry else ""
        out.append([(f"   {amount}{entry['name']}", "green"), (f"  {entry['place']}", "dim")])
    for entry in found["nearbyAgents"]:
        said_of = f"  {entry['type']}, {entry['distance']:g} away"
        line: Line = [(f"   {entry['name']}", "cyan"), (said_of, "dim")]
        out.append(line)
    return out


def _moved(found: Result) -> list[Line]:
    at = found["newPosition"]
    return [
        [(f"At {at['x']:g}, {at['y']:g}", "bold")],
        [(f"   stamina {found['staminaUsed']:g} used, {found['stamina']:g} left", "dim")],
    ]


def _gathered(found: Result) -> list[Line]:
    what = f"{found['amount']:g} {found['resource']}"
    left = f", {found['left']:g} left there" if "left" in found else ""
    return [
        [("Gathered ", ""), (what, "bold"), (f" in {found['place']}{left}", "")],
        [(f"   {found['carried']:g} {found['resource']} carried now", "dim")],
    ]


def _interacted(found: Result) -> list[Line]:
    said = f"  {found['agent']}, {found['distance']:g} away"
    return [[("talk ", "dim"), (str(found["talkId"]), "bold"), (said, "")]]


TOOL_FORMS: dict[str, Callable[[Result], list[Line]]] = {
    "get_available_tools": _tools,
    "register_tool": _registered,
    "tools trust": _trust,
    "tools untrust": _untrust,
    "observe_location": _observed,
    "move_to": _moved,
    "gather_resource": _gathered,
    "interact_with_agent": _interacted,
}
