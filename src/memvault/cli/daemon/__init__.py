"""The resident process: a daemon that runs commands with vaults that stay open, and its client."""
