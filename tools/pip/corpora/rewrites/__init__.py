"""Examples in which Pip rewrites a given text: rename, change case, reorder, mark lines, fill a form and the like.

Every edit has one right outcome, and the reply is that text and nothing else.
"""

from .edit import SAY
from .examples import generate, generate_edits
from .tasks import TASKS

__all__ = ["SAY", "TASKS", "generate", "generate_edits"]
