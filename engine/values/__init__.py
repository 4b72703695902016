"""Frozen, validated values that several layers share: limits, sampling, messages, tools, grammars."""
