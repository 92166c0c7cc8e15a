//! The models that provider APIs list, and when each list may be requested again. Used by the provider registry.

use patchbay_core::Digest;
use rusqlite::{Connection, OptionalExtension, named_params, params};

use crate::{Store, StoreError, database::rows};

/// Maximum number of models that one listing may report, and that are kept for one provider. Up to the same number of models that
/// are no longer listed are kept as well. All of them are in memory.
pub const MAX_CATALOGUE_MODELS: usize = 5_000;

/// How long a claim keeps other processes from requesting the same list, in seconds.
const CLAIM_S: i64 = 3_600;

/// The models that a provider lists or has listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCatalogue {
    /// The name of the provider.
    pub provider: String,
    /// The base URL that the list was requested from.
    pub base_url: String,
    /// When the last listing succeeded, in seconds since 1970.
    pub listed_at: Option<i64>,
    /// Why the last listing failed.
    pub problem: Option<String>,
    /// The adapter that received the complete list from this base URL; `None` if the list may be incomplete.
    pub complete_for: Option<Digest>,
    /// Number of models that the last listing left out because of an invalid id or invalid facts.
    pub left_out: u64,
    /// Ids of the listed models with their facts as JSON, sorted by id.
    pub models: Vec<(String, String)>,
    /// Ids and last known facts of the models that it no longer lists, sorted by id.
    pub gone: Vec<(String, String)>,
    /// Ids listed only at an earlier base URL. Their facts are not kept, because a model of another server may differ.
    pub elsewhere: Vec<String>,
}

/// How new models are combined with earlier listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListingCoverage {
    /// Models that are missing from the list are removed. An empty list changes nothing, because an error is
    /// more likely than a provider without models.
    Complete,
    /// Earlier models stay listed, up to [`MAX_CATALOGUE_MODELS`]; the models that were reported longest ago are
    /// removed first. The list then no longer counts as complete, unless the listing failed.
    Partial,
    /// The API reported no changes, so the earlier models are still right.
    Unchanged,
}

/// The result of a listing, to be stored.
#[derive(Clone, Debug)]
pub struct NewListing {
    /// The adapter that reported it.
    pub adapter: Digest,
    /// Pairs of the ids and the facts of models.
    pub models: Vec<(String, String)>,
    /// Number of models that were left out because of an invalid id or invalid facts.
    pub left_out: usize,
    /// How the models are combined with earlier listings.
    pub coverage: ListingCoverage,
    /// The HTTP validator, such as an ETag, for the next listing.
    pub validator: Option<String>,
    /// Why the listing failed, if it did.
    pub problem: Option<String>,
    /// Seconds until the background refresh may request the list again.
    pub again_in_s: i64,
}

/// The changes that a listing has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListingChange {
    /// Number of models after the listing.
    pub models: u64,
    /// Number of models that were not listed before.
    pub new: u64,
    /// Number of models that are no longer listed.
    pub gone: u64,
}

impl Store {
    /// Returns a number that grows with each change of the listed models.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn catalogue_generation(&self) -> Result<i64, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT coalesce(sum(generation), 0) FROM catalogues")?;
            Ok(query.query_row([], |row| row.get(0))?)
        })
    }

    /// Returns the models that all providers list or have listed, with the generation that they belong to.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn catalogues(&self) -> Result<(i64, Vec<StoredCatalogue>), StoreError> {
        self.database.read(|connection| {
            // Read in one transaction: generation and models must belong together.
            let read = connection.unchecked_transaction()?;
            let generation =
                read.query_row("SELECT coalesce(sum(generation), 0) FROM catalogues", [], |row| row.get(0))?;
            let mut query = read.prepare_cached(
                "SELECT provider, base_url, listed_at, problem, complete_for, left_out FROM catalogues ORDER BY provider",
            )?;
            let found = query.query_map([], |row| {
                Ok(StoredCatalogue {
                    provider: row.get(0)?,
                    base_url: row.get(1)?,
                    listed_at: row.get(2)?,
                    problem: row.get(3)?,
                    complete_for: row.get::<_, Option<String>>(4)?.and_then(|digest| digest.parse().ok()),
                    left_out: row.get::<_, i64>(5)?.unsigned_abs(),
                    models: Vec::new(),
                    gone: Vec::new(),
                    elsewhere: Vec::new(),
                })
            })?;
            let mut catalogues = found.collect::<Result<Vec<_>, _>>()?;
            let mut query =
                read.prepare_cached("SELECT id, facts, state FROM catalogue_models WHERE provider = ? ORDER BY id")?;
            for catalogue in &mut catalogues {
                let mut rows = query.query(params![catalogue.provider])?;
                while let Some(row) = rows.next()? {
                    let id = row.get(0)?;
                    match row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)? {
                        "listed" => catalogue.models.push((id, row.get(1)?)),
                        "gone" => catalogue.gone.push((id, row.get(1)?)),
                        _ => catalogue.elsewhere.push(id),
                    }
                }
            }
            Ok((generation, catalogues))
        })
    }

    /// Notes that this home uses a provider at this base URL. Its models are then refreshed in the background.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn note_used_catalogue(&self, provider: String, base_url: String) -> Result<(), StoreError> {
        self.database
            .write(move |connection| {
                set_base_url(connection, &provider, &base_url)?;
                connection.execute("UPDATE catalogues SET used = 1 WHERE provider = ?", params![provider])?;
                Ok(())
            })
            .await
    }

    /// Returns the used providers that the background refresh may query now, with their base URLs.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn due_catalogues(&self) -> Result<Vec<(String, String)>, StoreError> {
        let now = self.source.unix_s();
        self.database.read(|connection| {
            let sql = "SELECT provider, base_url FROM catalogues WHERE used AND next_at <= ? ORDER BY provider";
            rows(connection, sql, params![now], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    /// Claims the right to request a provider's list for an hour. Returns `None` if the list is not due, or if another process has
    /// claimed it; `at_once` overrides both. Otherwise returns the validator of the last complete list, if this `adapter` got it.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn claim_listing(
        &self,
        provider: String,
        base_url: String,
        adapter: Digest,
        at_once: bool,
    ) -> Result<Option<Option<String>>, StoreError> {
        let now = self.source.unix_s();
        self.database
            .write(move |connection| {
                set_base_url(connection, &provider, &base_url)?;
                let claim = "UPDATE catalogues SET next_at = ?1 + ?2 WHERE provider = ?3 AND (next_at <= ?1 OR ?4) \
                             RETURNING iif(complete_for = ?5, validator, NULL)";
                let claim_of = params![now, CLAIM_S, provider, at_once, adapter.to_string()];
                let claimed = connection.query_row(claim, claim_of, |row| row.get(0));
                Ok(claimed.optional()?)
            })
            .await
    }

    /// Stores the result of a claimed listing. Returns `None`, and stores nothing, if the provider has been
    /// removed since or has another base URL.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn keep_listing(
        &self,
        provider: String,
        base_url: String,
        listing: NewListing,
    ) -> Result<Option<ListingChange>, StoreError> {
        let now = self.source.unix_s();
        self.database
            .write(move |connection| {
                if stored_base_url(connection, &provider)?.as_deref() != Some(&*base_url) {
                    return Ok(None);
                }
                let NewListing { adapter, models, left_out, coverage, validator, problem, again_in_s } = listing;
                let is_complete = coverage == ListingCoverage::Complete && !models.is_empty();
                let is_part = coverage == ListingCoverage::Partial && problem.is_none();
                let before = count_listed(connection, &provider)?;
                let listed = models.len() as u64;
                let mut insert = connection.prepare_cached(
                    "INSERT INTO catalogue_models (provider, id, facts, generation) \
                     SELECT ?1, ?2, ?3, generation + 1 FROM catalogues WHERE provider = ?1 \
                     ON CONFLICT (provider, id) DO UPDATE \
                     SET facts = excluded.facts, generation = excluded.generation, state = 'listed'",
                )?;
                let mut known = connection.prepare_cached(
                    "SELECT 1 FROM catalogue_models WHERE provider = ? AND id = ? AND state = 'listed'",
                )?;
                let mut new = 0;
                let mut kept = 0;
                for (id, _) in &models {
                    match known.exists(params![provider, id])? {
                        true => kept += 1,
                        false => new += 1,
                    }
                }
                if is_complete {
                    connection.execute(
                        "UPDATE catalogue_models SET state = 'gone' WHERE provider = ? AND state = 'listed'",
                        params![provider],
                    )?;
                }
                for (id, facts) in models {
                    insert.execute(params![provider, id, facts])?;
                }
                let removed = remove_excess(connection, &provider)?;
                let has_counted = problem.is_none() && coverage != ListingCoverage::Unchanged;
                connection.execute(
                    "UPDATE catalogues SET next_at = :next_at, listed_at = iif(:problem IS NULL, :now, listed_at), \
                     problem = :problem, validator = iif(:is_complete, :validator, validator), \
                     complete_for = iif(:is_complete, :adapter, iif(:is_part, NULL, complete_for)), \
                     left_out = coalesce(:left_out, left_out), \
                     generation = generation + (:has_changed OR problem IS NOT :problem) WHERE provider = :provider",
                    named_params! {
                        ":next_at": now.saturating_add(again_in_s),
                        ":now": now,
                        ":problem": problem,
                        ":is_complete": is_complete,
                        ":is_part": is_part,
                        ":validator": validator,
                        ":adapter": adapter.to_string(),
                        ":left_out": has_counted.then_some(left_out as i64),
                        ":has_changed": listed > 0 || removed > 0 || has_counted,
                        ":provider": provider,
                    },
                )?;
                let gone = if is_complete { before.saturating_sub(kept) } else { removed as u64 };
                Ok::<_, StoreError>(Some(ListingChange { models: count_listed(connection, &provider)?, new, gone }))
            })
            .await
    }
}

/// Returns the number of models that a provider lists.
fn count_listed(connection: &Connection, provider: &str) -> Result<u64, StoreError> {
    let mut query =
        connection.prepare_cached("SELECT count(*) FROM catalogue_models WHERE provider = ? AND state = 'listed'")?;
    Ok(query.query_row(params![provider], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

/// Removes the models over the limit, the oldest first, because a server that lists new models each time must not fill
/// the disk. Returns the number of removed models.
fn remove_excess(connection: &Connection, provider: &str) -> Result<usize, StoreError> {
    let removed = connection.execute(
        "UPDATE catalogue_models SET state = 'gone' WHERE provider = ?1 AND id IN (\
         SELECT id FROM catalogue_models WHERE provider = ?1 AND state = 'listed' \
         ORDER BY generation DESC, id LIMIT -1 OFFSET ?2)",
        params![provider, MAX_CATALOGUE_MODELS as i64],
    )?;
    connection.execute(
        "DELETE FROM catalogue_models WHERE provider = ?1 AND id IN (\
         SELECT id FROM catalogue_models WHERE provider = ?1 AND state <> 'listed' \
         ORDER BY generation DESC, id LIMIT -1 OFFSET ?2)",
        params![provider, MAX_CATALOGUE_MODELS as i64],
    )?;
    Ok(removed)
}

/// Creates or updates the row of a provider. If the base URL is new, no models are listed, and only their ids are kept.
fn set_base_url(connection: &Connection, provider: &str, base_url: &str) -> Result<(), StoreError> {
    if stored_base_url(connection, provider)?.as_deref() == Some(base_url) {
        return Ok(());
    }
    connection.execute(
        "UPDATE catalogue_models SET state = 'elsewhere', facts = '{}' WHERE provider = ?",
        params![provider],
    )?;
    connection.execute(
        "INSERT INTO catalogues (provider, base_url) VALUES (?1, ?2) ON CONFLICT (provider) DO UPDATE SET base_url = ?2, \
         next_at = 0, listed_at = NULL, validator = NULL, problem = NULL, complete_for = NULL, left_out = 0, \
         generation = generation + 1",
        params![provider, base_url],
    )?;
    Ok(())
}

/// Returns the base URL of a provider's row: empty after [`forget`], `None` without a row.
fn stored_base_url(connection: &Connection, provider: &str) -> Result<Option<String>, StoreError> {
    let mut query = connection.prepare_cached("SELECT base_url FROM catalogues WHERE provider = ?")?;
    Ok(query.query_row(params![provider], |row| row.get(0)).optional()?)
}

/// Deletes the models of a provider, as if it had never been used. Returns how many there were.
pub(crate) fn forget(connection: &Connection, provider: &str) -> Result<usize, StoreError> {
    // The row stays because the sum of the generations must grow. Without a base URL, a listing in progress is not stored.
    connection.execute(
        "UPDATE catalogues SET base_url = '', used = 0, next_at = 0, listed_at = NULL, validator = NULL, problem = NULL, \
         complete_for = NULL, left_out = 0, generation = generation + 1 WHERE provider = ?",
        params![provider],
    )?;
    Ok(connection.execute("DELETE FROM catalogue_models WHERE provider = ?", params![provider])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::new_store;

    const URL: &str = "https://api.example.org";

    fn adapter() -> Digest {
        Digest::of(b"adapter")
    }

    /// Claims a listing and stores it.
    async fn keep_of(store: &Store, provider: &str, url: &str, listing: NewListing) -> ListingChange {
        let (provider, url) = (provider.to_owned(), url.to_owned());
        assert!(store.claim_listing(provider.clone(), url.clone(), adapter(), true).await.unwrap().is_some());
        store.keep_listing(provider, url, listing).await.unwrap().unwrap()
    }

    fn listing(ids: &[&str], coverage: ListingCoverage) -> NewListing {
        NewListing {
            adapter: adapter(),
            models: ids.iter().map(|id| ((*id).to_owned(), format!("{{\"of\":\"{id}\"}}"))).collect(),
            left_out: 0,
            coverage,
            validator: Some("etag".to_owned()),
            problem: None,
            again_in_s: 86_400,
        }
    }

    /// Returns the catalogue of the first provider.
    async fn first(store: &Store) -> StoredCatalogue {
        store.catalogues().await.unwrap().1.swap_remove(0)
    }

    fn ids(models: &[(String, String)]) -> Vec<&str> {
        models.iter().map(|(id, _)| id.as_str()).collect()
    }

    #[tokio::test]
    async fn listings_are_combined() {
        let (_home, store) = new_store();
        let keep = async |ids: &[&str], coverage| keep_of(&store, "a", URL, listing(ids, coverage)).await;
        let change = |models, new, gone| ListingChange { models, new, gone };
        assert_eq!(keep(&["x", "y"], ListingCoverage::Complete).await, change(2, 2, 0));
        let once = store.catalogue_generation().await.unwrap();
        assert_eq!(keep(&["y", "z"], ListingCoverage::Partial).await, change(3, 1, 0));
        assert_eq!(ids(&first(&store).await.models), ["x", "y", "z"]);
        let twice = store.catalogue_generation().await.unwrap();
        assert!(twice > once);
        assert_eq!(keep(&[], ListingCoverage::Unchanged).await, change(3, 0, 0));
        assert_eq!(store.catalogue_generation().await.unwrap(), twice);
        assert_eq!(keep(&["z"], ListingCoverage::Complete).await, change(1, 0, 2));
        let failed = NewListing { problem: Some("401".to_owned()), ..listing(&[], ListingCoverage::Partial) };
        let before = store.catalogue_generation().await.unwrap();
        keep_of(&store, "a", URL, failed).await;
        let kept = first(&store).await;
        assert_eq!((kept.problem.as_deref(), ids(&kept.models)), (Some("401"), vec!["z"]));
        assert!(kept.listed_at.is_some() && store.catalogue_generation().await.unwrap() > before);
    }

    #[tokio::test]
    async fn models_that_are_gone_stay_with_their_facts() {
        let (_home, store) = new_store();
        let keep = async |url: &str, ids: &[&str], coverage| keep_of(&store, "a", url, listing(ids, coverage)).await;
        keep(URL, &["x", "y"], ListingCoverage::Partial).await;
        assert_eq!(first(&store).await.complete_for, None);
        keep(URL, &["y", "z"], ListingCoverage::Complete).await;
        let kept = first(&store).await;
        assert_eq!(
            (kept.complete_for, kept.gone),
            (Some(adapter()), vec![("x".to_owned(), "{\"of\":\"x\"}".to_owned())])
        );
        // A model that is listed again counts as new.
        let change = keep(URL, &["x"], ListingCoverage::Partial).await;
        assert_eq!(change, ListingChange { models: 3, new: 1, gone: 0 });
        assert!(first(&store).await.gone.is_empty());
        // Another server may have different models, so only the ids stay.
        let generation = store.catalogue_generation().await.unwrap();
        let other = "https://other.example.org";
        store.note_used_catalogue("a".to_owned(), other.to_owned()).await.unwrap();
        let kept = first(&store).await;
        assert_eq!((kept.complete_for, kept.listed_at, kept.models.len() + kept.gone.len()), (None, None, 0));
        assert_eq!(kept.elsewhere, ["x", "y", "z"]);
        assert!(store.catalogue_generation().await.unwrap() > generation);
        keep(other, &["y"], ListingCoverage::Complete).await;
        let kept = first(&store).await;
        assert_eq!((ids(&kept.models), kept.gone.len(), kept.elsewhere), (vec!["y"], 0, vec!["x".into(), "z".into()]));
        // The operator removes the provider.
        let generation = store.catalogue_generation().await.unwrap();
        assert!(store.forget_provider("a".to_owned()).await.unwrap());
        let kept = first(&store).await;
        assert_eq!((kept.complete_for, kept.models.len() + kept.elsewhere.len()), (None, 0));
        assert!(store.catalogue_generation().await.unwrap() > generation);
        assert!(!store.forget_provider("a".to_owned()).await.unwrap());
    }

    #[tokio::test]
    async fn empty_complete_list_removes_nothing() {
        let (_home, store) = new_store();
        keep_of(&store, "a", URL, listing(&["x"], ListingCoverage::Complete)).await;
        let empty = NewListing { validator: Some("empty".to_owned()), ..listing(&[], ListingCoverage::Complete) };
        let change = keep_of(&store, "a", URL, empty.clone()).await;
        assert_eq!(change, ListingChange { models: 1, new: 0, gone: 0 });
        let kept = first(&store).await;
        assert_eq!((ids(&kept.models), kept.gone.len(), kept.complete_for), (vec!["x"], 0, Some(adapter())));
        // With the validator of the empty list, the server would not send the next list.
        let claim = store.claim_listing("a".to_owned(), URL.to_owned(), adapter(), true);
        assert_eq!(claim.await.unwrap(), Some(Some("etag".to_owned())));
        // An empty list is not complete.
        keep_of(&store, "b", URL, empty).await;
        assert_eq!(store.catalogues().await.unwrap().1[1].complete_for, None);
    }

    #[tokio::test]
    async fn list_is_complete_for_one_adapter_until_a_part() {
        let (_home, store) = new_store();
        let newer = Digest::of(b"newer");
        let validator =
            async |adapter| store.claim_listing("a".to_owned(), URL.to_owned(), adapter, true).await.unwrap().unwrap();
        keep_of(&store, "a", URL, listing(&["x"], ListingCoverage::Complete)).await;
        assert_eq!((validator(newer).await, validator(adapter()).await), (None, Some("etag".to_owned())));
        // A failure keeps the complete list.
        let failed = NewListing { problem: Some("503".to_owned()), ..listing(&["y"], ListingCoverage::Partial) };
        keep_of(&store, "a", URL, failed).await;
        assert_eq!(first(&store).await.complete_for, Some(adapter()));
        let later = NewListing { adapter: newer, ..listing(&["x"], ListingCoverage::Complete) };
        keep_of(&store, "a", URL, later).await;
        assert_eq!(first(&store).await.complete_for, Some(newer));
        keep_of(&store, "a", URL, listing(&["z"], ListingCoverage::Partial)).await;
        assert_eq!((first(&store).await.complete_for, validator(newer).await), (None, None));
    }

    #[tokio::test]
    async fn listing_that_ends_after_a_removal_is_dropped() {
        let (_home, store) = new_store();
        let claim = async |url: &str| {
            assert!(store.claim_listing("a".to_owned(), url.to_owned(), adapter(), true).await.unwrap().is_some());
        };
        let keep = async |url: &str| {
            let listing = listing(&["x"], ListingCoverage::Complete);
            store.keep_listing("a".to_owned(), url.to_owned(), listing).await.unwrap()
        };
        claim(URL).await;
        store.forget_provider("a".to_owned()).await.unwrap();
        assert_eq!(keep(URL).await, None);
        assert!(first(&store).await.models.is_empty());
        // A listing for an earlier base URL is dropped, too.
        claim(URL).await;
        claim("https://other.example.org").await;
        assert_eq!(keep(URL).await, None);
        assert!(keep("https://other.example.org").await.is_some());
        assert_eq!(ids(&first(&store).await.models), ["x"]);
    }

    #[tokio::test]
    async fn invalid_models_of_the_last_listing_are_counted() {
        let (_home, store) = new_store();
        let keep = async |left_out, coverage, problem: Option<&str>| {
            let listing = NewListing { left_out, problem: problem.map(str::to_owned), ..listing(&[], coverage) };
            keep_of(&store, "a", URL, listing).await;
            first(&store).await.left_out
        };
        assert_eq!(keep(3, ListingCoverage::Complete, None).await, 3);
        // No list was received: the count belongs to the list that stays.
        assert_eq!(keep(0, ListingCoverage::Unchanged, None).await, 3);
        assert_eq!(keep(1, ListingCoverage::Partial, Some("401")).await, 3);
        assert_eq!(keep(0, ListingCoverage::Partial, None).await, 0);
    }

    #[tokio::test]
    async fn models_listed_longest_ago_make_room() {
        let (_home, store) = new_store();
        let keep = async |ids: &[&str], coverage| keep_of(&store, "a", URL, listing(ids, coverage)).await;
        let part = ListingCoverage::Partial;
        let many: Vec<_> = (1..MAX_CATALOGUE_MODELS).map(|n| format!("m{n:04}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let (most, all) = (MAX_CATALOGUE_MODELS as u64, many.len() as u64);
        assert_eq!(keep(&many, part).await, ListingChange { models: all, new: all, gone: 0 });
        assert_eq!(keep(&["m4999", "new-1"], part).await, ListingChange { models: most, new: 1, gone: 0 });
        assert_eq!(keep(&["new-2", "new-3"], part).await, ListingChange { models: most, new: 2, gone: 2 });
        let kept = first(&store).await;
        let listed = ids(&kept.models);
        assert_eq!(listed[..2], ["m0001", "m0002"]);
        assert_eq!(listed[listed.len() - 5..], ["m4996", "m4999", "new-1", "new-2", "new-3"]);
        assert_eq!(ids(&kept.gone), ["m4997", "m4998"]);
        // The same number of removed models is kept.
        keep(&["new-4"], ListingCoverage::Complete).await;
        let kept = first(&store).await;
        let gone = ids(&kept.gone);
        assert_eq!((ids(&kept.models), gone.len()), (vec!["new-4"], MAX_CATALOGUE_MODELS));
        assert_eq!(gone[gone.len() - 4..], ["m4999", "new-1", "new-2", "new-3"]);
        assert_eq!(gone[..2], ["m0001", "m0002"]);
        // Other providers are not touched.
        let other = listing(&["x"], part);
        let change = keep_of(&store, "b", URL, other).await;
        assert_eq!(change, ListingChange { models: 1, new: 1, gone: 0 });
    }

    #[tokio::test]
    async fn listing_is_due_when_its_time_has_come() {
        let (_home, store) = new_store();
        store.note_used_catalogue("a".to_owned(), URL.to_owned()).await.unwrap();
        let failed = Some("503".to_owned());
        for (again_in_s, problem, is_due) in [(3_600, None, false), (0, failed.clone(), true), (3_600, failed, false)] {
            let listing = NewListing { again_in_s, problem, ..listing(&[], ListingCoverage::Partial) };
            keep_of(&store, "a", URL, listing).await;
            assert_eq!(!store.due_catalogues().await.unwrap().is_empty(), is_due, "{again_in_s}");
        }
        // No list was ever requested from the other server.
        store.note_used_catalogue("a".to_owned(), "https://other.example.org".to_owned()).await.unwrap();
        assert_eq!(store.due_catalogues().await.unwrap().len(), 1);
        // A provider that is not used is never due.
        let other = NewListing { again_in_s: 0, ..listing(&[], ListingCoverage::Partial) };
        keep_of(&store, "b", URL, other).await;
        assert_eq!(store.due_catalogues().await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn one_process_asks_when_a_listing_is_due() {
        let home = tempfile::tempdir().unwrap();
        let (one, other) = (Store::open(home.path()).unwrap(), Store::open(home.path()).unwrap());
        assert!(one.due_catalogues().await.unwrap().is_empty());
        one.note_used_catalogue("a".to_owned(), URL.to_owned()).await.unwrap();
        let due = vec![("a".to_owned(), URL.to_owned())];
        assert_eq!((one.due_catalogues().await.unwrap(), other.due_catalogues().await.unwrap()), (due.clone(), due));
        let claim = |store: &Store, at_once| {
            let store = store.clone();
            async move { store.claim_listing("a".to_owned(), URL.to_owned(), adapter(), at_once).await.unwrap() }
        };
        assert_eq!(claim(&one, false).await, Some(None));
        assert_eq!(claim(&other, false).await, None);
        assert!(other.due_catalogues().await.unwrap().is_empty());
        // The operator can request the list at any time.
        assert_eq!(claim(&other, true).await, Some(None));
        keep_of(&one, "a", URL, listing(&["x"], ListingCoverage::Complete)).await;
        assert_eq!(claim(&one, false).await, None);
        assert_eq!(claim(&one, true).await, Some(Some("etag".to_owned())));
    }
}
