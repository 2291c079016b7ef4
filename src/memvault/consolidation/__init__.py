"""What repeats in episodes, made into proposals and written where they are accepted.

``in_vault`` reads episodes, facts and procedures into one frozen value, and
writes what was accepted. ``rules``, pure, makes the proposals: ``statements``
reads sentences, ``same_statements`` finds who says the same, ``sequences`` which
actions repeat, ``contradictions`` what cannot both hold. ``extracting`` has a
program read them instead.
"""
