"""Try whether a model's logits for a row depend on the rows beside it; if so, drafts change words."""

from __future__ import annotations

import torch

from engine.models.base import Model
from engine.values import MAX_ROWS

_PROMPT = 20


def first_fault(model: Model, counts: range | tuple[int, ...] = range(1, MAX_ROWS + 1)) -> str:
    """Return where logits differ from those of rows computed alone, "" if nowhere; see ``Model.forward``.

    ``counts``: numbers of rows to try.
    """
    rows = min(MAX_ROWS, model.info.context // 2)
    before = min(_PROMPT, model.info.context - rows)
    draw = torch.Generator().manual_seed(0)
    text = torch.randint(model.info.vocabulary, (before + rows,), generator=draw).tolist()
    prompt, rest = text[:before], text[before:]
    state = model.new_state(before + rows)
    model.forward(prompt, state, last=0)
    alone = torch.cat([model.forward([token], state, last=1) for token in rest])
    if not bool(alone.isfinite().all()):
        return "its logits are not finite"
    for count in counts:
        if count > rows:
            continue
        state.rewind(0)
        model.forward(prompt, state, last=0)
        found = model.forward(rest[:count], state, last=count, final=False)
        if not torch.equal(found, alone[:count]):
            return f"its logits differ with {count} rows instead of 1"
        state.commit(())
    return ""
