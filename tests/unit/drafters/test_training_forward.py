"""The batched training forward against naive attention, one query at a time and with full masks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from angelspec.drafters.base import NeuralDrafter
from angelspec.drafters.dfly import DFly
from angelspec.drafters.layers import DraftLayer
from angelspec.drafters.mtp import MTP
from angelspec.training.layout import candidate_anchors
from angelspec.training.types import PackedBatch, TrainableDrafter

EXACT = {"rtol": 0.0, "atol": 1e-11}
ANCHORS = torch.tensor([3, 5, 6, 20, 21, 27, 35, 36, 40, 60])


def one_query(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """q [heads, hd] against lists of [kv_heads, hd]: softmax(q.k / sqrt(hd)) v, head by head."""
    group = q.shape[0] // keys[0].shape[0]
    out = []
    for head, query in enumerate(q):
        scores = torch.stack([query @ k[head // group] for k in keys]) * q.shape[1] ** -0.5
        out.append(torch.einsum("m,md->d", scores.softmax(0), torch.stack([v[head // group] for v in values])))
    return torch.stack(out).flatten()


def finish_layer(layer: DraftLayer, u: Tensor, attended: Tensor) -> Tensor:
    u = u + layer.self_attn.o_proj(attended)
    return u + layer.mlp(layer.post_attention_layernorm(u))


def naive_block(drafter: DFly, batch: PackedBatch, a: int) -> Tensor:
    """Hidden states [N, H] of the block at row a, by the equations, one query at a time."""
    c = drafter.config
    rows = [r for r in range(a) if batch.documents[r] == batch.documents[a]]
    shared = batch.features[rows].flatten(1) @ drafter.fc.weight.T
    tokens = torch.tensor([int(batch.tokens[a]), *[c.mask_token_id] * (c.block_size - 1)])
    angles = drafter.rotary(batch.positions[a] + torch.arange(c.block_size), torch.float64)
    before = drafter.rotary(batch.positions[rows], torch.float64)
    u = drafter.embed(tokens)
    for i, layer in enumerate(drafter.layers):
        own = shared
        if c.model_type == "angelspec_dfly" and c.fusion:
            own = shared + sum(w * batch.features[rows][:, t] for t, w in enumerate(drafter.fusion[i].softmax(0)))
        g = F.rms_norm(own, (c.hidden_size,), drafter.hidden_norm.weight, c.rms_norm_eps)
        context_k, context_v = layer.self_attn.keys_values(g, before)
        x = layer.input_layernorm(u)
        q, (k, v) = layer.self_attn.queries(x, angles), layer.self_attn.keys_values(x, angles)
        attended = torch.stack([one_query(row, [*context_k, *k], [*context_v, *v]) for row in q])
        u = finish_layer(layer, u, attended)
    h = F.rms_norm(u, (c.hidden_size,), drafter.norm.weight, c.rms_norm_eps)[1:]
    return torch.stack([drafter.refine(h[k], batch.tokens[a + k]) for k in range(len(h)) if a + k < len(batch)])


@pytest.mark.parametrize(
    ("kind", "fields"), [("dflash", {}), ("dfly", {}), ("dfly", {"head": "markov", "qk_norm": False})]
)
def test_blocks_against_the_equations(
    make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str, fields: dict
) -> None:
    """Packing included: the anchors lie in three documents, and blocks near the ends reach over the border."""
    drafter = make(kind, **fields)
    out = drafter.training_forward(batch, ANCHORS)
    for i, a in enumerate(ANCHORS.tolist()):
        expected = naive_block(drafter, batch, a)
        torch.testing.assert_close(out.hidden[i, : len(expected)], expected, **EXACT)


@pytest.mark.parametrize("kind", ["dflash", "dfly", "mtp"])
def test_packing_changes_nothing(make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str) -> None:
    """Each document alone gives what the packed row gives."""
    drafter = make(kind)
    packed = drafter.training_forward(batch, ANCHORS)
    for document in range(3):
        rows = (batch.documents == document).nonzero().squeeze(1)
        alone = PackedBatch(**{name: value[rows] for name, value in vars(batch).items()} | {"documents": rows * 0})
        mine = (batch.documents[ANCHORS] == document).nonzero().squeeze(1)
        out = drafter.training_forward(alone, ANCHORS[mine] - rows[0])
        valid = out.valid
        assert torch.equal(valid, packed.valid[mine])
        torch.testing.assert_close(out.hidden[valid], packed.hidden[mine][valid], **EXACT)


@pytest.mark.parametrize("kind", ["dflash", "dfly", "mtp"])
def test_future_and_neighbours_are_invisible(make: Callable[..., NeuralDrafter], batch: PackedBatch, kind: str) -> None:
    """Change every target state from the anchor on, and every other document: the draft of that anchor stays."""
    drafter = make(kind)
    for a in (6, 27, 40):
        hidden = drafter.training_forward(batch, torch.tensor([a])).hidden
        outside = (torch.arange(len(batch)) >= a) | (batch.documents != batch.documents[a])
        noise = torch.where(outside, 1.0, 0.0)
        other = PackedBatch(
            **{
                **vars(batch),
                "features": batch.features + noise[:, None, None],
                "final_hidden": batch.final_hidden + noise[:, None],
            }
        )
        assert torch.equal(drafter.training_forward(other, torch.tensor([a])).hidden, hidden)
        seen = PackedBatch(**{**vars(batch), "features": batch.features + 1, "final_hidden": batch.final_hidden + 1})
        assert not torch.allclose(drafter.training_forward(seen, torch.tensor([a])).hidden, hidden)


def test_dfly_without_its_additions_is_dflash(make: Callable[..., NeuralDrafter], batch: PackedBatch) -> None:
    dflash, dfly = make("dflash", seed=3), make("dfly", seed=4, fusion=False, head="none")
    dfly.load_state_dict(dflash.state_dict(), strict=True)
    ours, theirs = dfly.training_forward(batch, ANCHORS), dflash.training_forward(batch, ANCHORS)
    assert torch.equal(ours.hidden, theirs.hidden)
    assert not dfly.sequential_head


@pytest.mark.parametrize("head", ["correction", "markov"])
def test_a_fresh_head_is_the_identity(make: Callable[..., NeuralDrafter], batch: PackedBatch, head: str) -> None:
    drafter = make("dfly", head=head)
    fresh = DFly(drafter.config)
    drafter.correction.load_state_dict(fresh.correction.state_dict())
    hidden = torch.randn(5, 32)
    assert torch.equal(drafter.refine(hidden, torch.arange(5)), hidden)
    out = drafter.training_forward(batch, ANCHORS).hidden
    out.sum().backward()
    last = drafter.correction.mlp.down_proj if head == "correction" else drafter.correction.out_proj
    assert last.weight.grad.abs().max() > 0, "a zero head must still learn"


def test_initial_fusion_starts_near_the_own_depth(make: Callable[..., NeuralDrafter]) -> None:
    fusion = DFly(make("dfly", num_layers=3, target_layer_ids=(0, 1, 2, 3)).config).fusion
    assert fusion.argmax(-1).tolist() == [0, 2, 3] and fusion.max() == 0 and fusion[0].tolist() == [0, -2, -4, -6]


def naive_mtp(drafter: MTP, batch: PackedBatch, document: int, depths: int) -> Tensor:
    """All positions of one document, all depths, with masks [n, (depth+1) * n] over all keys: o [n, depths, H]."""
    rows = (batch.documents == document).nonzero().squeeze(1)[:-1]
    n, layer = len(rows), drafter.layers[0]
    chain, h = batch.tokens[rows + 1], batch.final_hidden[rows]
    tokens, outputs = chain, []
    keys, values, masks = [], [], []
    for depth in range(depths):
        positions = torch.arange(n) + depth
        e = drafter.embed(tokens)
        e[positions == 0] = 0
        x = drafter.eh_proj(torch.cat([drafter.embed_norm(e), drafter.hidden_norm(h)], -1))
        angles = drafter.rotary(positions, torch.float64)
        normed = layer.input_layernorm(x)
        k, v = layer.self_attn.keys_values(normed, angles)
        keys, values = [*keys, k], [*values, v]
        masks.append(torch.ones(n, n).tril().bool() if depth == 0 else torch.eye(n).bool())
        group = drafter.config.num_heads // drafter.config.num_kv_heads
        all_k = torch.cat(keys).repeat_interleave(group, 1)
        all_v = torch.cat(values).repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", layer.self_attn.queries(normed, angles), all_k) * all_k.shape[-1] ** -0.5
        weights = scores.masked_fill(~torch.cat(masks, 1), float("-inf")).softmax(-1)
        h = drafter.norm(finish_layer(layer, x, torch.einsum("hqk,khd->qhd", weights, all_v).flatten(1)))
        outputs.append(h)
        shifted = torch.cat([chain[1 + depth :], chain.new_zeros(1 + depth)])  # the true chain, never the predictions
        tokens = drafter.greedy_tokens(h) if drafter.config.on_policy else shifted[:n]
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("on_policy", [True, False])
def test_mtp_against_the_naive_mask(make: Callable[..., NeuralDrafter], batch: PackedBatch, on_policy: bool) -> None:
    """Depth-0 keys causal, one key per later depth at the own row, one softmax; every anchor of three documents."""
    drafter = make("mtp", depths=4, on_policy=on_policy)
    anchors = torch.cat([torch.arange(1, 22), torch.arange(24, 31), torch.arange(33, 62)])
    out = drafter.training_forward(batch, anchors)
    for document in range(3):
        expected = naive_mtp(drafter, batch, document, 4)
        mine = batch.documents[anchors] == document
        start = batch.positions[anchors[mine]] - 1
        depth_exists = start[:, None] + 1 + torch.arange(4) < int((batch.documents == document).sum())
        torch.testing.assert_close(out.hidden[mine][depth_exists], expected[start][depth_exists], **EXACT)


def test_mtp_labels_are_the_true_chain_and_the_first_embedding_is_zero(
    make: Callable[..., NeuralDrafter], batch: PackedBatch
) -> None:
    drafter = make("mtp", on_policy=True)
    out = drafter.training_forward(batch, torch.tensor([6]))
    assert out.labels.tolist() == [batch.tokens[7:10].tolist()] and out.teacher_rows.tolist() == [[6, 7, 8]]
    h = batch.final_hidden[:1]
    first = drafter.fuse(torch.tensor([7]), h, torch.tensor([0]))
    assert torch.equal(first, drafter.fuse(torch.tensor([8]), h, torch.tensor([0])))
    assert not torch.equal(first, drafter.fuse(torch.tensor([7]), h, torch.tensor([1])))


@pytest.mark.parametrize("kind", ["dflash", "dfly", "mtp"])
def test_gradient_reaches_every_parameter_and_nothing_else(
    make: Callable[..., NeuralDrafter],
    batch: PackedBatch,
    tiny_llama,
    kind: str,
) -> None:
    drafter = make(kind)
    assert isinstance(drafter, TrainableDrafter)
    features = batch.features.clone().requires_grad_()
    watched = PackedBatch(**{**vars(batch), "features": features})
    drafter.training_forward(watched, candidate_anchors(batch)).hidden.square().sum().backward()
    silent = [name for name, p in drafter.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert silent == []
    borrowed = [tiny_llama.embed_tokens.weight, tiny_llama.lm_head.weight]
    assert all(p.grad is None and not p.requires_grad for p in borrowed)
    assert not {p.data_ptr() for p in borrowed} & {p.data_ptr() for p in drafter.parameters()}
    assert not any("embed_tokens" in name or "lm_head" in name for name in drafter.state_dict())


def test_on_policy_tokens_carry_no_gradient_but_hidden_states_do(
    make: Callable[..., NeuralDrafter], batch: PackedBatch
) -> None:
    """The gradient of the last depth's output reaches the first depth through the hidden state that is fed back."""
    drafter = make("mtp", depths=2, on_policy=True)
    final_hidden = batch.final_hidden.clone().requires_grad_()
    out = drafter.training_forward(PackedBatch(**{**vars(batch), "final_hidden": final_hidden}), torch.tensor([6]))
    out.hidden[:, 1].sum().backward()
    assert final_hidden.grad[5].abs().max() > 0 and final_hidden.grad[6:].abs().max() == 0
