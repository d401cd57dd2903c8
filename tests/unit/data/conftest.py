"""A tokenizer that is made on the spot: byte-level BPE with ChatML, and one whose template rewrites earlier turns."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}"
    "{% if loop.first and m['role'] != 'system' %}<|im_start|>system\nBe brief.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

# As in Qwen3: empty think tags come with the generation prompt when thinking is off; only the last answer keeps any.
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)

CORPUS = [
    "Be brief. system user assistant What is seven times eight? The answer is 56, because 7 * 8 = 56.",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 2))\n",
    "Tell me about tea, then about coffee. Tea is brewed from leaves; coffee is brewed from beans.",
]


def make_tokenizer(template: str | None) -> PreTrainedTokenizerFast:
    """Byte-level BPE whose offsets are trimmed as GPT-2's are, so that a line break has an empty span."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    core.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(CORPUS, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", additional_special_tokens=["<|im_start|>", "<|endoftext|>"]
    )
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="session")
def chatml() -> PreTrainedTokenizerFast:
    return make_tokenizer(CHATML)


@pytest.fixture(scope="session")
def thinking() -> PreTrainedTokenizerFast:
    return make_tokenizer(THINKING)


@pytest.fixture(scope="session")
def templateless() -> PreTrainedTokenizerFast:
    return make_tokenizer(None)
