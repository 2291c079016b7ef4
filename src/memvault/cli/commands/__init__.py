"""The handwritten commands, one module per group; all other commands are generated from tools."""
