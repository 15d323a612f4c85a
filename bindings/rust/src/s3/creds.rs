// SPDX-License-Identifier: Apache-2.0
//! Where credentials come from.
use std::fmt;

/// What a request is signed with.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The name of the key.
    pub access_key: String,
    /// The key.
    pub secret_key: String,
    /// Of temporary credentials.
    pub session_token: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key", &self.access_key)
            .finish_non_exhaustive()
    }
}

/// Asked before each call, by the thread that makes it; so it must be quick.
pub trait Provider: fmt::Debug {
    /// What to sign with now.
    fn fetch(&self) -> Credentials;
}

/// The same credentials for ever.
#[derive(Debug, Clone)]
pub struct StaticProvider {
    credentials: Credentials,
}

impl StaticProvider {
    /// `session_token` is for temporary credentials.
    pub fn new(access_key: &str, secret_key: &str, session_token: Option<&str>) -> Self {
        StaticProvider {
            credentials: Credentials {
                access_key: access_key.to_string(),
                secret_key: secret_key.to_string(),
                session_token: session_token.map(str::to_string),
            },
        }
    }
}

impl Provider for StaticProvider {
    fn fetch(&self) -> Credentials {
        self.credentials.clone()
    }
}

/// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, else `MINIO_ACCESS_KEY` and
/// `MINIO_SECRET_KEY`, as they are when the provider is made.
#[derive(Debug, Clone)]
pub struct EnvProvider {
    credentials: Credentials,
}

impl EnvProvider {
    /// None when neither pair is set.
    pub fn new() -> Option<Self> {
        let get = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
        let pair = |access, secret| Some((get(access)?, get(secret)?));
        let aws = pair("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let session_token = if aws.is_some() {
            get("AWS_SESSION_TOKEN")
        } else {
            None
        };
        let (access_key, secret_key) =
            aws.or_else(|| pair("MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"))?;
        Some(EnvProvider {
            credentials: Credentials {
                access_key,
                secret_key,
                session_token,
            },
        })
    }
}

impl Provider for EnvProvider {
    fn fetch(&self) -> Credentials {
        self.credentials.clone()
    }
}
