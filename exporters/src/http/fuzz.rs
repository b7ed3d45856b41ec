// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entry points of the fuzz targets (`tests/fuzz`). Nothing else calls them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::clients::Clients;
use super::server;
use super::site::{Pages, Site};
use super::web_config::{Access, check_text};

/// Size of the buffer between client and server, bytes.
const BUFFER: usize = 64 << 10;
/// How often the client waits for blocking tasks before it closes the connection, and how often it yields to other tasks before each wait.
const ROUNDS: usize = 4;

/// Sends bytes to the server, over a connection in memory, and closes it. Returns the answer.
pub fn exchange(request: &[u8], access: Access, pages: Arc<dyn Pages>) -> io::Result<Vec<u8>> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build()?;
    runtime.block_on(async {
        let (client, stream) = tokio::io::duplex(BUFFER);
        let site = Arc::new(Site::new(access, pages, true));
        Clients::new(1).add(|client| tokio::spawn(server::serve(stream, site, client)).abort_handle());
        let (mut input, mut output) = tokio::io::split(client);
        let request = request.to_vec();
        tokio::spawn(async move {
            // Fails if the server closes the connection before it has read everything.
            let _ = output.write_all(&request).await;
            settle().await;
            let _ = output.shutdown().await;
        });
        let mut response = Vec::new();
        input.read_to_end(&mut response).await?;
        Ok(response)
    })
}

/// Waits until the server has answered: the server drops a request if the client closes the connection first. The runtime has one thread
/// for blocking tasks, so a task started here ends after the server's tasks.
async fn settle() {
    for _ in 0..ROUNDS {
        for _ in 0..ROUNDS {
            tokio::task::yield_now().await;
        }
        let _ = tokio::task::spawn_blocking(|| ()).await;
    }
}

/// Checks the text of a web-config file, but none of the files that it names.
pub fn web_config(text: &str) -> Result<(), String> {
    check_text(Path::new("web.yml"), text)
}
