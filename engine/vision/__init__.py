"""Images in prompts: what a model needs to see them, files to pixels, pixels to rows of embeddings.

``plan`` reads headers and imports no torch. ``pictures`` decodes files within bounds, ``towers`` computes
with transformers' classes, and ``encoder`` does both for one loaded model.
"""
