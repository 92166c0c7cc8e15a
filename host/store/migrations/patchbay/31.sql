-- Changes of installed packages: who, when, what. A change is written before packages.lock is replaced, and settled after it: one that
-- is not settled was interrupted, and the lock says whether it happened.
CREATE TABLE package_changes (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL, -- seconds since 1970
    who     TEXT NOT NULL,    -- the user of the operating system
    action  TEXT NOT NULL,    -- add, update, remove, sync, rename
    package TEXT NOT NULL,
    before  TEXT,             -- the digest in the lock before; NULL for none
    after   TEXT,             -- the digest in the lock afterwards; NULL for none
    grants  TEXT NOT NULL,    -- JSON: what becomes of the grants of the package's skills
    settled INTEGER NOT NULL
) STRICT;
