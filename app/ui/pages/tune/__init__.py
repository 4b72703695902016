"""The tune page."""
