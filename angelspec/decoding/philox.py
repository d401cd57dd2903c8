"""Philox4x32-10, the only source of randomness in decoding.

A counter-based generator (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011) has
no state: the number for (seed, position, stream) is a function of these three. So a sampled token does not depend on
the batch it sits in, on the order of requests, on the device, or on how many rows a policy chose to verify.
"""

import torch
from torch import Tensor

# Streams: what a number is used for. Two uses at one position never share a number.
TARGET = 0  # the sample of the target distribution
ACCEPT = 1  # rejection sampling: accept or reject a draft token
RESIDUAL = 2  # rejection sampling: the token that replaces a rejected one
DRAFT = 3  # the drafter's own sample

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_MASK = 0xFFFFFFFF


def philox4x32(counter: Tensor, key: Tensor) -> Tensor:
    """Ten rounds of Philox4x32.

    counter [4, n] and key [2, n] hold 32-bit words in int64; the result [4, n] as well. The four words are kept as two
    pairs (0, 2) and (1, 3), which makes a round seven tensor operations instead of fourteen.
    """
    device = counter.device
    multipliers = torch.tensor(_MULTIPLIERS, device=device).unsqueeze(1)
    rounds = torch.arange(_ROUNDS, device=device).view(-1, 1, 1)
    keys = (key + rounds * torch.tensor(_WEYL, device=device).unsqueeze(1)) & _MASK  # [10, 2, n]
    even, odd = counter[0::2], counter[1::2]
    for round_key in keys:
        # A 32 x 32 bit product has 64 unsigned bits; int64 wraps to the same ones; shift and mask give both halves.
        product = even * multipliers
        high, low = (product >> 32) & _MASK, product & _MASK
        even, odd = high.flip(0) ^ odd ^ round_key, low.flip(0)
    return torch.stack((even[0], odd[0], even[1], odd[1]))


def uniform(seed: Tensor, position: Tensor, stream: int, draw: Tensor | None = None) -> Tensor:
    """Uniform float64 [n] in [0, 1) for int64 seeds [n] and positions [n]: multiples of 2^-53.

    key = (seed low, seed high), counter = (position low, position high, stream, draw). `draw` (int64 [n], default 0)
    separates several draws for one position. The DRAFT stream needs it: a position may be drafted again after a
    rejection, and with the same number a policy that remembers the last round's confidences would know something about
    the token that is about to be drawn. Drafters pass the anchor's position, which never repeats within a request.
    """
    low = torch.stack((seed, position)) & _MASK
    high = (torch.stack((seed, position)) >> 32) & _MASK
    fixed = torch.full_like(position, stream)
    fourth = torch.zeros_like(position) if draw is None else draw & _MASK
    words = philox4x32(torch.stack((low[1], high[1], fixed, fourth)), torch.stack((low[0], high[0])))
    return ((words[0] << 21) | (words[1] >> 11)).to(torch.float64) * 2.0**-53
