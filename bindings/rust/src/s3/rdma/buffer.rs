// SPDX-License-Identifier: Apache-2.0
use crate::native::Memory;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::os::raw::c_void;

/// Memory of the caller's: of the host, or of a GPU. It is registered for each transfer.
#[derive(Debug, Clone, Copy)]
pub struct RdmaBuffer {
    ptr: *mut c_void,
    len: usize,
}

// A pointer and a length; `from_raw` is where somebody answered for them.
unsafe impl Send for RdmaBuffer {}
unsafe impl Sync for RdmaBuffer {}

impl RdmaBuffer {
    /// # Safety
    /// Until each future that it is given to is ready or dropped, `ptr` is valid for `len` bytes,
    /// and nothing else writes them (of a GET: nor reads them). After [`RdmaError::Unfenced`] that
    /// is for ever.
    ///
    /// [`RdmaError::Unfenced`]: super::RdmaError::Unfenced
    pub const unsafe fn from_raw(ptr: *mut c_void, len: usize) -> Self {
        RdmaBuffer { ptr, len }
    }

    /// Its beginning.
    pub const fn ptr(&self) -> *mut c_void {
        self.ptr
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// No bytes.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes `[offset, offset + len)` of it; none when they are not all its.
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        Some(RdmaBuffer {
            ptr: (self.ptr as *mut u8).wrapping_add(offset) as *mut c_void,
            len,
        })
    }
}

/// Zeroed host memory from a page boundary, registered while it lives. From
/// [`MinioClient::rdma_alloc`](super::super::MinioClient::rdma_alloc).
pub struct AlignedBuffer(pub(crate) Memory);

impl AlignedBuffer {
    pub(crate) fn ptr_at(&self, offset: usize) -> *mut c_void {
        (self.0.as_ptr() as *mut u8).wrapping_add(offset) as *mut c_void
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.0.len() == 0 {
            return &[];
        }
        // No transfer runs: that would have taken the buffer.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr() as *const u8, self.0.len()) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.0.len() == 0 {
            return &mut [];
        }
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr() as *mut u8, self.0.len()) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer({} bytes)", self.0.len())
    }
}
