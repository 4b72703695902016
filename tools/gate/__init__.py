"""The gate: what a change did to words, speed, memory, closeness, start, tests and size.

``figures`` names what is measured, ``side`` measures it of one checkout, ``machine`` says what this
machine can do meanwhile, ``closeness`` compares a model with its file's own weights, ``judge`` says what
got worse, ``report`` shows it. ``__main__`` puts them together.
"""
