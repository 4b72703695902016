"""The pages: each is a function that builds itself and returns its named elements."""
