# SPDX-License-Identifier: Apache-2.0
"""A server process of a test: its own folder and port, its log, its end.

    server = Daemon(folder, device="cma")
    server.start()
    ...
    server.stop()        # SIGTERM; it must exit 0 and its log must hold no sanitizer's report

Programs come from $S3RDMA_BUILD (build/); $S3RDMA_VARIANT says which build that is."""
import os
import re
import signal
import socket
import subprocess
import time

import s3raw

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("S3RDMA_BUILD") or os.path.join(TOP, "build"))
VARIANT = os.environ.get("S3RDMA_VARIANT", "plain")
SCALE = float(os.environ.get("SCALE", "0.1"))
SLOWER = {"plain": 1, "asan": 4, "tsan": 12}[VARIANT]
USER, SECRET = "s3rdma-tests", "a secret of the tests"
SANITIZER = re.compile(r"(AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:)")


def scaled(count):
    """A count of the long tests: all of it at SCALE=1, never less than one."""
    return max(1, round(count * SCALE))


def plain_environment():
    """Ours without what would configure a server or a client of the tests."""
    return {k: v for k, v in os.environ.items()
            if not k.startswith(("S3RDMA_", "MINIO_", "AWS_", "MINIOCPP_"))}


class Daemon:
    def __init__(self, folder, device="off", options=(), environment=None, listen="127.0.0.1:0"):
        self.folder = str(folder)
        self.data = os.path.join(self.folder, "data")
        self.log_path = os.path.join(self.folder, "server.log")
        self.out_path = os.path.join(self.folder, "server.out")
        self.device, self.options, self.listen = device, list(options), listen
        self.environment = {"S3RDMA_ROOT_USER": USER, "S3RDMA_ROOT_PASSWORD": SECRET,
                            **(environment or {})}
        self.process, self.address = None, None

    def command(self):
        return [os.path.join(BUILD, "s3rdmad"), "--data", self.data, "--listen", self.listen,
                "--rdma-device", self.device, *self.options]

    def start(self, wait=60 * SLOWER):
        os.makedirs(self.data, exist_ok=True)
        with open(self.out_path, "wb") as out, open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=log,
                env={**plain_environment(), **self.environment}, cwd=self.folder)
        end = time.monotonic() + wait
        while time.monotonic() < end:
            match = re.search(r"^listening on (\S+):(\d+)$", self.out(), re.M)
            if match:
                self.address = (match[1].strip("[]"), int(match[2]))
                return self
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode} instead of "
                                     f"listening:\n{self.log()[-4000:]}")
            time.sleep(0.005)
        self.kill()
        raise AssertionError(f"the server did not listen within {wait} s:\n{self.log()[-4000:]}")

    def out(self):
        with open(self.out_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def log(self):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    @property
    def pid(self):
        return self.process.pid

    @property
    def url(self):
        return f"http://{self.address[0]}:{self.address[1]}"

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def stop(self, wait=90 * SLOWER):
        """Asks it to end and judges how it did. Also when it has ended by itself."""
        if not self.process:
            return
        if self.is_alive():
            self.signal(signal.SIGTERM)
        try:
            status = self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not end within {wait} s of SIGTERM:\n"
                                 f"{self.log()[-3000:]}") from None
        log = self.log()
        found = SANITIZER.search(log)
        assert not found, log[max(0, found.start() - 200):found.start() + 6000]
        assert status == 0, f"the server ended with {status}:\n{log[-4000:]}"

    def s3(self, access=USER, secret=SECRET, **options):
        return s3raw.S3(self.address, access, secret, timeout=60 * SLOWER, **options)

    def get(self, target):
        """Without credentials: health and metrics."""
        with s3raw.Connection(self.address, timeout=60 * SLOWER) as conn:
            conn.send(f"GET {target} HTTP/1.1\r\nHost: {self.address[0]}:"
                      f"{self.address[1]}\r\n\r\n".encode())
            return conn.read_reply()

    def metrics(self):
        """{'name{label="value"}': number} of both pages."""
        values = {}
        for page in ("/minio/metrics/v3/api/rdma", "/minio/metrics"):
            reply = self.get(page)
            assert reply.status == 200, reply
            values.update(parse_metrics(reply.body.decode()))
        return values

    def metric(self, name):
        """The sum over all labels of that name; 0 when it is not served."""
        return sum(v for k, v in self.metrics().items() if k.partition("{")[0] == name)

    def rdma_counts(self):
        """(read ops, read bytes, write ops, write bytes) of the field's metrics."""
        page = parse_metrics(self.get("/minio/metrics/v3/api/rdma").body.decode())
        label = f'{{server="{self.address[0]}:{self.address[1]}"}}'
        return tuple(int(page[f"minio_api_rdma_{what}_total{label}"])
                     for what in ("read_ops", "read_bytes", "write_ops", "write_bytes"))

    def descriptors(self):
        """Open files and sockets without those of the index, which keeps its tables open."""
        count = 0
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                where = os.readlink(f"/proc/{self.pid}/fd/{fd}")
            except FileNotFoundError:
                continue
            count += not re.search(r"\.(sst|log|dbtmp)( \(deleted\))?$|/(MANIFEST|OPTIONS)-", where)
        return count

    def resident(self):
        """Bytes."""
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def parse_metrics(text):
    values = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{.*\})?) (\S+)", line)
            assert match, f"no metric: {line!r}"
            assert match[1] not in values, f"twice: {line!r}"
            values[match[1]] = float(match[2])
    return values


def eventually(what, seconds=30, pause=0.02):
    """Waits until `what()` is true, and says whether it became so."""
    end = time.monotonic() + seconds * SLOWER
    while True:
        if what():
            return True
        if time.monotonic() > end:
            return False
        time.sleep(pause)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
