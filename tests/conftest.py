"""What every test relies on: hypothesis without a deadline, because the first call of a kernel compiles
it."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "hardmax",
    deadline=None,
    derandomize=True,  # the same examples every time: a red run can be repeated
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("hardmax")
