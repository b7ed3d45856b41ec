// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of a study in an SQLite file: rows for each run, its factors and its values. Written when a run ends, so that an interrupted
//! study can be resumed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use mpwatch_model::host::energy::EnergySource;
use mpwatch_store::{MAY_WRITE, StoreError, create};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::data::detail::{Detail, Series};
use crate::data::quantity::Quantity;
use crate::data::{Factor, Origin, RunRecord};

/// The application id in the header of the file: "mpws".
const APPLICATION: i32 = i32::from_be_bytes(*b"mpws");
const VERSION: i64 = 1;
const TIMEOUT: Duration = Duration::from_secs(5);

/// The tables, which are a stable interface (docs/study.md).
const SCHEMA: &str = "
CREATE TABLE study (origin TEXT NOT NULL) STRICT;
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    experiment TEXT NOT NULL,
    cell TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    seed TEXT NOT NULL,
    began TEXT NOT NULL,
    took_s REAL NOT NULL,
    energy_source TEXT NOT NULL,
    error TEXT,
    UNIQUE (experiment, cell, repetition)
) STRICT;
CREATE TABLE factor (
    run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run_id, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE value (
    run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    quantity TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (run_id, quantity)
) STRICT, WITHOUT ROWID;
CREATE TABLE detail (
    run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    series TEXT NOT NULL,
    at_s REAL,
    value REAL NOT NULL
) STRICT;
CREATE INDEX detail_run ON detail (run_id);
CREATE VIEW result AS
    SELECT run.experiment, run.cell, run.repetition, run.energy_source, value.quantity, value.value
    FROM run JOIN value ON value.run_id = run.id WHERE run.error IS NULL;
";

/// An open file of results.
#[derive(Debug)]
pub(crate) struct StudyFile {
    database: Connection,
    path: PathBuf,
}

impl StudyFile {
    /// Creates a file that only its owner can read.
    ///
    /// # Errors
    /// If the file exists, or cannot be written.
    pub(crate) fn create(path: &Path, origin: &Origin) -> Result<Self, StoreError> {
        if path.exists() {
            let advice = "resume it with --resume, or choose another folder with --out";
            return Err(StoreError::refused(path, "it exists", advice));
        }
        create(path, None).map_err(|error| StoreError::refused(path, error, MAY_WRITE))?;
        let file = Self::open(path)?;
        file.prepare(origin).map_err(|error| StoreError::open(path, &error, None))?;
        Ok(file)
    }

    /// Opens a file to read or add runs. Also returns the machine and the settings of the study.
    ///
    /// # Errors
    /// If the file does not exist, or is not the file of a study.
    pub(crate) fn resume(path: &Path) -> Result<(Self, Origin), StoreError> {
        if !path.exists() {
            return Err(StoreError::refused(
                path,
                "there is no such file",
                "start the study without --resume",
            ));
        }
        let file = Self::open(path)?;
        let origin = file.origin().map_err(|error| StoreError::open(path, &error, None))?;
        let origin = origin.ok_or_else(|| {
            StoreError::refused(path, "it is not a file of a study", "name a folder that mpwatch study wrote")
        })?;
        Ok((file, origin))
    }

    fn open(path: &Path) -> Result<Self, StoreError> {
        let open = || {
            let database = Connection::open(path)?;
            database.busy_timeout(TIMEOUT)?;
            database.pragma_update(None, "foreign_keys", true)?;
            Ok(database)
        };
        let database = open().map_err(|error| StoreError::open(path, &error, None))?;
        Ok(Self { database, path: path.to_owned() })
    }

    fn prepare(&self, origin: &Origin) -> rusqlite::Result<()> {
        self.database.pragma_update(None, "application_id", APPLICATION)?;
        self.database.pragma_update(None, "user_version", VERSION)?;
        self.database.execute_batch(SCHEMA)?;
        let origin = serde_json::to_string(origin).unwrap_or_default();
        self.database.execute("INSERT INTO study VALUES (?)", [origin])?;
        Ok(())
    }

    /// The machine and the settings of the study. `None`: this is not the file of a study.
    fn origin(&self) -> rusqlite::Result<Option<Origin>> {
        let pragma = |name| self.database.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        if pragma("application_id")? != i64::from(APPLICATION) || pragma("user_version")? != VERSION {
            return Ok(None);
        }
        let origin = self.database.query_row("SELECT origin FROM study", [], |row| row.get::<_, String>(0));
        Ok(origin.optional()?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Adds a run. Replaces an earlier run of the same cell and repetition, which has failed.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn add(&mut self, run: &RunRecord) -> Result<(), StoreError> {
        self.insert(run).map_err(|error| StoreError::open(&self.path, &error, None))
    }

    fn insert(&mut self, run: &RunRecord) -> rusqlite::Result<()> {
        let cell = crate::data::key(&run.factors);
        let transaction = self.database.transaction()?;
        let same = params![run.experiment, cell, run.repetition];
        transaction.execute("DELETE FROM run WHERE experiment = ? AND cell = ? AND repetition = ?", same)?;
        transaction.execute(
            "INSERT INTO run (experiment, cell, repetition, seed, began, took_s, energy_source, error)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                run.experiment,
                cell,
                run.repetition,
                run.seed.to_string(),
                run.began.to_string(),
                run.took_s,
                run.energy.as_str(),
                run.error
            ],
        )?;
        let id = transaction.last_insert_rowid();
        for (position, factor) in (0_i64..).zip(&run.factors) {
            let row = params![id, position, factor.name, factor.value];
            transaction.execute("INSERT INTO factor VALUES (?, ?, ?, ?)", row)?;
        }
        for (quantity, value) in &run.values {
            transaction.execute("INSERT INTO value VALUES (?, ?, ?)", params![id, quantity.name(), value])?;
        }
        for Detail { series, at_s, value } in &run.details {
            let row = params![id, series.as_str(), at_s, value];
            transaction.execute("INSERT INTO detail VALUES (?, ?, ?, ?)", row)?;
        }
        transaction.commit()
    }

    /// All runs, in the order in which they were added.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        self.read_runs().map_err(|error| StoreError::read(&self.path, &error))
    }

    fn read_runs(&self) -> rusqlite::Result<Vec<RunRecord>> {
        let mut runs = self.database.prepare(
            "SELECT id, experiment, repetition, seed, began, took_s, energy_source, error FROM run ORDER BY id",
        )?;
        let mut factors =
            self.database.prepare("SELECT name, value FROM factor WHERE run_id = ? ORDER BY position")?;
        let mut values = self.database.prepare("SELECT quantity, value FROM value WHERE run_id = ?")?;
        let mut details = self
            .database
            .prepare("SELECT series, at_s, value FROM detail WHERE run_id = ? ORDER BY rowid")?;
        let rows = runs.query_map([], |row| {
            let id: i64 = row.get(0)?;
            let factor = |row: &rusqlite::Row<'_>| Ok(Factor { name: row.get(0)?, value: row.get(1)? });
            let value = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
            let known: Vec<(String, f64)> =
                values.query_map([id], value)?.collect::<rusqlite::Result<_>>()?;
            let detail = |row: &rusqlite::Row<'_>| {
                let series = Series::from_word(&row.get::<_, String>(0)?);
                let (at_s, value) = (row.get(1)?, row.get(2)?);
                Ok(series.map(|series| Detail { series, at_s, value }))
            };
            let details = details.query_map([id], detail)?.filter_map(Result::transpose);
            Ok(RunRecord {
                details: details.collect::<rusqlite::Result<_>>()?,
                experiment: row.get(1)?,
                factors: factors.query_map([id], factor)?.collect::<rusqlite::Result<_>>()?,
                repetition: row.get(2)?,
                seed: row.get::<_, String>(3)?.parse().unwrap_or_default(),
                began: row.get::<_, String>(4)?.parse().unwrap_or(Timestamp::UNIX_EPOCH),
                took_s: row.get(5)?,
                energy: source(&row.get::<_, String>(6)?),
                values: known
                    .into_iter()
                    .filter_map(|(name, value)| Some((Quantity::by_name(&name)?, value)))
                    .collect(),
                error: row.get(7)?,
            })
        })?;
        rows.collect()
    }
}

fn source(word: &str) -> EnergySource {
    serde_json::from_value(word.into()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(repetition: u32, error: Option<&str>) -> RunRecord {
        RunRecord {
            experiment: "energy".to_owned(),
            factors: vec![Factor::new("rate", &20), Factor::new("paths", &2)],
            repetition,
            seed: u64::MAX,
            began: "2026-11-24T05:00:00Z".parse().unwrap(),
            took_s: 3.5,
            energy: EnergySource::Simulated,
            values: if error.is_some() {
                Vec::new()
            } else {
                vec![(Quantity::Goodput, 4e7), (Quantity::Power, 21.5)]
            },
            details: vec![
                Detail { series: Series::FirstSubflow, at_s: Some(0.5), value: 4e7 },
                Detail { series: Series::CompletionTimes, at_s: None, value: 1.5 },
            ],
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn runs_are_read_back_and_a_failed_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("study.db");
        let origin = Origin { seed: 7, quick: true, ..Origin::default() };
        let mut file = StudyFile::create(&path, &origin).unwrap();
        file.add(&run(0, None)).unwrap();
        file.add(&run(1, Some("no route"))).unwrap();
        drop(file);
        let (mut file, found) = StudyFile::resume(&path).unwrap();
        assert_eq!(found, origin);
        assert_eq!(file.runs().unwrap(), [run(0, None), run(1, Some("no route"))]);
        file.add(&run(1, None)).unwrap();
        assert_eq!(file.runs().unwrap(), [run(0, None), run(1, None)]);
        let results: i64 =
            file.database.query_row("SELECT count(*) FROM result", [], |row| row.get(0)).unwrap();
        assert_eq!(results, 4);
    }

    #[test]
    fn other_files_are_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("study.db");
        let missing = StudyFile::resume(&path).unwrap_err().to_string();
        assert!(
            missing.contains("there is no such file") && missing.contains("without --resume"),
            "{missing}"
        );
        StudyFile::create(&path, &Origin::default()).unwrap();
        let exists = StudyFile::create(&path, &Origin::default()).unwrap_err().to_string();
        assert!(exists.contains("--resume"), "{exists}");
        let other = folder.path().join("other.db");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
        let refused = StudyFile::resume(&other).unwrap_err().to_string();
        assert!(refused.contains("not a file of a study"), "{refused}");
    }
}
