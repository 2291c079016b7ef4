"""The resident process: a daemon that runs commands with open vaults, and its client."""
