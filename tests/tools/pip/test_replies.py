"""The target's replies that the draft learns from."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer

from tests.tools.pip.conftest import TINY
from tools.pip.corpora.example import chat
from tools.pip.network import config_of, new_model
from tools.pip.replies import Question, answer
from tools.pip.replies import read as read_replies
from tools.pip.tokenizer import Encoder


def test_answers_in_a_batch_are_those_of_transformers_alone(tokenizer: Tokenizer) -> None:
    encoder = Encoder(tokenizer)
    model = new_model(config_of(TINY, 320, encoder.bos, encoder.end, encoder.pad), seed=4).eval()
    texts = ("Hi", "Say 1 it is", "a fox who said: number 2")
    group = [Question(tuple(encoder.prompt(chat(text))), 0.0, False) for text in texts]
    for question, reply in zip(group, answer(model, encoder, group, 12), strict=True):
        prompt = torch.tensor([question.tokens])
        mask = torch.ones_like(prompt)
        alone = model.generate(prompt, attention_mask=mask, max_new_tokens=12, do_sample=False)
        assert reply.reply == tuple(alone[0, len(question.tokens) :].tolist())


def test_a_file_of_replies_cut_by_a_kill_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    file.write_text("[[1, 2], [3], 0.0, true]\n[[1, 2], [")
    assert [reply.reply for reply in read_replies(file)] == [(3,)]
    assert file.read_text().endswith("true]\n")
