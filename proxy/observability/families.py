"""Makes Prometheus' metric families with our prefix."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from proxy.observability.durations import BOUNDS_S, Histogram

_BOUNDS = [str(bound) for bound in BOUNDS_S]


def gauge(name: str, text: str, value: float) -> Metric:
    """Give one number that can go down."""
    return GaugeMetricFamily(f"fairgate_{name}", text, value=value)


def counter(name: str, text: str, value: float) -> Metric:
    """Give one number that only grows; `_total` is added."""
    return CounterMetricFamily(f"fairgate_{name}", text, value=value)


def gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Give one gauge for each value of a label."""
    family = GaugeMetricFamily(f"fairgate_{name}", text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def counters(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """Give one counter for each value of a label."""
    return counters_by(name, text, [label], (([key], value) for key, value in values.items()))


def counters_by(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    """Give one counter for each combination of labels."""
    family = CounterMetricFamily(f"fairgate_{name}", text, labels=labels)
    for keys, value in values:
        family.add_metric(keys, value)
    return family


def histograms(name: str, text: str, label: str, values: Mapping[str, Histogram]) -> Metric:
    """Give one histogram for each value of a label, buckets cumulated."""
    family = HistogramMetricFamily(f"fairgate_{name}", text, labels=[label])
    for key, histogram in values.items():
        buckets, seen = [], 0
        for bound, count in zip([*_BOUNDS, "+Inf"], histogram.counts, strict=True):
            seen += count
            buckets.append((bound, float(seen)))
        family.add_metric([key], buckets, histogram.total_s)
    return family
