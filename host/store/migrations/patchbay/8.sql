-- Each row of the journal cost more for its two indexes than for itself. The journal is bounded, and its questions are rare:
-- they read it whole.
DROP INDEX journal_by_skill;
DROP INDEX journal_by_session;
