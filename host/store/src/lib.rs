//! The data that outlives the process: sessions, messages, snapshots, components, grants, trust, blocks and the
//! journal; and, in a separate file, the key-value store of plugins. Used by `session`, `agent`, `tools` and
//! `provider`. No other crate uses SQLite.
//!
//! Each database has one writer thread, which commits queued writes in batches. A write is committed when its future
//! resolves; from then on it survives a crash of the process. Rows of the journal do not cause an immediate
//! commit: they are committed with the next write, or a few milliseconds later. Reads use their own connections. Most
//! functions are async, which would let a networked store replace SQLite.
//!
//! Writes to a session need a [`Hold`]. A new hold ends the previous hold, even if another process has it; later writes with
//! the old hold are rejected.
//!
//! - [`Store`] is `patchbay.db` and the folders of components, attachments and skill files.
//! - [`KvStore`] is `kv.db`.

mod agents;
mod allowances;
mod artefacts;
mod attachments;
mod authority;
mod backup;
mod blocks;
mod calls;
mod catalogues;
mod change;
mod client_tokens;
mod components;
mod content;
mod conversations;
mod counts;
mod database;
mod error;
mod exchanges;
mod file_changes;
mod generation;
mod health;
mod hold;
mod journal;
mod journal_lookup;
mod kv;
mod mail;
mod messages;
mod package_changes;
mod partials;
mod queue;
mod queued_lines;
mod recorded;
mod recordings;
mod reservations;
mod rules;
mod seen;
mod sent_lines;
mod server_allowances;
mod sessions;
mod skill_files;
mod snapshots;
mod source;
mod spending;
mod texts;
mod turns;
mod upgrade_copy;
mod upgrades;
mod usage;
mod windows;
mod work;

use std::{path::Path, sync::Arc};

pub use agents::{AgentCounts, AgentModel, AgentRow, NewAgent};
pub use allowances::{Allowance, Conflict};
pub use attachments::RetainedAttachments;
pub use authority::GrantRow;
pub use backup::BackedUp;
pub use blocks::BlockedComponent;
pub use calls::{JournaledCall, OpenCall, UnsettledCall};
pub use catalogues::{ListingChange, ListingCoverage, MAX_CATALOGUE_MODELS, NewListing, StoredCatalogue};
pub use change::SessionChange;
pub use client_tokens::{ClientToken, TokenRights, TokenRightsError};
pub use components::RetainedComponents;
pub use conversations::Lineage;
pub use counts::ProcessCounts;
pub use error::StoreError;
pub use exchanges::{DroppedMessage, LastMessage};
pub use file_changes::{ChangeSet, FileChangeRow, NewFileChange, Undone};
pub use health::DatabaseHealth;
pub use hold::Hold;
pub use journal::{JournalEntry, JournalFilter, JournalRow, JournalSettings, RecordedApproval};
pub use kv::{KvOwner, KvScope, KvStore, KvStoreError};
pub use mail::{MailCounts, MailRow, NewMail};
pub use messages::{MessageRow, NewMessage};
pub use package_changes::{MovedGrant, PackageChange, PackageChangeRow};
pub use partials::{JoinPieces, PartialPiece};
pub use queued_lines::QueueRow;
pub use recorded::RecordedSize;
pub use recordings::{NewRecording, PendingRecording};
pub use rules::{GrantRule, Rules};
pub use seen::SeenFile;
pub use sent_lines::SentLine;
pub use server_allowances::ServerAllowance;
pub use sessions::{Collected, SessionRow, SessionSummary, UnusedSession};
pub use snapshots::NewSnapshot;
pub use source::Source;
pub use spending::{
    BudgetSettings, Ceiling, NewRequest, OverBudget, ReservedMoney, Spending, SpendingRow, SpentMoney, day_of, utc_date,
};
pub use turns::{EndedTurn, NewTurn, TurnRow};
pub use upgrades::PinnedModels;
pub use usage::ModelUsage;
pub use windows::AgentWindow;
pub use work::AgentWork;

use content::ContentFolder;
use counts::RunningCounts;
use database::Database;
use generation::Generation;
use rules::RulesCache;
use uuid::Uuid;

/// `patchbay.db` and, next to it, the folders of components, attachments and skill files. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    database: Arc<Database>,
    components: Arc<ContentFolder>,
    attachments: Arc<ContentFolder>,
    /// Locked together with `components`.
    skill_files: Arc<ContentFolder>,
    journal: JournalSettings,
    generation: Arc<Generation>,
    rules: Arc<RulesCache>,
    source: Source,
    /// Identifies this instance of the store in the holds of sessions.
    holder: Uuid,
    counts: Arc<RunningCounts>,
}

const MIGRATIONS: &[&str] = &[
    include_str!("../migrations/patchbay/1.sql"),
    include_str!("../migrations/patchbay/2.sql"),
    include_str!("../migrations/patchbay/3.sql"),
    include_str!("../migrations/patchbay/4.sql"),
    include_str!("../migrations/patchbay/5.sql"),
    include_str!("../migrations/patchbay/6.sql"),
    include_str!("../migrations/patchbay/7.sql"),
    include_str!("../migrations/patchbay/8.sql"),
    include_str!("../migrations/patchbay/9.sql"),
    include_str!("../migrations/patchbay/10.sql"),
    include_str!("../migrations/patchbay/11.sql"),
    include_str!("../migrations/patchbay/12.sql"),
    include_str!("../migrations/patchbay/13.sql"),
    include_str!("../migrations/patchbay/14.sql"),
    include_str!("../migrations/patchbay/15.sql"),
    include_str!("../migrations/patchbay/16.sql"),
    include_str!("../migrations/patchbay/17.sql"),
    include_str!("../migrations/patchbay/18.sql"),
    include_str!("../migrations/patchbay/19.sql"),
    include_str!("../migrations/patchbay/20.sql"),
    include_str!("../migrations/patchbay/21.sql"),
    include_str!("../migrations/patchbay/22.sql"),
    include_str!("../migrations/patchbay/23.sql"),
    include_str!("../migrations/patchbay/24.sql"),
    include_str!("../migrations/patchbay/25.sql"),
    include_str!("../migrations/patchbay/26.sql"),
    include_str!("../migrations/patchbay/27.sql"),
    include_str!("../migrations/patchbay/28.sql"),
    include_str!("../migrations/patchbay/29.sql"),
    include_str!("../migrations/patchbay/30.sql"),
    include_str!("../migrations/patchbay/31.sql"),
    include_str!("../migrations/patchbay/32.sql"),
    include_str!("../migrations/patchbay/33.sql"),
    include_str!("../migrations/patchbay/34.sql"),
];

impl Store {
    /// Opens the store in the folder `data`, or creates it.
    ///
    /// # Errors
    /// [`StoreError`], if the folder or the database cannot be used, or if a newer Patchbay wrote the database.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        Self::open_with(data, Source::default())
    }

    /// Like [`Store::open`], with times and ids from `source`.
    ///
    /// # Errors
    /// The same as for [`Store::open`].
    pub fn open_with(data: &Path, source: Source) -> Result<Self, StoreError> {
        let components = ContentFolder::open(&data.join("components"), ".wasm")?;
        let attachments = ContentFolder::open(&data.join("attachments"), ".bin")?;
        let skill_files = ContentFolder::open(&data.join("skill-files"), ".pack")?;
        let generation = Arc::new(Generation::open(&data.join("generation"), source.clone())?);
        let database = Database::open(&data.join("patchbay.db"), MIGRATIONS, Some(Arc::clone(&generation)))?;
        Ok(Self {
            database: Arc::new(database),
            components: Arc::new(components),
            attachments: Arc::new(attachments),
            skill_files: Arc::new(skill_files),
            journal: JournalSettings::default(),
            generation,
            rules: Arc::default(),
            holder: Uuid::from_bytes(source.uuid()),
            source,
            counts: Arc::default(),
        })
    }

    /// Returns the source of times and random ids of this store and of its host.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the counters of this process since it opened the store.
    pub fn counts(&self) -> ProcessCounts {
        self.counts.now()
    }

    /// Waits until all earlier writes are committed.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn settle(&self) -> Result<(), StoreError> {
        self.database.settle().await
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
