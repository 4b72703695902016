"""Launch plans for engines beyond this machine: what to start, on how many GPUs, and why it fits.

Facts of a model, of GPUs and of a load in, a frozen ``Plan`` out, or an error that says what would fit.
Nothing here starts anything, opens a connection or needs the engines it plans for: pure Python.
``render`` turns a plan into an engine's own command and files; ``simulation`` runs a load through the
same formulas.
"""
