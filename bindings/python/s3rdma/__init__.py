# SPDX-License-Identifier: Apache-2.0
"""S3 over RDMA for Python: minio's client, with objects moved straight between memory and server.

    from s3rdma import Minio

    client = Minio("store.example.net:9000", "ACCESS", "SECRET", secure=False, enable_rdma=True)
    client.put_object("bucket", "object", data=bytearray(b"hello"), length=5)
    memory = bytearray(5)
    client.get_object("bucket", "object", into=memory, length=5)
    print(client.last_transfer.transport)"""
from .aligned import aligned_buffer
from .client import Minio
from .errors import ObjectTooLarge, RDMAError, RDMANotAvailable, RDMARequired
from .library import is_rdma_available
from .transfer import Transfer

__version__ = "0.1.0"
__all__ = ["Minio", "ObjectTooLarge", "RDMAError", "RDMANotAvailable", "RDMARequired", "Transfer",
           "aligned_buffer", "is_rdma_available"]
