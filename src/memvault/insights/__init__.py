"""Reports about a vault: its status, its figures, and the items that a person should review.

``near_copies`` finds memories with almost the same text, for ``review``.
"""
