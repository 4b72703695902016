"""Calls of tools: how a model is told of them, how it writes them, and how what it wrote is read.

Text alone: no tokens, no model, no protocol."""
