"""The random source: published known answers, independence of batch shape, uniformity."""

import pytest
import torch
from scipy import stats

from angelspec.decoding import philox

# Known-answer vectors of Random123 for philox4x32 with 10 rounds: counter, key, output.
KNOWN_ANSWERS = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter: list[int], key: list[int], expected: list[int]) -> None:
    words = philox.philox4x32(torch.tensor(counter).unsqueeze(1), torch.tensor(key).unsqueeze(1))
    assert words.squeeze(1).tolist() == expected


def test_known_answers_as_one_batch() -> None:
    counters, keys, expected = (torch.tensor(column).T for column in zip(*KNOWN_ANSWERS, strict=True))
    assert philox.philox4x32(counters, keys).equal(expected)


def test_uniform_is_built_from_the_first_two_words() -> None:
    seed, position = 0x299F31D0_A4093822, 0x05A308D3_243F6A88
    words = philox.philox4x32(
        torch.tensor([0x243F6A88, 0x05A308D3, philox.RESIDUAL, 9]).unsqueeze(1),
        torch.tensor([0xA4093822, 0x299F31D0]).unsqueeze(1),
    ).squeeze(1)
    u = philox.uniform(torch.tensor([seed]), torch.tensor([position]), philox.RESIDUAL, torch.tensor([9]))
    assert u.item() == ((int(words[0]) << 21) | (int(words[1]) >> 11)) / 2**53


def test_a_number_depends_on_seed_position_and_stream_only() -> None:
    seeds = torch.tensor([0, 1, 2**40, 2**63 - 1]).repeat_interleave(100)
    positions = torch.arange(100).repeat(4)
    together = philox.uniform(seeds, positions, philox.TARGET)
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    assert philox.uniform(seeds[order], positions[order], philox.TARGET).equal(together[order])
    alone = [philox.uniform(seeds[i : i + 1], positions[i : i + 1], philox.TARGET).item() for i in (0, 137, 399)]
    assert alone == together[[0, 137, 399]].tolist()
    others = torch.stack([philox.uniform(seeds, positions, s) for s in (philox.ACCEPT, philox.RESIDUAL, philox.DRAFT)])
    redrawn = philox.uniform(seeds, positions, philox.TARGET, positions + 1)
    assert torch.cat((together, others.flatten(), redrawn)).unique().numel() == 2000


def test_uniform_in_range_and_uncorrelated_between_neighbours() -> None:
    positions = torch.arange(100_000)
    u = philox.uniform(torch.full_like(positions, 7), positions, philox.TARGET)
    assert u.dtype == torch.float64 and u.min() >= 0.0 and u.max() < 1.0
    assert stats.kstest(u.numpy(), "uniform").pvalue > 1e-3
    other_seed = philox.uniform(torch.full_like(positions, 8), positions, philox.TARGET)
    other_stream = philox.uniform(torch.full_like(positions, 7), positions, philox.ACCEPT)
    for other in (u.roll(1), other_seed, other_stream):
        assert abs(torch.corrcoef(torch.stack((u, other)))[0, 1]) < 0.015  # about 5 standard deviations
