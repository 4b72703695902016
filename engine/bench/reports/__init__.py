"""Measurements as tables, verdicts and charts."""
