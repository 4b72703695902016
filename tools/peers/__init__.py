"""Other engines beside this one: same weights, same prompts, one run.

One small file per engine; ``base`` says what an engine must do, ``run`` lets them take turns.
"""
