// SPDX-License-Identifier: Apache-2.0
//! What can go wrong.
use crate::ffi;
use crate::native::Outcome;
use std::fmt;
use std::os::raw::c_int;

/// An argument that cannot be right; nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationErr {
    message: String,
}

impl ValidationErr {
    pub(crate) fn new(message: String) -> Self {
        ValidationErr { message }
    }
}

impl fmt::Display for ValidationErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ValidationErr {}

/// What the server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Error {
    /// `NoSuchKey`, ...
    pub code: String,
    /// In words.
    pub message: String,
    /// Of the HTTP reply.
    pub status: u16,
    /// What the server's log calls the request; "" when it did not say.
    pub request_id: String,
}

impl fmt::Display for S3Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for S3Error {}

/// An error of any call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An argument that cannot be right.
    Validation(ValidationErr),
    /// The server's answer.
    S3(S3Error),
    /// Of this side, or on the way there.
    Other {
        /// `enum s3r_error` of `s3r/client.h`.
        number: i32,
        /// In words.
        message: String,
    },
}

impl Error {
    pub(crate) fn no_memory() -> Self {
        Error::Other {
            number: ffi::ERROR_NOMEM,
            message: "out of memory".to_string(),
        }
    }

    pub(crate) fn internal(message: String) -> Self {
        Error::Other {
            number: ffi::ERROR_INTERNAL,
            message,
        }
    }

    /// The S3 code, where the server said one: `NoSuchKey`, ...
    pub fn s3_code(&self) -> Option<&str> {
        match self {
            Error::S3(e) => Some(&e.code),
            _ => None,
        }
    }
}

/// Names that the client itself finds wrong have an S3 code too, as the server would say it.
fn is_validation(error: c_int) -> bool {
    matches!(
        error,
        ffi::ERROR_INVALID_ARGUMENT | ffi::ERROR_INVALID_BUCKET_NAME | ffi::ERROR_KEY_TOO_LONG
    )
}

impl From<Outcome> for Error {
    fn from(outcome: Outcome) -> Self {
        if outcome.status == 0 && is_validation(outcome.error) {
            return Error::Validation(ValidationErr::new(outcome.message));
        }
        if outcome.error <= ffi::ERROR_REMOTE {
            let request_id = outcome.header("x-amz-request-id").unwrap_or("").to_string();
            return Error::S3(S3Error {
                code: outcome.s3_code,
                message: outcome.message,
                status: outcome.status,
                request_id,
            });
        }
        Error::Other {
            number: outcome.error,
            message: outcome.message,
        }
    }
}

impl From<ValidationErr> for Error {
    fn from(e: ValidationErr) -> Self {
        Error::Validation(e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Validation(e) => e.fmt(f),
            Error::S3(e) => e.fmt(f),
            Error::Other { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}
