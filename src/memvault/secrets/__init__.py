"""Secrets in texts: detected by the formats of their issuers, named by kind, and masked.

``patterns`` defines the formats, ``detector`` finds and masks secrets, also in the copies without
markup that ``plain_copy`` makes. A vault's settings have the ``SecretDetector`` for its texts;
``BUILTIN`` is the one for texts outside of a vault.
"""
