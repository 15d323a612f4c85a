// SPDX-License-Identifier: Apache-2.0
//! What calls are told, and what they tell.
use crate::ffi;
use crate::native::{text, Outcome};
use std::fmt;
use std::os::raw::c_int;
use std::time::Duration;

/// How transfers are done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferOptions {
    /// An error instead of HTTP.
    pub require_rdma: bool,
    /// HTTP at once.
    pub disable_rdma: bool,
    /// Compare what a GET of a whole object brought with the object's checksum. The default.
    pub verify: bool,
    /// Of a whole call, retries and fallback included.
    pub deadline: Option<Duration>,
    /// After errors that may go away by themselves.
    pub retries: u32,
    /// Transfers of fewer bytes go by HTTP at once.
    pub http_below: u64,
}

impl Default for TransferOptions {
    fn default() -> Self {
        TransferOptions {
            require_rdma: false,
            disable_rdma: false,
            verify: true,
            deadline: None,
            retries: 0,
            http_below: 0,
        }
    }
}

/// What goes along with a new object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// `Content-Type`, `Cache-Control`, ...
    pub headers: Vec<(String, String)>,
    /// Names without `x-amz-meta-`.
    pub user_metadata: Vec<(String, String)>,
}

/// What carried the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Nothing moved.
    None,
    /// The server wrote or read the buffer.
    Rdma,
    /// They were in the body.
    Http,
}

impl Transport {
    pub(crate) fn new(number: c_int) -> Self {
        match number {
            ffi::TRANSPORT_RDMA => Transport::Rdma,
            ffi::TRANSPORT_HTTP => Transport::Http,
            _ => Transport::None,
        }
    }
}

/// Why it was not RDMA: `enum s3r_reason` of `s3r/client.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason(pub i32);

impl fmt::Display for Reason {
    /// `declined`, `no-device`, ...
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&unsafe { text(ffi::s3r_reason_name(self.0)) })
    }
}

/// A part of an upload that the server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// 1 to 10,000.
    pub number: u16,
    /// Without quotes.
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// In base64.
    pub checksum_crc64nvme: Option<String>,
}

/// What `stat_object` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectInfo {
    /// Bytes.
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    /// Of buckets with versions.
    pub version_id: Option<String>,
    /// In base64, of the whole object.
    pub checksum_crc64nvme: Option<String>,
    /// Names without `x-amz-meta-`, in lower case.
    pub user_metadata: Vec<(String, String)>,
    /// All of the reply's, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl From<Outcome> for ObjectInfo {
    fn from(outcome: Outcome) -> Self {
        let user_metadata = outcome
            .headers
            .iter()
            .filter_map(|(k, v)| Some((k.strip_prefix("x-amz-meta-")?.to_string(), v.clone())))
            .collect();
        ObjectInfo {
            size: outcome.object_len,
            etag: outcome.etag,
            version_id: some(outcome.version_id),
            checksum_crc64nvme: some(outcome.crc64_text),
            user_metadata,
            headers: outcome.headers,
        }
    }
}

/// A row of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The key, or the common prefix.
    pub name: String,
    /// Stands for all keys that begin with `name`.
    pub is_prefix: bool,
    /// Bytes.
    pub size: u64,
    /// Without quotes; "" of a prefix.
    pub etag: String,
    /// As the server writes it, `2026-01-02T03:04:05.678Z`; "" of a prefix.
    pub last_modified: String,
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// In the order of names.
    pub items: Vec<Item>,
    /// For the next page; none after the last.
    pub next_token: Option<String>,
}

/// A bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// As the server writes it.
    pub creation_date: String,
}

pub(crate) fn some(text: String) -> Option<String> {
    if text.is_empty() {
        None
    } else {
        Some(text)
    }
}
