"""Detect secrets in text by their issuers' formats, and mask them.

``patterns`` defines the formats, ``detector`` finds and masks secrets, including those that only
the copies without markup from ``plain_copy`` show. A vault's settings have the ``SecretDetector``
for its memories; ``BUILTIN`` is the detector for everything else.
"""
