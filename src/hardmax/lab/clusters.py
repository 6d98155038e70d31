"""A Dask cluster as the crew of a driver.

The cluster gets the texts of jobs and sends back answers; files and rows are written by the driver, so its
machines need not share a disk. A job whose worker is killed is run again by the cluster itself; one that
kills worker after worker comes back as lost.
"""

from __future__ import annotations

import queue
import time
from importlib import import_module
from typing import Any

from hardmax.errors import HardmaxError, IncompleteError, InvalidInputError, MissingExtraError
from hardmax.lab.leases import Answer
from hardmax.lab.workers import Report, perform

__all__ = ["Cluster"]

_LOOK_EVERY = 2.0  # seconds between two counts of the workers
_PATIENCE = 60.0  # seconds without any worker


class Cluster:
    """A crew on a Dask cluster (needs the extra ``dask``).

    Parameters
    ----------
    runner : str
        The name of a runner; its module must be installed where the workers are.
    address : str
        Of the scheduler, such as ``tcp://10.0.0.1:8786``.
    most : int, optional
        The most jobs at a time; otherwise one for each thread of the cluster.
    """

    def __init__(self, runner: str, address: str, *, most: int | None = None) -> None:
        try:
            distributed: Any = import_module("distributed")
        except ImportError as error:
            raise MissingExtraError(
                "a cluster needs Dask, which is not installed; try: pip install 'hardmax[dask]'."
            ) from error
        self._runner, self._address, self._most = runner, address, most
        self._killed = distributed.KilledWorker
        self._inbox: queue.Queue[str] = queue.Queue()
        self._futures: dict[str, Any] = {}
        try:
            self._client = distributed.Client(address, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise InvalidInputError(
                f"the address of a Dask scheduler must be one that answers, but {address!r} does not."
            ) from error
        self._n, self._looked, self._seen = 0, float("-inf"), time.monotonic()

    def slots(self) -> int:
        """How many threads the cluster has; workers may come and go."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_EVERY:
            try:
                self._n = sum(self._client.nthreads().values())
            except Exception as error:
                raise self._gone() from error
            self._looked = now
            if self._n:
                self._seen = now
            elif now - self._seen > _PATIENCE:
                raise IncompleteError(
                    f"the cluster at {self._address} has had no worker for {_PATIENCE:.0f} seconds; start "
                    "some with: dask worker."
                )
        return self._n if self._most is None else min(self._n, self._most)

    def hand_out(self, key: str, text: str) -> None:
        """Send a job to the cluster."""
        future = self._client.submit(_work, self._runner, text, pure=False)
        self._futures[key] = future
        future.add_done_callback(lambda done: self._inbox.put(key))

    def wait(self, seconds: float) -> list[Report]:
        """What has come back, as soon as something has."""
        try:
            keys = [self._inbox.get(timeout=max(seconds, 0.0))]
        except queue.Empty:
            if self._client.status != "running":
                raise self._gone() from None
            return []
        while not self._inbox.empty():
            keys.append(self._inbox.get())
        return [self._report(key, self._futures.pop(key)) for key in keys if key in self._futures]

    def _report(self, key: str, future: Any) -> Report:
        if future.status == "finished":
            try:
                made = future.result(timeout=60)
            except Exception as error:  # whoever has the answer is gone
                return Report(key, lost=f"its answer was lost ({type(error).__name__})")
            return Report(key, answer=made) if isinstance(made, Answer) else Report(key, error=str(made))
        if future.status != "error":
            raise self._gone()
        raised = future.exception(timeout=60)
        if isinstance(raised, self._killed):
            return Report(key, lost="it was killed on the cluster, again and again")
        if isinstance(raised, HardmaxError):
            raise raised
        raise IncompleteError(f"the cluster at {self._address} cannot run jobs: {raised!r}.") from raised

    def _gone(self) -> IncompleteError:
        return IncompleteError(f"the cluster at {self._address} is gone; what was finished is kept.")

    def drop(self, key: str) -> None:
        """Stop a job that nobody wants any more."""
        future = self._futures.pop(key, None)
        if future is not None:
            future.cancel()

    def close(self) -> None:
        """Stop what is under way and leave the cluster."""
        for future in self._futures.values():
            future.release()
        self._futures.clear()
        self._client.close(timeout=5)


def _work(runner: str, text: str) -> Answer | str:
    """What a thread of a worker does."""
    return perform(runner, text, clock=time.thread_time)
