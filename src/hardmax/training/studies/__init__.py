"""Studies: lists of jobs that run on one machine or on many without losing a finished run.

A :class:`Study` is a list of jobs and the runner that runs them, :func:`run_study` runs those that are not
finished, a :class:`RunStore` reads what is there. A study is a folder of plain files: lists of jobs, and one
file per finished run that holds its own checksum.
"""

from __future__ import annotations

from hardmax.training.studies.driver import run_study
from hardmax.training.studies.overview import StudyProgress
from hardmax.training.studies.store import RunStore, is_store
from hardmax.training.studies.study import Study, StudyJob, read_study, write_study

__all__ = [
    "RunStore",
    "Study",
    "StudyJob",
    "StudyProgress",
    "is_store",
    "read_study",
    "run_study",
    "write_study",
]
