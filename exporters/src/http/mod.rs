// SPDX-License-Identifier: MIT OR Apache-2.0
//! The web server of the daemon: a thread of its own with the only async runtime of the program. It answers GET on a few paths, reads
//! no bodies, and a client that sends garbage, stalls or never reads costs nothing but its own connection.

mod answer;
mod clients;
mod web_config;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::Request;
use hyper::header::AUTHORIZATION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

use clients::{Clients, Place};
use web_config::Rules;
pub use web_config::{Access, WebConfigError};

/// Clients at a time; one more takes the place of the one that has been quiet for longest.
const MOST_CLIENTS: usize = 64;
/// Snapshots as JSON that are written or on their way at a time.
const MOST_LARGE: usize = 2;
/// A client that has not told what it wants by then is let go.
const PATIENCE: Duration = Duration::from_secs(10);
/// A connection is let go after so long, when what it is asking for is answered.
const LONGEST: Duration = Duration::from_mins(2);
/// Largest head of a request.
const LARGEST_HEAD: usize = 16 << 10;
/// After a failure to accept, most likely for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// What is served. Called on the server's thread: must not wait for anything.
pub trait Pages: Send + Sync + 'static {
    /// The text of `/metrics`. The error is shown to who asks.
    fn metrics(&self) -> Result<String, String>;
    /// The latest snapshot as one line of JSON, for `/api/v1/flows`: the only page that may take its time, on a thread of its own. The
    /// error is shown to who asks.
    fn flows(&self) -> Result<String, String>;
    /// Whether what `/metrics` says is current; if not, why.
    fn readiness(&self) -> Result<(), String>;
    /// The web-config file, or a certificate that it names, has changed. After an error, what was in force stays.
    fn access_changed(&self, outcome: Result<(), WebConfigError>);
}

/// The server. Dropping it ends it.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves on a socket that listens already. `refused` counts the clients that are let go because there are too many.
    pub fn start(
        listener: TcpListener,
        access: Access,
        pages: Arc<dyn Pages>,
        refused: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(1 + MOST_LARGE)
            .thread_name("mpwatch-http-aside")
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let thread = std::thread::Builder::new().name("mpwatch-http".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::spawn(accept(listener, Arc::new(Site::new(access, pages)), refused));
                // Ends with the server that holds the other end; and the runtime, with all that runs in it, after it.
                let _ = stopped.await;
            });
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It can only have failed by a panic, which has been printed.
            let _ = thread.join();
        }
    }
}

/// What is served, and to whom.
struct Site {
    access: Access,
    pages: Arc<dyn Pages>,
    /// Room for the answers that are large.
    large: Arc<Semaphore>,
}

impl Site {
    fn new(access: Access, pages: Arc<dyn Pages>) -> Self {
        Self { access, pages, large: Arc::new(Semaphore::new(MOST_LARGE)) }
    }

    fn rules(&self) -> Arc<Rules> {
        let (rules, changed) = self.access.current();
        if let Some(outcome) = changed {
            self.pages.access_changed(outcome);
        }
        rules
    }
}

async fn accept(listener: tokio::net::TcpListener, site: Arc<Site>, refused: Arc<AtomicU64>) {
    let clients = Clients::new(MOST_CLIENTS);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (place, evicted) = clients.enter();
        refused.fetch_add(u64::from(evicted), Ordering::Relaxed);
        let task = tokio::spawn(welcome(stream, Arc::clone(&site), Arc::clone(&place)));
        place.served_by(task.abort_handle());
    }
}

async fn welcome(stream: TcpStream, site: Arc<Site>, place: Arc<Place>) {
    let rules = site.rules();
    match &rules.tls {
        None => serve(stream, site, place).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
                serve(stream, site, place).await;
            }
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, site: Arc<Site>, place: Arc<Place>) {
    let answer = service_fn(move |request| {
        place.heard();
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.answer(&request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    if within(LONGEST, connection.as_mut()).await.is_none() {
        connection.as_mut().graceful_shutdown();
        within(PATIENCE, connection).await;
    }
}

impl Site {
    async fn answer<B>(&self, request: &Request<B>) -> answer::Answer {
        let rules = self.rules();
        if let Some(users) = &rules.users {
            let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            if !users.allow(header).await {
                return answer::unauthorized();
            }
        }
        if request.uri().path() == answer::FLOWS && answer::is_reading(request) {
            return self.flows().await;
        }
        answer::answer(request, &*self.pages)
    }

    /// The snapshot of many flows takes time to write, and memory until who asked for it has read it.
    async fn flows(&self) -> answer::Answer {
        let Ok(room) = Arc::clone(&self.large).try_acquire_owned() else { return answer::busy() };
        let pages = Arc::clone(&self.pages);
        match tokio::task::spawn_blocking(move || pages.flows()).await {
            Ok(outcome) => answer::flows(outcome, room),
            // It ended by a panic, which has been printed.
            Err(_) => answer::busy(),
        }
    }
}

/// `None`: it took longer. What a client does wrong is its own affair, so the outcome says only that it is over.
async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<()> {
    tokio::time::timeout(limit, work).await.ok().map(|_| ())
}

#[cfg(test)]
mod tests;
