"""Controllers, which decide how far to draft in each round."""
