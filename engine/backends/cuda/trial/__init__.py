"""Run each kernel that a model uses on this very GPU, beside torch, before the model answers.

A kernel that was right elsewhere may be wrong on another GPU, or with another compiler: then words are
wrong and nothing says so. Each trial checks two things, with the model's own weights and sizes: a row has
the same bits alone, beside any rows and at any place; and values are as near the reference as rounding
explains.

``findings``    the result of a trial, and comparisons
``linear`` ``recurrence`` ``attention`` ``norm`` ``sampling``    the trials
``rounds``      rounds that the host's rules decide too
``model``       all of them for one model
``verdicts``    what was found, kept for this machine
"""
