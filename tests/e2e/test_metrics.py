# SPDX-License-Identifier: Apache-2.0
"""The metrics that are served are the metrics that are documented."""
import os
import re

from daemon import TOP, parse_metrics


def documented():
    with open(os.path.join(TOP, "docs", "metrics.md"), encoding="utf-8") as f:
        return set(re.findall(r"`((?:minio|s3rdma)_[a-z0-9_]+)[`{]", f.read()))


def families(text):
    """{name: type} of the TYPE lines."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))


def base_name(sample, types):
    name = sample.partition("{")[0]
    for suffix in ("_bucket", "_sum", "_count"):
        if name.endswith(suffix) and types.get(name.removesuffix(suffix)) == "histogram":
            return name.removesuffix(suffix)
    return name


def test_served_names_are_the_documented_ones(server):
    served = set()
    for page in ("/minio/metrics", "/minio/metrics/v3/api/rdma"):
        text = server.get(page).body.decode()
        types = families(text)
        assert text.endswith("\n")
        served |= {base_name(s, types) for s in parse_metrics(text)}
        for name in types:
            assert f"# HELP {name} " in text
        assert {base_name(s, types) for s in parse_metrics(text)} <= set(types)
    assert served == documented()


def test_the_page_of_the_field_has_its_four_counters_and_label(server):
    page = parse_metrics(server.get("/minio/metrics/v3/api/rdma").body.decode())
    label = f'{{server="{server.address[0]}:{server.address[1]}"}}'
    for what in ("read_ops", "read_bytes", "write_ops", "write_bytes"):
        assert page[f"minio_api_rdma_{what}_total{label}"] == 0


def test_requests_are_counted(server, s3, bucket):
    before = server.metrics()
    for _ in range(5):
        assert s3("GET", f"/{bucket}/none").status == 404
    changed = {k: v - before.get(k, 0) for k, v in server.metrics().items() if v != before.get(k, 0)}
    assert any(v == 5 and k.startswith("s3rdma_") for k, v in changed.items()), changed
