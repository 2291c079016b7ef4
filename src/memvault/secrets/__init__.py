"""Detect secrets in text by their issuers' formats, and mask them.

``patterns`` defines the formats. ``detector`` finds and masks secrets, including secrets that are
split by markup: ``plain_copy`` makes copies of the text without markup. A vault's settings provide
the ``SecretDetector`` for its memories; ``BUILTIN`` is the detector for everything else.
"""
