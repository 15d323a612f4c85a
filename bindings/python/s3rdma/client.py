# SPDX-License-Identifier: Apache-2.0
"""minio's client, with put_object() from memory and get_object() into memory by RDMA."""
from __future__ import annotations

import inspect
import logging
import operator
import ssl
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Set, Tuple, Union, overload

import minio
from minio import helpers

from .errors import ObjectTooLarge, RDMAError, RDMANotAvailable, RDMARequired
from .library import Library, load
from .memory import Memory, is_memory
from .native import (DEFAULT_CONTENT_TYPE, Account, MiniocppClient, Reply, Request, S3rClient,
                     Unsupported, new_client, transfer)
from .transfer import Transfer

if TYPE_CHECKING:
    from minio.helpers import ObjectWriteResult
    from urllib3.response import BaseHTTPResponse

_log = logging.getLogger("s3rdma")
_INIT = inspect.signature(minio.Minio.__init__)
_PUT = inspect.signature(minio.Minio.put_object)
_GET = inspect.signature(minio.Minio.get_object)
# What put_object() takes and the library can send along; the rest of its arguments need minio.
_AS_HEADERS = {"content_type", "metadata", "tags"}
_AS_OPTIONS = {"part_size", "num_parallel_uploads", "progress"}


class _Stream:
    """Memory as what minio reads from."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._at = view, 0

    def read(self, size: int = -1) -> bytes:
        end = len(self._view) if size is None or size < 0 else self._at + size
        piece = bytes(self._view[self._at:end])
        self._at += len(piece)
        return piece


class _Why(Exception):
    """Why a transfer does not go through the library: a word and a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


def _arguments(signature: inspect.Signature, args: Tuple[Any, ...],
               kwargs: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """What a call of minio's would get: all of it, and the part that is not its default."""
    bound = signature.bind(None, *args, **kwargs).arguments
    names = list(signature.parameters)
    bound.pop(names[0])
    extra = bound.pop("kwargs", {})
    said = {k: v for k, v in bound.items() if not _is_same(v, signature.parameters[k].default)}
    return {**bound, **extra}, {**said, **extra}


def _is_same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    return isinstance(value, (str, int, bool)) and type(value) is type(default) and value == default


class Minio(minio.Minio):
    """minio.Minio and all it does, and with enable_rdma=True:

    put_object(bucket_name, object_name, data, length): `data` may be memory, that is an object
        with the buffer protocol (bytes, bytearray, memoryview, a numpy array) or an address with a
        length.
    get_object(bucket_name, object_name, into=..., length=...): the object into memory; returns its
        bytes. With `offset` (0 too) that range of it.

    Such transfers go by RDMA where they can and by HTTP where they cannot; `last_transfer` says
    which it was and why. With require_rdma=True (which includes enable_rdma) they fail instead of
    going by HTTP. All other calls are minio's own."""

    def __init__(self, *args: Any, enable_rdma: bool = False, require_rdma: bool = False,
                 **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        said, _ = _arguments(_INIT, args, kwargs)
        self._s3rdma_is_on = bool(enable_rdma or require_rdma)
        self._s3rdma_is_required = bool(require_rdma)
        scheme = "https" if said.get("secure", True) else "http"
        self._s3rdma_url = f"{scheme}://{said['endpoint']}"
        self._s3rdma_region: Optional[str] = said.get("region")
        self._s3rdma_clients: Dict[Account, Union[S3rClient, MiniocppClient]] = {}
        self._s3rdma_thread = threading.local()
        self._s3rdma_warned: Set[str] = set()
        if require_rdma and not load().has_s3r:
            raise RDMANotAvailable(f"RDMA cannot be required: {load().path} does not say what "
                                   "carried the bytes")

    @property
    def last_transfer(self) -> Optional[Transfer]:
        """What became of this thread's last put_object() from memory or get_object() into it; None
        before the first, and after one that failed."""
        return getattr(self._s3rdma_thread, "last", None)

    # ---- what is overridden ----

    @overload
    def put_object(self, bucket_name: str, object_name: str, data: Any, length: int = ...,
                   *args: Any, **kwargs: Any) -> ObjectWriteResult: ...

    @overload
    def put_object(self, *args: Any, **kwargs: Any) -> ObjectWriteResult: ...

    def put_object(self, *args: Any, **kwargs: Any) -> Any:
        if not self._s3rdma_is_on or not is_memory(_data_of(args, kwargs)):
            return super().put_object(*args, **kwargs)
        length = kwargs.pop("length", None)
        if len(args) > _LENGTH_AT:
            length = args[_LENGTH_AT]
            args = args[:_LENGTH_AT] + (0,) + args[_LENGTH_AT + 1:]
        else:
            kwargs["length"] = 0
        call, said = _arguments(_PUT, args, kwargs)
        self._s3rdma_thread.last = None
        with Memory(call["data"], length) as memory:
            request = self._request("PUT", call, memory)
            for name in ("bucket_name", "object_name", "data", "length"):
                said.pop(name, None)
            reply = self._by_library(request, lambda: _put_options(request, said))
            if isinstance(reply, _Why):
                return self._put_by_http(request, said, reply)
            if said.get("progress"):
                said["progress"].update(memory.length)
            return self._written(request, reply)

    @overload
    def get_object(self, bucket_name: str, object_name: str, offset: int = ..., length: int = ...,
                   *, into: Any, **kwargs: Any) -> int: ...

    @overload
    def get_object(self, *args: Any, **kwargs: Any) -> BaseHTTPResponse: ...

    def get_object(self, *args: Any, into: Any = None, **kwargs: Any) -> Any:
        if into is None:
            return super().get_object(*args, **kwargs)
        if not self._s3rdma_is_on:
            if "into" in _GET.parameters:
                kwargs["into"] = into
                return super().get_object(*args, **kwargs)
            raise TypeError("get_object(into=...) needs Minio(enable_rdma=True)")
        call, said = _arguments(_GET, args, kwargs)
        length = call.get("length")
        self._s3rdma_thread.last = None
        with Memory(into, length, is_target=True) as memory:
            request = self._request("GET", call, memory)
            request.offset = _offset(call.get("offset"))
            for name in ("bucket_name", "object_name", "offset", "length"):
                said.pop(name, None)
            reply = self._by_library(request, lambda: _refuse(said))
            if isinstance(reply, _Why):
                return self._get_by_http(request, said, reply)
            return reply.transfer.length

    # ---- by the library ----

    def _request(self, operation: str, call: Dict[str, Any], memory: Memory) -> Request:
        bucket, key = call["bucket_name"], call["object_name"]
        helpers.check_bucket_name(bucket)
        getattr(helpers, "check_object_name", _check_object_name)(key)
        request = Request(operation, bucket, key, memory, self._s3rdma_is_required)
        request.names()
        return request

    def _by_library(self, request: Request, prepare: Callable[[], None]) -> Union[Reply, _Why]:
        """_Why: it has to go by HTTP through minio, and may."""
        try:
            prepare()
            library = self._library()
            reply = transfer(self._native(library, request.bucket), request)
            self._note(reply.transfer)
            return reply
        except Unsupported as e:
            why = _Why("arguments", str(e))
        except _Why as e:
            why = e
        if self._s3rdma_is_required:
            raise RDMARequired(why.reason, why.detail)
        if request.memory.view is None:
            raise RDMANotAvailable(f"a bare address goes through the library only: {why.detail}")
        return why

    @staticmethod
    def _library() -> Library:
        try:
            return load()
        except RDMANotAvailable as e:
            raise _Why("no-library", str(e)) from e

    def _native(self, library: Library, bucket: str) -> Union[S3rClient, MiniocppClient]:
        account = self._account(bucket)
        client = self._s3rdma_clients.get(account)
        if client is None:
            # Without a lock, which a fork could find taken: of two at once one is dropped.
            client = self._s3rdma_clients.setdefault(account, new_client(library, account))
            for old in [a for a in list(self._s3rdma_clients) if _is_outdated(a, account)]:
                self._s3rdma_clients.pop(old, None)
        return client

    def _account(self, bucket: str) -> Account:
        keys = self._provider.retrieve() if self._provider else None
        if keys is None:
            raise _Why("anonymous", "requests without credentials get no RDMA")
        ca_file = None
        pool = getattr(self._http, "connection_pool_kw", {})
        if self._s3rdma_url.startswith("https:"):
            if pool.get("cert_reqs") in ("CERT_NONE", "NONE", ssl.CERT_NONE):
                raise _Why("unverified", "the library speaks to no server that it cannot verify")
            ca_file = pool.get("ca_certs")
        proxy = getattr(self._http, "proxy", None)
        return Account(self._s3rdma_url, self._region_of(bucket), keys.access_key, keys.secret_key,
                       keys.session_token or "", ca_file, proxy.url if proxy else None)

    def _region_of(self, bucket: str) -> str:
        """As minio finds it: what it was told, else what the server says, once for each bucket."""
        if self._s3rdma_region:
            return self._s3rdma_region
        find: Any = self._get_region
        parameters = inspect.signature(find).parameters
        if "extra_headers" in parameters:
            return str(find(bucket_name=bucket))
        return str(find(bucket, None) if "region" in parameters else find(bucket))

    # ---- by HTTP ----

    def _put_by_http(self, request: Request, said: Dict[str, Any], why: _Why) -> Any:
        assert request.memory.view is not None
        stream: Any = _Stream(request.memory.view)
        result = super().put_object(bucket_name=request.bucket, object_name=request.key,
                                    data=stream, length=request.memory.length, **said)
        self._note(Transfer("PUT", "http", request.memory.length, why.reason, why.detail,
                            etag=result.etag or ""))
        return result

    def _get_by_http(self, request: Request, said: Dict[str, Any], why: _Why) -> int:
        view = request.memory.view
        assert view is not None
        part: Dict[str, Any] = {}
        if request.offset is not None:
            if not len(view):
                self._note(Transfer("GET", "none", 0, why.reason, why.detail))
                return 0
            part = {"offset": request.offset, "length": len(view)}
        answer = super().get_object(bucket_name=request.bucket, object_name=request.key,
                                    **part, **said)
        response = getattr(answer, "_response", answer)  # some releases wrap it
        try:
            moved = _receive(response, view)
            etag = response.headers.get("etag", "").strip('"')
        finally:
            response.close()
            response.release_conn()
        self._note(Transfer("GET", "http", moved, why.reason, why.detail, etag=etag))
        return moved

    # ---- afterwards ----

    def _note(self, transfer: Transfer) -> None:
        self._s3rdma_thread.last = transfer
        if transfer.transport == "http":
            # A word the first time that it is for this reason, so that nobody is slow unawares.
            level = logging.DEBUG if transfer.reason in self._s3rdma_warned else logging.WARNING
            self._s3rdma_warned.add(transfer.reason)
            _log.log(level, "%s went by HTTP, not RDMA: %s (%s)", transfer.operation,
                     transfer.detail, transfer.reason)

    def _written(self, request: Request, reply: Reply) -> Any:
        headers = _header_dict(reply.headers)
        etag = reply.transfer.etag
        if hasattr(helpers, "ObjectWriteResult"):
            return helpers.ObjectWriteResult(request.bucket, request.key, reply.version_id, etag,
                                             headers)
        from minio.models import ObjectWriteResponse  # type: ignore[import-not-found]
        return ObjectWriteResponse(
            headers=headers, bucket_name=request.bucket, region=self._s3rdma_region or "",
            object_name=request.key, etag=etag, version_id=reply.version_id)


_LENGTH_AT = 3  # among the positional arguments of put_object()


def _data_of(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return kwargs["data"] if "data" in kwargs else args[2] if len(args) > 2 else None


def _offset(offset: Any) -> Optional[int]:
    if offset is None:
        return None
    if isinstance(offset, bool) or not hasattr(offset, "__index__"):
        raise TypeError(f"offset must be a number of bytes, not {type(offset).__name__}")
    if offset < 0:
        raise ValueError(f"offset must not be negative: {offset}")
    return int(offset)


def _check_object_name(name: str) -> None:
    helpers.check_non_empty_string(name)


def _is_outdated(old: Account, new: Account) -> bool:
    """The same place, but credentials that were since replaced."""
    return old.region == new.region and old != new


def _refuse(said: Dict[str, Any]) -> None:
    if said:
        raise _Why("arguments", f"{', '.join(sorted(said))}: only minio's own request has that")


def _put_options(request: Request, said: Dict[str, Any]) -> None:
    _refuse({k: v for k, v in said.items() if k not in _AS_HEADERS | _AS_OPTIONS})
    content_type = said.get("content_type") or DEFAULT_CONTENT_TYPE
    headers = {"Content-Type": content_type}
    if said.get("metadata") or said.get("tags"):
        make: Any = getattr(helpers, "genheaders", None)
        if make is None:
            raise _Why("arguments", "this release of minio does not tell what headers they are")
        headers = {**make(said.get("metadata"), None, said.get("tags"), None, False),
                   "Content-Type": content_type}
    request.headers = {name: _one_value(name, value) for name, value in headers.items()}
    request.part_size = operator.index(said.get("part_size", 0))
    if "num_parallel_uploads" in said:
        request.parts_in_flight = min(max(1, operator.index(said["num_parallel_uploads"])), 100)
    if said.get("progress"):
        said["progress"].set_meta(object_name=request.key, total_length=request.memory.length)


def _one_value(name: str, value: Any) -> str:
    values = [value] if isinstance(value, str) else list(value)
    if len(values) != 1:
        raise _Why("arguments", f"{name} has {len(values)} values, as minio's own requests can")
    return str(values[0])


def _header_dict(headers: Dict[str, str]) -> Any:
    from urllib3._collections import HTTPHeaderDict
    return HTTPHeaderDict(headers)


def _receive(response: Any, view: memoryview) -> int:
    """A body into memory, as it is stored: no decoding of what it may be compressed with."""
    told = response.headers.get("content-length")
    if told is not None and not (told.isascii() and told.isdigit()):
        raise RDMAError(f"the reply says that it has {told!r} bytes")
    announced = None if told is None else int(told)
    if announced is not None and announced > len(view):
        raise ObjectTooLarge(f"the object has {announced} bytes, the memory it was to go into "
                             f"{len(view)}")
    at = 0
    while True:
        piece = response.read(min(1 << 20, len(view) - at + 1), decode_content=False)
        if not piece:
            break
        if at + len(piece) > len(view):
            raise ObjectTooLarge(f"more than the {len(view)} bytes of the memory arrived")
        view[at:at + len(piece)] = piece
        at += len(piece)
    if announced is not None and at != announced:
        raise RDMAError(f"{at} of {announced} bytes arrived, then the connection ended")
    return at
