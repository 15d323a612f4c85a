# SPDX-License-Identifier: Apache-2.0
"""What became of a transfer."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Transfer:
    """How the bytes of one put_object() or get_object() went.

    transport: "rdma", "http", "unknown" where the library loaded cannot tell, or "none" when there
        was nothing to ask for.
    reason: why it was not RDMA, in one word for programs; "" when it was.
    detail: the same for people.
    provider: what the RDMA went over ("cma", "ofi", ...), when known.
    checksum: base64 of the CRC-64/NVME, when known.
    is_staged: a GPU's memory, through a copy in host memory."""

    operation: str
    transport: str
    length: int
    reason: str = ""
    detail: str = ""
    provider: str = ""
    etag: str = ""
    checksum: str = ""
    is_staged: bool = False
