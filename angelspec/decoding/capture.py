"""Features captured while the target answers, so that training needs no second pass over the target.

Row t of a document is the target's state after it read token t of prompt + answer: outputs of the named layers and the
hidden state after the final norm, both bfloat16, and the log-sum-exp of its logits (float32, nats, temperature 1). The
last token was never read, so a document of n tokens has n - 1 rows. Rows of rejected drafts are never seen here.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from angelspec.data.records import TargetRows
from angelspec.decoding.request import Answer

OnDocument = Callable[[Answer, TargetRows], None]


class Capture:
    """Collects the rows of running requests; `on_document` gets every finished answer with its rows, on the CPU.

    Pass it to `Engine.run(..., capture=...)`. Host memory: slots * max_len * (T + 1) * H * 2 bytes.
    """

    def __init__(self, layer_ids: tuple[int, ...], on_document: OnDocument) -> None:
        self.layer_ids = tuple(layer_ids)
        self._on_document = on_document
        self._features = self._final = torch.empty(0)
        self._lse = torch.empty(0)

    def start(self, slots: int, max_len: int, hidden_size: int) -> None:
        """Room for a run of an engine with these slots. Memory of an earlier run is used again where it fits."""
        shape = (slots, max_len, len(self.layer_ids), hidden_size)
        if self._features.shape != shape:
            self._features = torch.empty(shape, dtype=torch.bfloat16)
            self._final = torch.empty(slots, max_len, hidden_size, dtype=torch.bfloat16)
            self._lse = torch.empty(slots, max_len)

    def take(self, slots: Tensor, positions: Tensor, features: Tensor, final_hidden: Tensor, logits: Tensor) -> None:
        """n committed rows: slots and positions [n], features [n, T, H], final_hidden [n, H], logits [n, V]."""
        self._features[slots, positions] = features.to("cpu", torch.bfloat16)
        self._final[slots, positions] = final_hidden.to("cpu", torch.bfloat16)
        self._lse[slots, positions] = torch.logsumexp(logits, dim=1).to("cpu", torch.float32)

    def finish(self, slot: int, rows: int, answer: Answer) -> None:
        """Hand over the first `rows` positions of a slot as one document."""
        document = TargetRows(*(x[slot, :rows].clone() for x in (self._features, self._final, self._lse)))
        self._on_document(answer, document)
