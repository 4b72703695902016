"""Training data for Pip: seeded generators of chat examples and the checks that grade replies."""
