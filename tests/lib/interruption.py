# SPDX-License-Identifier: Apache-2.0
"""Programs that SIGINT is to end in the middle of a transfer. They print `begun` first."""
import signal
import subprocess

import daemon


def start(command, environment):
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=environment)
    said = started.stdout.readline()
    assert said == "begun\n", said + end(started)
    return started


def end(started):
    """What else it said."""
    try:
        out, _ = started.communicate(timeout=120 * daemon.SLOWER)
    finally:
        started.kill()
    return out


def interrupt_once_held(relay, started):
    """What else it said; what was held is held still."""
    assert daemon.eventually(lambda: relay.held.is_set() or started.poll() is not None, 120)
    assert relay.held.is_set(), end(started)
    started.send_signal(signal.SIGINT)
    return end(started)


def is_at_rest(server):
    """Nothing of a transfer is left: its own request for these numbers is the one under way."""
    values = server.metrics()
    return values["s3rdma_staging_used_bytes"] == 0 and values["s3rdma_http_active_requests"] <= 1


def open_uploads(s3, bucket):
    return s3("GET", f"/{bucket}?uploads=").texts("UploadId")
