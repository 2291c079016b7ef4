"""Consolidation: propose facts and procedures from repetitions in episodes.

``apply`` reads episodes, facts and procedures into one immutable value, and writes accepted
proposals. ``rules`` makes the proposals without side effects: repeated statements, recurring action
sequences, and contradictions. ``statements`` extracts sentences and matches near-identical
wordings. ``rewording`` adds paraphrased repetitions: ``paraphrases`` groups statements by meaning,
``sequences`` aligns actions, and ``differences`` decides whether similar statements contradict each
other. ``proposals`` has the data types, and ``extractor`` runs an external program instead of the
rules.
"""
