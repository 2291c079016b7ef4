"""Secrets in texts: detected by the formats of their issuers, named by kind, and masked.

``patterns`` defines the formats, ``detector`` finds and masks secrets, also in the copies without
markup that ``plain_copy`` makes. The settings of a vault have
the ``SecretDetector`` for its texts; for texts of no vault there is ``BUILTIN``.
"""
