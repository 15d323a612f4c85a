// SPDX-License-Identifier: Apache-2.0
//! Multipart uploads.
use super::{blocking, call, locked, text, Handle, Mark, Options, Outcome};
use crate::ffi;
use crate::s3::error::Error;
use std::sync::{Arc, Mutex};

/// An upload that goes on at the server until it is completed or aborted.
pub(crate) struct Upload {
    raw: *mut ffi::s3r_upload,
    handle: Arc<Handle>,
    /// Completing and aborting are for one at a time.
    end: Mutex<()>,
}

// Parts may be sent by any number of threads; completion comes after the last of them.
unsafe impl Send for Upload {}
unsafe impl Sync for Upload {}

impl Upload {
    pub(crate) unsafe fn from_raw(handle: &Arc<Handle>, raw: *mut ffi::s3r_upload) -> Self {
        Upload {
            raw,
            handle: Arc::clone(handle),
            end: Mutex::new(()),
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::s3r_upload {
        self.raw
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(crate) fn id(&self) -> String {
        unsafe { text(ffi::s3r_upload_id(self.raw)) }
    }

    pub(crate) fn complete(&self, options: &Options) -> Result<Outcome, Error> {
        let _one = locked(&self.end);
        call(|result| unsafe { ffi::s3r_upload_complete(self.raw, options.as_ptr(), result) })
    }

    pub(crate) fn abort(&self) -> Result<(), Error> {
        let _one = locked(&self.end);
        call(|result| unsafe { ffi::s3r_upload_abort(self.raw, result) }).map(|_| ())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        unsafe { ffi::s3r_upload_free(self.raw) }
    }
}

/// An upload of ours: it does not stay at the server when nobody will complete it.
pub(crate) struct NewUpload {
    pub shared: Arc<Upload>,
    pub is_done: bool,
    _mark: Mark,
}

impl NewUpload {
    pub(crate) fn new(upload: Upload, mark: Mark) -> Self {
        NewUpload {
            shared: Arc::new(upload),
            is_done: false,
            _mark: mark,
        }
    }

    /// What becomes of it does not matter: the caller has an error already.
    pub(crate) async fn abort(&mut self) {
        self.is_done = true;
        let upload = Arc::clone(&self.shared);
        let _ = blocking(move || upload.abort()).await;
    }
}

impl Drop for NewUpload {
    fn drop(&mut self) {
        if !self.is_done {
            let upload = Arc::clone(&self.shared);
            // A drop does not wait for the network. Without a thread the server keeps the upload.
            let background = &self.shared.handle.background;
            let _ = background.spawn("s3rdma abort", move || {
                let _ = upload.abort();
            });
        }
    }
}
