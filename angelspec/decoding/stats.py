"""Where the time of a run went."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class EngineStats:
    """Sums over the steps of a run; seconds of wall time.

    committed   tokens committed; `rows` rows the target read; `passes` request-passes (a request verified once)
    forward     the target's forward pass; sample: verify(), with the wait for the device; draft: the drafter
    """

    steps: int = 0
    rows: int = 0
    passes: int = 0
    committed: int = 0
    seconds: float = 0.0
    forward_seconds: float = 0.0
    sample_seconds: float = 0.0
    draft_seconds: float = 0.0

    def add(self, seconds: float, forward: float, sample: float, rows: int, passes: int) -> None:
        self.steps += 1
        self.seconds += seconds
        self.forward_seconds += forward
        self.sample_seconds += sample
        self.rows += rows
        self.passes += passes

    @property
    def host_share(self) -> float:
        """Part of the time spent on neither target, drafter nor sampler: scheduling, bookkeeping, streaming."""
        work = self.forward_seconds + self.sample_seconds + self.draft_seconds
        return max(0.0, 1.0 - work / self.seconds) if self.seconds else 0.0

    @property
    def tau(self) -> float:
        """Committed tokens per target pass of a request, the bonus token included."""
        return self.committed / self.passes if self.passes else 0.0
