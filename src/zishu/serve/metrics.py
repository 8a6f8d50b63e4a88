"""Count what the service does, for Prometheus.

Every app has its own registry. Several worker processes share one port, so a scrape reaches any of them. They therefore
keep their figures in files of a common directory (`PROMETHEUS_MULTIPROC_DIR`, set by `zishu.serve.server`), and each
can return the sums.
"""

from __future__ import annotations

import os
from functools import cache, partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Hold the figures of one app."""

    def __init__(self) -> None:
        self._shared = DIRECTORY in os.environ
        self._registry = registry = CollectorRegistry()
        if not self._shared:
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        gauge = partial(Gauge, registry=registry, multiprocess_mode="livesum")
        self._requests = counter("zishu_requests", "Requests by address and status.", ("path", "status"))
        self._seconds = histogram(
            "zishu_request_seconds", "From request to answer.", ("path",), buckets=_SECONDS
        )
        self._of_requests = cache(self._find)  # faster than finding them again for every request
        self.waiting = gauge("zishu_waiting_requests", "Accepted but not answered.")
        self.waiting_chars = gauge("zishu_waiting_characters", "Their characters.")
        self.streams = gauge("zishu_streams", "Open streams.")
        self.sentences = counter("zishu_sentences", "Sentences parsed.")
        self.chars = counter("zishu_characters", "Characters parsed.")
        self.batches = histogram("zishu_batch_requests", "Requests parsed together.", buckets=_SIZES)
        self.batch_chars = counter("zishu_batch_characters", "Characters of the batches.")
        self.batch_seconds = counter("zishu_batch_seconds", "Time spent on batches.")

    def _find(self, path: str, status: int) -> tuple[Counter, Histogram]:
        return self._requests.labels(path, str(status)), self._seconds.labels(path)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request; `path` is that of the route, never what the client wrote."""
        count, histogram = self._of_requests(path, status)
        count.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        if not self._shared:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
