-- The MCP servers of packages that the operator has allowed. All others are off.
CREATE TABLE server_allowances (
    name       TEXT PRIMARY KEY, -- in the names of its tools: mcp__NAME__TOOL
    package    TEXT NOT NULL,
    server     TEXT NOT NULL,    -- its name in the package
    digest     TEXT NOT NULL,    -- of its entry; with another entry, it is off
    env        TEXT NOT NULL,    -- the variables of the environment that it gets, with a blank between
    credential TEXT,             -- of config.toml; NULL for none
    created_at INTEGER NOT NULL,
    UNIQUE (package, server)
) STRICT, WITHOUT ROWID;
