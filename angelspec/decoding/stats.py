"""Where the time of a run went."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from angelspec.decoding.proposal import Proposal


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


@dataclass(frozen=True)
class StepTimes:
    """Wall times of one step in seconds; `started` is a time.perf_counter reading.

    draft    the drafter: proposing, and taking in committed rows
    verify   the target's forward pass
    sample   acceptance and sampling, with the wait for the device
    commit   writing accepted tokens, cutting at stops, handing rows on
    total    the whole step
    """

    started: float
    draft: float
    verify: float
    sample: float
    commit: float
    total: float

    @property
    def host(self) -> float:
        """The rest: admission, choosing depths, laying out rows, finishing answers."""
        return max(0.0, self.total - self.draft - self.verify - self.sample - self.commit)


@dataclass(frozen=True)
class StepRecord:
    """What one step did to the V requests that it verified; tensors are int64 [V] on the host.

    requests   their ids; `rounds` how often each was verified, this step included
    positions  of the anchors (context lengths)
    drafted    the proposal of the first `decoding` requests; the others have just read their prompt, without a draft
    rows       draft rows verified; accepted: kept by the target; committed: new tokens, cut at stops
    running    requests in the engine; target_rows: rows that the target read, prompt chunks included
    """

    requests: list[str]
    rounds: Tensor
    positions: Tensor
    drafted: Proposal
    decoding: int
    rows: Tensor
    accepted: Tensor
    committed: Tensor
    running: int
    target_rows: int
