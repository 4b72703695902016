"""``/v1/responses``: OpenAI's Responses API, for text and calls of functions.

Responses are stored while the process lives, within bounds, so that another one can continue from them.
"""
