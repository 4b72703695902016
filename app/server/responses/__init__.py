"""``/v1/responses``: OpenAI's Responses API, for text and calls of functions.

A response is kept as long as the process lives, within bounds, so that another may go on from it.
"""
