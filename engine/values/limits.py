"""How many tokens a round may draft and verify."""

MAX_DEPTH = 15
"""Most tokens that a round drafts."""
MAX_ROWS = MAX_DEPTH + 1
"""With the pending token: the rows that every kernel verifies in one pass, with the bits of one row."""
