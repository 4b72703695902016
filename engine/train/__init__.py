"""Train a drafter for any target from the target's own output.

The target answers prompts through the engine, as it does in the app; its words and the hidden states
behind them are kept (recording.py), and a drafter learns from them to say what the target says next.
A new kind of drafter is one file here and one line in kinds.py.
"""
