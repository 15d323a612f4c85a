# SPDX-License-Identifier: Apache-2.0
"""What the lints share: the C files of the tree, and their code without comments and strings."""
import os
import re
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def files(*patterns):
    """Tracked and new files that match, as paths below the top of the tree."""
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],
                         cwd=TOP, capture_output=True, text=True, check=True).stdout
    return sorted(f for f in set(out.splitlines()) if os.path.isfile(os.path.join(TOP, f)))


def text(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        return f.read()


def code(source):
    """The same lines with comments blank and the inside of strings gone; #include lines stay."""
    def blank(match):
        s = match.group()
        if s[0] in "\"'":
            line = source[source.rfind("\n", 0, match.start()) + 1:match.start()]
            return s if line.lstrip().startswith("#") else s[0] + s[-1]
        return "\n" * s.count("\n") or " "
    return _TOKEN.sub(blank, source)


def report(faults):
    for path, line, what in faults:
        print(f"{path}:{line}: {what}")
    return 1 if faults else 0
