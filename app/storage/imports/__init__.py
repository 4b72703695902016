"""Import chats from files: Foretoken's own, ChatGPT's export and LM Studio's conversations.

Files come from outside, so sizes, depths and counts are bounded, and one broken chat does not stop the
others.
"""
