"""Templates for printing results for people, where the generic layout is not enough.

A form is a sequence of lines that are filled in from a result. Two spaces separate the parts of a
line; a part is left out if the result has no value for it, and so is a line without parts. The
lines after ``*key``, up to an empty line, are repeated for each record of that list, below a
heading if one follows the key; the text after ``|`` is printed if the list is empty. ``render``
documents the format specifications after a colon.
"""

from __future__ import annotations

_REVISION = "Before: revision {previousRevision}"
_RATE = "success rate {successRate:.3g}, used {usageCount:time|times}"
_STANDING = (
    "as it was on {asOf:.10}  replaced by {supersededBy}  ended {expired}  begins {notYet}  "
    "newer: {newer}"
)
_CANDIDATE = f"   {{score:.2f}}  {{strength}}  {{title}}  {{memId}}  {{filePath}}  {_STANDING}"
_MODEL = "{name}  {dimension} dimensions  {sizeInGb:g} GB  {description}"
_DELETED = "Deleted {deleted}"
_TALK = "talk {talkId}  {agent}, {distance:g} away"
_EPISODES = """*episodes
{episodeId}  {metadata[timestamp]}  distance {distance:.2f}  {strength}
   {metadata[success]:went well|went badly}  importance {metadata[importance]:g}
   > {summary:each}"""
_PLANS = """*plans | There are no plans
{name}  {status}
   {id}  {cron}  {runAfter}  next {nextRunAt}  last {lastRunAt}
   > {instruction:each}"""
_EVENTS = """*events
{head}  from {sender}  in {data[spaceName]}  in reply to {data[inReplyTo]}  {timestamp}
{seconds:g} seconds have passed
   > {text:each}

{remaining} left in the inbox"""

FORMS = {
    "a failure": """   {runs:each}
   gone already: {files:each}
*refused
   line {line}: {problem}  {text}

*candidates
"""
    + _CANDIDATE,
    "mcp profiles": """*profiles
{name:<14}{count:>4} tools {tokens:>7} tokens  {heading}

About four characters are a token""",
    "memory_recall": f"""{{hardly}}
*memories
{{number}}. {{title}}  {{score:.2f}}  {{strength}}  {{memoryType}}  {{tags}}
   {{vault}}  {{memId}}  {{filePath}}  {{modified:.10}}
   {_STANDING}
   > {{content:each}}
   > {{snippet:each}}
   why: {{why}}

*brief
{{text}}

{{more:memory|memories}} more; --offset {{next}} goes on
*others Of your own:
{{number}}. {{name}}  {{score:.2f}}  {{kind}}
   {{filePath}}  {{modified:.10}}
   > {{content:each}}
   > {{snippet:each}}""",
    "memory_list": f"""*memories
{{title}}  {{memoryType}}  {{tags}}  {{example:example|}}
   {{memId}}  {{filePath}}  {{modified:.10}}
   {_STANDING}
   problem: {{problem}}

{{count}} of {{total:memory|memories}}""",
    "memory_list_types": """*types
{name:<24}{count:>5}  {description}

What fits none of them is {fallbackType}""",
    "memory_remember": """{isUpdate:Updated|Remembered} {memId}  {filePath}
*similar Nearest that were there already:
   {similarity:.2f}  {title}  {memId}  {filePath}""",
    "memory_compound": f"Compounded {{memId}}  {{filePath}}\n{_REVISION}",
    "memory_forget": f"""Moved to the trash: {{deletedFiles}}
   {{files:each}}
*candidates Would forget {{candidates:#}}:
{_CANDIDATE}

Nothing is gone yet; confirm with --confirm {{token}}""",
    "memory_restore": """Restored {memId}  {filePath}
*trash | The trash is empty
   {title}  {memId}  {filePath}  {discarded:.19}""",
    "memory_log": """{memId}  {filePath}  {edited:edited by hand since|}
*changes | Nothing was changed by a tool yet
{when:.19}  {tool}  by {agent}  {changeId}  undoes {undoes}  undone by {undoneBy}
   {lines:each}""",
    "memory_diff": """{diff:each}
{same}""",
    "memory_undo": """Undone {undone[tool]}  {undone[changeId]}
   {lines:each}
   memvault undo {changeId} takes that back
*changes | There is nothing to undo
{when:.19}  {tool}  by {agent}  {changeId}  undoes {undoes}  undone by {undoneBy}
   {lines:each}
   cannot be undone: {obstacle}""",
    "trash_list": """*trash | The trash is empty
{title}  {memId}  {filePath}  {discarded:.19}

{shown} of {total:file|files}""",
    "trash_empty": """Deleted for good: {deletedFiles:file|files}
Would delete for good {files:file|files}, {bytes} bytes, the oldest from {oldest:.10}
Nothing is gone yet; confirm with --confirm {token}""",
    "vault_doctor": """*findings
{severity}  {code}  {filePath}
   {message}
   --fix would {fix}

*fixed Fixed:
   {code}  {filePath}  {fix}

memvault undo {changeId} takes that back
{summary}""",
    "memory_show": f"""{{title}}  {{memoryType}}  {{tags}}  {{example:example|}}
   {{memId}}  {{filePath}}  {{modified:.10}}
   {_STANDING}
   etag {{etag}}  revisions kept: {{revisions:#}}
   problem: {{problem}}
*parts
   {{heading}}  {{offset}} to {{end}} of {{whole}} characters


{{content:each}}""",
    "edit": """{title}  {memId}  {filePath}  {gone:is gone|}
   {added:line|lines} added  {removed:line|lines} removed
   problem: {problem}""",
    "open": "{address}",
    "path": "{path}",
    "memory_rename": """{title}  {memId}  {filePath}
*rewritten Links rewritten:
   {filePath}  {links:link|links}

Nothing is changed yet; confirm with --confirm {confirmToken}""",
    "memory_links": """*links
{link}  {title}  {memId}  {filePath}  {problem}  {heading}  {key}  {embed:embedded|}""",
    "memory_backlinks": """*backlinks
{title}  {memId}  {filePath}  {key}
   {line}: {text}""",
    "memory_orphans": """*orphans
{title}  {memId}  {filePath}""",
    "tag_list": """*tags
{name:<32}{count:>6}""",
    "tag_add": "{title}  {memId}  {tags}",
    "tag_remove": "{title}  {memId}  {tags}\n   it did not have: {missing}",
    "tag_rename": """{changed:memory|memories} changed
*memories
   {title}  {memId}  {filePath}

Nothing is changed yet; confirm with --confirm {confirmToken}""",
    "memory_create": "Created {memId}  {filePath}\n   evicted: {evicted:each}",
    "memory_mutate": f"Changed {{memId}}\n{_REVISION}\n   evicted: {{evicted:each}}",
    "memory_load": """{memId}  {offset} to {end} of {totalLength} characters, {tokens} tokens
   evicted: {evicted:each}
   cut at {limit}; --offset {end} loads on
   > {content:each}
*memories
{similarity:.2f}  {strength}  {id}
   replaced by {supersededBy}  ended {expired}  begins {notYet}  newer: {newer}
   {about}
   > {text:each}""",
    "memory_evict": "Evicted {memId}",
    "memory_save": "Saved {id}",
    "memory_delete": "Moved to the trash: {deleted:each}\nNot found: {missing:each}",
    "memory_search": f"""{{hardly}}
*results
{{score:.2f}}  {{strength}}  {{memId}}  {{title}}
   {_STANDING}
   > {{snippet:each}}""",
    "memory_active": """*memories
{tokens:>6}  {memId}  {title}  {offset} to {end} of {totalLength}
   > {content:each}

{tokens} of {budget} tokens, {left} left""",
    "context": "{context:each}",
    "store_episode": """Stored {episodeId}  {filePath}
   it {success:went well|did not go well}""",
    "recall_similar_experience": _EPISODES,
    "get_recent_episodes": _EPISODES,
    "get_episodes_with_skill": _EPISODES,
    "store_fact": "Stored {factId}  {filePath}",
    "recall_fact": """*facts
{factId}  distance {distance:.2f}  {strength}
   {category}, confidence {confidence:g}, from {source}, recalled {accessCount:time|times}
   replaced by {supersededBy}  ended {expired}  begins {notYet}
   > {factText:each}""",
    "update_fact": f"Updated {{factId}}  {{filePath}}\n{_REVISION}",
    "store_procedure": "{isUpdate:Updated|Stored} {procedureId}  {filePath}",
    "recall_procedure": f"*procedures\n{{name}}  {_RATE}\n   > {{prompt:each}}",
    "update_success_rate": _RATE,
    "recall_memory": "\n\n".join(
        f"*memoryContext[{key}] {heading}:\n - {{text:first}}\n   > {{text:rest}}"
        for key, heading in (
            ("facts", "Facts"),
            ("experiences", "Experiences"),
            ("procedures", "Procedures"),
        )
    ),
    "consolidate_memories": """*facts {applied:Facts written|Facts}:
   {confidence:.2f}  {factText}
         also: {wordings:each}
      {factId}  from {episodes}

*procedures {applied:Procedures written|Procedures}:
   {successRate:.2f}  {name}
      {prompt:each}
      {procedureId}  from {episodes}

*merged {applied:Merged|Facts that say the same}:
   stays  {keptText}  {keptId}
   archived  {archivedText}  {archivedId}

*forgotten {applied:Archived|For the archive}:
   {title}  importance {importance:g}  {memId}  {modified:.10}

*statements Contradictions:
   {text}  {memIds}

*refused Invalid lines from the extractor:
   line {line}: {problem}  {text}

Nothing is written yet; memvault consolidate --apply {does}""",
    "list_skills": f"*skills\n{{skillId}}  {{name}}  {_RATE}",
    "use_skill": """\
{skillResult[skillId]}  {skillResult[name]}  expected success {skillResult[expectedSuccess]:.3g}
   > {skillResult[prompt]:each}""",
    "set_memories": "Kept {count}",
    "get_memories": """*memories | There are no such memories
{key}  {value:first}
   > {value:rest}""",
    "delete_memories": _DELETED,
    "set_goals": "Kept {count}",
    "get_goals": """*goals | There are no goals
{id}  {status}  {description:first}
   > {description:rest}""",
    "delete_goals": _DELETED,
    "set_plans": _PLANS,
    "get_plans": _PLANS,
    "delete_plans": _DELETED,
    **dict.fromkeys(("talk_user", "talk_agent", "talk_brain", "talk_log", "reply"), _TALK),
    "interact_with_agent": _TALK,
    "enter_space": """{spaceName}  {spaceId}
*history
{senderName}  {timestamp}
   > {content:each}

{history:#} of {totalMessages:message|messages}""",
    "read_messages": """*messages
{senderName}  {timestamp}
   > {content:each}

{messages:#} of {total:message|messages}""",
    "peek_inbox": _EVENTS,
    "list_inbox": _EVENTS,
    "list_spaces": """*spaces
{spaceName}  {spaceId}  {joined:joined|}
   {totalMessages:message|messages}  last {lastMessage:.19}  members: {members}""",
    "list_agents": """*agents
{agent}  {memories:value|values}  {goals:goal|goals}  {plans:plan|plans}  """
    """{inbox:event|events}  changed {changed:.19}""",
    "wait_for": _EVENTS,
    "get_available_tools": """*tools
{name}  {description:first}  {filePath}  {trusted:trusted|not trusted}
   {inputSchema:json}""",
    "register_tool": f"""Registered {{name}}  {{filePath}}
{_REVISION}
{{trusted:|It runs on this machine after memvault tools trust}} {{name}}""",
    "tools trust": """{name} may run here: {command}
   as long as {covers:each} stays as it is
   not covered: {notCovered:each}""",
    "tools untrust": "{name} no longer runs here\n   {wasTrusted:|it did not before}",
    "model_list": f"""*models
{_MODEL}

In use: {{inUse}}
*rerankers Cross-encoders for recall --rerank, chosen with model use NAME --for rerank:
{_MODEL}

In use: {{rerankerInUse}}""",
    "git_init": """Set up in git  branch {branch}  {made:a new repository|}
   {changed:each}""",
    "git_sync": """{committed:file|files} committed  {pulled:commit|commits} pulled  """
    """{pushed:commit|commits} pushed
*keptTwice Kept as two files, since both sides changed the text:
   {filePath}  {copyPath}

*renamed Renamed, since others have something under that name:
   {from}  {filePath}

   deleted on one side and changed on the other, so it stays: {notDeleted}
   not kept, since what others have counts: {notKept:each}""",
    "git_status": """{branch}  {remote}  {url}
   {ahead:commit|commits} to push  {behind:commit|commits} to pull  """
    """{changed:file|files} to commit
   under way: {underWay}
*keptTwice Kept as two files, since both sides changed the text:
   {filePath}  {copyPath}

{repository:|The vault is in no git repository}
   to do: {todo:each}""",
    "vault init": """{vault} is a vault
   {created:each}
{untouched:markdown file|markdown files} in it can be recalled now, unchanged""",
    "index push": "Sent to {uri}  {documents:document|documents}  vault {vault}",
    "index status": """{uri}  {collection}  vault {vault}
   {documents:document|documents}  {rows[passages]:passage|passages}
   sent by {host}  {sent:.16}
   {problem}""",
    "index drop": "{outcome}",
    "tokens add": """{token}

It is shown only this once  {name} may {scope} {vaults} as {agent}  until {expires:.10}""",
    "tokens list": """*tokens
{name:<12}  {scope:<5}  {vaults}  as {agent}  until {expires:.10}  {problem}""",
    "tokens remove": "Nobody comes in with the token {name} any more",
    "vaults add": """{name} is {folder}
{name} is the vault {vault} of {host}  {documents:document|documents}  sent {sent:.16}""",
    "vaults remove": """{name} names nothing any more
   {folder} {stays:stays as it is|is deleted, which held what was fetched of it}""",
    "vaults list": """*vaults
{name:<12}  {folder}  {default:asked unasked|}  sent by {sentBy}  {problem}""",
}
