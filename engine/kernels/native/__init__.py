"""The decoder's step in C++, compiled on the machine it runs on.

In PyTorch a step of a small model spends most of its time between operations: some twenty calls a layer
of a few microseconds each. Here it is one call. ``products.cpp`` holds what multiplies, ``native.cpp``
the step; ``build`` compiles them once and keeps the result, ``library`` calls it.
"""
