"""Report on a vault: its status, its statistics, and the items to review.

``near_copies`` finds memories with almost the same text, for ``review``.
"""
