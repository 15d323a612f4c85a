# SPDX-License-Identifier: Apache-2.0
"""Transfers through the library, by either of its interfaces: one Client for each."""
from __future__ import annotations

import ctypes
import re
import threading
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple, Union

import urllib3
from minio.error import S3Error

from .aligned import span_of
from .errors import ObjectTooLarge, RDMAError, RDMARequired
from .library import CANCEL, Library, c_text
from .memory import Memory
from .transfer import Transfer

DEFAULT_CONTENT_TYPE = "application/octet-stream"  # minio's
_RDMA_REQUIRED = 1
_E_NOMEM, _E_INVALID_ARGUMENT = -1, -3
_E_RDMA_REQUIRED, _E_RDMA_UNFENCED, _E_BUFFER_TOO_SMALL = -25, -26, -27
_E_OF_SERVER = -100  # and below

_MINIOCPP_DECLINED, _MINIOCPP_INVALID_ARGUMENT = -2, -3
# S3's codes in the text of an error, where a library has nothing but that, and their HTTP status.
_STATUS = {
    "AccessDenied": 403, "InvalidAccessKeyId": 403, "SignatureDoesNotMatch": 403,
    "RequestTimeTooSkewed": 403, "NoSuchBucket": 404, "NoSuchKey": 404, "NoSuchUpload": 404,
    "NoSuchVersion": 404, "PreconditionFailed": 412, "InvalidRange": 416, "InvalidBucketName": 400,
    "KeyTooLongError": 400, "EntityTooLarge": 400, "EntityTooSmall": 400, "InvalidPart": 400,
    "AuthorizationHeaderMalformed": 400, "BadDigest": 400, "InvalidRequest": 400,
    "InvalidArgument": 400, "SlowDown": 503, "ServiceUnavailable": 503, "InternalError": 500,
    "XMinioStorageFull": 507, "MethodNotAllowed": 405,
}
_S3_CODE = re.compile(r"\b(?:" + "|".join(_STATUS) + r")\b")

# Memory that a stopped server may still write when it goes on: kept for as long as we live.
_unfenced: List[Memory] = []


@dataclass(frozen=True)
class Account:
    """Where to and as whom. Clients of the same account are the same client."""

    url: str
    region: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str = field(repr=False)
    ca_file: Optional[str] = None
    proxy: Optional[str] = None


@dataclass
class Request:
    """One transfer. `offset` None: a whole object."""

    operation: str
    bucket: str
    key: str
    memory: Memory
    is_rdma_required: bool = False
    offset: Optional[int] = None
    headers: Dict[str, str] = field(default_factory=dict)
    part_size: int = 0
    parts_in_flight: int = 0
    is_stopped: bool = False  # set by another thread: it shall end soon

    def names(self) -> Tuple[bytes, bytes]:
        return c_text(self.bucket, "a bucket name"), c_text(self.key, "an object name")


@dataclass(frozen=True)
class Reply:
    transfer: Transfer
    version_id: Optional[str]
    headers: Dict[str, str]


class Unsupported(Exception):
    """This library cannot do that request; nothing was sent."""


def _known(function: Any, *arguments: Any) -> str:
    return (function(*arguments) or b"").decode("utf-8", "replace")


def s3_error(request: Request, code: str, message: str, status: int,
             headers: Dict[str, str]) -> S3Error:
    """As minio would have made it out of the reply. By keywords: releases differ in the order."""
    return S3Error(
        code=code, message=message, resource=f"/{request.bucket}/{request.key}",
        request_id=headers.get("x-amz-request-id"), host_id=headers.get("x-amz-id-2"),
        response=urllib3.HTTPResponse(body=b"", status=status, headers=headers),
        bucket_name=request.bucket, object_name=request.key)


class _Owned:
    """A pointer and what frees it."""

    def __init__(self, pointer: Optional[int], free: Any) -> None:
        if not pointer:
            raise MemoryError("no memory in the library")
        self.pointer, self._free = pointer, free

    def __enter__(self) -> int:
        return self.pointer

    def __exit__(self, *_: object) -> None:
        self._free(self.pointer)


class S3rClient:
    """By s3r_*: says what carried the bytes, can require RDMA, knows ranges and headers."""

    can_require_rdma = True

    def __init__(self, library: Library, account: Account) -> None:
        self._c = c = library.c
        self._free = c.s3r_client_free
        self._pointer: Any = ctypes.c_void_p()
        with _Owned(c.s3r_config_new(), c.s3r_config_free) as config, \
                _Owned(c.s3r_result_new(), c.s3r_result_free) as result:
            errors = [
                c.s3r_config_set_endpoint(config, c_text(account.url, "an endpoint")),
                c.s3r_config_set_region(config, c_text(account.region, "a region")),
                c.s3r_config_set_keys(config, c_text(account.access_key, "an access key"),
                                      c_text(account.secret_key, "a secret key"),
                                      c_text(account.session_token, "a session token")),
                c.s3r_config_set_ca_file(config, c_text(account.ca_file or "", "a file name")),
                c.s3r_config_set_proxy(config, c_text(account.proxy or "", "a proxy")),
            ]
            error = min(errors) or c.s3r_client_new(config, result, ctypes.byref(self._pointer))
            if error:
                message = _known(c.s3r_result_message, result)
                raise RDMAError(message or _known(c.s3r_error_name, error))

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self._free(self._pointer)
            self._pointer = None

    def _set(self, options: int, request: Request, cancel: Any) -> None:
        self._c.s3r_options_set_cancel(options, cancel, None)
        if request.is_rdma_required:
            self._c.s3r_options_set_rdma(options, _RDMA_REQUIRED)
        if request.part_size or request.parts_in_flight:
            error = self._c.s3r_options_set_pieces(options, request.part_size,
                                                   request.parts_in_flight)
            if error:
                raise Unsupported(f"parts of {request.part_size} bytes")
        for name, value in request.headers.items():
            if self._c.s3r_options_set_header(options, c_text(name, "a header"),
                                              c_text(value, f"the header {name}")):
                raise Unsupported(f"the header {name}")

    def _call(self, request: Request, options: int, result: int) -> int:
        bucket, key = request.names()
        memory, c = request.memory, self._c
        if request.operation == "PUT":
            return int(c.s3r_put(self._pointer, bucket, key, memory.address, memory.length,
                                 options, result))
        if request.offset is None:
            return int(c.s3r_get(self._pointer, bucket, key, memory.address, memory.length,
                                 options, result))
        return int(c.s3r_get_range(self._pointer, bucket, key, request.offset, memory.address,
                                   memory.length, options, result))

    def _register(self, memory: Memory) -> None:
        """Once, what is to stay registered. Where that fails, the call itself says why."""
        span = span_of(memory.address, memory.length)
        if span and span.library.c is self._c and self not in span.clients:
            error = self._c.s3r_register(self._pointer, span.address, span.size, None)
            if not error and not span.add(self):
                self.deregister(span.address)  # it counts

    def deregister(self, address: int) -> bool:
        """False: it has to stay as it is."""
        return bool(self._c.s3r_deregister(self._pointer, address, None) != _E_RDMA_UNFENCED)

    def registered_bytes(self) -> int:
        return int(self._c.s3r_registered_bytes(self._pointer))

    def transfer(self, request: Request) -> Reply:
        c = self._c
        self._register(request.memory)
        with _Owned(c.s3r_result_new(), c.s3r_result_free) as result, \
                _Owned(c.s3r_options_new(), c.s3r_options_free) as options:
            cancel = CANCEL(lambda _: request.is_stopped)  # referred to until the call is over
            self._set(options, request, cancel)
            error = self._call(request, options, result)
            headers = self._headers(result)
            if error:
                raise self._exception(error, result, request, headers)
            return Reply(self._transfer(request.operation, result),
                         _known(c.s3r_result_version_id, result) or None, headers)

    def _headers(self, result: int) -> Dict[str, str]:
        headers: Dict[str, str] = {}
        for i in range(10000):
            name = self._c.s3r_result_header_name(result, i)
            if name is None:
                break
            headers[name.decode("latin-1")] = (
                self._c.s3r_result_header_value(result, i).decode("utf-8", "replace"))
        return headers

    def _transfer(self, operation: str, result: int) -> Transfer:
        c = self._c
        transport = _known(c.s3r_transport_name, c.s3r_result_transport(result))
        reason = _known(c.s3r_reason_name, c.s3r_result_reason(result))
        return Transfer(
            operation=operation, transport=transport, length=c.s3r_result_len(result),
            reason="" if reason == "none" else reason,
            detail=_known(c.s3r_result_reason_text, result),
            provider=_known(c.s3r_result_provider, result) if transport == "rdma" else "",
            etag=_known(c.s3r_result_etag, result),
            checksum=_known(c.s3r_result_crc64_text, result),
            is_staged=bool(c.s3r_result_is_staged(result)))

    def _exception(self, error: int, result: int, request: Request,
                   headers: Dict[str, str]) -> Exception:
        c = self._c
        message = _known(c.s3r_result_message, result) or _known(c.s3r_error_name, error)
        if error <= _E_OF_SERVER:
            return s3_error(request, _known(c.s3r_result_s3_code, result), message,
                            c.s3r_result_status(result), headers)
        if error == _E_RDMA_REQUIRED:
            return RDMARequired(_known(c.s3r_reason_name, c.s3r_result_reason(result)),
                                _known(c.s3r_result_reason_text, result) or message)
        if error == _E_BUFFER_TOO_SMALL:
            return ObjectTooLarge(message)
        if error == _E_INVALID_ARGUMENT:
            return ValueError(message)
        if error == _E_NOMEM:
            return MemoryError(message)
        if error == _E_RDMA_UNFENCED:
            request.memory.keep()
            _unfenced.append(request.memory)
        return RDMAError(message)


def _is_plain(headers: Dict[str, str]) -> bool:
    return all(name == "Content-Type" and value == DEFAULT_CONTENT_TYPE
               for name, value in headers.items())


class MiniocppClient:
    """By miniocpp_*: whole objects and their bytes, nothing about how they went. It trusts what the
    system trusts and takes no proxy."""

    can_require_rdma = False

    def __init__(self, library: Library, account: Account) -> None:
        scheme, _, host = account.url.partition("://")
        self._c, self._free = library.c, library.c.miniocpp_client_free
        self._pointer = self._c.miniocpp_client_new(
            c_text(host, "an endpoint"), c_text(account.region, "a region"),
            c_text(account.access_key, "an access key"),
            c_text(account.secret_key, "a secret key"),
            c_text(account.session_token, "a session token"), int(scheme == "https"))
        if not self._pointer:
            raise RDMAError(self._last_error())

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self._free(self._pointer)
            self._pointer = None

    def _last_error(self) -> str:
        return _known(self._c.miniocpp_last_error) or "the library did not say why"

    def transfer(self, request: Request) -> Reply:
        memory = request.memory
        if request.offset is not None or not memory.length or not _is_plain(request.headers):
            raise Unsupported("a range, headers or an empty object through this library")
        bucket, key = request.names()
        etag, checksum = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
        if request.operation == "PUT":
            moved = self._c.miniocpp_put_object(self._pointer, bucket, key, memory.address,
                                                memory.length, None, None, etag, checksum)
        else:
            moved = self._c.miniocpp_get_object(self._pointer, bucket, key, memory.address,
                                                memory.length, None, None)
        if moved == _MINIOCPP_DECLINED:
            raise Unsupported("the library left it to HTTP")
        if moved < 0:
            raise self._exception(moved, request)
        name = etag.value.decode("utf-8", "replace").replace('"', "")
        return Reply(Transfer(request.operation, "unknown", moved, "library",
                              "this library does not say what carried the bytes", "", name,
                              checksum.value.decode("utf-8", "replace")),
                     None, {"etag": f'"{name}"'} if name else {})

    def _exception(self, error: int, request: Request) -> Exception:
        message = self._last_error()
        if error == _MINIOCPP_INVALID_ARGUMENT:
            return ValueError(message)
        found = _S3_CODE.search(message)
        if found:
            return s3_error(request, found[0], message, _STATUS.get(found[0], 400), {})
        return RDMAError(message)


def new_client(library: Library, account: Account) -> Union[S3rClient, MiniocppClient]:
    return S3rClient(library, account) if library.has_s3r else MiniocppClient(library, account)


_LONG = 64 << 20  # bytes from which on a signal does not wait for the end of a transfer


def transfer(client: Union[S3rClient, MiniocppClient], request: Request) -> Reply:
    """In the main thread, where Python handles signals, what takes long is done by another one: a
    signal's exception ends the transfer, and is raised when nothing uses the memory any more."""
    if (request.memory.length < _LONG or
            threading.current_thread() is not threading.main_thread()):
        return client.transfer(request)
    replies: List[Reply] = []
    faults: List[BaseException] = []
    done = threading.Event()
    turn = threading.Lock()  # taken by the thread, or by who gave up before it began

    def work() -> None:
        if not turn.acquire(blocking=False):
            return
        try:
            replies.append(client.transfer(request))
        except BaseException as e:  # for the thread that waits
            faults.append(e)
        finally:
            done.set()

    interrupt: Optional[BaseException] = None
    # A signal's exception can come anywhere from here on, in start() too.
    request.memory.lend()
    try:
        threading.Thread(target=work, name="s3rdma").start()
    except BaseException as e:
        if turn.acquire(blocking=False):
            request.memory.give_back()
            raise
        interrupt, request.is_stopped = e, True
    while not done.is_set():
        try:
            done.wait()
        except BaseException as e:  # of a signal handler
            interrupt, request.is_stopped = e, True
    request.memory.give_back()
    if interrupt or faults:
        raise interrupt or faults[0]
    return replies[0]
