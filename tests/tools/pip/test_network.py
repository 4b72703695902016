"""The training pass and its losses, against transformers and plain formulas."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer

from engine.train.losses import Labels, Teacher, head_loss
from tests.tools.pip.conftest import TINY, document
from tools.pip.data import IGNORE, batch
from tools.pip.network import Network, config_of, new_model, place
from tools.pip.tokenizer import Document


def test_the_training_pass_is_transformers_own(tokenizer: Tokenizer) -> None:
    """Each document of a packed row gets the loss that transformers gives it alone."""
    model = new_model(config_of(TINY, 320, 0, 1, 2), seed=0)
    documents = [document(20, first=30), document(40, first=90)]
    packed = batch([documents, [document(64, first=5)]], 64, pad=2)
    inputs = place(packed, torch.device("cpu"), torch.float32)
    ours = Network(model, torch.float32).loss(inputs)
    theirs = sum(reference_loss(model, entry) for entry in [*documents, document(64, first=5)])
    torch.testing.assert_close(ours, theirs)
    ours.backward()  # type: ignore[no-untyped-call]
    mine = [param.grad.clone() for param in model.parameters()]
    model.zero_grad()
    theirs.backward()
    for param, gradient in zip(model.parameters(), mine, strict=True):
        torch.testing.assert_close(gradient, param.grad, rtol=1e-3, atol=1e-4)


def test_the_sliced_head_loss_has_the_plain_gradient() -> None:
    torch.manual_seed(0)
    hidden = torch.randn(600, 8, requires_grad=True)
    head, labels = torch.randn(50, 8, requires_grad=True), torch.randint(0, 50, (600,))
    plain = torch.nn.functional.cross_entropy(hidden @ head.T, labels, reduction="sum")
    expected = torch.autograd.grad(plain, (hidden, head))
    found = torch.autograd.grad(head_loss(hidden, head, Labels(labels)) / 2, (hidden, head))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours * 2, theirs, rtol=1e-4, atol=1e-4)


def test_the_distillation_has_the_gradient_of_kl_and_cross_entropy() -> None:
    torch.manual_seed(0)
    hidden, head = torch.randn(300, 8, requires_grad=True), torch.randn(50, 8, requires_grad=True)
    goal = Teacher(torch.randn(300, 6), torch.randn(50, 6), torch.randint(0, 50, (300,)), hard=0.3)
    log_p = torch.log_softmax(goal.hidden @ goal.head.T, -1)
    log_q = torch.log_softmax(hidden @ head.T, -1)
    divergence = torch.nn.functional.kl_div(log_q, log_p, reduction="sum", log_target=True)
    plain = 0.7 * divergence
    plain = plain + 0.3 * torch.nn.functional.nll_loss(log_q, goal.labels, reduction="sum")
    expected = torch.autograd.grad(plain, (hidden, head))
    loss = head_loss(hidden, head, goal)
    torch.testing.assert_close(loss, plain)
    for ours, theirs in zip(torch.autograd.grad(loss, (hidden, head)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def reference_loss(model: Any, entry: Document) -> torch.Tensor:
    labels = [
        token if yes else IGNORE for token, yes in zip(entry.tokens, entry.learned, strict=True)
    ]
    logits = model(torch.tensor([entry.tokens])).logits[0, :-1]
    return torch.nn.functional.cross_entropy(
        logits, torch.tensor(labels[1:]), ignore_index=IGNORE, reduction="sum"
    )
