"""Drafts from earlier text: n-grams, suffixes, copies, past replies."""
