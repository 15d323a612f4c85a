# SPDX-License-Identifier: Apache-2.0
"""A program that was written for minio, with the Minio of this package:

    python -m s3rdma PROGRAM [ARGUMENT...]

The Minio it imports from minio is ours, so enable_rdma=True works with releases of minio that do
not know it. A program that does not say that is not changed by it."""
import os
import runpy
import sys

from .client import Minio


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m s3rdma PROGRAM [ARGUMENT...]")
    for module in [m for name, m in sys.modules.items() if name.partition(".")[0] == "minio"]:
        if getattr(module, "Minio", None) is Minio.__bases__[0]:
            setattr(module, "Minio", Minio)
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
