"""Grammars as masks over a vocabulary, by llguidance. Knows tokens and no model."""
