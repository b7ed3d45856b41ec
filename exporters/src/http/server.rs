// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server's thread: accepts connections, and limits their number, duration and idle time.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::clients::{Client, Clients};
use super::site::{MAX_CONCURRENT_SNAPSHOTS, Pages, Site};
use super::web_config::Access;

/// Maximum number of clients. An additional client replaces the client that has been idle longest.
pub(super) const MAX_CLIENTS: usize = 64;
/// Time limit of a TLS handshake, of the head of a request, and of the last response of a connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection is closed after this time, once its current request is answered.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(2);
/// Maximum size of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Delay after a failed accept, whose usual cause is a lack of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);

/// The server, which stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves on a listening socket. `evicted` counts the clients that are disconnected because there are too many.
    pub fn start(
        listener: TcpListener,
        access: Access,
        pages: Arc<dyn Pages>,
        evicted: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            // One thread per snapshot, and one that checks passwords.
            .max_blocking_threads(1 + MAX_CONCURRENT_SNAPSHOTS)
            .thread_name("mpwatch-http-work")
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let site = Arc::new(Site::new(access, pages, address.ip().is_loopback()));
        let thread = std::thread::Builder::new().name("mpwatch-http".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::spawn(accept(listener, site, evicted));
                // Returns when the server is dropped. Dropping the runtime then cancels all its tasks.
                let _ = stopped.await;
            });
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // `join` fails only after a panic, which has printed its message.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, site: Arc<Site>, evicted: Arc<AtomicU64>) {
    let clients = Clients::new(MAX_CLIENTS);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let serve = |client| tokio::spawn(handshake(stream, Arc::clone(&site), client)).abort_handle();
        evicted.fetch_add(u64::from(clients.add(serve)), Ordering::Relaxed);
    }
}

async fn handshake(stream: TcpStream, site: Arc<Site>, client: Client) {
    match &site.rules().tls {
        None => serve(stream, site, client).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(REQUEST_TIMEOUT, tls.accept(stream)).await {
                serve(stream, site, client).await;
            }
        }
    }
}

/// Serves the requests of a connection until the client closes it, its maximum age is reached, or a timeout elapses.
pub(super) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, site: Arc<Site>, client: Client) {
    let respond = service_fn(|request| {
        client.mark_active();
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.respond(&request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), respond);
    let mut connection = pin!(connection);
    // Errors of the connection are ignored, because only the client can cause them.
    if timeout(MAX_CONNECTION_AGE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(REQUEST_TIMEOUT, connection).await;
    }
}
