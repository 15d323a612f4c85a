// SPDX-License-Identifier: Apache-2.0
//! rest CASE BUCKET: one case of the crate against the server that S3RDMA_TEST_ENDPOINT names. Ends
//! with 0 when all of it is as it should be.
use minio::s3::creds::{Credentials, EnvProvider, Provider, StaticProvider};
use minio::s3::error::Error;
use minio::s3::http::BaseUrl;
use minio::s3::rdma::{crc64nvme_base64, AlignedBuffer, RdmaBuffer, RdmaError, RdmaPart};
use minio::s3::types::{PutOptions, TransferOptions, Transport};
use minio::s3::{MinioClient, MinioClientBuilder};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

fn var(name: &str) -> String {
    std::env::var(name).expect(name)
}

fn url() -> BaseUrl {
    var("S3RDMA_TEST_ENDPOINT").parse().unwrap()
}

fn client() -> MinioClient {
    MinioClient::new(url(), EnvProvider::new(), None, None).unwrap()
}

fn required() -> TransferOptions {
    TransferOptions {
        require_rdma: true,
        ..TransferOptions::default()
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 131 + (i >> 8)) as u8).collect()
}

/// It outlives all that uses it here.
fn raw(memory: &mut [u8]) -> RdmaBuffer {
    unsafe { RdmaBuffer::from_raw(memory.as_mut_ptr().cast(), memory.len()) }
}

fn s3_code<T: std::fmt::Debug>(result: Result<T, RdmaError>) -> String {
    match result {
        Err(RdmaError::S3(e)) => e.code,
        other => panic!("{other:?}"),
    }
}

async fn put(client: &MinioClient, bucket: &str, object: &str, data: &[u8]) {
    let mut memory = data.to_vec();
    let stored = client
        .rdma_put_object(bucket, object, raw(&mut memory))
        .await
        .unwrap();
    assert_eq!(stored.bytes_transferred, data.len());
}

/// 1 put of 1 MiB + 5; gets of 1 MiB + 5, 10 and 5.
async fn memory(bucket: &str) {
    let client = client().with_options(required());
    assert!(client.rdma_available());
    client.rdma_check().await.unwrap();
    let data = pattern(MIB + 5);
    let mut source = data.clone();
    let options = PutOptions {
        headers: vec![("Content-Type".into(), "text/x-pattern".into())],
        user_metadata: vec![("Colour".into(), "green".into())],
    };
    let object = "memory é +%2F";
    let stored = client
        .rdma_put_object_with(bucket, object, raw(&mut source), &options)
        .await
        .unwrap();
    assert_eq!(stored.transport, Transport::Rdma);
    assert_eq!(
        (stored.reason, stored.bytes_transferred),
        (None, data.len())
    );
    assert_eq!(stored.checksum_crc64nvme, Some(crc64nvme_base64(&data)));

    let about = client.stat_object(bucket, object).await.unwrap();
    assert_eq!((about.size, &about.etag), (data.len() as u64, &stored.etag));
    assert_eq!(
        about.user_metadata,
        [("colour".to_string(), "green".to_string())]
    );
    let is_type = |(k, v): &(String, String)| k == "content-type" && v == "text/x-pattern";
    assert!(about.headers.iter().any(is_type));

    let mut back = vec![b'#'; data.len() + 100];
    let got = client
        .rdma_get_object(bucket, object, raw(&mut back))
        .await
        .unwrap();
    assert_eq!((got.transport, got.is_verified), (Transport::Rdma, true));
    assert!(!got.is_staged);
    assert_eq!(
        (got.bytes_transferred, &got.etag),
        (data.len(), &stored.etag)
    );
    assert!(back[..data.len()] == data && back[data.len()..].iter().all(|b| *b == b'#'));

    back.fill(b'#');
    let into = raw(&mut back).part(7, 10).unwrap();
    let ranged = client
        .rdma_get_object_range(bucket, object, 100, into)
        .await
        .unwrap();
    assert_eq!(ranged.bytes_transferred, 10);
    assert!(back[7..17] == data[100..110] && back[6] == b'#' && back[17] == b'#');
    let end = data.len() as u64 - 5;
    let ranged = client
        .rdma_get_object_range(bucket, object, end, raw(&mut back))
        .await
        .unwrap();
    assert_eq!(
        (ranged.bytes_transferred, ranged.object_size),
        (5, Some(end + 5))
    );
    assert!(raw(&mut back).part(1, back.len()).is_none());
    assert!(raw(&mut back).part(usize::MAX, 2).is_none());
    assert_eq!(client.rdma_registered_bytes(), 0);
}

/// 1 put and 3 gets: 100,000 bytes each, but 1,000 of the last.
async fn owned(bucket: &str) {
    let client = client();
    let mut buffer = client.rdma_alloc(100_000).unwrap();
    assert!(buffer.iter().all(|b| *b == 0) && buffer.as_ptr() as usize % 4096 == 0);
    assert!(client.rdma_registered_bytes() >= 100_000);
    let data = pattern(buffer.len());
    buffer.copy_from_slice(&data);
    let (stored, buffer) = client
        .rdma_put_owned(bucket, "owned", buffer)
        .await
        .unwrap();
    assert_eq!(
        (stored.transport, &buffer[..]),
        (Transport::Rdma, &data[..])
    );
    drop(buffer);

    let big = client.rdma_alloc(200_000).unwrap();
    let (got, big) = client.rdma_get_owned(bucket, "owned", big).await.unwrap();
    assert_eq!(
        (got.bytes_transferred, &big[..100_000]),
        (100_000, &data[..])
    );
    let into = 150_000..151_000;
    let (got, big) = client
        .rdma_get_range_owned(bucket, "owned", 5, big, into)
        .await
        .unwrap();
    assert_eq!(got.bytes_transferred, 1000);
    assert!(big[150_000..151_000] == data[5..1005] && big[151_000] == 0);

    // After an error the buffer is there again.
    let failed = client
        .rdma_get_owned(bucket, "missing", big)
        .await
        .unwrap_err();
    let big = failed.buffer.unwrap();
    assert_eq!(s3_code::<()>(Err(failed.error)), "NoSuchKey");
    let outside = 199_999..200_001;
    let failed = client
        .rdma_get_range_owned(bucket, "owned", 0, big, outside)
        .await
        .unwrap_err();
    assert!(matches!(failed.error, RdmaError::Validation(_)), "{failed}");
    let big = failed.buffer.unwrap();
    let failed = client
        .rdma_get_owned("a\0b", "owned", big)
        .await
        .unwrap_err();
    assert!(matches!(failed.error, RdmaError::Validation(_)), "{failed}");
    drop(failed);

    // It may outlive its client, and is freed where nobody uses it any more.
    let mut last = client.rdma_alloc(4096).unwrap();
    drop(client);
    last[4095] = 1;
    let other = self::client();
    let (got, last) = other
        .rdma_get_range_owned(bucket, "owned", 0, last, 0..0)
        .await
        .unwrap();
    assert_eq!((got.bytes_transferred, last[4095]), (0, 1));
}

/// 3 parts, 5 + 5 + 1 MiB, and 11 MiB back; then 2 single parts and 5 MiB + 3 back.
async fn multipart(bucket: &str) {
    let client = client();
    let mut source = pattern(11 * MIB);
    let whole = raw(&mut source);
    let mut parts = Vec::new();
    for (at, len) in [(0, 5 * MIB), (5 * MIB, 5 * MIB), (10 * MIB, MIB)] {
        parts.push(RdmaPart::new(whole.part(at, len).unwrap()));
    }
    let last = crc64nvme_base64(&source[10 * MIB..]);
    parts[2] = RdmaPart::with_checksum(parts[2].buffer, last);
    let done = client
        .rdma_put_object_multipart(bucket, "parts", &parts)
        .await
        .unwrap();
    assert_eq!(
        (done.total_bytes_transferred, done.parts.len()),
        (11 * MIB, 3)
    );
    assert!(done.etag.ends_with("-3") && !done.upload_id.is_empty());
    let mut back = vec![0; 11 * MIB];
    let got = client
        .rdma_get_object(bucket, "parts", raw(&mut back))
        .await
        .unwrap();
    assert_eq!((got.bytes_transferred, got.etag), (11 * MIB, done.etag));
    assert!(back == source);

    let id = client
        .create_multipart_upload(bucket, "single", &PutOptions::default())
        .await
        .unwrap();
    let mut infos = Vec::new();
    for (number, len) in [(1u16, 5 * MIB), (2, 3)] {
        let part = whole.part(0, len).unwrap();
        let sent = client
            .rdma_upload_part(bucket, "single", &id, number, part, None)
            .await
            .unwrap();
        infos.push(minio::s3::types::PartInfo {
            number,
            etag: sent.etag,
            size: len as u64,
            checksum_crc64nvme: sent.checksum_crc64nvme,
        });
    }
    let etag = client
        .complete_multipart_upload(bucket, "single", &id, &infos)
        .await
        .unwrap();
    assert!(etag.ends_with("-2"));
    let got = client
        .rdma_get_object(bucket, "single", raw(&mut back))
        .await
        .unwrap();
    assert_eq!(got.bytes_transferred, 5 * MIB + 3);
    assert!(back[..5 * MIB] == source[..5 * MIB] && back[5 * MIB..5 * MIB + 3] == source[..3]);
}

/// What cannot be completed is aborted.
async fn aborting(bucket: &str) {
    let client = client();
    let mut source = pattern(6 * MIB);
    let whole = raw(&mut source);
    let wrong = RdmaPart::with_checksum(whole.part(0, 5 * MIB).unwrap(), "AAAAAAAAAAA=".into());
    let last = RdmaPart::new(whole.part(5 * MIB, MIB).unwrap());
    let failed = client
        .rdma_put_object_multipart(bucket, "never", &[wrong, last.clone()])
        .await;
    assert!(matches!(&failed, Err(RdmaError::Control(why)) if why.contains("part 1")));
    // A small part that is not the last one.
    let failed = client
        .rdma_put_object_multipart(bucket, "never", &[last.clone(), last.clone()])
        .await;
    assert_eq!(s3_code(failed), "EntityTooSmall");
    let failed = client.rdma_put_object_multipart(bucket, "never", &[]).await;
    assert_eq!(failed, Err(RdmaError::EmptyParts));
    for number in [0, 10_001] {
        let failed = client
            .rdma_upload_part(bucket, "never", "x", number, last.buffer, None)
            .await;
        assert_eq!(failed, Err(RdmaError::InvalidPartNumber(u32::from(number))));
    }
    let failed = client
        .rdma_upload_part(bucket, "never", "no such id", 1, last.buffer, None)
        .await;
    assert_eq!(s3_code(failed), "NoSuchUpload");

    let id = client
        .create_multipart_upload(bucket, "never", &PutOptions::default())
        .await
        .unwrap();
    client
        .abort_multipart_upload(bucket, "never", &id)
        .await
        .unwrap();

    // Dropped at any time: the memory is free at once, and nothing stays at the server.
    for micros in (0..12).map(|i| 1u64 << i) {
        let mut gone = pattern(15 * MIB);
        let parts: Vec<_> = (0..3)
            .map(|i| RdmaPart::new(raw(&mut gone).part(i * 5 * MIB, 5 * MIB).unwrap()))
            .collect();
        let upload = client.rdma_put_object_multipart(bucket, "dropped", &parts);
        let _ = tokio::time::timeout(Duration::from_micros(micros), upload).await;
    }
}

/// Many transfers at once, more than a queue holds, from many tasks and one client: 3,000 gets of 100
/// bytes into one buffer.
async fn many(bucket: &str) {
    let client = client();
    let data = pattern(300_000);
    put(&client, bucket, "many", &data).await;
    let mut back = vec![0; data.len()];
    let whole = raw(&mut back);
    let tasks: Vec<_> = (0..3000)
        .map(|i| {
            let (client, bucket) = (client.clone(), bucket.to_string());
            let part = whole.part(i * 100, 100).unwrap();
            tokio::spawn(async move {
                client
                    .rdma_get_object_range(bucket, "many", i as u64 * 100, part)
                    .await
                    .map(|got| (got.transport, got.bytes_transferred))
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), Ok((Transport::Rdma, 100)));
    }
    assert!(back == data);
}

/// A future that is dropped at any moment leaves its memory alone from then on, and nothing
/// registered.
async fn dropping(bucket: &str) {
    let client = client();
    let data = pattern(8 * MIB);
    put(&client, bucket, "big", &data).await;
    for micros in (0..14).map(|i| 1u64 << i) {
        let mut memory = vec![b'#'; data.len()];
        let get = client.rdma_get_object(bucket, "big", raw(&mut memory));
        let is_done = tokio::time::timeout(Duration::from_micros(micros), get)
            .await
            .is_ok();
        // Ours again: what is written now stays.
        memory.fill(b'@');
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(
            memory.iter().all(|b| *b == b'@'),
            "after {micros} us, {is_done}"
        );

        let buffer = client.rdma_alloc(data.len()).unwrap();
        let get = client.rdma_get_owned(bucket, "big", buffer);
        let _ = tokio::time::timeout(Duration::from_micros(micros), get).await;
    }
    let begin = Instant::now();
    while client.rdma_registered_bytes() != 0 {
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "still registered"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Never polled: nothing was begun, so that nothing is waited for.
    let mut memory = vec![0; 100];
    drop(client.rdma_get_object(bucket, "big", raw(&mut memory)));
    put(&client, bucket, "after", b"fine").await;
}

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int) {
    IS_INTERRUPTED.store(true, Ordering::Relaxed);
}

async fn signal() {
    while !IS_INTERRUPTED.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What SIGINT ends: a transfer beside which the program waits for a signal. Its memory is the
/// program's again at once.
async fn interrupted(bucket: &str, what: &str) {
    const LEN: usize = 8 * MIB;
    let handler = on_signal as extern "C" fn(libc::c_int);
    unsafe { libc::signal(libc::SIGINT, handler as libc::sighandler_t) };
    let client = client().with_options(required());
    let mut memory = vec![b'#'; 2 * LEN];
    let whole = raw(&mut memory);
    let parts = [0, LEN].map(|at| RdmaPart::new(whole.part(at, LEN).unwrap()));
    println!("begun");
    let transfer = async {
        match what {
            "put" => client.rdma_put_object(bucket, "k", whole).await.map(drop),
            "get" => client.rdma_get_object(bucket, "big", whole).await.map(drop),
            _ => {
                let sent = client.rdma_put_object_multipart(bucket, "k", &parts);
                sent.await.map(drop)
            }
        }
    };
    tokio::select! {
        ended = transfer => panic!("{ended:?}"),
        () = signal() => {}
    }
    memory.fill(b'@');
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(memory.iter().all(|b| *b == b'@'));
    assert_eq!(client.rdma_registered_bytes(), 0);
}

/// A task that goes with the first thing that it waited for, on the thread that says so.
struct Fleeting(
    Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    Sender<()>,
);

impl Wake for Fleeting {
    fn wake(self: Arc<Self>) {
        let task = self.0.lock().unwrap().take();
        if task.is_some() {
            drop(task);
            self.1.send(()).unwrap();
        }
    }
}

/// Wakers may drop what else is under way: that waits for its end where ends are told.
fn fleeting(bucket: &str) {
    let client = client();
    run(async {
        put(&client, bucket, "small", b"small").await;
        put(&client, bucket, "big", &pattern(32 * MIB)).await;
    });
    for _ in 0..20 {
        let mut memory = vec![b'#'; 32 * MIB + 4096];
        let whole = raw(&mut memory);
        let (small, big) = (
            whole.part(0, 4096).unwrap(),
            whole.part(4096, 32 * MIB).unwrap(),
        );
        let (one, other, bucket) = (client.clone(), client.clone(), bucket.to_string());
        let mut task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            let _ = tokio::join!(
                one.rdma_get_object(&bucket, "small", small),
                other.rdma_get_object(&bucket, "big", big)
            );
        });
        let (sender, receiver) = std::sync::mpsc::channel();
        let fleeting = Arc::new(Fleeting(Mutex::new(None), sender));
        {
            let mut slot = fleeting.0.lock().unwrap();
            let waker = Waker::from(Arc::clone(&fleeting));
            assert!(task
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending());
            *slot = Some(task);
        }
        receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        memory.fill(b'@');
        std::thread::sleep(Duration::from_millis(5));
        assert!(memory.iter().all(|b| *b == b'@'));
    }
    assert_eq!(client.rdma_registered_bytes(), 0);
    run(async { put(&client, bucket, "after", b"fine").await });
}

extern "C" {
    /// Of all clients, with NULL.
    fn s3r_registered_bytes(client: *mut std::os::raw::c_void) -> u64;
}

/// When the last client is gone nothing of it is under way, whatever was dropped before, and the
/// process may end.
fn exiting(bucket: &str) {
    const LEN: usize = 32 * MIB;
    const HUGE: usize = 5 << 30; // more than one window: a thread's
    run(async {
        put(&client(), bucket, "big", &pattern(LEN)).await;
    });
    for micros in (0..16).map(|i| 1u64 << i) {
        let client = client();
        run(async {
            let buffer = client.rdma_alloc(LEN).unwrap();
            let get = client.rdma_get_owned(bucket, "big", buffer);
            let _ = tokio::time::timeout(Duration::from_micros(micros), get).await;
        });
        drop(client);
        let registered = unsafe { s3r_registered_bytes(std::ptr::null_mut()) };
        assert_eq!(registered, 0, "after {micros} us");
    }
    let huge = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(std::ptr::null_mut(), HUGE, protection, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        RdmaBuffer::from_raw(memory, HUGE)
    };
    for _ in 0..20 {
        let client = client();
        run(async {
            let failed = client.rdma_get_object(bucket, "missing", huge).await;
            assert_eq!(s3_code(failed), "NoSuchKey");
        });
    }
    let client = client();
    run(async {
        let buffer = client.rdma_alloc(LEN).unwrap();
        let get = client.rdma_get_owned(bucket, "big", buffer);
        let _ = tokio::time::timeout(Duration::from_millis(1), get).await;
    });
}

/// One thread: while a transfer is under way, others go on. And one client serves runtimes that come
/// and go.
fn runtimes(bucket: &str) {
    let client = client();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let first = runtime();
    first.block_on(put(&client, bucket, "first", b"1"));
    // `first` is still there and is not driven.
    let second = runtime();
    second.block_on(async {
        let ticks = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&ticks);
        let ticker = tokio::spawn(async move {
            loop {
                *counted.lock().unwrap() += 1;
                tokio::task::yield_now().await;
            }
        });
        for _ in 0..50 {
            put(&client, bucket, "second", b"2").await;
        }
        ticker.abort();
        assert!(*ticks.lock().unwrap() > 50, "the thread was blocked");
    });
    drop((first, second));
    runtime().block_on(put(&client, bucket, "third", b"3"));
    // Runtimes on several threads at once.
    std::thread::scope(|scope| {
        for t in 0..4 {
            let client = client.clone();
            scope.spawn(move || {
                for i in 0..10 {
                    runtime().block_on(put(&client, bucket, &format!("{t}-{i}"), b"x"));
                }
            });
        }
    });
}

async fn errors(bucket: &str) {
    let client = client();
    let mut memory = vec![0; 64];
    let missing = client
        .rdma_get_object(bucket, "missing", raw(&mut memory))
        .await;
    match missing {
        Err(RdmaError::S3(e)) => {
            assert_eq!((e.code.as_str(), e.status), ("NoSuchKey", 404));
            assert!(!e.request_id.is_empty() && e.to_string().contains("NoSuchKey"));
        }
        other => panic!("{other:?}"),
    }
    let wrong = StaticProvider::new(&var("AWS_ACCESS_KEY_ID"), "not the secret", None);
    let stranger = MinioClient::new(url(), Some(wrong), None, None).unwrap();
    let refused = stranger
        .rdma_get_object(bucket, "missing", raw(&mut memory))
        .await;
    assert_eq!(s3_code(refused), "SignatureDoesNotMatch");

    let nowhere = "127.0.0.1:9".parse().unwrap();
    let lost = MinioClient::new(nowhere, EnvProvider::new(), None, None).unwrap();
    let failed = lost.rdma_get_object(bucket, "k", raw(&mut memory)).await;
    assert!(matches!(failed, Err(RdmaError::Control(_))), "{failed:?}");

    put(&client, bucket, "larger", &[1; 100]).await;
    memory.fill(b'#');
    let small = raw(&mut memory).part(0, 10).unwrap();
    let failed = client.rdma_get_object(bucket, "larger", small).await;
    assert!(
        matches!(&failed, Err(RdmaError::Control(why)) if why.contains("100")),
        "{failed:?}"
    );
    assert!(memory[10..].iter().all(|b| *b == b'#'));

    let failed = client
        .rdma_get_object("No Bucket", "k", raw(&mut memory))
        .await;
    assert!(
        matches!(failed, Err(RdmaError::Validation(_))),
        "{failed:?}"
    );
    let failed = client.stat_object(bucket, "a\0b").await;
    assert!(matches!(failed, Err(Error::Validation(_))), "{failed:?}");
    let unchecked = MinioClient::new(url(), EnvProvider::new(), None, Some(true));
    assert!(matches!(unchecked, Err(Error::Validation(_))));
    let both = TransferOptions {
        disable_rdma: true,
        ..required()
    };
    let failed = client
        .with_options(both)
        .rdma_get_object(bucket, "larger", raw(&mut memory))
        .await;
    assert!(
        matches!(failed, Err(RdmaError::Validation(_))),
        "{failed:?}"
    );

    let none = MinioClientBuilder::new(url())
        .provider(EnvProvider::new())
        .rdma_devices("no-such-device")
        .options(required())
        .build()
        .unwrap();
    assert!(!none.rdma_available());
    let why = none.rdma_check().await.unwrap_err();
    assert!(why.to_string().contains("no-such-device"), "{why}");
    let failed = none
        .rdma_get_object(bucket, "larger", raw(&mut memory))
        .await;
    assert_eq!(failed, Err(RdmaError::NotConnected));
}

/// Credentials that change between two calls are those of the next one.
async fn providers(bucket: &str) {
    #[derive(Debug, Clone, Default)]
    struct Rotating(Arc<Mutex<Credentials>>);
    impl Provider for Rotating {
        fn fetch(&self) -> Credentials {
            self.0.lock().unwrap().clone()
        }
    }
    let rotating = Rotating::default();
    let good = EnvProvider::new().unwrap().fetch();
    *rotating.0.lock().unwrap() = good.clone();
    let client = MinioClient::new(url(), Some(rotating.clone()), None, None).unwrap();
    put(&client, bucket, "k", b"1").await;
    rotating.0.lock().unwrap().secret_key = "another".to_string();
    assert!(client.bucket_exists(bucket).await.is_err());
    *rotating.0.lock().unwrap() = good;
    put(&client, bucket, "k", b"2").await;
    let shown = format!("{client:?}");
    assert!(!shown.contains(&var("AWS_SECRET_ACCESS_KEY")), "{shown}");
}

async fn buckets(bucket: &str) {
    let client = client();
    let more = format!("{bucket}-more");
    assert!(!client.bucket_exists(&more).await.unwrap());
    client.make_bucket(&more).await.unwrap();
    assert!(client.bucket_exists(&more).await.unwrap());
    let again = client.make_bucket(&more).await.unwrap_err();
    assert_eq!(again.s3_code(), Some("BucketAlreadyOwnedByYou"));
    let listed = client.list_buckets().await.unwrap();
    assert!(listed
        .iter()
        .any(|b| b.name == more && b.creation_date.ends_with('Z')));
    client.remove_bucket(&more).await.unwrap();
    let gone = client.remove_bucket(&more).await.unwrap_err();
    assert_eq!(gone.s3_code(), Some("NoSuchBucket"));

    for name in ["a", "dir/b", "dir/c", "z"] {
        put(&client, bucket, name, name.as_bytes()).await;
    }
    let page = client
        .list_objects(bucket, "", Some("/"), None)
        .await
        .unwrap();
    let names: Vec<_> = page
        .items
        .iter()
        .map(|i| (i.name.as_str(), i.is_prefix))
        .collect();
    assert_eq!(names, [("a", false), ("dir/", true), ("z", false)]);
    let page = client
        .list_objects(bucket, "dir/", None, None)
        .await
        .unwrap();
    let rows: Vec<_> = page
        .items
        .iter()
        .map(|i| (i.name.as_str(), i.size))
        .collect();
    assert_eq!(
        (rows, page.next_token),
        (vec![("dir/b", 5), ("dir/c", 5)], None)
    );
    client.remove_object(bucket, "a").await.unwrap();
    client.remove_object(bucket, "a").await.unwrap();
    assert!(client.stat_object(bucket, "a").await.is_err());
}

/// The server has no RDMA: the same calls go by HTTP and say so, or fail where RDMA is required.
async fn fallback(bucket: &str) {
    let client = client();
    let mut memory = b"hello".to_vec();
    let stored = client
        .rdma_put_object(bucket, "k", raw(&mut memory))
        .await
        .unwrap();
    assert_eq!(stored.transport, Transport::Http);
    assert_eq!(stored.reason.unwrap().to_string(), "declined");
    assert!(!stored.reason_text.is_empty());
    let mut back = vec![b'#'; 10];
    let got = client
        .rdma_get_object(bucket, "k", raw(&mut back))
        .await
        .unwrap();
    assert_eq!(
        (got.transport, &back[..]),
        (Transport::Http, &b"hello#####"[..])
    );
    let failed = client
        .with_options(required())
        .rdma_get_object(bucket, "k", raw(&mut back))
        .await;
    assert_eq!(failed, Err(RdmaError::Declined));
    let off = TransferOptions {
        disable_rdma: true,
        ..TransferOptions::default()
    };
    let got = client
        .with_options(off)
        .rdma_get_object(bucket, "k", raw(&mut back))
        .await
        .unwrap();
    assert_eq!(
        (got.reason.unwrap().to_string().as_str(), got.requests),
        ("off", 1)
    );
}

/// Futures can be sent to other threads.
fn is_send<T: Send>(future: T) -> T {
    future
}

fn run(case: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(case);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let bucket = args[2].as_str();
    match args[1].as_str() {
        "memory" => run(is_send(memory(bucket))),
        "owned" => run(is_send(owned(bucket))),
        "multipart" => run(is_send(multipart(bucket))),
        "aborting" => run(is_send(aborting(bucket))),
        "many" => run(is_send(many(bucket))),
        "dropping" => run(is_send(dropping(bucket))),
        "interrupted" => run(is_send(interrupted(bucket, &args[3]))),
        "fleeting" => fleeting(bucket),
        "exiting" => exiting(bucket),
        "runtimes" => runtimes(bucket),
        "errors" => run(is_send(errors(bucket))),
        "providers" => run(is_send(providers(bucket))),
        "buckets" => run(is_send(buckets(bucket))),
        "fallback" => run(is_send(fallback(bucket))),
        other => panic!("no case {other}"),
    }
    fn _a_buffer_is_send(b: AlignedBuffer) -> AlignedBuffer {
        is_send(b)
    }
}
