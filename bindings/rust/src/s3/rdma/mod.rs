// SPDX-License-Identifier: Apache-2.0
//! Transfers of memory.
//!
//! Each call offers the server a window of the memory, which it reads or writes by itself; where
//! that cannot be, the same call goes by HTTP, from or into the same memory, and the response says
//! which it was and why ([`RdmaResponse::transport`], [`RdmaResponse::reason`]). With
//! [`TransferOptions::require_rdma`](super::types::TransferOptions::require_rdma) it is an error
//! instead.
//!
//! Memory is a [`RdmaBuffer`], which the caller answers for, or an [`AlignedBuffer`], which cannot be
//! used wrongly and stays registered while it lives.
//!
//! **Dropping a future** before it is ready cancels its transfer. With a [`RdmaBuffer`] the drop then
//! waits until nothing moves any more, as the memory may be freed next: milliseconds as a rule, at
//! most the time that one reply is waited for. With an [`AlignedBuffer`] it does not wait; the
//! memory is freed when the transfer has ended. A future that is forgotten (`std::mem::forget`)
//! ends nothing: the memory must stay. An upload whose future is dropped is aborted in the background.
//! The drop of the last clone of the client waits for both.
//!
//! A drop cannot say that a server was stopped in the middle ([`RdmaError::Unfenced`]). Where one may
//! be, and futures are dropped, use an [`AlignedBuffer`]: its memory then stays for good.
mod buffer;
mod crc;
mod transfer;

pub use buffer::{AlignedBuffer, RdmaBuffer};
pub(crate) use crc::crc64nvme_from_base64;
pub use crc::{crc64nvme, crc64nvme_base64};
pub use transfer::{OwnedError, RdmaError, RdmaMultipartResponse, RdmaPart, RdmaResponse};
