"""Which tokens a drafter can propose, and which token stands for "not known yet".

A draft vocabulary V_d <= V keeps the LM head small. It is exact: a target token outside V_d is never proposed, so its
slot is rejected and the target supplies it. `d2t` [V_d] holds the target id of each draft id, in increasing order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor


def count_tokens(answers: Iterable[Sequence[int] | Tensor], vocab_size: int) -> Tensor:
    """Occurrences [V] of each token in the answers of the target (prompts do not count: nobody drafts them)."""
    counts = torch.zeros(vocab_size, dtype=torch.int64)
    for answer in answers:
        counts += torch.bincount(torch.as_tensor(answer, dtype=torch.int64), minlength=vocab_size)
    return counts


def choose_draft_vocab(counts: Tensor, size: int, always: Sequence[int] = ()) -> Tensor:
    """d2t [size]: the ids `always` (end of answer, say), then the most frequent ones; increasing.

    Ties, and places left over when the answers hold fewer distinct tokens, go to the lowest ids.
    """
    if not len(set(always)) <= size <= len(counts):
        raise ValueError(f"A draft vocabulary of {size} tokens: expected {len(set(always))} to {len(counts)}.")
    rank = counts.clone()
    rank[list(always)] = rank.max() + 1
    return rank.argsort(descending=True, stable=True)[:size].sort().values


def coverage(counts: Tensor, d2t: Tensor) -> float:
    """Share of the counted tokens [V] that the draft vocabulary can propose; NaN when nothing was counted."""
    return float(counts[d2t].sum() / counts.sum())


def choose_mask_token(tokenizer: Any, vocab_size: int) -> int:
    """A token id that never occurs in text, for the masked slots of a block.

    In this order: the tokenizer's own mask token; the first row of the embedding behind the tokenizer's last id
    (Qwen3: 151669, as in AngelSpec's released drafters); the last special token without a role, that is, neither
    begin, end, padding nor unknown, and not in the chat template (SmolLM2: `<empty_output>`, id 16). Tokenizers never
    produce a special token from a user's text in a chat unless that text spells it out.
    """
    if tokenizer.mask_token_id is not None:
        return int(tokenizer.mask_token_id)
    if len(tokenizer) < vocab_size:
        return len(tokenizer)
    roles = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id)
    template = tokenizer.chat_template or ""
    for token_id, token in sorted(tokenizer.added_tokens_decoder.items(), reverse=True):
        if token.special and token_id not in roles and token.content not in template:
            return int(token_id)
    raise ValueError(
        f"{type(tokenizer).__name__} has no unused special token; name a mask token id in the configuration."
    )
