"""vLLM's own parser reads the commands of the plans, and its own classes their speculative configuration.

Runs where FORETOKEN_VLLM names a virtual environment with vLLM.
"""

from __future__ import annotations

import shlex

import pytest

from app.deploy.render import render
from tests.app.deploy.example_plans import PLANS, example_plan
from tests.support.parsers import parsed_there

VARIABLE = "FORETOKEN_VLLM"
NAMES = [name for name in PLANS if name.startswith("vllm-")]

PARSE = """
import dataclasses, json, sys
from vllm.config import SpeculativeConfig
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

known = {field.name for field in dataclasses.fields(SpeculativeConfig)}
found = {}
for name, words in json.load(sys.stdin).items():
    parser = make_arg_parser(FlexibleArgumentParser())
    parsed = parser.parse_args(words)
    validate_parsed_serve_args(parsed)
    config = parsed.speculative_config or {}
    found[name] = {
        "tensor": parsed.tensor_parallel_size,
        "context": parsed.max_model_len,
        "users": parsed.max_num_seqs,
        "speculative": config,
        "unknown": sorted(set(config) - known),
    }
print(json.dumps(found))
"""


def words(name: str) -> list[str]:
    """What follows ``vllm serve`` in the plan's script, as the shell would hand it over."""
    script = render(example_plan(name)).start.replace(
        '$([ "$NODE_RANK" = 0 ] || echo --headless)', ""
    )
    for variable, value in (("HOST", "::1"), ("NODE_RANK", "0"), ("HEAD_ADDRESS", "127.0.0.1")):
        script = script.replace(f'"${variable}"', value)
    line = next(line for line in script.replace("\\\n", " ").split("\n") if "vllm serve" in line)
    found = shlex.split(line)
    return found[found.index("serve") + 1 :]


@pytest.mark.peer
@pytest.mark.slow
def test_vllm_takes_what_the_plans_say() -> None:
    given = {name: words(name) for name in NAMES}
    found = parsed_there(VARIABLE, PARSE, given, VLLM_LOGGING_LEVEL="ERROR")
    for name in NAMES:
        plan, parsed = example_plan(name), found[name]
        assert parsed["unknown"] == [], name
        assert parsed["tensor"] == plan.layout.tensor // plan.layout.attention
        assert parsed["context"] == plan.request.context
        assert parsed["users"] == plan.memory.users
        assert bool(parsed["speculative"]) == plan.drafts
