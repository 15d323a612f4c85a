# SPDX-License-Identifier: Apache-2.0
"""A server's disk that is slow or broken when a test says so (tests/fault/fault.c).

    server, disk = faults.start(servers)
    disk.set("read /data/ delay_ms=2000", "sync /index/ EIO")
    disk.set()                                     # healthy again"""
import os

import daemon


def library_path():
    return os.path.join(daemon.BUILD, "tests", "fault", "libs3rfault.so")


class Disk:
    """Files below `folder` are concerned."""

    def __init__(self, folder, rules_folder):
        self.folder, self.rules = os.path.realpath(folder), os.path.join(rules_folder, "rules")
        self.set()

    def set(self, *rules):
        with open(self.rules + ".new", "w", encoding="ascii") as f:
            f.write("".join(rule + "\n" for rule in rules))
        os.rename(self.rules + ".new", self.rules)

    def environment(self):
        env = {"LD_PRELOAD": library_path(), "S3R_FAULT_DIR": self.folder,
               "S3R_FAULT_FILE": self.rules}
        # The preloaded library comes before the sanitizer's; the calls reach both all the same.
        if daemon.VARIANT == "asan":
            env["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        return env


def start(servers, device="off", **options):
    """A server and its disk, which is healthy at first."""
    server = servers.make(device, **options)
    disk = Disk(server.data, server.folder)
    server.environment.update(disk.environment())
    return server.start(), disk
