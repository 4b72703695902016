"""The server page."""
