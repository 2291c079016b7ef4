"""Report on a vault: its status, its statistics, and the items to review."""
