"""A real pair of models beside other engines on the same files: each a process of its own, in turns.

``contest`` says what an engine must do and lets them take turns; ``summary`` makes figures of what
came of it, ``report`` and ``chart`` what people read. An engine that is not shipped with the app joins
from outside (tools/peers).
"""
