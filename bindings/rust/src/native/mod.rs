// SPDX-License-Identifier: Apache-2.0
//! Owners of the C objects, and futures of transfers.
//!
//! A client has one completion queue and one thread that waits for it, which sleeps while nothing
//! is under way. It wakes futures of any runtime, and goes on when a runtime is not driven: a task
//! that watched the queue's descriptor in one runtime would leave those of another without an end.
//!
//! Memory of a transfer must stay until it has ended. So a future that is dropped cancels its
//! transfer, and then either waits for its end (memory that the caller owns) or leaves memory that
//! it owns itself to the thread, which frees it at the end. The last client waits for that.
mod transfer;
mod upload;

pub(crate) use transfer::{Job, Kind, Memory, Together, Transfer};
pub(crate) use upload::{NewUpload, Upload};

use crate::ffi;
use crate::s3::error::{Error, ValidationErr};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::JoinHandle;
use transfer::Slot;

/// Nothing here is left half changed by a panic.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A copy; "" for NULL.
pub(crate) unsafe fn text(from: *const c_char) -> String {
    if from.is_null() {
        String::new()
    } else {
        CStr::from_ptr(from).to_string_lossy().into_owned()
    }
}

pub(crate) fn c_text(what: &str, value: &str) -> Result<CString, ValidationErr> {
    CString::new(value).map_err(|_| ValidationErr::new(format!("{what} has a NUL")))
}

/// `rc` of a setter.
fn set(what: &str, rc: c_int) -> Result<(), Error> {
    match rc {
        ffi::OK => Ok(()),
        ffi::ERROR_NOMEM => Err(Error::no_memory()),
        _ => Err(ValidationErr::new(format!("{what}: {}", error_text(rc))).into()),
    }
}

pub(crate) fn error_text(error: c_int) -> String {
    unsafe { text(ffi::s3r_error_text(error)) }
}

/// What a `struct s3r_result` says, copied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    pub error: c_int,
    pub message: String,
    pub s3_code: String,
    pub status: u16,
    pub transport: c_int,
    pub provider: String,
    pub reason: c_int,
    pub reason_text: String,
    pub len: u64,
    pub object_len: u64,
    pub etag: String,
    pub version_id: String,
    pub crc64_text: String,
    pub is_verified: bool,
    pub is_staged: bool,
    pub requests: u32,
    pub headers: Vec<(String, String)>,
}

impl Outcome {
    /// Of a call that was refused here.
    fn local(error: c_int) -> Self {
        Outcome {
            error,
            message: error_text(error),
            ..Outcome::default()
        }
    }

    unsafe fn read(error: c_int, from: *const ffi::s3r_result) -> Self {
        let headers = (0..ffi::s3r_result_header_count(from))
            .map(|i| {
                (
                    text(ffi::s3r_result_header_name(from, i)),
                    text(ffi::s3r_result_header_value(from, i)),
                )
            })
            .collect();
        Outcome {
            error,
            message: text(ffi::s3r_result_message(from)),
            s3_code: text(ffi::s3r_result_s3_code(from)),
            status: u16::try_from(ffi::s3r_result_status(from)).unwrap_or(0),
            transport: ffi::s3r_result_transport(from),
            provider: text(ffi::s3r_result_provider(from)),
            reason: ffi::s3r_result_reason(from),
            reason_text: text(ffi::s3r_result_reason_text(from)),
            len: ffi::s3r_result_len(from),
            object_len: ffi::s3r_result_object_len(from),
            etag: text(ffi::s3r_result_etag(from)),
            version_id: text(ffi::s3r_result_version_id(from)),
            crc64_text: text(ffi::s3r_result_crc64_text(from)),
            is_verified: ffi::s3r_result_is_verified(from) != 0,
            is_staged: ffi::s3r_result_is_staged(from) != 0,
            requests: ffi::s3r_result_requests(from),
            headers,
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// Runs a blocking C call and copies its result.
pub(crate) fn call(run: impl FnOnce(*mut ffi::s3r_result) -> c_int) -> Result<Outcome, Error> {
    let result = unsafe { ffi::s3r_result_new() };
    if result.is_null() {
        return Err(Error::no_memory());
    }
    let rc = run(result);
    let outcome = unsafe { Outcome::read(rc, result) };
    unsafe { ffi::s3r_result_free(result) };
    if rc == ffi::OK {
        Ok(outcome)
    } else {
        Err(Error::from(outcome))
    }
}

/// How transfers are done, set once.
pub(crate) struct Options(*mut ffi::s3r_options);

// Nothing is set once a call uses it; the C side then allows use by many at once.
unsafe impl Send for Options {}
unsafe impl Sync for Options {}

impl Options {
    pub(crate) fn new(from: &crate::s3::types::TransferOptions) -> Result<Self, Error> {
        let made = unsafe { ffi::s3r_options_new() };
        if made.is_null() {
            return Err(Error::no_memory());
        }
        let options = Options(made);
        let mode = match (from.require_rdma, from.disable_rdma) {
            (true, true) => {
                let why = "RDMA is required and disabled at the same time".to_string();
                return Err(ValidationErr::new(why).into());
            }
            (true, false) => ffi::RDMA_REQUIRED,
            (false, true) => ffi::RDMA_OFF,
            (false, false) => 0,
        };
        let deadline = from.deadline.map_or(0, |d| {
            i64::try_from(d.as_millis()).unwrap_or(i64::MAX).max(1)
        });
        unsafe {
            set("rdma", ffi::s3r_options_set_rdma(made, mode))?;
            let verify = c_int::from(from.verify);
            set("verify", ffi::s3r_options_set_verify(made, verify))?;
            let rc = ffi::s3r_options_set_deadline_ms(made, deadline);
            set("deadline", rc)?;
            let rc = ffi::s3r_options_set_retries(made, from.retries);
            set("retries", rc)?;
            let rc = ffi::s3r_options_set_http_below(made, from.http_below);
            set("http_below", rc)?;
        }
        Ok(options)
    }

    pub(crate) fn header(&self, name: &str, value: &str) -> Result<(), Error> {
        let (n, v) = (c_text("a header", name)?, c_text(name, value)?);
        set(name, unsafe {
            ffi::s3r_options_set_header(self.0, n.as_ptr(), v.as_ptr())
        })
    }

    pub(crate) fn metadata(&self, name: &str, value: &str) -> Result<(), Error> {
        let (n, v) = (c_text("metadata", name)?, c_text(name, value)?);
        set(name, unsafe {
            ffi::s3r_options_set_metadata(self.0, n.as_ptr(), v.as_ptr())
        })
    }

    /// Asked now and then while a blocking call runs; `flag` outlives it.
    fn set_cancel(&self, flag: *const AtomicBool) -> c_int {
        unsafe extern "C" fn is_set(flag: *mut c_void) -> c_int {
            c_int::from((*(flag as *const AtomicBool)).load(Ordering::Relaxed))
        }
        unsafe { ffi::s3r_options_set_cancel(self.0, Some(is_set), flag as *mut c_void) }
    }

    pub(crate) fn as_ptr(&self) -> *const ffi::s3r_options {
        self.0
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        unsafe { ffi::s3r_options_free(self.0) }
    }
}

/// What a client is made from.
pub(crate) struct Config {
    pub endpoint: CString,
    pub region: CString,
    pub keys: Option<(CString, CString, CString)>,
    pub ca_file: CString,
    pub devices: CString,
    pub in_flight: u32,
}

impl Config {
    fn open(&self) -> Result<*mut ffi::s3r_client, Error> {
        let config = unsafe { ffi::s3r_config_new() };
        if config.is_null() {
            return Err(Error::no_memory());
        }
        let made = self.open_with(config);
        unsafe { ffi::s3r_config_free(config) };
        made
    }

    fn open_with(&self, config: *mut ffi::s3r_config) -> Result<*mut ffi::s3r_client, Error> {
        let mut client = ptr::null_mut();
        unsafe {
            let rc = ffi::s3r_config_set_endpoint(config, self.endpoint.as_ptr());
            set("endpoint", rc)?;
            let rc = ffi::s3r_config_set_region(config, self.region.as_ptr());
            set("region", rc)?;
            if let Some((access, secret, token)) = &self.keys {
                let (a, s, t) = (access.as_ptr(), secret.as_ptr(), token.as_ptr());
                set("keys", ffi::s3r_config_set_keys(config, a, s, t))?;
            }
            let rc = ffi::s3r_config_set_ca_file(config, self.ca_file.as_ptr());
            set("ssl_cert_file", rc)?;
            let rc = ffi::s3r_config_set_devices(config, self.devices.as_ptr());
            set("devices", rc)?;
            call(|result| ffi::s3r_client_new(config, result, &mut client))?;
        }
        Ok(client)
    }
}

/// Client and queue. Freed by whoever lets go of it last, when nothing is under way any more.
struct Native {
    client: *mut ffi::s3r_client,
    queue: *mut ffi::s3r_queue,
    state: Mutex<State>,
    /// `slots` is no longer empty, or `is_closing` was set.
    changed: Condvar,
}

// Both may be used by any number of threads.
unsafe impl Send for Native {}
unsafe impl Sync for Native {}

#[derive(Default)]
struct State {
    /// What is in the queue, by cookie.
    slots: HashMap<u64, Arc<Slot>>,
    last_cookie: u64,
    /// Who found the queue full.
    blocked: Vec<Waker>,
    is_closing: bool,
}

impl Drop for Native {
    fn drop(&mut self) {
        unsafe {
            ffi::s3r_queue_free(self.queue);
            ffi::s3r_client_free(self.client);
        }
    }
}

impl Native {
    /// The thread: until the last handle is gone and nothing is under way.
    fn run(&self) {
        while self.wait_for_work() {
            self.take_ended();
        }
    }

    /// Waits for some to end. Whoever is woken may drop what else is under way, on this thread too:
    /// by then all that the queue gave have ended.
    fn take_ended(&self) {
        const BATCH: usize = 64;
        let mut results = [ptr::null_mut(); BATCH];
        let found =
            unsafe { ffi::s3r_queue_poll(self.queue, results.as_mut_ptr(), BATCH as c_int, -1) };
        let found = usize::try_from(found).unwrap_or(0);
        let mut ended = Vec::with_capacity(found);
        let blocked = {
            let mut state = locked(&self.state);
            for result in &results[..found] {
                let cookie = unsafe { ffi::s3r_result_cookie(*result) };
                ended.push((state.slots.remove(&cookie), *result));
            }
            std::mem::take(&mut state.blocked)
        };
        let mut left = Vec::with_capacity(found);
        for (slot, result) in ended {
            let outcome = unsafe { Outcome::read(ffi::s3r_result_error(result), result) };
            unsafe { ffi::s3r_result_free(result) };
            left.extend(slot.map(|slot| slot.end(outcome)));
        }
        drop(left);
        blocked.into_iter().for_each(Waker::wake);
    }

    /// Until it has ended. The thread that waits for the queue's completions goes on with that.
    fn wait(&self, slot: &Slot) {
        if QUEUE_OF_THREAD.with(Cell::get) != self as *const Native {
            return slot.wait();
        }
        while !slot.has_ended() {
            self.take_ended();
        }
    }

    fn wait_for_work(&self) -> bool {
        let mut state = locked(&self.state);
        while state.slots.is_empty() {
            if state.is_closing {
                return false;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// The cookie, or the error; for ERROR_BUSY the waker is kept.
    fn submit(&self, job: &Job, slot: &Arc<Slot>, waker: &Waker) -> Result<u64, c_int> {
        let mut state = locked(&self.state);
        let cookie = state.last_cookie + 1;
        match unsafe { job.submit(self.queue, cookie) } {
            ffi::OK => {
                state.last_cookie = cookie;
                state.slots.insert(cookie, Arc::clone(slot));
                self.changed.notify_one();
                Ok(cookie)
            }
            rc => {
                if rc == ffi::ERROR_BUSY {
                    state.blocked.push(waker.clone());
                }
                Err(rc)
            }
        }
    }
}

/// Keeps client, queue and thread. Calls and buffers hold one.
///
/// Whoever lets go of it last waits for the thread and frees what there is: a thread that went on by
/// itself would do so while the process ends, and libraries clean up.
pub(crate) struct Handle {
    native: Arc<Native>,
    thread: Option<JoinHandle<()>>,
    pub(crate) background: Arc<Background>,
}

impl Handle {
    pub(crate) fn new(config: &Config, background: &Arc<Background>) -> Result<Arc<Self>, Error> {
        let client = config.open()?;
        let mut queue = ptr::null_mut();
        let made = call(|result| unsafe {
            ffi::s3r_queue_new(client, 0, config.in_flight, result, &mut queue)
        });
        if let Err(error) = made {
            unsafe { ffi::s3r_client_free(client) };
            return Err(error);
        }
        let native = Arc::new(Native {
            client,
            queue,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let threads = Arc::clone(&native);
        let thread = std::thread::Builder::new()
            .name("s3rdma".to_string())
            .spawn(move || {
                QUEUE_OF_THREAD.with(|queue| queue.set(Arc::as_ptr(&threads)));
                threads.run();
            })
            .map_err(|e| Error::internal(format!("no thread: {e}")))?;
        Ok(Arc::new(Handle {
            native,
            thread: Some(thread),
            background: Arc::clone(background),
        }))
    }

    pub(crate) fn client(&self) -> *mut ffi::s3r_client {
        self.native.client
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        locked(&self.native.state).is_closing = true;
        self.native.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            self.background.join_or_keep(thread);
        }
    }
}

thread_local! {
    /// What this thread waits for the completions of, so that nothing else may wait for them on it.
    static QUEUE_OF_THREAD: Cell<*const Native> = const { Cell::new(ptr::null()) };
}

/// What goes on after its call. The last client waits for it: no thread of ours is left when the
/// process ends next.
#[derive(Default)]
pub(crate) struct Background {
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Uploads that may still have to be aborted, and transfers whose future is gone.
    open: Mutex<usize>,
    none_open: Condvar,
}

impl Background {
    pub(crate) fn spawn(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let thread = std::thread::Builder::new()
            .name(name.to_string())
            .spawn(run)?;
        let mut threads = locked(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    pub(crate) fn wait(&self) {
        if !QUEUE_OF_THREAD.with(Cell::get).is_null() {
            return;
        }
        let mut open = locked(&self.open);
        while *open > 0 {
            open = self
                .none_open
                .wait(open)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(open);
        let threads = std::mem::take(&mut *locked(&self.threads));
        threads
            .into_iter()
            .for_each(|thread| self.join_or_keep(thread));
    }

    /// Nobody joins himself: memory that outlived its future may be freed by the thread in question.
    fn join_or_keep(&self, thread: JoinHandle<()>) {
        if thread.thread().id() == std::thread::current().id() {
            locked(&self.threads).push(thread);
        } else {
            let _ = thread.join();
        }
    }
}

/// Something that is open, from before it begins: an upload until it needs no abort or one was begun,
/// a transfer without a future until its end.
pub(crate) struct Mark(Arc<Background>);

impl Mark {
    pub(crate) fn new(background: &Arc<Background>) -> Self {
        *locked(&background.open) += 1;
        Mark(Arc::clone(background))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        *locked(&self.0.open) -= 1;
        self.0.none_open.notify_all();
    }
}

/// A call that blocks, on one of the runtime's threads for that.
pub(crate) async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(run).await {
        Ok(done) => done,
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        Err(_) => Err(Error::internal("the runtime shuts down".to_string())),
    }
}
