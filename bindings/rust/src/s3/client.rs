// SPDX-License-Identifier: Apache-2.0
//! The client: buckets, objects, uploads. Transfers of memory are in [`super::rdma`].
use super::creds::{Credentials, Provider};
use super::error::{Error, ValidationErr};
use super::http::BaseUrl;
use super::types::{Bucket, Item, ObjectInfo, Page, PartInfo, PutOptions, TransferOptions};
use crate::ffi;
use crate::native::{
    blocking, c_text, call, text, Background, Config, Handle, Mark, NewUpload, Options, Upload,
};
use std::ffi::CString;
use std::fmt;
use std::os::raw::c_int;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

type SharedProvider = Box<dyn Provider + Send + Sync + 'static>;

/// What a client is made from.
#[derive(Debug)]
pub struct MinioClientBuilder {
    base_url: BaseUrl,
    provider: Option<SharedProvider>,
    ssl_cert_file: Option<PathBuf>,
    devices: String,
    in_flight: u32,
    options: TransferOptions,
}

impl MinioClientBuilder {
    /// All else is the default.
    pub fn new(base_url: BaseUrl) -> Self {
        MinioClientBuilder {
            base_url,
            provider: None,
            ssl_cert_file: None,
            devices: String::new(),
            in_flight: 0,
            options: TransferOptions::default(),
        }
    }

    /// Where credentials come from.
    pub fn provider<P: Provider + Send + Sync + 'static>(mut self, provider: Option<P>) -> Self {
        self.provider = provider.map(|p| Box::new(p) as SharedProvider);
        self
    }

    /// Certificates to trust, in PEM, instead of the system's.
    pub fn ssl_cert_file(mut self, path: Option<PathBuf>) -> Self {
        self.ssl_cert_file = path;
        self
    }

    /// RDMA devices: `cma`, `ofi:tcp`, ... Not set: `S3RDMA_DEVICE`, else the adapters there are.
    pub fn rdma_devices(mut self, devices: &str) -> Self {
        self.devices = devices.to_string();
        self
    }

    /// How many transfers are under way at a time, at most 256; the rest waits. 0: 16.
    pub fn in_flight(mut self, transfers: u32) -> Self {
        self.in_flight = transfers;
        self
    }

    /// How transfers are done, unless [`MinioClient::with_options`] says otherwise.
    pub fn options(mut self, options: TransferOptions) -> Self {
        self.options = options;
        self
    }

    /// The client. Nothing is opened or sent yet.
    pub fn build(self) -> Result<MinioClient, Error> {
        let options = self.options.clone();
        Options::new(&options)?;
        let client = MinioClient {
            inner: Arc::new(Inner {
                config: self,
                current: Mutex::new(None),
                background: Arc::default(),
            }),
            options,
        };
        client.handle()?;
        Ok(client)
    }
}

struct Inner {
    config: MinioClientBuilder,
    /// The C client, and the credentials that it signs with.
    current: Mutex<Option<(Credentials, Arc<Handle>)>>,
    /// Of all C clients there were.
    background: Arc<Background>,
}

impl Drop for Inner {
    /// What was begun at the server is ended there, also when the process ends next.
    fn drop(&mut self) {
        self.background.wait();
    }
}

/// A client of one endpoint. Clones share connections, devices and registered memory, and may be
/// used from any number of threads and runtimes at once.
#[derive(Clone)]
pub struct MinioClient {
    inner: Arc<Inner>,
    options: TransferOptions,
}

impl fmt::Debug for MinioClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MinioClient")
            .field("config", &self.inner.config)
            .field("options", &self.options)
            .finish()
    }
}

impl MinioClient {
    /// `ssl_cert_file`: certificates to trust instead of the system's. `ignore_cert_check`: cannot be
    /// had; `Some(true)` is an error.
    pub fn new<P: Provider + Send + Sync + 'static>(
        base_url: BaseUrl,
        provider: Option<P>,
        ssl_cert_file: Option<PathBuf>,
        ignore_cert_check: Option<bool>,
    ) -> Result<Self, Error> {
        if ignore_cert_check == Some(true) {
            let why = "certificates are always checked; ssl_cert_file says which are trusted";
            return Err(ValidationErr::new(why.to_string()).into());
        }
        MinioClientBuilder::new(base_url)
            .provider(provider)
            .ssl_cert_file(ssl_cert_file)
            .build()
    }

    /// The same client, whose transfers are done in another way.
    pub fn with_options(&self, options: TransferOptions) -> Self {
        MinioClient {
            inner: Arc::clone(&self.inner),
            options,
        }
    }

    /// The C client for the provider's credentials of now.
    pub(crate) fn handle(&self) -> Result<Arc<Handle>, Error> {
        let config = &self.inner.config;
        let keys = match &config.provider {
            Some(provider) => provider.fetch(),
            None => Credentials::default(),
        };
        let mut current = self
            .inner
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((of, handle)) = &*current {
            if *of == keys {
                return Ok(Arc::clone(handle));
            }
        }
        let handle = Handle::new(&native_config(config, &keys)?, &self.inner.background)?;
        *current = Some((keys, Arc::clone(&handle)));
        Ok(handle)
    }

    pub(crate) fn native_options(&self) -> Result<Options, Error> {
        Options::new(&self.options)
    }

    /// Creates a bucket.
    pub async fn make_bucket(&self, bucket: impl AsRef<str>) -> Result<(), Error> {
        let bucket = c_text("the bucket", bucket.as_ref())?;
        self.simple(move |client, result| unsafe {
            ffi::s3r_bucket_create(client, bucket.as_ptr(), result)
        })
        .await
    }

    /// Removes an empty bucket.
    pub async fn remove_bucket(&self, bucket: impl AsRef<str>) -> Result<(), Error> {
        let bucket = c_text("the bucket", bucket.as_ref())?;
        self.simple(move |client, result| unsafe {
            ffi::s3r_bucket_delete(client, bucket.as_ptr(), result)
        })
        .await
    }

    /// An answer that is neither yes nor no is an error.
    pub async fn bucket_exists(&self, bucket: impl AsRef<str>) -> Result<bool, Error> {
        let bucket = c_text("the bucket", bucket.as_ref())?;
        let handle = self.handle()?;
        blocking(move || {
            let mut exists = 0;
            call(|result| unsafe {
                ffi::s3r_bucket_exists(handle.client(), bucket.as_ptr(), result, &mut exists)
            })?;
            Ok(exists != 0)
        })
        .await
    }

    /// All buckets.
    pub async fn list_buckets(&self) -> Result<Vec<Bucket>, Error> {
        let handle = self.handle()?;
        blocking(move || {
            let page = PageOwner::fetch(|result, page| unsafe {
                ffi::s3r_bucket_list(handle.client(), result, page)
            })?;
            let to_bucket = |row: Item| Bucket {
                name: row.name,
                creation_date: row.last_modified,
            };
            Ok(page.rows().into_iter().map(to_bucket).collect())
        })
        .await
    }

    /// One page of the keys that begin with `prefix`. With a `delimiter` all keys that have it after
    /// the prefix are one row. `token`: [`Page::next_token`] of the page before.
    pub async fn list_objects(
        &self,
        bucket: impl AsRef<str>,
        prefix: impl AsRef<str>,
        delimiter: Option<&str>,
        token: Option<&str>,
    ) -> Result<Page, Error> {
        let bucket = c_text("the bucket", bucket.as_ref())?;
        let prefix = c_text("the prefix", prefix.as_ref())?;
        let delimiter = optional("the delimiter", delimiter)?;
        let token = optional("the token", token)?;
        let handle = self.handle()?;
        blocking(move || {
            let page = PageOwner::fetch(|result, page| unsafe {
                ffi::s3r_list(
                    handle.client(),
                    bucket.as_ptr(),
                    prefix.as_ptr(),
                    delimiter.as_ref().map_or(ptr::null(), |d| d.as_ptr()),
                    token.as_ref().map_or(ptr::null(), |t| t.as_ptr()),
                    0,
                    result,
                    page,
                )
            })?;
            Ok(Page {
                items: page.rows(),
                next_token: page.next_token(),
            })
        })
        .await
    }

    /// Size, ETag, headers and metadata of an object.
    pub async fn stat_object(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
    ) -> Result<ObjectInfo, Error> {
        let (bucket, key) = names(bucket.as_ref(), object.as_ref())?;
        let (handle, options) = (self.handle()?, self.native_options()?);
        blocking(move || {
            let (b, k, o) = (bucket.as_ptr(), key.as_ptr(), options.as_ptr());
            call(|result| unsafe { ffi::s3r_stat(handle.client(), b, k, o, result) })
                .map(ObjectInfo::from)
        })
        .await
    }

    /// Of a key that is not there: a success, as S3 has it.
    pub async fn remove_object(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
    ) -> Result<(), Error> {
        let (bucket, key) = names(bucket.as_ref(), object.as_ref())?;
        let options = self.native_options()?;
        self.simple(move |client, result| unsafe {
            ffi::s3r_delete(
                client,
                bucket.as_ptr(),
                key.as_ptr(),
                options.as_ptr(),
                result,
            )
        })
        .await
    }

    /// Begins an upload; its id.
    pub async fn create_multipart_upload(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        put: &PutOptions,
    ) -> Result<String, Error> {
        let (bucket, key) = names(bucket.as_ref(), object.as_ref())?;
        let mut upload = self.create_upload(bucket, key, put).await?;
        upload.is_done = true; // from here on it is the caller's
        Ok(upload.shared.id())
    }

    /// The object of the parts, which are in ascending order; its ETag.
    pub async fn complete_multipart_upload(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        upload_id: impl AsRef<str>,
        parts: &[PartInfo],
    ) -> Result<String, Error> {
        let upload = self.open_upload(bucket.as_ref(), object.as_ref(), upload_id.as_ref())?;
        for part in parts {
            add_part(&upload, part)?;
        }
        self.complete_upload(Arc::new(upload)).await
    }

    /// Ends an upload and drops its parts.
    pub async fn abort_multipart_upload(
        &self,
        bucket: impl AsRef<str>,
        object: impl AsRef<str>,
        upload_id: impl AsRef<str>,
    ) -> Result<(), Error> {
        let upload = self.open_upload(bucket.as_ref(), object.as_ref(), upload_id.as_ref())?;
        blocking(move || upload.abort()).await
    }

    pub(crate) async fn create_upload(
        &self,
        bucket: CString,
        key: CString,
        put: &PutOptions,
    ) -> Result<NewUpload, Error> {
        let handle = self.handle()?;
        let options = self.native_options()?;
        add_put_options(&options, put)?;
        let mark = Mark::new(&handle.background);
        blocking(move || {
            let mut raw = ptr::null_mut();
            let (b, k, o) = (bucket.as_ptr(), key.as_ptr(), options.as_ptr());
            call(|result| unsafe {
                ffi::s3r_upload_create(handle.client(), b, k, o, result, &mut raw)
            })?;
            Ok(NewUpload::new(
                unsafe { Upload::from_raw(&handle, raw) },
                mark,
            ))
        })
        .await
    }

    /// Sends nothing.
    pub(crate) fn open_upload(&self, bucket: &str, key: &str, id: &str) -> Result<Upload, Error> {
        let (bucket, key) = names(bucket, key)?;
        let id = c_text("the upload id", id)?;
        let handle = self.handle()?;
        let mut raw = ptr::null_mut();
        let (b, k, i) = (bucket.as_ptr(), key.as_ptr(), id.as_ptr());
        call(|result| unsafe { ffi::s3r_upload_open(handle.client(), b, k, i, result, &mut raw) })?;
        Ok(unsafe { Upload::from_raw(&handle, raw) })
    }

    /// The object's ETag.
    pub(crate) async fn complete_upload(&self, upload: Arc<Upload>) -> Result<String, Error> {
        let options = self.native_options()?;
        blocking(move || Ok(upload.complete(&options)?.etag)).await
    }

    async fn simple(
        &self,
        run: impl FnOnce(*mut ffi::s3r_client, *mut ffi::s3r_result) -> c_int + Send + 'static,
    ) -> Result<(), Error> {
        let handle = self.handle()?;
        blocking(move || call(|result| run(handle.client(), result)).map(|_| ())).await
    }
}

fn native_config(from: &MinioClientBuilder, keys: &Credentials) -> Result<Config, Error> {
    let token = keys.session_token.as_deref().unwrap_or("");
    let ca_file = match &from.ssl_cert_file {
        None => "",
        Some(path) => path
            .to_str()
            .ok_or_else(|| ValidationErr::new("ssl_cert_file is not UTF-8".to_string()))?,
    };
    Ok(Config {
        endpoint: c_text("the endpoint", &from.base_url.to_string())?,
        region: c_text("the region", &from.base_url.region)?,
        keys: if keys.access_key.is_empty() {
            None
        } else {
            Some((
                c_text("the access key", &keys.access_key)?,
                c_text("the secret key", &keys.secret_key)?,
                c_text("the session token", token)?,
            ))
        },
        ca_file: c_text("ssl_cert_file", ca_file)?,
        devices: c_text("rdma_devices", &from.devices)?,
        in_flight: from.in_flight,
    })
}

pub(crate) fn names(bucket: &str, key: &str) -> Result<(CString, CString), ValidationErr> {
    Ok((c_text("the bucket", bucket)?, c_text("the object", key)?))
}

fn optional(what: &str, value: Option<&str>) -> Result<Option<CString>, ValidationErr> {
    value.map(|v| c_text(what, v)).transpose()
}

pub(crate) fn add_put_options(options: &Options, put: &PutOptions) -> Result<(), Error> {
    for (name, value) in &put.headers {
        options.header(name, value)?;
    }
    for (name, value) in &put.user_metadata {
        options.metadata(name, value)?;
    }
    Ok(())
}

fn add_part(upload: &Upload, part: &PartInfo) -> Result<(), Error> {
    let wrong = |what: &str| ValidationErr::new(format!("part {}: {what}", part.number));
    let checksum = part.checksum_crc64nvme.as_deref();
    let crc64 = checksum
        .and_then(super::rdma::crc64nvme_from_base64)
        .ok_or_else(|| wrong("its CRC64NVME is missing or not one"))?;
    let etag = c_text("the ETag", &part.etag)?;
    let number = u32::from(part.number);
    let rc = unsafe {
        ffi::s3r_upload_add_part(upload.as_ptr(), number, part.size, etag.as_ptr(), crc64)
    };
    match rc {
        ffi::OK => Ok(()),
        ffi::ERROR_NOMEM => Err(Error::no_memory()),
        _ => Err(wrong(&crate::native::error_text(rc)).into()),
    }
}

struct PageOwner(*mut ffi::s3r_page);

impl PageOwner {
    fn fetch(
        run: impl FnOnce(*mut ffi::s3r_result, *mut *mut ffi::s3r_page) -> c_int,
    ) -> Result<Self, Error> {
        let mut page = ptr::null_mut();
        call(|result| run(result, &mut page))?;
        Ok(PageOwner(page))
    }

    fn rows(&self) -> Vec<Item> {
        let page = self.0;
        let row = |i| unsafe {
            Item {
                name: text(ffi::s3r_page_name(page, i)),
                is_prefix: ffi::s3r_page_is_prefix(page, i) != 0,
                size: ffi::s3r_page_len(page, i),
                etag: text(ffi::s3r_page_etag(page, i)),
                last_modified: text(ffi::s3r_page_time(page, i)),
            }
        };
        let count = unsafe { ffi::s3r_page_count(page) };
        let mut rows: Vec<Item> = (0..count).map(row).collect();
        // Keys and prefixes may come one after the other.
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    fn next_token(&self) -> Option<String> {
        let token = unsafe { ffi::s3r_page_next_token(self.0) };
        if token.is_null() {
            None
        } else {
            Some(unsafe { text(token) })
        }
    }
}

impl Drop for PageOwner {
    fn drop(&mut self) {
        unsafe { ffi::s3r_page_free(self.0) }
    }
}
