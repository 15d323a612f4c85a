# SPDX-License-Identifier: Apache-2.0
"""The command-line client of a test, against one of its servers.

    cli = Cli(server, device, home)
    rows = cli.json("cp", "-r", folder, "s3://bucket/prefix")"""
import json
import os
import subprocess

import daemon

PROGRAM = os.path.join(daemon.BUILD, "s3rdma")
PATIENT = ("cp", "mirror", "bench", "doctor")


def command(args):
    """With patience for a machine that does other things, too."""
    args = [str(a) for a in args]
    patience = ["--timeout", "100"] if args and args[0] in PATIENT else []
    return [PROGRAM, *args[:1], *patience, *args[1:]]


class Cli:
    def __init__(self, server, device, home):
        self.server, self.device, self.home = server, device, str(home)
        self.url = server.url

    def environment(self, **more):
        return daemon.plain_environment() | {
            "HOME": self.home, "AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": daemon.USER,
            "AWS_SECRET_ACCESS_KEY": daemon.SECRET, "S3RDMA_DEVICE": self.device} | more

    def start(self, *args, **environment):
        return subprocess.Popen(command(args), env=self.environment(**environment),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run(self, *args, **environment):
        done = subprocess.run(command(args), env=self.environment(**environment),
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=300 * daemon.SLOWER, check=False)
        assert not daemon.SANITIZER.search(done.stderr.decode(errors="replace")), done.stderr
        return done

    def ok(self, *args, **environment):
        done = self.run(*args, **environment)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def json(self, *args, **environment):
        return [json.loads(line) for line in self.ok(*args, "--json", **environment).splitlines()]
