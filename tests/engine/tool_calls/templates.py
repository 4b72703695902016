"""Small chat templates with the published structure of twelve families, for tests.

Written after the templates of Qwen3, Qwen3.5, gpt-oss, Gemma 4, LFM2 and 2.5, Granite 4, Ministral 3,
GLM 4.5 and 4.7, Seed-OSS and Llama 3.1, as they stood in October 2026: the same marks, order, white space and rules about
thoughts; without their long instructions.
"""

# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass

from engine.tool_calls.styles import (
    GEMMA4,
    GLM45,
    GLM47,
    HARMONY,
    HERMES,
    LFM2,
    LLAMA,
    MISTRAL,
    QWEN3_CODER,
    SEED_OSS,
    CallStyle,
)

_LAST_USER = """
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"""
_CHATML_TOOL = """
{%- elif m.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}"""
QWEN3 = (
    "{%- if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    + _LAST_USER
    + """
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.index0 > ns.last and m.reasoning_content is string %}
{{- '<think>\\n' + m.reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + m.content.lstrip('\\n') }}
{%- else %}{{ m.content }}{% endif %}
{%- for c in m.tool_calls or [] %}
{%- if (loop.first and m.content) or not loop.first %}{{ '\\n' }}{% endif %}
{{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) }}
{{- '}\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}"""
    + _CHATML_TOOL
    + """
{%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}"""
)
QWEN35 = (
    "{%- if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    + _LAST_USER
    + """
{%- for m in messages %}
{%- if m.role == 'assistant' %}
{%- set content = m.content | trim %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.index0 > ns.last %}
{{- '<think>\\n' + (m.reasoning_content or '') | trim + '\\n</think>\\n\\n' + content }}
{%- else %}{{ content }}{% endif %}
{%- for c in m.tool_calls or [] %}
{{- ('\\n\\n' if content else '') if loop.first else '\\n' }}
{{- '<tool_call>\\n<function=' + c.function.name + '>\\n' }}
{%- for name, value in c.function.arguments | items %}
{{- '<parameter=' + name + '>\\n' }}
{{- value | tojson if value is mapping or (value is sequence and value is not string) else value | string }}
{{- '\\n</parameter>\\n' }}{% endfor %}
{{- '</function>\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}"""
    + _CHATML_TOOL
    + """
{%- else %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}
{%- else %}{{ '<think>\\n' }}{% endif %}
{%- endif %}"""
)
GPT_OSS = """
{{- '<|start|>system<|message|>Reasoning: ' + (reasoning_effort or 'medium') + '\\n# Valid channels<|end|>' }}
{%- if tools %}{{ '<|start|>developer<|message|># Tools' }}
{%- for t in tools %}{{ t.function.name }}{% endfor %}{{ '<|end|>' }}{% endif %}
{%- set ns = namespace(name='') %}
{%- for m in messages %}
{%- if m.role == 'assistant' and 'tool_calls' in m %}
{%- set later = namespace(final=false) %}
{%- for n in messages[loop.index:] %}
{%- if n.role == 'assistant' and 'tool_calls' not in n %}{% set later.final = true %}{% endif %}{% endfor %}
{%- set call = m.tool_calls[0].function %}
{%- if m.content and m.thinking %}{{ raise_exception('Cannot pass both content and thinking') }}
{%- elif m.thinking and not later.final %}
{{- '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}{% endif %}
{{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' }}
{{- call.arguments | tojson + '<|call|>' }}
{%- set ns.name = call.name %}
{%- elif m.role == 'assistant' %}
{{- '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}
{%- elif m.role == 'tool' %}
{{- '<|start|>functions.' + ns.name + ' to=assistant<|channel|>commentary<|message|>' }}
{{- m.content | tojson + '<|end|>' }}
{%- else %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"""
GEMMA_4 = (
    """
{%- macro value(v) -%}
{%- if v is string %}{{ '<|"|>' + v + '<|"|>' }}
{%- elif v is boolean %}{{ 'true' if v else 'false' }}
{%- elif v is mapping %}{{ '{' }}
{%- for k, w in v | dictsort %}{{ k + ':' }}{{ value(w) }}{{ '' if loop.last else ',' }}{% endfor %}{{ '}' }}
{%- elif v is sequence %}{{ '[' }}
{%- for w in v %}{{ value(w) }}{{ '' if loop.last else ',' }}{% endfor %}{{ ']' }}
{%- else %}{{ v }}{% endif %}
{%- endmacro -%}
{{ bos_token }}
{%- if enable_thinking or tools %}{{ '<|turn>system\\n' }}
{%- if enable_thinking is defined and enable_thinking %}{{ '<|think|>' }}{% endif %}
{%- for t in tools or [] %}{{ '<|tool>declaration:' + t.function.name + '<tool|>' }}{% endfor %}
{{- '<turn|>\\n' }}{% endif %}"""
    + _LAST_USER
    + """
{%- set prev = namespace(responded=false) %}
{%- for m in messages %}
{{- '<|turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}
{%- if m.tool_calls %}
{%- if m.reasoning_content and loop.index0 > ns.last %}
{{- '<|channel>thought\\n' + m.reasoning_content + '<channel|>' }}{% endif %}
{%- for c in m.tool_calls %}{{ '<|tool_call>call:' + c.function.name }}
{{- value(c.function.arguments) + '<tool_call|>' }}{% endfor %}{% endif %}
{%- set prev.responded = m.tool_responses is defined %}
{%- for r in m.tool_responses or [] %}
{{- '<|tool_response>response:' + r.name }}
{{- value(r.response if r.response is mapping else {'value': r.response}) + '<tool_response|>' }}{% endfor %}
{{- m.content | trim }}
{%- if not (m.tool_responses and not m.content) %}{{ '<turn|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{%- if not prev.responded %}{{ '<|turn>model\\n' }}{% endif %}
{%- if not enable_thinking | default(false) %}{{ '<|channel>thought\\n<channel|>' }}{% endif %}
{%- endif %}"""
)
LFM_25 = (
    """
{%- macro value(v) -%}
{%- if v is string %}{{ "'" + v + "'" }}{% elif v is mapping %}{{ v | tojson }}{% else %}{{ v | string }}{% endif %}
{%- endmacro -%}
{{ bos_token }}
{%- if tools %}{{ '<|im_start|>system\\nList of tools: ' + (tools | tojson) + '<|im_end|>\\n' }}{% endif %}"""
    + _LAST_USER
    + """
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.thinking is defined and loop.index0 > ns.last %}{{ '<think>' + m.thinking + '</think>' }}{% endif %}
{{- m.content }}
{%- if m.tool_calls %}{{ '<|tool_call_start|>[' }}
{%- for c in m.tool_calls %}{{ c.function.name + '(' }}
{%- for k, v in c.function.arguments | items %}{{ k + '=' }}{{ value(v) }}{{ '' if loop.last else ', ' }}{% endfor %}
{{- ')' + ('' if loop.last else ', ') }}{% endfor %}{{ ']<|tool_call_end|>' }}{% endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
)
LFM_2 = """
{{- bos_token }}
{%- if tools %}{{ '<|im_start|>system\\nList of tools: ' + (tools | tojson) + '<|im_end|>\\n' }}{% endif %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
SEED = (
    """
{%- if tools %}{{ '<seed:bos>system\\n' }}
{%- for t in tools %}{{ 'def ' + t.function.name + '()' }}{% endfor %}{{ '<seed:eos>' }}{% endif %}
{%- if thinking_budget is defined %}{{ '<seed:bos>system\\nreasoning and thinking budget: ' }}
{{- thinking_budget | string + '<seed:eos>' }}{% endif %}"""
    + _LAST_USER
    + """
{%- for m in messages %}
{{- '<seed:bos>' + m.role + '\\n' }}
{%- if m.reasoning_content and loop.index0 > ns.last %}
{{- '<seed:think>' + m.reasoning_content + '</seed:think>\\n' }}{% endif %}
{{- m.content }}
{%- for c in m.tool_calls or [] %}{{ '\\n' if not loop.first else '' }}
{{- '<seed:tool_call>\\n<function=' + c.function.name + '>\\n' }}
{%- for name, value in c.function.arguments | items %}
{{- '<parameter=' + name + '>' + (value if value is string else value | tojson) + '</parameter>\\n' }}
{%- endfor %}{{ '</function>\\n</seed:tool_call>' }}{% endfor %}
{{- '<seed:eos>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<seed:bos>assistant\\n' }}{% endif %}"""
)
GRANITE_4 = """
{%- if tools %}{{ '<|start_of_role|>system<|end_of_role|>' + (tools | tojson) + '<|end_of_text|>\\n' }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{ '<|start_of_role|>user<|end_of_role|>' }}{% endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|end_of_text|>\\n' }}{% endif %}
{%- else %}{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content }}
{%- for c in m.tool_calls or [] %}
{%- if (loop.first and m.content) or not loop.first %}{{ '\\n' }}{% endif %}
{{- '<tool_call>\\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) }}
{{- '}\\n</tool_call>' }}{% endfor %}
{{- '<|end_of_text|>\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}"""
MINISTRAL_3 = """
{#- Messages have text and thinking chunks. #}{{- bos_token }}
{%- if tools %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}
{%- elif m.role == 'tool' %}{{ '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}
{%- else %}{{ m.content }}
{%- for c in m.tool_calls or [] %}{{ '[TOOL_CALLS]' + c.function.name + '[ARGS]' }}
{{- c.function.arguments | tojson }}{% endfor %}{{ eos_token }}{% endif %}
{%- endfor %}"""
_GLM = (
    "{{ '[gMASK]<sop>' }}{%- if tools %}{{ '<|system|>\n' + (tools | tojson) }}{% endif %}"
    + _LAST_USER
    + """
{%- for m in messages %}
{%- if m.role == 'user' %}{{ '<|user|>\\n' + m.content }}
{%- elif m.role == 'tool' %}
{%- if messages[loop.index0 - 1].role != 'tool' %}{{ '<|observation|>' }}{% endif %}
{{- '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- else %}{{ '<|assistant|>' }}
{{- '\\n<think>' + (m.reasoning_content or '' if loop.index0 > ns.last else '') + '</think>' }}
{{- '\\n' + m.content if m.content else '' }}
{%- for c in m.tool_calls or [] %}{{ '\\n<tool_call>' + c.function.name + 'NEXT' }}
{%- for k, v in c.function.arguments | items %}{{ '<arg_key>' + k + '</arg_key>NEXT<arg_value>' }}
{{- (v if v is string else v | tojson) + '</arg_value>NEXT' }}{% endfor %}{{ '</tool_call>' }}{% endfor %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}
{%- if enable_thinking is defined and not enable_thinking %}{{ '\\n<think></think>' }}{% endif %}
{%- endif %}"""
)
LLAMA_31 = """
{{- bos_token }}{%- if tools %}{{ tools | tojson }} {"name": function name, "parameters": dictionary}{% endif %}
{%- for m in messages %}
{{- '<|start_header_id|>' + ('ipython' if m.role == 'tool' else m.role) + '<|end_header_id|>\\n\\n' }}
{%- if m.tool_calls %}
{%- if m.tool_calls | length != 1 %}{{ raise_exception('one call at once') }}{% endif %}
{%- set c = m.tool_calls[0].function %}
{{- '{"name": "' + c.name + '", "parameters": ' + (c.arguments | tojson) + '}' }}
{%- else %}{{ m.content }}{% endif %}{{ '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""


@dataclass(frozen=True, slots=True)
class Family:
    """A family's template, its style of calls, and what ends a turn."""

    name: str
    template: str
    style: CallStyle
    end: str
    parallel: bool = True
    thinks: bool = True
    choices: tuple[str, ...] = ()


SWITCH, EFFORTS = ("off", "on"), ("low", "medium", "high")
FAMILIES = (
    Family("qwen3", QWEN3, HERMES, "<|im_end|>\n", choices=SWITCH),
    Family("qwen3.5", QWEN35, QWEN3_CODER, "<|im_end|>\n", choices=SWITCH),
    Family("gpt-oss", GPT_OSS, HARMONY, "<|call|>", parallel=False, choices=EFFORTS),
    Family("gemma 4", GEMMA_4, GEMMA4, "<turn|>\n", choices=SWITCH),
    Family("lfm2.5", LFM_25, LFM2, "<|im_end|>\n"),
    Family("lfm2", LFM_2, LFM2, "<|im_end|>\n", thinks=False),
    Family("seed-oss", SEED, SEED_OSS, "<seed:eos>", choices=SWITCH),
    Family("granite 4", GRANITE_4, HERMES, "<|end_of_text|>\n", thinks=False),
    Family("ministral 3", MINISTRAL_3, MISTRAL, "</s>", thinks=False),
    Family("glm 4.5", _GLM.replace("NEXT", "\\n"), GLM45, "", choices=SWITCH),
    Family(
        "glm 4.7",
        _GLM.replace("NEXT", "").replace("\\n<tool_call>", "<tool_call>"),
        GLM47,
        "",
        choices=SWITCH,
    ),
    Family("llama 3.1", LLAMA_31, LLAMA, "<|eot_id|>", parallel=False, thinks=False),
)
