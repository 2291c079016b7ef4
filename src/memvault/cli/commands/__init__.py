"""The handwritten commands, one module per group; the others are generated from tools."""
