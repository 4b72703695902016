"""Texts and tokens between two vocabularies. These modules know tokenizers and bytes, but no models."""
