"""Settings that all tests share."""

from hypothesis import HealthCheck, settings

# The first example of a test may compile kernels or fill the oracle's caches, so a time limit per example
# would only be noise. `pytest --hypothesis-profile thorough` searches ten times as long.
settings.register_profile(
    "zishu", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("zishu"), max_examples=1000)
settings.load_profile("zishu")
