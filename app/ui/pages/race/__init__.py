"""The race page."""
