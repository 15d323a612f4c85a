// SPDX-License-Identifier: Apache-2.0
//! The part of `s3r/client.h` that this crate uses, declared by hand.
use std::os::raw::{c_char, c_int, c_uint, c_void};

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque!(s3r_config s3r_client s3r_options s3r_result s3r_upload s3r_page s3r_queue);

pub const OK: c_int = 0;
pub const ERROR_NOMEM: c_int = -1;
pub const ERROR_INTERNAL: c_int = -2;
pub const ERROR_INVALID_ARGUMENT: c_int = -3;
pub const ERROR_BUSY: c_int = -4;
pub const ERROR_RDMA_UNAVAILABLE: c_int = -23;
pub const ERROR_RDMA_REGISTER: c_int = -24;
pub const ERROR_RDMA_REQUIRED: c_int = -25;
pub const ERROR_RDMA_UNFENCED: c_int = -26;
pub const ERROR_REMOTE: c_int = -100;
pub const ERROR_INVALID_BUCKET_NAME: c_int = -111;
pub const ERROR_KEY_TOO_LONG: c_int = -112;

pub const TRANSPORT_RDMA: c_int = 1;
pub const TRANSPORT_HTTP: c_int = 2;

pub const REASON_NO_DEVICE: c_int = 2;
pub const REASON_DECLINED: c_int = 4;

pub const RDMA_REQUIRED: c_int = 1;
pub const RDMA_OFF: c_int = 2;

extern "C" {
    pub fn s3r_error_text(error: c_int) -> *const c_char;
    pub fn s3r_reason_name(reason: c_int) -> *const c_char;

    pub fn s3r_result_new() -> *mut s3r_result;
    pub fn s3r_result_free(result: *mut s3r_result);
    pub fn s3r_result_error(result: *const s3r_result) -> c_int;
    pub fn s3r_result_message(result: *const s3r_result) -> *const c_char;
    pub fn s3r_result_s3_code(result: *const s3r_result) -> *const c_char;
    pub fn s3r_result_status(result: *const s3r_result) -> c_int;
    pub fn s3r_result_transport(result: *const s3r_result) -> c_int;
    pub fn s3r_result_provider(result: *const s3r_result) -> *const c_char;
    pub fn s3r_result_reason(result: *const s3r_result) -> c_int;
    pub fn s3r_result_reason_text(result: *const s3r_result) -> *const c_char;
    pub fn s3r_result_len(result: *const s3r_result) -> u64;
    pub fn s3r_result_object_len(result: *const s3r_result) -> u64;
    pub fn s3r_result_etag(result: *const s3r_result) -> *const c_char;
    pub fn s3r_result_version_id(result: *const s3r_result) -> *const c_char;
    pub fn s3r_result_crc64_text(result: *const s3r_result) -> *const c_char;
    pub fn s3r_result_is_verified(result: *const s3r_result) -> c_int;
    pub fn s3r_result_is_staged(result: *const s3r_result) -> c_int;
    pub fn s3r_result_requests(result: *const s3r_result) -> c_uint;
    pub fn s3r_result_header_count(result: *const s3r_result) -> usize;
    pub fn s3r_result_header_name(result: *const s3r_result, index: usize) -> *const c_char;
    pub fn s3r_result_header_value(result: *const s3r_result, index: usize) -> *const c_char;
    pub fn s3r_result_cookie(result: *const s3r_result) -> u64;

    pub fn s3r_config_new() -> *mut s3r_config;
    pub fn s3r_config_free(config: *mut s3r_config);
    pub fn s3r_config_set_endpoint(config: *mut s3r_config, endpoint: *const c_char) -> c_int;
    pub fn s3r_config_set_region(config: *mut s3r_config, region: *const c_char) -> c_int;
    pub fn s3r_config_set_keys(
        config: *mut s3r_config,
        access_key: *const c_char,
        secret_key: *const c_char,
        session_token: *const c_char,
    ) -> c_int;
    pub fn s3r_config_set_ca_file(config: *mut s3r_config, path: *const c_char) -> c_int;
    pub fn s3r_config_set_devices(config: *mut s3r_config, devices: *const c_char) -> c_int;

    pub fn s3r_client_new(
        config: *const s3r_config,
        result: *mut s3r_result,
        ret_client: *mut *mut s3r_client,
    ) -> c_int;
    pub fn s3r_client_free(client: *mut s3r_client);
    pub fn s3r_client_open_devices(client: *mut s3r_client, result: *mut s3r_result) -> c_int;
    pub fn s3r_registered_bytes(client: *mut s3r_client) -> u64;
    pub fn s3r_alloc(client: *mut s3r_client, len: usize) -> *mut c_void;
    pub fn s3r_free(client: *mut s3r_client, ptr: *mut c_void);

    pub fn s3r_options_new() -> *mut s3r_options;
    pub fn s3r_options_free(options: *mut s3r_options);
    pub fn s3r_options_set_rdma(options: *mut s3r_options, mode: c_int) -> c_int;
    pub fn s3r_options_set_verify(options: *mut s3r_options, is_on: c_int) -> c_int;
    pub fn s3r_options_set_deadline_ms(options: *mut s3r_options, deadline_ms: i64) -> c_int;
    pub fn s3r_options_set_retries(options: *mut s3r_options, retries: c_uint) -> c_int;
    pub fn s3r_options_set_http_below(options: *mut s3r_options, bytes: u64) -> c_int;
    pub fn s3r_options_set_header(
        options: *mut s3r_options,
        name: *const c_char,
        value: *const c_char,
    ) -> c_int;
    pub fn s3r_options_set_metadata(
        options: *mut s3r_options,
        name: *const c_char,
        value: *const c_char,
    ) -> c_int;

    pub fn s3r_options_set_cancel(
        options: *mut s3r_options,
        is_cancelled: Option<unsafe extern "C" fn(arg: *mut c_void) -> c_int>,
        arg: *mut c_void,
    ) -> c_int;

    pub fn s3r_put(
        client: *mut s3r_client,
        bucket: *const c_char,
        key: *const c_char,
        ptr: *const c_void,
        len: usize,
        options: *const s3r_options,
        result: *mut s3r_result,
    ) -> c_int;
    pub fn s3r_get(
        client: *mut s3r_client,
        bucket: *const c_char,
        key: *const c_char,
        ptr: *mut c_void,
        size: usize,
        options: *const s3r_options,
        result: *mut s3r_result,
    ) -> c_int;
    pub fn s3r_get_range(
        client: *mut s3r_client,
        bucket: *const c_char,
        key: *const c_char,
        off: u64,
        ptr: *mut c_void,
        len: usize,
        options: *const s3r_options,
        result: *mut s3r_result,
    ) -> c_int;
    pub fn s3r_stat(
        client: *mut s3r_client,
        bucket: *const c_char,
        key: *const c_char,
        options: *const s3r_options,
        result: *mut s3r_result,
    ) -> c_int;
    pub fn s3r_delete(
        client: *mut s3r_client,
        bucket: *const c_char,
        key: *const c_char,
        options: *const s3r_options,
        result: *mut s3r_result,
    ) -> c_int;

    pub fn s3r_upload_create(
        client: *mut s3r_client,
        bucket: *const c_char,
        key: *const c_char,
        options: *const s3r_options,
        result: *mut s3r_result,
        ret_upload: *mut *mut s3r_upload,
    ) -> c_int;
    pub fn s3r_upload_open(
        client: *mut s3r_client,
        bucket: *const c_char,
        key: *const c_char,
        upload_id: *const c_char,
        result: *mut s3r_result,
        ret_upload: *mut *mut s3r_upload,
    ) -> c_int;
    pub fn s3r_upload_id(upload: *const s3r_upload) -> *const c_char;
    pub fn s3r_upload_part(
        upload: *mut s3r_upload,
        number: c_uint,
        ptr: *const c_void,
        len: usize,
        options: *const s3r_options,
        result: *mut s3r_result,
    ) -> c_int;
    pub fn s3r_upload_add_part(
        upload: *mut s3r_upload,
        number: c_uint,
        len: u64,
        etag: *const c_char,
        crc64: u64,
    ) -> c_int;
    pub fn s3r_upload_complete(
        upload: *mut s3r_upload,
        options: *const s3r_options,
        result: *mut s3r_result,
    ) -> c_int;
    pub fn s3r_upload_abort(upload: *mut s3r_upload, result: *mut s3r_result) -> c_int;
    pub fn s3r_upload_free(upload: *mut s3r_upload);

    pub fn s3r_bucket_create(
        client: *mut s3r_client,
        bucket: *const c_char,
        result: *mut s3r_result,
    ) -> c_int;
    pub fn s3r_bucket_delete(
        client: *mut s3r_client,
        bucket: *const c_char,
        result: *mut s3r_result,
    ) -> c_int;
    pub fn s3r_bucket_exists(
        client: *mut s3r_client,
        bucket: *const c_char,
        result: *mut s3r_result,
        ret_exists: *mut c_int,
    ) -> c_int;
    pub fn s3r_bucket_list(
        client: *mut s3r_client,
        result: *mut s3r_result,
        ret_page: *mut *mut s3r_page,
    ) -> c_int;
    pub fn s3r_list(
        client: *mut s3r_client,
        bucket: *const c_char,
        prefix: *const c_char,
        delimiter: *const c_char,
        token: *const c_char,
        max: c_uint,
        result: *mut s3r_result,
        ret_page: *mut *mut s3r_page,
    ) -> c_int;
    pub fn s3r_page_free(page: *mut s3r_page);
    pub fn s3r_page_count(page: *const s3r_page) -> usize;
    pub fn s3r_page_name(page: *const s3r_page, index: usize) -> *const c_char;
    pub fn s3r_page_is_prefix(page: *const s3r_page, index: usize) -> c_int;
    pub fn s3r_page_len(page: *const s3r_page, index: usize) -> u64;
    pub fn s3r_page_etag(page: *const s3r_page, index: usize) -> *const c_char;
    pub fn s3r_page_time(page: *const s3r_page, index: usize) -> *const c_char;
    pub fn s3r_page_next_token(page: *const s3r_page) -> *const c_char;

    pub fn s3r_queue_new(
        client: *mut s3r_client,
        depth: c_uint,
        in_flight: c_uint,
        result: *mut s3r_result,
        ret_queue: *mut *mut s3r_queue,
    ) -> c_int;
    pub fn s3r_queue_free(queue: *mut s3r_queue);
    pub fn s3r_queue_poll(
        queue: *mut s3r_queue,
        results: *mut *mut s3r_result,
        max: c_int,
        timeout_ms: i64,
    ) -> c_int;
    pub fn s3r_queue_cancel(queue: *mut s3r_queue, cookie: u64) -> c_uint;
    pub fn s3r_submit_put(
        queue: *mut s3r_queue,
        bucket: *const c_char,
        key: *const c_char,
        ptr: *const c_void,
        len: usize,
        options: *const s3r_options,
        cookie: u64,
    ) -> c_int;
    pub fn s3r_submit_get(
        queue: *mut s3r_queue,
        bucket: *const c_char,
        key: *const c_char,
        ptr: *mut c_void,
        size: usize,
        options: *const s3r_options,
        cookie: u64,
    ) -> c_int;
    pub fn s3r_submit_get_range(
        queue: *mut s3r_queue,
        bucket: *const c_char,
        key: *const c_char,
        off: u64,
        ptr: *mut c_void,
        len: usize,
        options: *const s3r_options,
        cookie: u64,
    ) -> c_int;
    pub fn s3r_submit_part(
        queue: *mut s3r_queue,
        upload: *mut s3r_upload,
        number: c_uint,
        ptr: *const c_void,
        len: usize,
        options: *const s3r_options,
        cookie: u64,
    ) -> c_int;
}
