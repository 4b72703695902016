"""Tool calls: describe tools to a model, and parse the calls it writes.

Text alone: no tokens, no model, no protocol."""
