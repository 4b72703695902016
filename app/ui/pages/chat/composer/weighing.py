"""What the message box says of the pages that are given and left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.documents.fitting import pages_in
from app.storage.attachments import Attachment, ranges
from app.ui import words
from engine.values.units import counted


def chosen_pages(choice: str, attachment: Attachment) -> tuple[frozenset[int] | None, str]:
    """Return the pages that the user typed, None for all that fit; and a note on what is wrong, or "".

    What names no page counts as none typed.
    """
    count = len(attachment.pages)
    if not choice.strip() or not count:
        return None, ""
    found = pages_in(choice, count)
    if not found:
        return None, (
            f"“{choice.strip()[:40]}” names no page from 1 to {count}, so all that fit are "
            "included. Type pages as 1-3, 7."
        )
    unit = (attachment.unit or "Page").lower()
    beyond = any(int(each) > count for each in re.findall(r"\d+", choice))
    only = f"There {'is' if count == 1 else 'are'} only {counted(count, unit)}."
    return found, only if beyond else ""


def shown_pages(attachment: Attachment, left_out: Sequence[int], to_fit: bool) -> str:
    """Return a sentence on the pages that are left out; "" if none is."""
    if not left_out:
        return ""
    count = len(attachment.pages)
    given = ranges(n for n in range(1, count + 1) if n not in set(left_out))
    return words.pages_given(attachment.unit or "Page", given, count, ranges(left_out), to_fit)
