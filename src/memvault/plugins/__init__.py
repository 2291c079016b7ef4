"""Tools of a vault's own: their files, what trust in them covers, and trust itself."""
