"""Measure one GPU: how near decoding comes to its memory's bandwidth, and transformers beside it."""
