"""Between two vocabularies: what their tokens spell, which they share, one's text in the other's.

Everything here knows tokenizers and bytes, no models and no torch.
"""
