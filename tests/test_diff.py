"""What is to be indexed: each file is accounted for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memvault.index.local.manifest import IndexedFile
from memvault.index.local.refresh import diff_folder
from memvault.model import FileState
from memvault.vault.reader import Scan

paths = st.sampled_from(["a.md", "b.md", "d/a.md", "d/e/a.md", "de/a.md"])


times = st.sampled_from([0, 5_000_000_000, 5_000_000_001, 9_000_000_000])


states = st.builds(FileState, paths, st.integers(0, 1), times, times, st.integers(1, 2))


@given(
    st.dictionaries(paths, st.tuples(states, times)),
    st.dictionaries(paths, states),
    st.sets(st.sampled_from(["d", "d/e", "de"])),
)
def test_a_plan_accounts_for_every_file(
    indexed: dict[str, tuple[FileState, int]], there: dict[str, FileState], lost: set[str]
) -> None:
    """Each file is new, changed, doubtful or as it was; nothing unreadable is taken out."""
    known = {
        path: IndexedFile(uid, state._replace(path=path), checked, "etag")
        for uid, (path, (state, checked)) in enumerate(indexed.items())
    }
    files = [state._replace(path=path) for path, state in there.items()]
    plan = diff_folder(known, Scan(files, sorted(lost)))
    for state in files:
        entry = known.get(state.path)
        kinds = [
            state in plan.added,
            (entry, state) in plan.changed,
            (entry, state) in plan.doubtful,
        ]
        assert sum(kinds) <= 1
        assert kinds[0] == (entry is None)
        if entry is not None:
            assert kinds[1] == (entry.state != state)
            if not any(kinds):
                assert entry.checked - state.ctime > 1_000_000_000
    for path, entry in known.items():
        hidden = any(path.startswith(f"{folder}/") for folder in lost)
        assert (entry.uid in plan.removed) == (path not in there and not hidden)
