"""A plan for vLLM, started as it is where vLLM's build for CPUs is installed: it answers, and drafts."""

from __future__ import annotations

import os
import re
import shlex
import signal
import urllib.request
from pathlib import Path

import openai
import pytest

from engine.plan.gpus import parse_gpus
from engine.plan.model import of_path
from engine.plan.planning import make_plan
from engine.plan.render import render
from engine.plan.render.rendered import PORT
from engine.plan.request import PlanRequest
from tests.engine.plan.test_vllm_parses import VARIABLE
from tests.support.places import PIP
from tests.support.processes import free_port, running

ON_A_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; a share of the memory would be most of this machine's
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_plan_with_ngrams_answers_and_tells_its_acceptance(tmp_path: Path) -> None:
    place = os.environ.get(VARIABLE)
    if not place:
        pytest.skip(f"{VARIABLE} names no virtual environment with vLLM")
    plan = make_plan(
        PlanRequest(
            "vllm",
            of_path(PIP / "target"),
            parse_gpus("1xL4"),
            method="ngram",
            users=2,
            context=1024,
        )
    )
    port = free_port()
    script = render(plan).start.replace(str(PORT), str(port))
    words = shlex.split(script.replace("\\\n", " "), comments=True)
    words = words[words.index("serve") + 1 :]
    program = [str(Path(place) / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server"]
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        with urllib.request.urlopen(f"{url}/health") as answer:
            return bool(answer.status == 200)

    # Compiling the model takes minutes, and says nothing of the plan.
    words = ["--model", *words, "--enforce-eager"]
    with running([*program, *words], tmp_path / "log", ON_A_CPU) as server:
        server.until(answers)
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=300)
        model = client.models.list().data[0].id
        assert model == plan.target.name
        text = "Rewrite this: The tall grey heron stood by the river and the river stood still."
        reply = client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": text}], max_tokens=64, temperature=0
        )
        assert reply.choices[0].message.content
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            page = answer.read().decode()
        drafted, accepted = (
            float(re.findall(rf"^vllm:spec_decode_num_{name}_total{{.*}} (\S+)", page, re.M)[0])
            for name in ("draft_tokens", "accepted_tokens")
        )
        assert 0 <= accepted <= drafted
        assert drafted > 0
        server.send(signal.SIGTERM)
        server.ended()
