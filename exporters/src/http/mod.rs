// SPDX-License-Identifier: MIT OR Apache-2.0
//! The web server of the daemon: a thread of its own with the only async runtime of the program. It answers GET on four paths, reads
//! no bodies, and a client that sends garbage, stalls or never reads costs nothing but its own connection.

mod answer;

use std::convert::Infallible;
use std::future::Future;
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
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// Clients at a time; one more is told to come back by a closed connection.
const MOST_CLIENTS: usize = 64;
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
    /// Whether what `/metrics` says is current; if not, why.
    fn readiness(&self) -> Result<(), String>;
}

/// The server. Dropping it ends it.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves on a socket that listens already. `refused` counts the clients that are turned away because there are too many.
    pub fn start(listener: TcpListener, pages: Arc<dyn Pages>, refused: Arc<AtomicU64>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let thread = std::thread::Builder::new().name("mpwatch-http".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::spawn(accept(listener, pages, refused));
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

async fn accept(listener: tokio::net::TcpListener, pages: Arc<dyn Pages>, refused: Arc<AtomicU64>) {
    let room = Arc::new(Semaphore::new(MOST_CLIENTS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            refused.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let pages = Arc::clone(&pages);
        tokio::spawn(async move {
            serve(stream, pages).await;
            drop(place);
        });
    }
}

async fn serve(stream: TcpStream, pages: Arc<dyn Pages>) {
    let answer = service_fn(move |request| {
        let answer = answer::answer(&request, &*pages);
        async move { Ok::<_, Infallible>(answer) }
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

/// `None`: it took longer. What a client does wrong is its own affair, so the outcome says only that it is over.
async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<()> {
    tokio::time::timeout(limit, work).await.ok().map(|_| ())
}

#[cfg(test)]
mod tests;
