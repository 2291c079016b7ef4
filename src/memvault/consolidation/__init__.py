"""Consolidation: proposals for facts and procedures from what repeats in episodes.

``apply`` reads episodes, facts and procedures into one immutable value, and writes accepted
proposals. ``rules`` makes the proposals without side effects: what repeats, which action sequences
recur, and what contradicts each other. ``statements`` extracts sentences and matches those that say
the same in nearly the same words. ``rewording`` adds what repeats in other words: ``paraphrases``
groups statements by meaning, ``sequences`` aligns actions, and ``differences`` decides whether
similar statements exclude each other. ``proposals`` holds the data types, and ``extractor`` runs an
external program instead of the rules.
"""
