"""A real pair of models beside other engines on the same files: each a process of its own, in turns.

``contest`` says what an engine must do and lets them take turns. One file an engine: ``own``,
``llama_cpp``, ``openvino``, ``transformers``; they are asked over HTTP (``server``) or in lines of JSON
(``worker`` asks, ``child`` answers). ``summary`` makes figures of what came of it, ``report`` and
``chart`` what people read.
"""
