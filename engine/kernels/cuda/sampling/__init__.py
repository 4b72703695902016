"""Truncation, drawing and rejection sampling inside a captured round."""
