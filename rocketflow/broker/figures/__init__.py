"""Figures: what the broker counts, for operators' requests and for Prometheus.

| module | content |
|---|---|
| `counts` | counts of messages by topic and group |
| `stats` | counts over the last minute, hour and day, for mqadmin's `statsAll` |
| `metrics` | all figures for Prometheus |
| `runtime_figures`, `timer_figures` | figures for mqadmin's `brokerStatus` and `clusterList`, those of timer messages |
"""
