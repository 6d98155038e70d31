"""Pools run the jobs of a driver: in processes or threads of this machine, or on a Dask cluster.

Which one is used is what joblib is configured for (:func:`joblib.parallel_config`): its processes unless
something else was chosen. Every process runs one job at a time and is a pool of its own to loky, the library
behind joblib's processes, so that a process that dies takes only its own job along. joblib's ``Parallel`` is
not used, because its Dask backend waits for ever for a job whose worker was killed.
"""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import BrokenExecutor, CancelledError, Future, ThreadPoolExecutor
from importlib import import_module
from typing import Any, Protocol

from joblib.externals.loky import ProcessPoolExecutor
from joblib.parallel import get_active_backend

from hardmax.errors import HardmaxError, IncompleteError, InvalidInputError, MissingExtraError
from hardmax.training.studies.runs import Run, perform, prepare_process

__all__ = ["Lost", "Pool", "pool_for"]

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_LOOK_EVERY = 2.0  # seconds between two counts of the workers of a cluster
_NO_WORKER = 60.0  # seconds without any worker


class Lost(str):
    """Why a run was lost through no fault of the job, as far as one knows."""

    __slots__ = ()


class Pool(Protocol):
    """What runs jobs."""

    local: bool
    """Whether jobs run on this machine, so that they can report the share that is done."""

    def slots(self) -> int:
        """How many jobs it can run at a time, as of now."""

    def submit(self, runner: str, text: str, shares: str | None) -> Future[Any]:
        """Run a job; there must be a free slot."""

    def outcome(self, future: Future[Any]) -> Run | str | Lost:
        """What came of a job that is done: a run, what it raised, or why it was lost."""

    def close(self) -> None:
        """Stop everything."""


def pool_for(n_jobs: int | None, dask: str | None) -> Pool:
    """The pool for so many jobs at a time, on the cluster with this address, or as joblib is configured."""
    if n_jobs is not None and (n_jobs == 0 or n_jobs < -1):
        raise InvalidInputError(f"n_jobs must be a positive number, or -1 for every core, but was {n_jobs}.")
    if dask is not None:
        return _Cluster(_connected(dask), dask, most=None if n_jobs == -1 else n_jobs, own=True)
    backend, configured = get_active_backend()
    if hasattr(backend, "client"):
        client = backend.client
        most = configured if n_jobs is None else n_jobs
        most = None if most in (None, -1) else most
        return _Cluster(client, str(client.scheduler.address), most=most, own=False)
    n = backend.effective_n_jobs(n_jobs or configured or 1)
    if getattr(backend, "supports_sharedmem", False):
        return _Threads(n)
    return _Processes(n, threads=getattr(backend, "inner_max_num_threads", None))


class _Processes:
    """Processes of this machine, each a pool of its own; one that dies is replaced."""

    local = True

    def __init__(self, n: int, *, threads: int | None) -> None:
        self._n = n
        given = {} if threads is None else dict.fromkeys(_THREADS, str(threads))
        self._environment = {**{name: os.environ.get(name, "1") for name in _THREADS}, **given}
        self._idle: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[Any], ProcessPoolExecutor] = {}

    def slots(self) -> int:
        return self._n

    def submit(self, runner: str, text: str, shares: str | None) -> Future[Any]:
        while True:
            process = self._idle.pop() if self._idle else self._started()
            try:
                future: Future[Any] = process.submit(perform, runner, text, shares, own_process=True)
            except BrokenExecutor:  # it died while it was idle
                process.shutdown(wait=False, kill_workers=True)
                continue
            self._busy[future] = process
            return future

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            1, initializer=prepare_process, initargs=(os.getpid(),), env=self._environment
        )

    def outcome(self, future: Future[Any]) -> Run | str | Lost:
        process = self._busy.pop(future)
        try:
            made: Run | str = future.result()
        except BrokenExecutor as error:
            process.shutdown(wait=False, kill_workers=True)
            ended = re.search(r"\{(.*)\}", str(error))
            return Lost(f"its worker ended with {ended[1]}" if ended else "its worker died")
        except BaseException:
            process.shutdown(wait=False, kill_workers=True)
            raise
        self._idle.append(process)
        return made

    def close(self) -> None:
        for process in (*self._idle, *self._busy.values()):
            process.shutdown(wait=True, kill_workers=True)
        self._idle.clear()
        self._busy.clear()


class _Threads:
    """Threads of this process, for those who have configured joblib so; Ctrl-C waits for what they run."""

    local = True

    def __init__(self, n: int) -> None:
        self._n = n
        self._pool = ThreadPoolExecutor(n)

    def slots(self) -> int:
        return self._n

    def submit(self, runner: str, text: str, shares: str | None) -> Future[Any]:
        return self._pool.submit(perform, runner, text, shares)

    def outcome(self, future: Future[Any]) -> Run | str | Lost:
        made: Run | str = future.result()
        return made

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class _Cluster:
    """A Dask cluster. It gets jobs as text and sends runs back, so its machines need not share a disk."""

    local = False

    def __init__(self, client: Any, address: str, *, most: int | None, own: bool) -> None:
        self._client, self._address, self._most, self._own = client, address, most, own
        self._pool = client.get_executor(pure=False)
        self._killed = import_module("distributed").KilledWorker
        self._n, self._looked, self._seen = 0, float("-inf"), time.monotonic()

    def slots(self) -> int:
        """The threads of the cluster; workers may come and go."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_EVERY:
            try:
                self._n = sum(self._client.nthreads().values())
            except Exception as error:
                raise self._gone() from error
            self._looked = now
            if self._n:
                self._seen = now
            elif now - self._seen > _NO_WORKER:
                raise IncompleteError(
                    f"the cluster at {self._address} has had no worker for {_NO_WORKER:.0f} seconds; start "
                    "some with: dask worker."
                )
        return self._n if self._most is None else min(self._n, self._most)

    def submit(self, runner: str, text: str, shares: str | None) -> Future[Any]:
        future: Future[Any] = self._pool.submit(perform, runner, text)
        return future

    def outcome(self, future: Future[Any]) -> Run | str | Lost:
        try:
            made: Run | str = future.result()
        except HardmaxError:
            raise
        except self._killed:
            return Lost("it was killed on the cluster, again and again")
        except (CancelledError, OSError, TimeoutError) as error:
            raise self._gone() from error
        except Exception as error:
            raise IncompleteError(f"the cluster at {self._address} cannot run jobs: {error!r}.") from error
        return made

    def _gone(self) -> IncompleteError:
        return IncompleteError(f"the cluster at {self._address} is gone; what was finished is kept.")

    def close(self) -> None:
        self._pool.shutdown(wait=False)
        if self._own:
            self._client.close(timeout=5)


def _connected(address: str) -> Any:
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise MissingExtraError(
            "a cluster needs Dask, which is not installed; try: pip install 'hardmax[dask]'."
        ) from error
    try:
        return distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"the address of a Dask scheduler must be one that answers, but {address!r} does not."
        ) from error
