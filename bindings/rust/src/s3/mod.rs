// SPDX-License-Identifier: Apache-2.0
//! The S3 client and what belongs to it.
pub mod client;
pub mod creds;
pub mod error;
pub mod http;
pub mod rdma;
pub mod types;

pub use client::{MinioClient, MinioClientBuilder};
