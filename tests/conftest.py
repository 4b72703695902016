"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says nothing about the code on a machine that is busy with something else.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
