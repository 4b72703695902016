"""A draft's tokens, one step of a program for each."""

from __future__ import annotations

import ctypes as c

from torch import Tensor

from engine.kernels.native.library import Draws as DrawsView
from engine.kernels.native.tape import Program, Tape
from engine.noise import Draws


class Steps:
    """Records where a program names its tokens. Behind ``chain[k]`` step k names ``chain[k + 1]``."""

    def __init__(self, tape: Tape, most: int) -> None:
        self.tape = tape
        self.chain = (c.c_int64 * (most + 1))()
        self.likely = (c.c_float * most)()
        self.draws = DrawsView()
        self.logits: list[Tensor] = []
        self.ends: list[int] = []

    def name(self, logits: Tensor, numbers: Tensor | None = None) -> None:
        """Ends a step, which chooses a token by ``logits (1, vocabulary of the draft)``."""
        at = len(self.ends)
        self.tape.choose(logits, self.chain, self.likely, at, numbers, self.draws)
        self.logits.append(logits)
        self.ends.append(len(self.tape))

    def done(self, begin: int = 0) -> Unrolled:
        """``begin``: the first operation of a draft."""
        return Unrolled(self.tape.done(), self, begin)


class Unrolled:
    """Drafts behind the token in ``chain[0]``; the beginning of a deep draft is a shallow one.

    Either all at once, or step by step with tokens drawn outside. What stands in the program before the
    first step runs with that.
    """

    def __init__(self, program: Program, steps: Steps, begin: int) -> None:
        self.program, self.chain, self.begin = program, steps.chain, begin
        self._likely, self._logits, self._ends = steps.likely, steps.logits, steps.ends
        self._draws = steps.draws

    def pend(self, token: int, begin: int | None = None) -> None:
        """A new draft, behind ``token``; ``begin`` where it starts at another operation."""
        self.chain[0] = token
        if begin is not None:
            self.begin = begin

    def write(
        self, depth: int, draws: Draws | None = None, floor: float = 0.0
    ) -> tuple[list[int], list[float]]:
        """The first ``depth`` tokens, and their probabilities.

        Each is the likeliest or, with ``draws``, drawn as by ``noise.sample``. They end before one
        that would make all of them together less likely than ``floor``.
        """
        self._draws.keys, self._draws.floor, self._draws.count = None, floor, 0
        if draws is not None:
            keys = (c.c_uint64 * depth)(*draws.keys)
            self._draws.keys, self._draws.sharpness = c.addressof(keys), 1 / draws.temperature
        self.program.run(self.begin, self._ends[depth - 1])
        count = self._draws.count
        return self.chain[1 : count + 1], self._likely[:count]

    def logits(self, step: int) -> Tensor:
        """float32 (1, vocabulary of the draft), to be read before the next step.

        Steps are asked for in order, and the token that is drawn given to ``choose``.
        """
        begin = self._ends[step - 1] if step else self.begin
        self.program.run(begin, self._ends[step] - 1)
        return self._logits[step]

    def choose(self, step: int, token: int) -> None:
        """What step ``step`` names, for those behind it."""
        self.chain[step + 1] = token
