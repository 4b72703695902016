"""A benchmark of a real pair of models beside other engines on the same files.

Each engine runs in a process of its own, in turns. ``contest`` has the protocol of an engine and the
order of turns; ``own`` is this engine, ``peers`` are the others. They answer over HTTP or in
lines of JSON (``process`` is the client, ``child`` the server).
``summary`` computes figures from the replies, ``report`` writes them.
"""
