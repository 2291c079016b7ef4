"""Create, edit, delete, restore, rename and tag memories.

Reading and writing their files is in ``store``; episodes, facts and procedures are in
``experience``.
"""
