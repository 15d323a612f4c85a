// SPDX-License-Identifier: Apache-2.0
use super::super::client::{add_put_options, names};
use super::super::error::{Error, S3Error, ValidationErr};
use super::super::types::{some, PartInfo, PutOptions, Reason, Transport};
use super::super::MinioClient;
use super::{AlignedBuffer, RdmaBuffer};
use crate::ffi;
use crate::native::{blocking, call, Job, Kind, Memory, Outcome, Together, Transfer, Upload};
use std::ffi::CString;
use std::fmt;
use std::ops::Range;
use std::os::raw::c_void;
use std::sync::Arc;

/// A transfer that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdmaResponse {
    /// Without quotes.
    pub etag: String,
    /// Those of the object or range, also when the buffer is larger.
    pub bytes_transferred: usize,
    /// Of the whole object (of a part: the part), in base64, where it is known.
    pub checksum_crc64nvme: Option<String>,
    /// Of buckets with versions.
    pub version_id: Option<String>,
    /// The whole object's bytes, where the reply said them.
    pub object_size: Option<u64>,
    /// What carried the bytes.
    pub transport: Transport,
    /// `cma`, `ofi`, ...: the last window's; none when there was none.
    pub provider: Option<String>,
    /// Why it was not RDMA; none when it was.
    pub reason: Option<Reason>,
    /// The same in words.
    pub reason_text: String,
    /// A checksum was compared with the bytes.
    pub is_verified: bool,
    /// A GPU's memory, through a copy in host memory.
    pub is_staged: bool,
    /// Sent on the wire.
    pub requests: u32,
}

impl From<Outcome> for RdmaResponse {
    fn from(outcome: Outcome) -> Self {
        RdmaResponse {
            etag: outcome.etag,
            bytes_transferred: usize::try_from(outcome.len).unwrap_or(usize::MAX),
            checksum_crc64nvme: some(outcome.crc64_text),
            version_id: some(outcome.version_id),
            object_size: Some(outcome.object_len).filter(|n| *n != 0),
            transport: Transport::new(outcome.transport),
            provider: some(outcome.provider),
            reason: Some(Reason(outcome.reason)).filter(|r| r.0 != 0),
            reason_text: outcome.reason_text,
            is_verified: outcome.is_verified,
            is_staged: outcome.is_staged,
            requests: outcome.requests,
        }
    }
}

/// Why a transfer did not succeed. The first four come only where RDMA is required: else the bytes
/// go by HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RdmaError {
    /// There is no device here; [`MinioClient::rdma_check`] says why.
    NotConnected,
    /// The memory cannot be registered.
    RegistrationFailed,
    /// The server said 501.
    Declined,
    /// The transfer began and failed, or its reply did not come or was not understood.
    TransferFailed,
    /// An upload needs a part.
    EmptyParts,
    /// Not 1 to 10,000.
    InvalidPartNumber(u32),
    /// An argument that cannot be right.
    Validation(ValidationErr),
    /// The server's answer, which asking again would not change.
    S3(S3Error),
    /// A server that was stopped in the middle may write (of a PUT: read) the memory when it goes
    /// on: it must be neither used nor freed for as long as the process lives.
    Unfenced(String),
    /// Anything else, in words.
    Control(String),
}

impl fmt::Display for RdmaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RdmaError::NotConnected => f.write_str("no RDMA device can be used"),
            RdmaError::RegistrationFailed => f.write_str("the memory cannot be registered"),
            RdmaError::Declined => f.write_str("the server declined RDMA"),
            RdmaError::TransferFailed => f.write_str("the RDMA transfer failed"),
            RdmaError::EmptyParts => f.write_str("an upload needs at least one part"),
            RdmaError::InvalidPartNumber(n) => write!(f, "{n} is no part number (1 to 10000)"),
            RdmaError::Validation(e) => e.fmt(f),
            RdmaError::S3(e) => e.fmt(f),
            RdmaError::Unfenced(why) | RdmaError::Control(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RdmaError {}

impl From<Error> for RdmaError {
    fn from(e: Error) -> Self {
        match e {
            Error::Validation(e) => RdmaError::Validation(e),
            Error::S3(e) => RdmaError::S3(e),
            Error::Other { number, message } => match number {
                ffi::ERROR_RDMA_UNAVAILABLE => RdmaError::NotConnected,
                ffi::ERROR_RDMA_REGISTER => RdmaError::RegistrationFailed,
                ffi::ERROR_RDMA_UNFENCED => RdmaError::Unfenced(message),
                _ => RdmaError::Control(message),
            },
        }
    }
}

impl From<ValidationErr> for RdmaError {
    fn from(e: ValidationErr) -> Self {
        RdmaError::Validation(e)
    }
}

impl From<Outcome> for RdmaError {
    fn from(outcome: Outcome) -> Self {
        match (outcome.error, outcome.reason) {
            (ffi::ERROR_RDMA_REQUIRED, ffi::REASON_NO_DEVICE) => RdmaError::NotConnected,
            (ffi::ERROR_RDMA_REQUIRED, ffi::REASON_DECLINED) => RdmaError::Declined,
            (ffi::ERROR_RDMA_REQUIRED, _) => RdmaError::TransferFailed,
            _ => Error::from(outcome).into(),
        }
    }
}

/// An error, and the buffer that the call was given: none after [`RdmaError::Unfenced`].
#[derive(Debug)]
pub struct OwnedError {
    /// What went wrong.
    pub error: RdmaError,
    /// For the next try.
    pub buffer: Option<AlignedBuffer>,
}

impl fmt::Display for OwnedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for OwnedError {}

impl From<OwnedError> for RdmaError {
    fn from(e: OwnedError) -> Self {
        e.error
    }
}

type Owned = Result<(RdmaResponse, AlignedBuffer), Box<OwnedError>>;

fn owned_error(error: RdmaError, buffer: AlignedBuffer) -> Box<OwnedError> {
    Box::new(OwnedError {
        error,
        buffer: Some(buffer),
    })
}

/// One part of a multipart upload.
#[derive(Debug, Clone)]
pub struct RdmaPart {
    /// All but the last have at least 5 MiB.
    pub buffer: RdmaBuffer,
    /// What the part's checksum must be, in base64; the upload fails when it is another.
    pub checksum_crc64nvme: Option<String>,
}

impl RdmaPart {
    /// Its checksum is computed on the way.
    pub const fn new(buffer: RdmaBuffer) -> Self {
        RdmaPart {
            buffer,
            checksum_crc64nvme: None,
        }
    }

    /// See [`super::crc64nvme_base64`].
    pub fn with_checksum(buffer: RdmaBuffer, checksum_crc64nvme: String) -> Self {
        RdmaPart {
            buffer,
            checksum_crc64nvme: Some(checksum_crc64nvme),
        }
    }
}

/// An upload that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RdmaMultipartResponse {
    /// Of the object, without quotes.
    pub etag: String,
    /// What the upload was called.
    pub upload_id: String,
    /// Of all parts.
    pub total_bytes_transferred: usize,
    /// In order.
    pub parts: Vec<PartInfo>,
}

/// Memory of a job.
struct Span {
    ptr: *mut c_void,
    len: usize,
}

impl From<RdmaBuffer> for Span {
    fn from(buffer: RdmaBuffer) -> Self {
        Span {
            ptr: buffer.ptr(),
            len: buffer.len(),
        }
    }
}

fn finished((outcome, memory): (Outcome, Option<Memory>)) -> Result<RdmaResponse, RdmaError> {
    drop(memory);
    if outcome.error == ffi::OK {
        Ok(outcome.into())
    } else {
        Err(outcome.into())
    }
}

fn finished_owned((outcome, memory): (Outcome, Option<Memory>)) -> Owned {
    let buffer = memory.map(AlignedBuffer);
    if outcome.error != ffi::OK {
        let is_lost = outcome.error == ffi::ERROR_RDMA_UNFENCED;
        let buffer = if is_lost { None } else { buffer };
        let error = outcome.into();
        return Err(Box::new(OwnedError { error, buffer }));
    }
    match buffer {
        Some(buffer) => Ok((outcome.into(), buffer)),
        None => Err(Box::new(OwnedError {
            error: RdmaError::Control("the buffer is gone".to_string()),
            buffer,
        })),
    }
}

impl MinioClient {
    /// Memory as an object.
    pub async fn rdma_put_object(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        buffer: RdmaBuffer,
    ) -> Result<RdmaResponse, RdmaError> {
        self.rdma_put_object_with(bucket, object, buffer, &PutOptions::default())
            .await
    }

    /// The same, with headers and metadata.
    pub async fn rdma_put_object_with(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        buffer: RdmaBuffer,
        put: &PutOptions,
    ) -> Result<RdmaResponse, RdmaError> {
        let names = names(bucket.as_ref(), object.as_ref())?;
        let handle = self.handle()?;
        let job = self.job(Kind::Put, names, buffer.into())?;
        add_put_options(&job.options, put)?;
        finished(Transfer::new(&handle, job, None).await)
    }

    /// A whole object into memory. One that does not fit is an error.
    pub async fn rdma_get_object(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        buffer: RdmaBuffer,
    ) -> Result<RdmaResponse, RdmaError> {
        let names = names(bucket.as_ref(), object.as_ref())?;
        let handle = self.handle()?;
        let job = self.job(Kind::Get, names, buffer.into())?;
        finished(Transfer::new(&handle, job, None).await)
    }

    /// As many bytes of an object, from `offset` on, as the memory has. At the object's end fewer.
    pub async fn rdma_get_object_range(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        offset: u64,
        buffer: RdmaBuffer,
    ) -> Result<RdmaResponse, RdmaError> {
        let names = names(bucket.as_ref(), object.as_ref())?;
        let handle = self.handle()?;
        let job = self.job(Kind::GetRange(offset), names, buffer.into())?;
        finished(Transfer::new(&handle, job, None).await)
    }

    /// Memory that stays registered while it lives. For `put_owned` and the like it must be of this
    /// client, or of a clone of it.
    pub fn rdma_alloc(&self, len: usize) -> Result<AlignedBuffer, RdmaError> {
        Ok(AlignedBuffer(Memory::new(&self.handle()?, len)?))
    }

    /// A buffer as an object; it comes back with the response.
    pub async fn rdma_put_owned(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        buffer: AlignedBuffer,
    ) -> Owned {
        let all = 0..buffer.len();
        let names = names(bucket.as_ref(), object.as_ref());
        self.owned(Kind::Put, names, buffer, all).await
    }

    /// A whole object into a buffer, which comes back with the response.
    pub async fn rdma_get_owned(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        buffer: AlignedBuffer,
    ) -> Owned {
        let all = 0..buffer.len();
        let names = names(bucket.as_ref(), object.as_ref());
        self.owned(Kind::Get, names, buffer, all).await
    }

    /// Bytes of an object, from `offset` on, into these of a buffer.
    pub async fn rdma_get_range_owned(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        offset: u64,
        buffer: AlignedBuffer,
        into: Range<usize>,
    ) -> Owned {
        let names = names(bucket.as_ref(), object.as_ref());
        self.owned(Kind::GetRange(offset), names, buffer, into)
            .await
    }

    async fn owned(
        &self,
        kind: Kind,
        names: Result<(CString, CString), ValidationErr>,
        buffer: AlignedBuffer,
        range: Range<usize>,
    ) -> Owned {
        if buffer.get(range.clone()).is_none() {
            let why = format!("bytes {range:?} are not all in {buffer:?}");
            return Err(owned_error(ValidationErr::new(why).into(), buffer));
        }
        let span = Span {
            ptr: buffer.ptr_at(range.start),
            len: range.len(),
        };
        let ready = names
            .map_err(Error::from)
            .and_then(|names| Ok((self.handle()?, self.job(kind, names, span)?)));
        match ready {
            Ok((handle, job)) => finished_owned(Transfer::new(&handle, job, Some(buffer.0)).await),
            Err(error) => Err(owned_error(error.into(), buffer)),
        }
    }

    /// One part of an upload; `checksum_crc64nvme`, where given, must be what it has.
    pub async fn rdma_upload_part(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        upload_id: impl AsRef<str>,
        part_number: u16,
        buffer: RdmaBuffer,
        checksum_crc64nvme: Option<String>,
    ) -> Result<RdmaResponse, RdmaError> {
        check_number(u32::from(part_number))?;
        let upload = self.open_upload(bucket.as_ref(), object.as_ref(), upload_id.as_ref())?;
        let part = RdmaPart {
            buffer,
            checksum_crc64nvme,
        };
        let transfer = self.part(&Arc::new(upload), part_number, &part)?;
        let response = finished(transfer.await)?;
        check_part(&part, &response, part_number)?;
        Ok(response)
    }

    /// An object from parts, which are in flight together. When one fails, or the future is dropped,
    /// the upload is aborted.
    pub async fn rdma_put_object_multipart(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        parts: &[RdmaPart],
    ) -> Result<RdmaMultipartResponse, RdmaError> {
        if parts.is_empty() {
            return Err(RdmaError::EmptyParts);
        }
        check_number(u32::try_from(parts.len()).unwrap_or(u32::MAX))?;
        let (bucket, key) = names(bucket.as_ref(), object.as_ref())?;
        let mut upload = self
            .create_upload(bucket, key, &PutOptions::default())
            .await?;
        let sent = match self.send_parts(&upload.shared, parts).await {
            Ok(sent) => sent,
            Err(error) => {
                upload.abort().await;
                return Err(error);
            }
        };
        match self.complete_upload(Arc::clone(&upload.shared)).await {
            Ok(etag) => {
                upload.is_done = true;
                Ok(RdmaMultipartResponse {
                    etag,
                    upload_id: upload.shared.id(),
                    total_bytes_transferred: parts.iter().map(|p| p.buffer.len()).sum(),
                    parts: sent,
                })
            }
            Err(error) => {
                upload.abort().await;
                Err(error.into())
            }
        }
    }

    async fn send_parts(
        &self,
        upload: &Arc<Upload>,
        parts: &[RdmaPart],
    ) -> Result<Vec<PartInfo>, RdmaError> {
        let transfers = (1..)
            .zip(parts)
            .map(|(number, part)| self.part(upload, number, part))
            .collect::<Result<Vec<_>, _>>()?;
        let outcomes = Together::new(transfers).await?;
        let mut sent = Vec::with_capacity(parts.len());
        for ((number, part), outcome) in (1u16..).zip(parts).zip(outcomes) {
            let response = RdmaResponse::from(outcome);
            check_part(part, &response, number)?;
            sent.push(PartInfo {
                number,
                etag: response.etag,
                size: part.buffer.len() as u64,
                checksum_crc64nvme: response.checksum_crc64nvme,
            });
        }
        Ok(sent)
    }

    fn part(&self, upload: &Arc<Upload>, number: u16, part: &RdmaPart) -> Result<Transfer, Error> {
        let kind = Kind::Part(Arc::clone(upload), u32::from(number));
        let names = (CString::default(), CString::default()); // the upload's own
        let job = self.job(kind, names, part.buffer.into())?;
        Ok(Transfer::new(upload.handle(), job, None))
    }

    fn job(&self, kind: Kind, names: (CString, CString), span: Span) -> Result<Job, Error> {
        Ok(Job {
            kind,
            bucket: names.0,
            key: names.1,
            ptr: span.ptr,
            len: span.len,
            options: self.native_options()?,
        })
    }

    /// Opens the devices, as the first transfer would, and says why none can be used.
    pub async fn rdma_check(&self) -> Result<(), Error> {
        let handle = self.handle()?;
        blocking(move || {
            call(|result| unsafe { ffi::s3r_client_open_devices(handle.client(), result) })
                .map(|_| ())
        })
        .await
    }

    /// There is a device here that can be used. Opens the devices.
    pub fn rdma_available(&self) -> bool {
        self.handle().map_or(false, |handle| {
            call(|result| unsafe { ffi::s3r_client_open_devices(handle.client(), result) }).is_ok()
        })
    }

    /// Bytes that this client has registered now.
    pub fn rdma_registered_bytes(&self) -> u64 {
        self.handle().map_or(0, |handle| unsafe {
            ffi::s3r_registered_bytes(handle.client())
        })
    }
}

fn check_number(number: u32) -> Result<(), RdmaError> {
    if (1..=10_000).contains(&number) {
        Ok(())
    } else {
        Err(RdmaError::InvalidPartNumber(number))
    }
}

fn check_part(part: &RdmaPart, response: &RdmaResponse, number: u16) -> Result<(), RdmaError> {
    match (&part.checksum_crc64nvme, &response.checksum_crc64nvme) {
        (Some(wanted), Some(is)) if wanted != is => Err(RdmaError::Control(format!(
            "part {number} has the CRC64NVME {is}, not {wanted}"
        ))),
        _ => Ok(()),
    }
}
