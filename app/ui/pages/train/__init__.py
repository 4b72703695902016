"""The train page."""
