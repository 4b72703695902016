"""A checkpoint in the formats of other engines, so that the same weights can be run there."""
