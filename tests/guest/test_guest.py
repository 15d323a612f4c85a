# SPDX-License-Identifier: Apache-2.0
"""The guest and its disk, without our programs: what was synced outlives a power cut, what was not
synced does not. Were the second not so, a power-cut test of the server would prove nothing."""
import os
import random

import guest
import nbd_cut
import pytest

# The kernel writes nothing of its own accord, however long the machine takes.
WRITER = r"""
echo 360000 >/proc/sys/vm/dirty_expire_centisecs || exit 8
mount -t ext4 -o commit=3600 /dev/vda /data || exit 9
echo ready
i=0
while true; do
  i=$((i+1))
  echo "content of $i" | dd of=/data/f$i bs=1k %s 2>/dev/null && echo "wrote $i"
done
"""
READER = r"""
mount -t ext4 /dev/vda /data || exit 9
for f in /data/f*; do [ -s $f ] && echo "has $(basename $f): $(cat $f)"; done
exit 0
"""


@pytest.fixture
def image(tmp_path):
    path = str(tmp_path / "disk")
    guest.make_disk(path, 64)
    return path


class TornCommit(nbd_cut.CutDisk):
    """Falls silent with a commit block of the journal not flushed; of that block one sector arrives,
    over whatever an older journal left there."""
    COMMIT = bytes.fromhex("c03b3998" "00000002")

    def _fall_silent(self, patience_s=60.0):
        super()._fall_silent(patience_s)

    def has_something_to_lose(self):
        return any(os.pread(self.seen, 8, at) == self.COMMIT for at, _ in self.unflushed)

    def _lose(self, offset, length):
        if os.pread(self.seen, 8, offset) != self.COMMIT:
            return
        os.pwrite(self.durable, self.rng.randbytes(length), offset)
        self._copy(self.seen, self.durable, offset, nbd_cut.SECTOR)
        self.counts["kept_sectors"] += 1


def write_and_cut(image, how, seed, kind=nbd_cut.CutDisk):
    disk = kind(image, image + ".sock", random.Random(seed))
    with guest.Guest(WRITER % how, disk=image + ".sock", memory_mib=256) as g:
        g.wait_for("^wrote 20$")
        counts = disk.cut(g.kill)
        assert kind is nbd_cut.CutDisk or counts["kept_sectors"] > 0
        console = g.console()
    return {int(line.split()[1]) for line in console.splitlines(keepends=True)
            if line.startswith("wrote ") and line.endswith("\n")}


def read_back(image):
    disk = nbd_cut.CutDisk(image, image + ".sock")
    with guest.Guest(READER, disk=image + ".sock", memory_mib=256) as g:
        assert g.wait_exit() == 0, g.console()
        lines = [line for line in g.console().splitlines() if line.startswith("has ")]
    disk.close()
    return {int(line.split()[1][1:-1]) for line in lines
            if line == f"has {line.split()[1]} content of {line.split()[1][1:-1]}"}


def test_synced_files_outlive_a_power_cut(image):
    said = write_and_cut(image, "conv=fsync", 1)
    assert len(said) >= 20
    assert said <= read_back(image)


def test_torn_commit_of_the_file_systems_journal_is_the_journals_end(image):
    said = write_and_cut(image, "conv=fsync", 2, TornCommit)
    assert said <= read_back(image)


def test_unsynced_files_do_not_outlive_a_power_cut(image):
    said = write_and_cut(image, "", 2)
    assert len(said - read_back(image)) >= 10
