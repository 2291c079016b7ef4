"""Operations on memories beyond reading and writing their files.

Memories are created, edited, deleted, restored, renamed and tagged here; episodes, facts and
procedures are memories of particular types.
"""
