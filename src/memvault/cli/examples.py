"""Examples shown in the help of each command; the tests run them unless in ``NOT_RUN``."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "init": ("memvault init notes", "memvault init --bare work/notes"),
    "call": (
        """memvault call memory_recall '{"query": "database"}'""",
        "echo '{}' | memvault call memory_list -",
    ),
    "mcp": ("memvault mcp", "memvault mcp --vault . --agent historian"),
    "skill": (
        "memvault skill",
        "memvault skill --as text",
        "memvault skill --as claude --out skills",
    ),
    "setup": (
        "memvault setup claude-code",
        "memvault setup codex --user --dry-run",
        "memvault setup opencode --remove",
    ),
    "hook": (
        """echo '{"prompt": "which database"}' | memvault hook prompt""",
        "memvault hook session-start --for claude-code < /dev/null",
    ),
    "completion bash": ("memvault completion bash", "source <(memvault completion bash)"),
    "completion zsh": ("memvault completion zsh", "memvault completion zsh > _memvault"),
    "completion fish": ("memvault completion fish", "memvault completion fish > memvault.fish"),
    "completion install": (
        "memvault completion install bash",
        "memvault completion install bash --remove",
    ),
    "edit": ('memvault edit "Deploy notes"', "EDITOR=nano memvault edit use-postgresql"),
    "open": ('memvault open "Deploy notes" --print', "memvault open --with obsidian"),
    "path": ('memvault path "Deploy notes"', "memvault path use-postgresql"),
    "new": (
        'memvault new "Disk full on db1" --type issue',
        'memvault new "Move to ARM" --template architectural-decision',
    ),
    "serve": (
        "memvault serve --http :8420",
        "memvault serve --http 10.0.0.5:8420 --name memory.example.org --audit audit.jsonl",
    ),
    "index push": ("memvault index push", "MEMVAULT_MILVUS_TOKEN=… memvault index push"),
    "index status": ("memvault index status", "memvault index status --json"),
    "index drop": ("memvault index drop", "memvault index drop --all --yes"),
    "tokens add": (
        "memvault tokens add ann --vaults work",
        "memvault tokens add ci --vaults work,home --scope write --as builder --days 90",
    ),
    "tokens list": ("memvault tokens list", "memvault tokens list --json"),
    "tokens remove": ("memvault tokens remove ann", "memvault tokens remove ci"),
    "vaults add": (
        "memvault vaults add work .",
        "memvault vaults add home ~/notes",
        "memvault vaults add team http://milvus:19530 --of notes",
    ),
    "vaults list": ("memvault vaults list", "memvault vaults list --json"),
    "vaults remove": ("memvault vaults remove work", "memvault vaults remove home"),
    "vaults default": ("memvault vaults default work,home", "memvault vaults default"),
    "vaults trust": ("memvault vaults trust .", "memvault vaults trust ~/notes"),
    "vaults untrust": ("memvault vaults untrust .", "memvault vaults untrust ~/notes"),
    "tools trust": ("memvault tools trust word_count --yes", "memvault tools trust word_count"),
    "tools untrust": ("memvault tools untrust word_count", "memvault tools untrust other_tool"),
    "types": ("memvault types", "memvault types --json"),
    "remember": (
        'memvault remember "Retries need a cap" "Without one they storm." --type learning',
        'echo "Ask Husam before ten." | memvault remember "Deploys" --tags team,deploy',
        'memvault remember "Deploy log" @notes.txt --type issue',
    ),
    "recall": (
        "memvault recall which database do we use",
        'memvault recall "lock timeout" --type issue -n 3',
        "memvault recall --tags network --since 2020-01-01",
    ),
    "compound": (
        'memvault compound "Use PostgreSQL" "We run version 17 since March."',
        'memvault compound "Use PostgreSQL" "Easier backups." --section Reasons',
        'date | memvault compound "Deploy notes" -',
    ),
    "forget": (
        'memvault forget "Old notes"',
        'memvault forget "Old notes" --confirm true',
        'memvault forget "disk space" --type issue --threshold 0.9',
    ),
    "create": (
        'memvault create "Release checklist" "Run the tests, tag, publish."',
        "memvault create Findings @notes.txt --type learning",
    ),
    "load": (
        'memvault load "Use PostgreSQL"',
        'memvault load "Use PostgreSQL" --offset 0 --length 500',
        'memvault load --query "which database" --limit 3',
    ),
    "evict": ('memvault evict "Deploy notes"', "memvault evict deploy-notes"),
    "mutate": (
        'memvault mutate "Deploy notes" "Deploys run on Mondays."',
        'memvault mutate "Deploy notes" @notes.txt',
    ),
    "search": ("memvault search database", 'memvault search "disk full" --mode keyword --limit 5'),
    "active": ("memvault active", "memvault active --agent historian"),
    "context": (
        'memvault context "I am about to change the database"',
        'memvault context "fix the deploy" --budget 500',
    ),
    "save": (
        'memvault save "The user\'s name is Ana." --area main',
        "memvault save @notes.txt --metadata source=chat --metadata lang=en",
    ),
    "delete": ('memvault delete "Old notes"', 'memvault delete "Old notes" "Deploy notes"'),
    "memories set": (
        'memvault memories set deadline="28 February"',
        "memvault memories set tone=friendly plan=@notes.txt",
    ),
    "memories get": ("memvault memories get", "memvault memories get deadline"),
    "memories delete": ("memvault memories delete deadline", "memvault memories delete a b"),
    "goals set": (
        'memvault goals set report "Hand in the report"',
        "memvault goals set report --status completed",
    ),
    "goals get": ("memvault goals get", "memvault goals get --status active"),
    "goals delete": ("memvault goals delete report", "memvault goals delete report launch"),
    "plans set": (
        'memvault plans set "Daily numbers" "Post them" --cron "0 9 * * *"',
        'memvault plans set "Ask again" "Is it done?" --run-after "2 hours"',
        'memvault plans set Launch "Check all" --at 2999-03-01T08:00',
    ),
    "plans get": ("memvault plans get", "memvault plans get --status active"),
    "plans delete": ("memvault plans delete follow-up", "memvault plans delete a b"),
    "episode store": (
        'memvault episode store --context "Tests hung" --action "Ran one" --outcome success:ok',
        'memvault episode store --context "Deploy" --action push --outcome "action_error:no disk"',
    ),
    "episode recall": (
        'memvault episode recall "the tests hang again"',
        'memvault episode recall "a deploy fails" --limit 2 --min-importance 0.5',
    ),
    "episode recent": ("memvault episode recent", "memvault episode recent --days 1 --limit 5"),
    "episode with-skill": (
        "memvault episode with-skill ops.deploy.roll",
        "memvault episode with-skill ops.deploy.roll --limit 1",
    ),
    "fact store": (
        'memvault fact store "Staging has 20 GB of disk" --confidence 0.8',
        'memvault fact store "Ana likes tea" --category people --source chat',
    ),
    "fact recall": (
        'memvault fact recall "how much disk has staging"',
        "memvault fact recall tea --category people",
    ),
    "fact update": (
        'memvault fact update "Tea is served at four" --new-confidence 0.5',
        'memvault fact update "Tea is served at four" --new-text "Tea is served at five"',
    ),
    "procedure store": (
        'memvault procedure store roll_back "Stop, restore, start."',
        'memvault procedure store roll "One by one." --skill-id ops.deploy.roll',
    ),
    "procedure recall": (
        'memvault procedure recall "a deploy is due"',
        'memvault procedure recall "a deploy is due" --min-success-rate 0.1',
    ),
    "procedure outcome": (
        "memvault procedure outcome roll --success",
        "memvault procedure outcome roll --failure",
    ),
    "experience": (
        'memvault experience "The deploy hangs"',
        'memvault experience "The deploy hangs" "the disk is full"',
    ),
    "consolidate": ("memvault consolidate", "memvault consolidate --days 30 --apply"),
    "skills categories": ("memvault skills categories", "memvault skills categories --json"),
    "skills subcategories": (
        "memvault skills subcategories ops",
        "memvault skills subcategories ops --json",
    ),
    "skills list": ("memvault skills list ops.deploy", "memvault skills list ops.deploy --json"),
    "skills use": (
        'memvault skills use ops.deploy.roll "roll out version 2"',
        'memvault skills use ops.deploy.roll "at night" --difficulty-modifier 0.2',
    ),
    "talk user": ('memvault talk user "Which of the two?"', "memvault talk user @notes.txt"),
    "talk agent": (
        'memvault talk agent designer "Is the mockup ready?"',
        "memvault talk agent designer @notes.txt",
    ),
    "talk brain": (
        'memvault talk brain planner "What is next?"',
        'memvault talk brain primary "All done." --agent main/planner',
    ),
    "talk log": ('memvault talk log info "Began"', 'memvault talk log error "No disk left"'),
    "reply": (
        'memvault reply 1 "The second." --agent user',
        "memvault reply 1 @notes.txt --agent user",
    ),
    "wait for": ("memvault wait for time:1", "memvault wait for user --timeout 600"),
    "inbox list": ("memvault inbox list", "memvault inbox list --agent user"),
    "space list": ("memvault space list", "memvault space list --json"),
    "agents": ("memvault agents", "memvault agents --json"),
    "inbox peek": (
        "memvault inbox peek",
        "memvault inbox peek --count 5 --filter plan",
    ),
    "inbox push": (
        'memvault inbox push ci "Build 7 failed"',
        'memvault inbox push ci "Build 8 is fine" --agent historian',
    ),
    "space enter": ("memvault space enter team", "memvault space enter team --limit 5"),
    "space send": ('memvault space send "Good morning"', "memvault space send @notes.txt"),
    "space read": ("memvault space read", "memvault space read --space-id team --limit 5"),
    "tools list": ("memvault tools list", "memvault tools list --json"),
    "tools register": (
        "memvault tools register word_count.json",
        "memvault tools register - < word_count.json",
    ),
    "world observe": ("memvault world observe", "memvault world observe --radius 2"),
    "world move": ("memvault world move 3 4", "memvault world move 0.5 1"),
    "world gather": ("memvault world gather wood --amount 1", "memvault world gather wood"),
    "world interact": (
        'memvault world interact bob "Good day"',
        'memvault world interact bob "Any wood?" --agent main',
    ),
    "rename": (
        'memvault rename "Deploy notes" "Deploy log"',
        'memvault rename "Old notes" --to archive/',
        'memvault rename "Use PostgreSQL" "Use PostgreSQL 17" --confirm true',
    ),
    "links": ('memvault links "Deploy notes"', "memvault links use-postgresql --json"),
    "backlinks": (
        'memvault backlinks "Use PostgreSQL"',
        "memvault backlinks use-postgresql --limit 5",
    ),
    "orphans": ("memvault orphans", "memvault orphans --limit 5"),
    "tags": ("memvault tags", "memvault tags network", "memvault tags --json"),
    "tag add": (
        'memvault tag add "Deploy notes" team/deploy',
        "memvault tag add use-postgresql database,sql",
    ),
    "tag remove": (
        'memvault tag remove "Use PostgreSQL" database',
        'memvault tag remove "Deploy notes" team',
    ),
    "tag rename": (
        "memvault tag rename network net",
        "memvault tag rename network net --confirm true",
    ),
    "show": (
        'memvault show "Use PostgreSQL"',
        "memvault show use-postgresql",
        "memvault show architectural-decision/use-postgresql.md --json",
    ),
    "list": (
        "memvault list",
        "memvault list --type issue --since 2020-01-01",
        "memvault list -T network",
    ),
    "restore": (
        "memvault restore",
        'memvault restore "Thrown away"',
        'memvault restore "Deploy notes" --revision 20261122T0200',
    ),
    "status": ("memvault status", "memvault status --json"),
    "reindex": ("memvault reindex", "memvault reindex --quiet"),
    "model list": ("memvault model list", "memvault model list --json"),
    "model use": (
        "memvault model use BAAI/bge-small-en-v1.5",
        "memvault model use Xenova/ms-marco-MiniLM-L-6-v2 --for rerank",
    ),
    "model verify": ("memvault model verify", "memvault model verify --json"),
    "log": ("memvault log", 'memvault log "Deploy notes"', "memvault log --limit 5"),
    "diff": ('memvault diff "Deploy notes"', 'memvault diff "Deploy notes" 20261122T0200'),
    "undo": ("memvault undo", "memvault undo --list"),
    "trash list": ("memvault trash list", "memvault trash list --limit 5"),
    "trash empty": ("memvault trash empty", "memvault trash empty --older 30d"),
    "doctor": ("memvault doctor", "memvault doctor --fix", "memvault doctor --only id-shared"),
    "git init": ("memvault git init", "memvault git init --json"),
    "git sync": ("memvault git sync", "memvault git sync --json"),
    "git status": ("memvault git status", "memvault git status --json"),
}
"""Example command lines, by the name of the command."""
NOT_RUN = frozenset(
    {
        "memvault model use BAAI/bge-small-en-v1.5",  # needs the network
        "memvault wait for user --timeout 600",  # waits for an answer
        "memvault tools trust word_count",  # asks on a terminal
        "memvault vaults trust ~/notes",
        'memvault edit "Deploy notes"',  # opens an editor
        "EDITOR=nano memvault edit use-postgresql",
        "memvault open --with obsidian",
        "memvault index push",  # needs a Milvus server
        "memvault vaults add team http://milvus:19530 --of notes",
        "MEMVAULT_MILVUS_TOKEN=… memvault index push",
        "memvault index status",
        "memvault index status --json",
        "memvault index drop",
        "memvault index drop --all --yes",
        "memvault serve --http :8420",  # runs until it is stopped
        "memvault serve --http 10.0.0.5:8420 --name memory.example.org --audit audit.jsonl",
        "memvault tokens add ann --vaults work",  # no vault has that name
        "memvault tokens add ci --vaults work,home --scope write --as builder --days 90",
        "memvault tokens remove ann",
        "memvault tokens remove ci",
        "memvault vaults add home ~/notes",
        "memvault vaults remove work",  # no vault has that name
        "memvault vaults remove home",
        "memvault vaults default work,home",
        "memvault vaults untrust ~/notes",
        "memvault tools untrust other_tool",
        "memvault vaults untrust .",  # the vault is not trusted
        "memvault model use Xenova/ms-marco-MiniLM-L-6-v2 --for rerank",
        'memvault reply 1 "The second." --agent user',  # talk numbers differ in each vault
        "memvault reply 1 @notes.txt --agent user",
        'memvault restore "Deploy notes" --revision 20261122T0200',  # revisions are timestamps
        'memvault diff "Deploy notes" 20261122T0200',
    }
)
"""Examples that the tests cannot run, or that depend on something outside the vault."""
