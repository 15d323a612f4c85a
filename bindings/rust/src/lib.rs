// SPDX-License-Identifier: Apache-2.0
//! S3 objects into and out of a program's memory, by RDMA where it can be and by HTTP otherwise.
//!
//! Paths and names are those of minio-rs, so that a program written for its RDMA calls compiles
//! against this crate under the name `minio`:
//!
//! ```toml
//! minio = { package = "s3rdma", path = "bindings/rust" }
//! ```
//!
//! See [`s3::MinioClient`] for the calls and [`s3::rdma`] for memory.
#![warn(missing_docs)]

mod ffi;
mod native;
pub mod s3;
