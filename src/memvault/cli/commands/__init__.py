"""The commands that are not generated from tools, one module per group."""
