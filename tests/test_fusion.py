"""Fusion: what is better on both sides never comes later."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memvault.recall.retrieve import fuse

sides = st.dictionaries(st.integers(1, 30), st.floats(0, 1, allow_subnormal=False), max_size=12)


cosines = st.dictionaries(st.integers(1, 30), st.floats(-1, 1, allow_subnormal=False), max_size=12)


@given(sides, cosines, st.floats(0, 1, allow_subnormal=False))
def test_fusion_ranks_fairly(
    keyword: dict[int, float], cosine: dict[int, float], weight: float
) -> None:
    """Scores are in 0..1, and what is better on both sides never comes later."""
    fused = fuse(keyword, cosine, weight)
    assert {uid for uid, _ in fused} == keyword.keys() | cosine.keys()
    assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)
    for uid, score in fused:
        assert 0 <= score <= 1 + 1e-9
        for other, other_score in fused:
            more_words = keyword.get(uid, 0.0) >= keyword.get(other, 0.0)
            nearer = cosine.get(uid, -2.0) >= cosine.get(other, -2.0)
            if more_words and nearer:
                assert score >= other_score - 1e-9
