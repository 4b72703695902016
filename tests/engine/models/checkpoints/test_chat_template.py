"""A chat template makes the same text as in transformers, for which templates are written."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import InvalidRequest
from engine.machine.worker_process import WorkFailed
from engine.models.checkpoints.chat_template import Messages, renderer

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
CHAT: Messages = [
    {"role": "system", "content": 'Be <brief> & "kind".'},
    {"role": "user", "content": " hi 'x'\n"},
    {"role": "assistant", "content": "<think>a</think>\nyes"},
    {"role": "user", "content": "more"},
]
TEMPLATES = {
    "tokens and whitespace": """
    {{ bos_token }}
    {%- for message in messages %}
        {% if message.role == 'user' %}
        [{{ message['content'] | trim }}]
        {% endif %}
    {% endfor %}{{ eos_token }}""",
    "what is there": "{{ tools is none }}{{ documents }}{{ add_generation_prompt }}{{ thinking }}",
    "a loop that ends": """
    {%- for message in messages %}{% if loop.index > 2 %}{% break %}{% endif %}
    {%- if message.role == 'system' %}{% continue %}{% endif %}{{ message.content }}{% endfor %}""",
    "JSON without HTML's escapes": "{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}",
    "values that outlive a loop": """
    {%- set ns = namespace(seen=0, self='x') %}
    {%- for message in messages %}{% set ns.seen = ns.seen + 1 %}{% endfor %}
    {{- ns.seen }}{{ ns.self }}""",
    "dictionaries": "{{ dict(a=1)['a'] }}{{ dict.fromkeys(['b'], 2) }}",
    "what the assistant said": """
    {%- for message in messages %}{% generation %}{{ message.content }}{% endgeneration %}{% endfor %}""",
    "Python's methods": "{{ messages[2].content.split('</think>')[-1].lstrip('\\n') }}",
}


def by_transformers(template: str) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    made: Any = render_jinja_template(
        [CHAT], chat_template=template, add_generation_prompt=True, **TOKENS
    )
    return str(made[0][0])


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_chat_renders_as_in_transformers(name: str) -> None:
    template = TEMPLATES[name]
    assert renderer(template, TOKENS)(CHAT) == by_transformers(template)


def test_a_template_cannot_reach_into_the_interpreter() -> None:
    for template in (
        "{{ messages.__class__.mro() }}",
        "{{ dict.__class__.mro() }}",
        "{{ ''.__class__.mro() }}",
        "{{ namespace(_a=1) }}",
        "{{ messages.append(1) }}",
    ):
        with pytest.raises(WorkFailed) as caught:
            renderer(template, {})(CHAT)
        assert caught.value.kind == "SecurityError"


def test_a_template_raises_what_it_says() -> None:
    with pytest.raises(WorkFailed, match="no system prompt"):
        renderer("{{ raise_exception('no system prompt') }}", {})(CHAT)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (
            "{% for a in range(90000) %}{% for b in range(90000) %}{% for c in range(90000) %}"
            "{% endfor %}{% endfor %}{% endfor %}",
            "took more than 3 s",
        ),
        ("{% set x = 'A' * (10 ** 10) %}{{ x }}", "memory"),
        ("{{ '%1000000000d' % 1 }}", "memory"),
        ("{{ 'A' * (10 ** 8) }}", "produced more than 64 MB"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested too deeply"),
    ],
    ids=["loops", "allocates", "formats wide", "writes much", "is deep"],
)
def test_a_template_that_exceeds_a_limit_is_stopped_and_the_next_chat_renders(
    template: str, why: str
) -> None:
    with pytest.raises(InvalidRequest, match=why) as caught:
        renderer(template, {})(CHAT)
    assert caught.value.field == "messages"
    assert renderer("{{ messages[0].role }}", {})(CHAT) == "system"
