"""The tools: typed functions, their registry, and the one way to run them."""
