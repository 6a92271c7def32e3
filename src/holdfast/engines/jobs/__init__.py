"""Background work that survives the process that ran it."""

from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.jobs.model import Handler, Job, JobFailed, JobNotFound, JobState
from holdfast.engines.jobs.run import JobRun

__all__ = ["Handler", "Job", "JobEngine", "JobFailed", "JobNotFound", "JobRun", "JobState"]
