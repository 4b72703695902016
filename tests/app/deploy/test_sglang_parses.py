"""SGLang's own parser reads the commands of the plans, for its server and for Dynamo's worker.

Runs where FORETOKEN_SGLANG names a virtual environment with SGLang; what needs a GPU is not looked at.
"""

from __future__ import annotations

import shlex

import pytest

from app.deploy.methods import ENGINE_TABLE, SGLANG
from app.deploy.render import render
from tests.app.deploy.example_plans import PLANS, example_plan
from tests.support.parsers import parsed_there

VARIABLE = "FORETOKEN_SGLANG"
NAMES = [name for name in PLANS if name.startswith(("sglang-", "dynamo-sglang-"))]
DYNAMOS = ("--served-model-name", "--discovery-backend")
"""What Dynamo's worker takes itself of the same line, each with a value."""

PARSE = """
import json, sys
from sglang.srt.server_args import prepare_server_args

asked = (
    "model_path tp_size dp_size ep_size context_length max_running_requests nnodes speculative_algorithm "
    "speculative_num_draft_tokens speculative_draft_model_path"
).split()
found = {}
for name, words in json.load(sys.stdin).items():
    parsed = prepare_server_args(words)
    found[name] = {field: getattr(parsed, field) for field in asked}
print(json.dumps(found))
"""


def words(name: str) -> list[str]:
    """What follows the program in the plan's script, as the shell would hand it over."""
    script = render(example_plan(name)).start
    script = script.replace('${API_KEY:+--api-key "$API_KEY"}', "--api-key k").replace(
        '"$HOST"', "::1"
    )
    script = script.replace('"$NODE_RANK"', "0").replace('"$HEAD_ADDRESS', '"127.0.0.1')
    lines = script.replace("\\\n", " ").split("\n")
    line = next(line for line in lines if "sglang" in line and "-m" in line)
    found = shlex.split(line.removesuffix("&"))
    found = found[found.index("-m") + 2 :]
    for option in DYNAMOS if name.startswith("dynamo") else ():
        at = found.index(option)
        del found[at : at + 2]
    return found


@pytest.mark.peer
@pytest.mark.slow
def test_sglang_takes_what_the_plans_say() -> None:
    given = {name: words(name) for name in NAMES}
    found = parsed_there(VARIABLE, PARSE, given)
    for name in NAMES:
        plan, parsed = example_plan(name), found[name]
        assert parsed["model_path"] == plan.target.name
        assert parsed["tp_size"] == plan.layout.tensor
        apart = plan.layout.attention
        assert parsed["dp_size"] == (apart if apart > 1 else plan.copies_per_start)
        assert parsed["ep_size"] == plan.layout.expert
        assert parsed["context_length"] == plan.request.context
        assert parsed["max_running_requests"] == plan.sequences
        assert parsed["nnodes"] == plan.nodes
        assert parsed["speculative_algorithm"] == (
            ENGINE_TABLE[SGLANG].methods[plan.request.method] if plan.drafts else None
        )
        assert parsed["speculative_draft_model_path"] == plan.draft
        if plan.drafts:
            assert parsed["speculative_num_draft_tokens"] == plan.depth + 1
