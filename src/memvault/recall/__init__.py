"""From a question to memories: words and filters, fusion with a trace, snippets, the engine."""
