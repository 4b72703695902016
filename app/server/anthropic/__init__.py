"""``/v1/messages``: Anthropic's Messages API, for agents that speak it.

Bodies become those of chats, so a request has the same words here as there.
"""
