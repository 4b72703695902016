"""A server of vLLM, SGLang or TensorRT-LLM: its command, the same in a container, and for a cluster.

TensorRT-LLM's server has no copies of its own: each is a server, at the next port. It reads a file beside
its options.
"""

from __future__ import annotations

from app.deploy.methods import TRTLLM
from app.deploy.render import rendered
from app.deploy.render.engines import environment_of, server, trtllm_config
from app.deploy.render.kubernetes import manifest
from app.deploy.render.rendered import PORT, Rendered, Shell, command, script
from app.deploy.request import Plan

CONFIG = "extra-llm-api-config.yml"

TIKTOKEN = "tiktoken"
"""Folder of the two encodings that gpt-oss' harmony format needs in NVIDIA's container."""


def render(plan: Plan) -> Rendered:
    """Return the server's scripts and files."""
    comments, before = rendered.says(plan), [*rendered.ranks(plan), *rendered.listens(plan)]
    if plan.request.engine != TRTLLM:
        copies = plan.copies_per_start
        variables = {**rendered.devices(plan), **environment_of(plan)}
        start = command(server(plan, rendered.host(plan), copies), variables)
        inside = server(plan, rendered.host(plan, inside=True), copies)
        container = rendered.docker(plan, rendered.image_of(plan), inside, environment=variables)
        ended = script(rendered.HERE, *before, container, says=comments)
        return Rendered(
            script(*before, start, says=comments), ended, manifest(plan), rendered.around(plan)
        )
    return _trtllm(plan, comments, before)


def _trtllm(plan: Plan, comments: list[str], before: list[str]) -> Rendered:
    """Return the scripts with TensorRT-LLM's file, and a server for each copy."""
    copies, tiktoken = plan.copies_per_start, rendered.needs_tiktoken(plan)
    encodings = {"TIKTOKEN_ENCODINGS_BASE": Shell(f'"$here/{TIKTOKEN}"')} if tiktoken else {}
    config: rendered.Options = [("--extra_llm_api_options", Shell(f'"$here/{CONFIG}"'))]
    if copies == 1:
        of_start = of_container = comments
        parts = [command(server(plan, [*config, *rendered.host(plan)], 1), encodings)]
    else:
        port = Shell(f"$(({PORT} + copy))")
        parts = rendered.together(
            rendered.each_copy(
                plan, server(plan, [*config, *rendered.host(plan, port=port)], 1), encodings
            )
        )
        ports = f"ports {PORT} to {PORT + copies - 1}"
        each = "give each its own --gpus, name and port"
        of_start = [*comments, f"The {copies} replicas listen at {ports}."]
        of_container = [*comments, f"One of the {copies} replicas; {each}."]
    read = [CONFIG, TIKTOKEN] if tiktoken else [CONFIG]
    inside = rendered.docker(
        plan,
        rendered.image_of(plan),
        server(
            plan,
            [("--extra_llm_api_options", f"/plan/{CONFIG}"), *rendered.host(plan, inside=True)],
            1,
        ),
        environment={name: f"/plan/{TIKTOKEN}" for name in encodings},
        mounts=[f'"$here/{name}:/plan/{name}:ro"' for name in read],
    )
    return Rendered(
        script(rendered.HERE, *before, *parts, says=of_start),
        script(rendered.HERE, *before, inside, says=of_container),
        {CONFIG: rendered.as_yaml(trtllm_config(plan))},
        rendered.around(plan),
    )
