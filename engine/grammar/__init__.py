"""Grammars as masks over a vocabulary: llguidance, which parses as far as a text has come and tells which
tokens may follow. It knows tokens and no model."""
