"""What a pair would take of memory once it is loaded, part by part, for who chooses among pairs.

By the files where they are here, as loading itself reckons it; by the catalog's sizes where they are not.
All arithmetic is in fit.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import ModelError
from engine.loading import fit as memory
from engine.loading.files import PairFiles
from engine.loading.fit import MemoryFit, ModelSize
from engine.loading.request import LoadRequest
from engine.loading.specs import Locate, Pairing

TARGET, DRAFT = "target", "draft"


@dataclass(frozen=True, slots=True)
class Forecast:
    """``room`` is reckoned for ``context`` tokens; ``roles`` say what each of its models is: target,
    draft, or the kind of a head. ``longest``: the most tokens that are taken without being asked for.

    ``held``: what the target's weights are held in; "" where only the catalog's sizes are known.
    """

    room: MemoryFit
    roles: tuple[str, ...]
    context: int
    longest: int
    held: str = ""


def forecast(
    pairing: Pairing, request: LoadRequest, locate: Locate, context: int | None = None
) -> Forecast:
    """What ``pairing`` needs with ``context`` tokens, by default with as many as it would be given.

    ``request`` says how it is held and computed. Raises ModelError where nothing is known of its sizes,
    and as ``resolve`` of the catalog does for a broken file or a draft that does not fit.
    """
    if pairing.target.address:
        raise ModelError(
            f"{pairing.target.name} runs on a server, and takes of that one's memory, not of this one's."
        )
    target = locate(pairing.target)
    draft = None if pairing.draft is None else locate(pairing.draft)
    if target is None or (draft is None and pairing.draft is not None):
        return _by_catalog(pairing, context)
    from engine.loading.plan import survey  # brings torch

    found = survey(PairFiles(pairing, target, draft), request)
    asked = min(context or found.wanted, found.wanted)
    heads = (head.kind for head in found.sizes.heads)
    roles = (TARGET, *(() if draft is None else (DRAFT,)), *heads)
    return Forecast(found.room(asked), roles, asked, found.wanted, found.planned.quantization)


def _by_catalog(pairing: Pairing, context: int | None) -> Forecast:
    """Heads are left out: their files are read with the target's."""
    specs = [pairing.target] if pairing.draft is None else [pairing.target, pairing.draft]
    unknown = [spec.name for spec in specs if not (spec.parameters and spec.layers)]
    if unknown:
        raise ModelError(
            f"What {' and '.join(unknown)} will need beside the weights is told by its files, and these "
            "are not here yet. Download it first."
        )
    longest = min(pairing.target.context, memory.LONGEST_CONTEXT)
    asked = min(context or longest, longest)
    room = memory.fit(*map(ModelSize.of, specs), context=asked)
    return Forecast(room, (TARGET, DRAFT)[: len(specs)], asked, longest)
