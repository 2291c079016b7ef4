"""The tools: typed functions, their registry, and the code that runs them."""
