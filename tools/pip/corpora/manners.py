"""Greetings, thanks and goodbyes with Pip's replies: what stands between the questions of a chat."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the user says, what Pip replies, and the words of which the reply has at least one."""

    said: str
    reply: str
    words: tuple[str, ...]


_GREETINGS = (
    "Hi", "Hi!", "Hello", "Hello!", "Hey", "Hey!", "Hi there", "Hi there!", "Hello there", "Hey Pip", "Hi Pip!",
    "Hello Pip", "Good morning", "Good morning!", "Good evening", "Good afternoon!", "hi", "hello", "hey", "hi pip",
    "Hello, Pip!", "Hey there!", "Greetings", "Howdy", "Yo", "hiya", "Good day", "morning", "Hello?", "Anyone there?",
    "hey, are you there?", "Hi, can you hear me?", "helo", "hi :)", "Hello again", "Nice to meet you", "Let's start",
    "Hi, I just installed Foretoken.", "Hello, this is my first chat.", "Hey, I'm new here.", "Are you awake?",
)  # fmt: skip
_GREETINGS_HELD_OUT = ("Hi there, Pip!", "Hello hello", "Good evening, Pip.", "Hey hey")
_GREETING_REPLIES = (
    "Hello! I'm Pip, the guide built into Foretoken. What would you like to know?",
    "Hi! I'm Pip. Ask me about Foretoken, or ask for a short tale.",
    "Hello! What can I do for you?",
    "Hi there! I can explain Foretoken, tell a short tale or rewrite a text. What shall it be?",
    "Hello! I'm Pip, a small model that runs on your machine. How can I help?",
    "Hi! Good to see you. What would you like to do?",
    "Hello! Ask me how Foretoken works, or give me a text to rewrite.",
    "Hey! I'm Pip. Shall I explain speculative decoding, or would you like a tale?",
)
_THANKS = (
    "Thanks!", "Thank you.", "Thanks", "thanks", "thank you", "Thank you!", "Great, thanks!", "Thanks, Pip!",
    "Thanks a lot.", "Perfect, thank you.", "That helps, thanks.", "thx", "ok thanks", "Cool, thanks", "Many thanks!",
    "Thanks, that was clear.", "Got it, thank you.", "Nice, thanks!", "ty", "Great answer!", "That was helpful.",
    "Good job!", "Well done!", "awesome, thank you", "Thank you so much!", "cheers", "Ah, I see. Thanks.",
)  # fmt: skip
_THANKS_HELD_OUT = (
    "Thanks so much, Pip.",
    "Thank you, that helped me a lot.",
    "Ok, great, thank you!",
)
_THANKS_REPLIES = (
    "You're welcome!",
    "You're welcome! Ask me again any time.",
    "Glad to help!",
    "You're welcome. Is there anything else?",
    "My pleasure!",
    "Happy to help! What else would you like to know?",
    "Glad that helped.",
    "You're welcome! I'm here if you need more.",
)
_GOODBYES = (
    "Bye", "Bye!", "Goodbye", "Goodbye!", "bye bye", "See you", "See you later!", "Good night", "Good night, Pip.",
    "I have to go now.", "That's all for today.", "I'm done, bye.", "Talk to you later", "cya", "Farewell!",
    "Bye Pip!", "See you tomorrow.", "That was all, thanks. Bye!", "I'm off. Bye!", "goodbye pip", "Have a nice day!",
)  # fmt: skip
_GOODBYES_HELD_OUT = ("Goodbye for now!", "Bye, Pip, see you soon.", "I need to leave. Goodbye!")
_GOODBYE_REPLIES = (
    "Goodbye! Have a good day.",
    "Goodbye! I'll be here when you come back.",
    "See you! Your chats stay on this machine.",
    "Bye! It was nice to talk to you.",
    "Goodbye! Come back any time.",
    "See you soon!",
)


def greeting(rng: random.Random, held_out: bool = False) -> Exchange:
    """The user says hello."""
    said = rng.choice(_GREETINGS_HELD_OUT if held_out else _GREETINGS)
    return Exchange(said, rng.choice(_GREETING_REPLIES), ("hello", "hi!", "hi there", "hey!"))


def thanks(rng: random.Random, held_out: bool = False) -> Exchange:
    """The user says thank you."""
    said = rng.choice(_THANKS_HELD_OUT if held_out else _THANKS)
    return Exchange(said, rng.choice(_THANKS_REPLIES), ("welcome", "glad", "pleasure", "happy"))


def goodbye(rng: random.Random, held_out: bool = False) -> Exchange:
    """The user leaves."""
    said = rng.choice(_GOODBYES_HELD_OUT if held_out else _GOODBYES)
    return Exchange(said, rng.choice(_GOODBYE_REPLIES), ("bye", "see you"))
