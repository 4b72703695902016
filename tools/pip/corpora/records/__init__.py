"""Examples in which Pip writes JSON, Markdown tables and lists from what it is told, and changes them on request.

A record keeps the keys that were asked for, or else the usual ones of its domain. Numbers are numbers, yes and no are
true and false. The reply is the record and nothing else.
"""

from .examples import generate, generate_changes
from .requests import SAY

__all__ = ["SAY", "generate", "generate_changes"]
