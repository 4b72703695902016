"""instructor: classes out of replies, in the modes that work with any server."""

from __future__ import annotations

from typing import Literal

import pytest

instructor = pytest.importorskip("instructor")

from openai import OpenAI  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402


class Animal(BaseModel):
    """An animal of a tale."""

    kind: Literal["fox", "crow", "bear"]
    legs: int = Field(ge=0, le=8)


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA", "JSON", "RESPONSES_TOOLS"])
def test_a_class_comes_out(
    base: str, model: str, mode: str, request: pytest.FixtureRequest
) -> None:
    if mode == "JSON":  # the class is told of in the prompt alone
        request.getfixturevalue("sensible")
    client = OpenAI(base_url=base, api_key="unused", max_retries=0)
    asked = instructor.from_openai(client, mode=getattr(instructor.Mode, mode))
    limit = {"max_output_tokens": 80} if mode.startswith("RESPONSES") else {"max_tokens": 80}
    found = asked.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Tell me of a fox on four legs."}],
        response_model=Animal,
        max_retries=0,
        temperature=0,
        **limit,
    )
    assert isinstance(found, Animal)


def test_parts_of_a_class_come_as_they_are_written(base: str, model: str) -> None:
    client = OpenAI(base_url=base, api_key="unused", max_retries=0)
    asked = instructor.from_openai(client, mode=instructor.Mode.TOOLS)
    parts = list(
        asked.chat.completions.create_partial(
            model=model,
            messages=[{"role": "user", "content": "Tell me of a fox on four legs."}],
            response_model=Animal,
            max_tokens=80,
        )
    )
    assert len(parts) > 1
    assert Animal.model_validate(parts[-1].model_dump())
