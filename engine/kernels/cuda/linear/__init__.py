"""Linear layers for 1 to 16 rows with the same bits, and for prompts."""
