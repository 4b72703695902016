"""What holds for all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# How long an example takes says nothing about the code on a machine that is busy with something else.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# A shell without job control starts what runs in the background deaf to Ctrl-C, and programs inherit
# that: tests that send it would wait for an end that never comes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
