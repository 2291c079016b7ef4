"""Tools for skills: procedures with dotted skill ids, which can be listed and used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import NotFound, UsageError, closest, did_you_mean
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.result_parts import fields, paginate
from memvault.tools.core.shared_args import LISTED, Limit, Offset
from memvault.tools.core.vault_choice import count_accesses

if TYPE_CHECKING:
    from memvault import results
    from memvault.experience.procedures import Procedure

group = ToolGroup("skills", "Skills", place=60)


@group.tool(
    "skills categories",
    paged_keys=("categories",),
    read_only=True,
    examples=("memvault skills categories", "memvault skills categories --json"),
    view="""
        *categories
        {categoryId}  {skills:skill|skills}""",
)
def list_skill_categories(
    call: Call, limit: Limit = LISTED, offset: Offset = 0
) -> results.SkillCategories:
    """List the skill categories (the first part of each skill id), with the number of skills.

    A skill is a procedure that has a skill id; archived ones are not listed.
    """
    from memvault.experience import skill_tree

    counts_by_branch = skill_tree.branches(
        (entry.skill_id for entry in _skilled_procedures(call)), 1
    )
    listing: list[results.SkillCategory] = [
        {"categoryId": branch, "skills": count} for branch, count in counts_by_branch.items()
    ]
    shown, paging = paginate(listing, limit, offset, "No procedure has a skill id yet")
    return {"categories": list(shown), **paging}


@group.tool(
    "skills subcategories",
    paged_keys=("subcategories",),
    read_only=True,
    examples=("memvault skills subcategories ops", "memvault skills subcategories ops --json"),
    view="""
        *subcategories
        {subcategoryId}  {skills:skill|skills}""",
)
def list_subcategories(
    call: Call,
    category_id: Annotated[
        str, Arg("A category, such as combat", positional=True, json_aliases=("category", "id"))
    ],
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.SkillSubcategories:
    """List the subcategories of a category (the first two parts of each skill id)."""
    from memvault.experience import skill_tree

    named = [entry.skill_id for entry in _skilled_procedures(call)]
    within = skill_tree.below(named, _branch(category_id, "categoryId"))
    subcategories: list[results.SkillSubcategory] = [
        {"subcategoryId": branch, "skills": count}
        for branch, count in skill_tree.branches(within, 2).items()
    ]
    hint = (
        f"run `memvault skills list {category_id}` to list its skills"
        if within
        else f"it has no skills{did_you_mean(category_id, skill_tree.branches(named, 1))}"
    )
    nothing = f"The category {category_id!r} has no subcategories; {hint}"
    shown, paging = paginate(subcategories, limit, offset, nothing)
    return {"subcategories": list(shown), **paging}


@group.tool(
    "skills list",
    paged_keys=("skills",),
    read_only=True,
    examples=("memvault skills list ops.deploy", "memvault skills list ops.deploy --json"),
    view="""*skills
        {skillId}  {name}  success rate {successRate:.3g}, used {usageCount:time|times}""",
)
def list_skills(
    call: Call,
    subcategory_id: Annotated[
        str,
        Arg(
            "A subcategory such as combat.melee, or a category",
            positional=True,
            json_aliases=("subcategory", "category", "id"),
        ),
    ],
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.SkillListing:
    """List the skills in a subcategory, sorted by id."""
    from memvault.experience import skill_tree

    procedures_with_skill = _skilled_procedures(call)
    branch = _branch(subcategory_id, "subcategoryId")
    ids = set(skill_tree.below((entry.skill_id for entry in procedures_with_skill), branch))
    skills = [entry for entry in procedures_with_skill if entry.skill_id in ids]
    all_ids = [entry.skill_id for entry in procedures_with_skill]
    branches = [*skill_tree.branches(all_ids, 1), *skill_tree.branches(all_ids, 2)]
    near = did_you_mean(subcategory_id, branches)
    nothing = f"There are no skills below {subcategory_id!r}{near}"
    shown, paging = paginate(skills, limit, offset, nothing)
    return {"skills": [_skill(entry) for entry in shown], **paging}


@group.tool(
    "skills use",
    paged_keys=(),
    continuation_hint="memory_show with the procedureId returns it in full",
    examples=(
        'memvault skills use ops.deploy.roll "roll out version 2"',
        'memvault skills use ops.deploy.roll "at night" --difficulty-modifier 0.2',
    ),
    view="""
        {skillResult[skillId]}  {skillResult[name]}  \
        expected success {skillResult[expectedSuccess]:.3g}
           > {skillResult[prompt]:each}""",
)
def use_skill(
    call: Call,
    skill_id: Annotated[
        str,
        Arg(
            "Id of the skill, such as combat.melee.swords",
            positional=True,
            key="skillId",
            json_aliases=("skill", "id"),
        ),
    ],
    action_description: Annotated[
        str,
        Arg(
            "The action to perform with the skill",
            positional=True,
            text=True,
            json_aliases=("action", "description"),
        ),
    ],
    difficulty_modifier: Annotated[
        float,
        Arg(
            "Difficulty adjustment; negative is easier",
            minimum=-1,
            maximum=1,
            json_aliases=("difficulty",),
        ),
    ] = 0.0,
) -> results.UsedSkill:
    """Use a skill: get the procedure to follow, and how likely it is to succeed.

    `memvault procedure outcome` records success or failure. If no procedure has the skill id, the
    call fails and saves a request for the skill in one of the agent's files, one request per skill
    and action. Storing a procedure with that skill id fulfills the request.
    """
    from memvault.experience import skill_tree

    normalized_id = skill_tree.checked_id(skill_id)
    if not action_description.strip():
        raise UsageError("The action is empty", "describe the action to perform with the skill")
    matches = [
        entry
        for entry in _skilled_procedures(call)
        if skill_tree.key(entry.skill_id) == skill_tree.key(normalized_id)
    ]
    if not matches:
        known = [entry.skill_id for entry in _skilled_procedures(call)]
        near = closest(normalized_id, known)
        raise _request_skill(call, normalized_id, action_description, near)
    best = max(matches, key=lambda entry: (entry.success_rate, entry.usage_count))
    count_accesses(call, [best.procedure_id])
    return {
        "skillResult": {
            **_skill(best),
            "prompt": best.prompt,
            "action": action_description,
            "difficultyModifier": difficulty_modifier,
            "expectedSuccess": min(max(best.success_rate - difficulty_modifier, 0.0), 1.0),
        }
    }


def _request_skill(call: Call, skill_id: str, action: str, near: str) -> NotFound:
    """File a request for a missing skill; return the error, which suggests the skill ``near``."""
    from memvault.agents import skill_requests

    request_id, path = skill_requests.request_skill(call.store, call.address, skill_id, action)
    hint = f"answer it with `memvault procedure store NAME PROMPT --skill-id {skill_id}`"
    return NotFound(
        f"There is no skill {skill_id!r}; a request for it is in {path}",
        f"did you mean {near}? if not, {hint}" if near else hint,
        {"skillRequestSubmitted": True, "requestId": request_id},
    )


def _skilled_procedures(call: Call) -> list[Procedure]:
    from memvault.experience import procedures

    return procedures.with_skill(call.store, call.engine)


def _branch(text: str, name: str) -> str:
    if not text.strip():
        raise UsageError(
            f"The {name} is empty", "run `memvault skills categories` to list the categories"
        )
    return text.strip().strip(".")


def _skill(entry: Procedure) -> results.SkillEntry:
    keys = ("skill_id", "name", "procedure_id", "success_rate", "usage_count")
    return cast("results.SkillEntry", fields(entry, *keys))
