"""``python -m tools.drafts``: records drafts of a pair, and replays them on a simulated machine."""
