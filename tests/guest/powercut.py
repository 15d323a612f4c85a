#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Power cuts under load: powercut.py --server build/s3rdmad --rounds N [--nosync LIB] [--seed N]

The server runs in a guest on a disk that can lose power. Writers PUT, overwrite, delete and
complete multipart uploads of known content, and remember what was acknowledged. At a random moment
the power goes. A new guest mounts the image; then each key must hold the last content that was
acknowledged, or the one that was on its way at the cut, whole; the listing names exactly the keys
that can be read. With --nosync LIB (tests/guest/nosync.c, preloaded) the opposite is the test: some
acknowledged object must be lost."""
import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")]
import guest  # noqa: E402
import nbd_cut  # noqa: E402
import s3raw  # noqa: E402

USER, SECRET, BUCKET = "cutuser", "cutsecret-cutsecret", "cuts"
PORT, WRITERS, KEYS_EACH, PATIENCE_S = 9000, 8, 25, 60
KIB, MIB = 1 << 10, 1 << 20
SIZES = [(0, 0), (1, 200), (1, 4 * KIB), (4 * KIB, 64 * KIB), (64 * KIB, MIB), (MIB, 3 * MIB)]

SCRIPT = """
mount -t ext4 /dev/vda /data || exit 9
export S3RDMA_ROOT_USER={user} S3RDMA_ROOT_PASSWORD={secret}
{later}
echo server starts
{preload} {server} --data /data/store --listen 0.0.0.0:{port} --rdma-device off
"""


def content(seed, size):
    return random.Random(seed).randbytes(size)


class Model:
    """What each key may hold. A content is (seed, size); None is an absent object."""

    def __init__(self):
        self.acknowledged = {}  # key -> content; each key belongs to one writer
        self.on_its_way = {}    # key -> the content that may or may not have arrived

    def begin(self, key, what):
        self.on_its_way[key] = what

    def end(self, key):
        self.acknowledged[key] = self.on_its_way.pop(key)

    def keys(self):
        return sorted(set(self.acknowledged) | set(self.on_its_way))

    def judge(self, key, body):
        """None, or what is wrong with `body` (None: absent). A content that was on its way and
        arrived is the acknowledged one from here on."""
        last = self.acknowledged.get(key)
        candidates = [last]
        if key in self.on_its_way:
            candidates.append(self.on_its_way.pop(key))
        for candidate in candidates:
            if (candidate is None and body is None) or (
                    candidate and body is not None and len(body) == candidate[1]
                    and content(*candidate) == body):
                self.acknowledged[key] = candidate
                return None
        held = "nothing" if body is None else f"{len(body)} bytes that are neither"
        allowed = " or ".join("nothing" if c is None else f"{c[1]} bytes" for c in candidates)
        self.acknowledged[key] = None
        return f"{key}: holds {held}; acknowledged was {allowed}"


class Writer(threading.Thread):
    """Puts load on its own keys until the power goes; an error before that is a fault."""

    def __init__(self, number, s3, model, rng, is_cut):
        super().__init__(daemon=True)
        self.number, self.s3, self.model, self.rng, self.is_cut = number, s3, model, rng, is_cut
        self.done, self.fault = 0, None

    def run(self):
        try:
            with self.s3.connect(timeout=60) as conn:
                while not self.is_cut.is_set():
                    self.one(conn)
                    self.done += 1
        except (OSError, EOFError, AssertionError) as e:
            if not self.is_cut.is_set():
                self.fault = f"writer {self.number}: {e!r}"

    def one(self, conn):
        key = f"writer {self.number}/{self.rng.randrange(KEYS_EACH)}"
        target = s3raw.path(BUCKET, key)
        kind = self.rng.random()
        if kind < 0.1 and self.model.acknowledged.get(key):
            self.model.begin(key, None)
            self.expect(self.s3("DELETE", target, conn=conn), 204)
        elif kind < 0.2:
            what = (self.rng.getrandbits(32), 5 * MIB + self.rng.randrange(MIB))
            self.multipart(conn, key, target, what)
        else:
            what = (self.rng.getrandbits(32), self.rng.randint(*self.rng.choice(SIZES)))
            self.model.begin(key, what)
            self.expect(self.s3("PUT", target, content(*what), conn=conn,
                                sha256=self.rng.choice((None, s3raw.UNSIGNED))), 200)
        self.model.end(key)

    def multipart(self, conn, key, target, what):
        body = content(*what)
        reply = self.expect(self.s3("POST", target + "?uploads", conn=conn), 200)
        upload = s3raw.quote(reply.text("UploadId"))
        parts = ""
        for number, part in enumerate((body[:5 * MIB], body[5 * MIB:]), 1):
            reply = self.expect(self.s3("PUT", f"{target}?partNumber={number}&uploadId={upload}",
                                        part, conn=conn, sha256=s3raw.UNSIGNED), 200)
            parts += f"<Part><PartNumber>{number}</PartNumber><ETag>{reply['etag']}</ETag></Part>"
        self.model.begin(key, what)
        reply = self.expect(self.s3("POST", f"{target}?uploadId={upload}",
                                    f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
                                    .encode(), conn=conn), 200)
        if not reply.text("ETag"):
            raise AssertionError(f"Complete answered {reply!r}")

    @staticmethod
    def expect(reply, status):
        if reply.status != status:
            raise AssertionError(f"{reply!r} where {status} was due")
        return reply


class Bench:
    """The image, the model, and one boot after the other."""

    def __init__(self, options):
        self.options = options
        self.work = tempfile.mkdtemp(prefix="s3rdma-powercut.")
        self.image = os.path.join(self.work, "disk")
        self.rng = random.Random(options.seed)
        self.model = Model()
        guest.make_disk(self.image, options.disk_mib)
        self.is_new = True

    def boot(self):
        disk = nbd_cut.CutDisk(self.image, self.image + ".sock", random.Random(self.rng.random()))
        programs, preload, later = [self.options.server], "", ""
        if self.options.nosync:
            programs.append(self.options.nosync)
            preload = f"LD_PRELOAD={os.path.abspath(self.options.nosync)}"
            later = "(sleep 8; sync; echo all synced) &"
        script = SCRIPT.format(user=USER, secret=SECRET, port=PORT, preload=preload, later=later,
                               server=os.path.abspath(self.options.server))
        running = guest.Guest(script, programs, self.image + ".sock", PORT)
        running.start()
        try:
            running.wait_for(r"^listening on \S+")
        except guest.GuestError:
            running.close()
            disk.close()
            raise
        s3 = s3raw.S3(("127.0.0.1", running.host_port), USER, SECRET, timeout=60)
        return disk, running, s3

    def verify(self, s3):
        """Faults, one line each. Reads everything that was ever written."""
        faults, present = [], []
        with s3.connect() as conn:
            for key in self.model.keys():
                reply = s3("GET", s3raw.path(BUCKET, key), conn=conn)
                if reply.status not in (200, 404):
                    faults.append(f"{key}: {reply!r}")
                    continue
                if reply.status == 200:
                    present.append(key)
                fault = self.model.judge(key, reply.body if reply.status == 200 else None)
                if fault:
                    faults.append(fault)
        listed = self.listed(s3)
        if listed != sorted(present):
            faults.append(f"the listing has {len(listed)} keys, {len(present)} can be read: "
                          f"{sorted(set(listed) ^ set(present))[:5]}")
        return faults

    @staticmethod
    def listed(s3):
        reply = s3("GET", f"/{BUCKET}?encoding-type=url&list-type=2")
        if reply.status != 200 or reply.text("IsTruncated") != "false":
            raise AssertionError(f"the listing: {reply!r}")
        return sorted(urllib.parse.unquote_plus(k) for k in reply.texts("Key"))

    def create_bucket(self, s3):
        reply = s3("PUT", "/" + BUCKET)
        if reply.status not in (200, 409):
            raise AssertionError(f"no bucket: {reply!r}")
        self.is_new = False

    def round(self):
        """Boots, verifies what the cut before left, loads, cuts. Returns faults and a summary."""
        disk, running, s3 = self.boot()
        try:
            return self.loaded_round(disk, running, s3)
        finally:
            running.close()
            disk.close()

    def loaded_round(self, disk, running, s3):
        with_faults = [] if self.is_new else self.verify(s3)
        self.create_bucket(s3)
        if self.options.nosync:  # only objects are to be lost, not the store and the bucket
            running.wait_for("^all synced$")
        is_cut = threading.Event()
        writers = [Writer(n, s3, self.model, random.Random(self.rng.random()), is_cut)
                   for n in range(WRITERS)]
        for w in writers:
            w.start()
        time.sleep(self.rng.uniform(*self.options.load_s))
        end = time.monotonic() + PATIENCE_S  # a slow machine gets the time to have something to lose
        while sum(w.done for w in writers) < 2 * WRITERS and time.monotonic() < end:
            time.sleep(0.05)
        is_cut.set()
        counts = disk.cut(running.kill)
        for w in writers:
            w.join(70)
        with_faults += [w.fault for w in writers if w.fault]
        done = sum(w.done for w in writers)
        if done < WRITERS:
            with_faults.append(f"only {done} requests were acknowledged before the cut")
        return with_faults, f"{done} acknowledged, disk {counts}"

    def last_look(self):
        disk, running, s3 = self.boot()
        try:
            return self.verify(s3)
        finally:
            running.close()
            disk.close()

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)


def survives(options):
    """Each cut and the look after it is one test."""
    bench, passed, failed = Bench(options), 0, 0
    try:
        faults, summary = bench.round()
        for n in range(1, options.rounds + 1):
            if n < options.rounds:
                more, next_summary = bench.round()
            else:
                more, next_summary = bench.last_look(), ""
            faults += more
            print(f"power cut {n}: {summary}; {len(faults)} faults", flush=True)
            for fault in faults[:20]:
                print(f"    {fault}")
            passed, failed = passed + (not faults), failed + bool(faults)
            faults, summary = [], next_summary
    finally:
        bench.close()
    return passed, failed


def losses(bench):
    """What the look after a cut finds wrong, a store that does not open or answer included."""
    try:
        return bench.last_look()
    except guest.GuestError as e:
        if "server starts" not in str(e):
            raise
        return [f"the store does not open: {str(e)[-400:]}"]
    except (AssertionError, OSError, EOFError) as e:
        return [f"the store does not answer: {str(e)[:400]}"]


def loses(options):
    """The control: within a few cuts something acknowledged is gone, or the store will not open."""
    for n in range(1, options.rounds + 1):
        bench = Bench(options)
        try:
            faults, summary = bench.round()
            if faults:
                print(f"control {n}: under load, before any cut: {faults[:5]}")
                return 0, 1
            faults = losses(bench)
        finally:
            bench.close()
        print(f"control {n}, without syncs: {summary}; {len(faults)} losses, such as {faults[:2]}",
              flush=True)
        if faults:
            return 1, 0
    print("control: nothing was lost without syncs, so this test would not notice their absence")
    return 0, 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--nosync", help="library to preload; then a loss is what must happen")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--disk-mib", type=int, default=4096)
    parser.add_argument("--load-s", type=float, nargs=2, default=(2.0, 6.0), metavar=("MIN", "MAX"))
    options = parser.parse_args()
    print(f"seed {options.seed}, {guest.accelerator()}", flush=True)
    passed, failed = (loses if options.nosync else survives)(options)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
