-- What the owner role does is not counted at all: in no database, by no extension. :owner is the role's name, quoted.
-- Counters that nobody keeps cannot be read, whoever opens them again. These hold from the role's next login on.
ALTER ROLE :owner SET track_counts = off;
ALTER ROLE :owner SET track_functions = 'none';
ALTER ROLE :owner SET track_io_timing = off;
ALTER ROLE :owner SET track_wal_io_timing = off;
ALTER ROLE :owner SET compute_query_id = off;
ALTER ROLE :owner SET pg_stat_statements.track = 'none';
