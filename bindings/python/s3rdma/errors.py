# SPDX-License-Identifier: Apache-2.0
"""What goes wrong besides S3's own errors, which are minio's S3Error."""
from minio.error import MinioException


class RDMAError(MinioException):
    """A transfer through the library failed, and no S3 error says why."""


class RDMANotAvailable(RDMAError):
    """The library cannot be loaded, or what was asked for needs RDMA and there is none here."""


class RDMARequired(RDMAError):
    """RDMA was required, and the bytes could not go that way. `reason` is one word for programs."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"RDMA was required: {detail} ({reason})")
        self.reason = reason
        self.detail = detail

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return type(self), (self.reason, self.detail)


class ObjectTooLarge(RDMAError, ValueError):
    """The object does not fit the memory it was to go into. Nothing was written past its end."""
