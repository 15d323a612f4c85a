// SPDX-License-Identifier: Apache-2.0
//! Transfers as futures, and the memory that they use.
use super::{locked, Handle, Mark, Options, Outcome, Upload};
use crate::ffi;
use crate::s3::error::Error;
use std::ffi::CString;
use std::future::Future;
use std::os::raw::{c_int, c_void};
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Page-aligned memory that is registered while it lives.
pub(crate) struct Memory {
    ptr: *mut c_void,
    len: usize,
    handle: Arc<Handle>,
}

// It is owned like a Vec; the C side lets any thread free it.
unsafe impl Send for Memory {}
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new(handle: &Arc<Handle>, len: usize) -> Result<Self, Error> {
        let mut ptr = ptr::null_mut();
        if len > 0 {
            ptr = unsafe { ffi::s3r_alloc(handle.client(), len) };
            if ptr.is_null() {
                let why = format!("no memory of {len} bytes, or none that may be locked");
                return Err(Error::Other {
                    number: ffi::ERROR_NOMEM,
                    message: why,
                });
            }
        }
        Ok(Memory {
            ptr,
            len,
            handle: Arc::clone(handle),
        })
    }

    pub(crate) fn as_ptr(&self) -> *mut c_void {
        self.ptr
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        unsafe { ffi::s3r_free(self.handle.client(), self.ptr) }
    }
}

pub(crate) enum Kind {
    Put,
    Get,
    /// From this offset of the object.
    GetRange(u64),
    Part(Arc<Upload>, u32),
}

/// A transfer that can be submitted.
pub(crate) struct Job {
    pub kind: Kind,
    pub bucket: CString,
    pub key: CString,
    pub ptr: *mut c_void,
    pub len: usize,
    pub options: Options,
}

// The memory is the transfer's until it ends.
unsafe impl Send for Job {}
unsafe impl Sync for Job {}

/// What fits into one window; more goes in pieces, by the blocking calls.
const WINDOW_MAX: u64 = u32::MAX as u64;

impl Job {
    fn is_large(&self) -> bool {
        self.len as u64 > WINDOW_MAX && !matches!(self.kind, Kind::Part(..))
    }

    /// What `submit` does, but until it is done.
    fn run(&self, client: *mut ffi::s3r_client) -> Outcome {
        let (bucket, key) = (self.bucket.as_ptr(), self.key.as_ptr());
        let (ptr, len, o) = (self.ptr, self.len, self.options.as_ptr());
        let result = unsafe { ffi::s3r_result_new() };
        if result.is_null() {
            return Outcome::local(ffi::ERROR_NOMEM);
        }
        let rc = unsafe {
            match &self.kind {
                Kind::Put => ffi::s3r_put(client, bucket, key, ptr, len, o, result),
                Kind::Get => ffi::s3r_get(client, bucket, key, ptr, len, o, result),
                Kind::GetRange(off) => {
                    ffi::s3r_get_range(client, bucket, key, *off, ptr, len, o, result)
                }
                Kind::Part(upload, number) => {
                    ffi::s3r_upload_part(upload.as_ptr(), *number, ptr, len, o, result)
                }
            }
        };
        let outcome = unsafe { Outcome::read(rc, result) };
        unsafe { ffi::s3r_result_free(result) };
        outcome
    }

    pub(super) unsafe fn submit(&self, queue: *mut ffi::s3r_queue, cookie: u64) -> c_int {
        let (bucket, key) = (self.bucket.as_ptr(), self.key.as_ptr());
        let (ptr, len, o) = (self.ptr, self.len, self.options.as_ptr());
        match &self.kind {
            Kind::Put => ffi::s3r_submit_put(queue, bucket, key, ptr, len, o, cookie),
            Kind::Get => ffi::s3r_submit_get(queue, bucket, key, ptr, len, o, cookie),
            Kind::GetRange(off) => {
                ffi::s3r_submit_get_range(queue, bucket, key, *off, ptr, len, o, cookie)
            }
            Kind::Part(upload, number) => {
                ffi::s3r_submit_part(queue, upload.as_ptr(), *number, ptr, len, o, cookie)
            }
        }
    }
}

/// What must outlive a transfer whose future is gone.
struct Kept {
    _memory: Memory,
    _job: Arc<Job>,
    /// The last to go: who waits for it finds nothing of these any more.
    _mark: Mark,
}

/// Where a transfer's end arrives.
#[derive(Default)]
pub(super) struct Slot {
    state: Mutex<SlotState>,
    ended: Condvar,
    is_cancelled: AtomicBool,
}

#[derive(Default)]
struct SlotState {
    has_ended: bool,
    outcome: Option<Outcome>,
    waker: Option<Waker>,
    kept: Option<Kept>,
}

/// What is to be done after an end, when it is dropped: memory goes, and who waits is woken.
pub(super) struct Ended {
    kept: Option<Kept>,
    waker: Option<Waker>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.kept.take());
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Slot {
    #[must_use]
    pub(super) fn end(&self, outcome: Outcome) -> Ended {
        let ended = {
            let mut state = locked(&self.state);
            state.has_ended = true;
            state.outcome = Some(outcome);
            Ended {
                kept: state.kept.take(),
                waker: state.waker.take(),
            }
        };
        self.ended.notify_all();
        ended
    }

    pub(super) fn has_ended(&self) -> bool {
        locked(&self.state).has_ended
    }

    /// The end, or a promise to wake.
    fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        let mut state = locked(&self.state);
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    pub(super) fn wait(&self) {
        let mut state = locked(&self.state);
        while !state.has_ended {
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Until the end; now, when that was already.
    fn keep(&self, kept: Kept) {
        let mut state = locked(&self.state);
        if !state.has_ended {
            state.kept = Some(kept);
        }
    }
}

enum Stage {
    Unsent,
    Queued(u64),
    OnThread,
    Done,
}

/// One transfer; nothing happens before it is polled.
pub(crate) struct Transfer {
    handle: Arc<Handle>,
    job: Arc<Job>,
    /// None: the caller's memory.
    memory: Option<Memory>,
    slot: Arc<Slot>,
    stage: Stage,
}

impl Transfer {
    pub(crate) fn new(handle: &Arc<Handle>, job: Job, memory: Option<Memory>) -> Self {
        Transfer {
            handle: Arc::clone(handle),
            job: Arc::new(job),
            memory,
            slot: Arc::default(),
            stage: Stage::Unsent,
        }
    }

    fn done(&mut self, outcome: Outcome) -> Poll<(Outcome, Option<Memory>)> {
        self.stage = Stage::Done;
        Poll::Ready((outcome, self.memory.take()))
    }

    /// On a thread of its own, as what has several pieces is not for the queue.
    fn start_thread(&mut self) -> Result<(), c_int> {
        match self.job.options.set_cancel(&self.slot.is_cancelled) {
            ffi::OK => {}
            rc => return Err(rc),
        }
        let (handle, job, slot) = (self.handle.clone(), self.job.clone(), self.slot.clone());
        let run = move || drop(slot.end(job.run(handle.client())));
        let background = &self.handle.background;
        background
            .spawn("s3rdma large", run)
            .map_err(|_| ffi::ERROR_INTERNAL)?;
        self.stage = Stage::OnThread;
        Ok(())
    }

    fn start(&mut self, waker: &Waker) -> Result<(), c_int> {
        if self.job.is_large() {
            return self.start_thread();
        }
        let cookie = self.handle.native.submit(&self.job, &self.slot, waker)?;
        self.stage = Stage::Queued(cookie);
        Ok(())
    }
}

impl Future for Transfer {
    type Output = (Outcome, Option<Memory>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Stage::Unsent = this.stage {
            match this.start(cx.waker()) {
                Ok(()) => {}
                Err(ffi::ERROR_BUSY) => return Poll::Pending,
                Err(rc) => return this.done(Outcome::local(rc)),
            }
        }
        match this.slot.poll(cx.waker()) {
            Poll::Ready(outcome) => this.done(outcome),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Transfer {
    /// It still has to end.
    fn cancel(&self) {
        match self.stage {
            Stage::Unsent | Stage::Done => {}
            Stage::Queued(cookie) => unsafe {
                ffi::s3r_queue_cancel(self.handle.native.queue, cookie);
            },
            Stage::OnThread => self.slot.is_cancelled.store(true, Ordering::Relaxed),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if let Stage::Unsent | Stage::Done = self.stage {
            return;
        }
        self.cancel();
        match self.memory.take() {
            Some(memory) => self.slot.keep(Kept {
                _memory: memory,
                _job: Arc::clone(&self.job),
                _mark: Mark::new(&self.handle.background),
            }),
            None => self.handle.native.wait(&self.slot),
        }
    }
}

/// Several transfers of the caller's memory together. The first that fails cancels the others; all of
/// them have ended when this is ready.
pub(crate) struct Together {
    transfers: Vec<Transfer>,
    ended: Vec<Option<Outcome>>,
    failed: Option<Outcome>,
}

impl Together {
    pub(crate) fn new(transfers: Vec<Transfer>) -> Self {
        let ended = vec![None; transfers.len()];
        Together {
            transfers,
            ended,
            failed: None,
        }
    }

    fn cancel(&self) {
        self.transfers.iter().for_each(Transfer::cancel);
    }

    /// Whatever failed first: of memory that a server may still use the caller must learn.
    fn note(&mut self, outcome: &Outcome) {
        if outcome.error == ffi::OK {
            return;
        }
        if self.failed.is_none() {
            self.cancel();
        }
        if self.failed.is_none() || outcome.error == ffi::ERROR_RDMA_UNFENCED {
            self.failed = Some(outcome.clone());
        }
    }

    /// After a failure nothing is begun any more.
    fn is_over(&self, i: usize) -> bool {
        let is_unsent = matches!(self.transfers[i].stage, Stage::Unsent);
        self.ended[i].is_some() || (is_unsent && self.failed.is_some())
    }
}

impl Future for Together {
    /// In their order; or the first failure.
    type Output = Result<Vec<Outcome>, Outcome>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        for i in 0..this.transfers.len() {
            if this.is_over(i) {
                continue;
            }
            if let Poll::Ready((outcome, _)) = Pin::new(&mut this.transfers[i]).poll(cx) {
                this.note(&outcome);
                this.ended[i] = Some(outcome);
            }
        }
        if !(0..this.transfers.len()).all(|i| this.is_over(i)) {
            return Poll::Pending;
        }
        Poll::Ready(match this.failed.take() {
            Some(outcome) => Err(outcome),
            None => Ok(this.ended.drain(..).flatten().collect()),
        })
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        // All at once; then each waits for its end.
        self.cancel();
    }
}
