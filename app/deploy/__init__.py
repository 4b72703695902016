"""Launch plans for other engines: what to start, on how many GPUs, and what to expect.

``make_plan`` takes facts of a model, of GPUs and of a load, and returns a frozen ``Plan`` or an error
that says what would fit. ``render`` writes an engine's command and files; ``estimate.load`` gives the
speeds under load by the same formulas. Nothing here starts anything, connects, or needs the engines.
"""
