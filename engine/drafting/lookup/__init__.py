"""Drafts out of text that was there before: n-grams, suffixes, copies, past replies."""
