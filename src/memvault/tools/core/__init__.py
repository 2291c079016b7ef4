"""Infrastructure of the tools: registry, invocation, shared results and reference pages."""
