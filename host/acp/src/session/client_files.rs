//! Reads and writes files through the client's editor, which also has unsaved text. `task` passes this to the session if the
//! client offers it.

use std::{path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use patchbay_session::Editor;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;

use patchbay_core::Code;
use patchbay_jsonrpc::{Client, RpcError};

use crate::params::ClientCapabilities;

/// The files of one session's client.
pub(super) struct ClientFiles {
    client: Client,
    session: String,
    reads: bool,
    writes: bool,
}

#[derive(Deserialize)]
struct FileText {
    content: String,
}

impl ClientFiles {
    /// Returns the client's files; `None` if it offers neither reading nor writing.
    pub(super) fn of(client: &Client, session: String, capabilities: &ClientCapabilities) -> Option<Arc<Self>> {
        let (reads, writes) = (capabilities.reads_files(), capabilities.writes_files());
        (reads || writes).then(|| Arc::new(Self { client: client.clone(), session, reads, writes }))
    }
}

impl Editor for ClientFiles {
    fn can_read(&self) -> bool {
        self.reads
    }

    fn can_write(&self) -> bool {
        self.writes
    }

    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let params = json!({"sessionId": self.session, "path": path});
            let read = self.client.request::<FileText>("fs/read_text_file", &params).await;
            read.map(|read| read.content).map_err(failed)
        })
    }

    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let params = json!({"sessionId": self.session, "path": path, "content": text});
            // The result may be an empty object or null.
            let written = self.client.request::<Option<IgnoredAny>>("fs/write_text_file", &params).await;
            written.map(drop).map_err(failed)
        })
    }
}

fn failed(error: RpcError) -> String {
    if error.is_peer_left() { format!("{} [{}]", error.message, Code::ClientGone) } else { error.message }
}
