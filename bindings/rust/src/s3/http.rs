// SPDX-License-Identifier: Apache-2.0
//! Where requests go.
use super::error::ValidationErr;
use std::fmt;
use std::str::FromStr;

/// An endpoint, from `HOST[:PORT]`, `http://HOST[:PORT]` or `https://HOST[:PORT]`.
///
/// Without a scheme it is plain HTTP: say `https://`, or set `https`, for TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// TLS.
    pub https: bool,
    host: String,
    port: Option<u16>,
    /// "": us-east-1.
    pub region: String,
}

impl BaseUrl {
    /// An IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// 443 or 80 when none was said.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.https { 443 } else { 80 })
    }
}

impl Default for BaseUrl {
    /// `http://localhost:9000`
    fn default() -> Self {
        BaseUrl {
            https: false,
            host: "localhost".to_string(),
            port: Some(9000),
            region: String::new(),
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.https { "https://" } else { "http://" })?;
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// The host and what follows it.
fn split_host(rest: &str) -> Option<(&str, &str)> {
    match rest.strip_prefix('[') {
        Some(v6) => v6.split_once(']'),
        None => Some(rest.split_at(rest.find(':').unwrap_or(rest.len()))),
    }
}

impl FromStr for BaseUrl {
    type Err = ValidationErr;

    fn from_str(whole: &str) -> Result<Self, ValidationErr> {
        let wrong = || ValidationErr::new(format!("'{whole}' is not HOST or HOST:PORT"));
        let (https, rest) = match whole.split_once("://") {
            None => (false, whole),
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(wrong()),
        };
        let (host, after) = split_host(rest.strip_suffix('/').unwrap_or(rest)).ok_or_else(wrong)?;
        let is_wrong = |c: char| c.is_whitespace() || c.is_control() || "/?#@[]".contains(c);
        if host.is_empty() || host.contains(is_wrong) {
            return Err(wrong());
        }
        let port = match after.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok().filter(|p| *p != 0).ok_or_else(wrong)?)
            }
            None if after.is_empty() => None,
            _ => return Err(wrong()),
        };
        Ok(BaseUrl {
            https,
            host: host.to_string(),
            port,
            region: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::BaseUrl;

    #[test]
    fn endpoints_are_read_and_written_back() {
        for (text, url) in [
            ("a.example", "http://a.example"),
            ("127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("http://h:1/", "http://h:1"),
            ("https://h", "https://h"),
            ("[::1]:9000", "http://[::1]:9000"),
            ("https://[fe80::1]", "https://[fe80::1]"),
        ] {
            assert_eq!(text.parse::<BaseUrl>().unwrap().to_string(), url);
        }
        assert_eq!("https://h".parse::<BaseUrl>().unwrap().port(), 443);
        assert_eq!("h".parse::<BaseUrl>().unwrap().port(), 80);
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for text in [
            "", ":1", "h:", "h:0", "h:65536", "h:+1", "h:1:2", "ftp://h", "h/p", "u@h", "[::1",
            "h h", "h\n", "http://", "h?x", "[]", "[::1]9",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }
}
