"""Tools in a chat: which servers it uses, and the calls that its replies make."""
