-- dpsql inside the server, for roles that may call it and nothing else. Run by a superuser (dpsql init --plpython).
-- :path is where Python finds dpsql, as a list; :owner and :analyst are the roles' names, quoted.
-- The functions run under the owner's rights, whatever the caller has set: arguments are values, never SQL, and what
-- reads private rows and writes the ledger is a connection of the kernel's own, so a ROLLBACK takes back no charge.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE EXTENSION IF NOT EXISTS plpython3u;

CREATE OR REPLACE FUNCTION dpsql.train(
    table_name TEXT, epsilon TEXT DEFAULT '1', method TEXT DEFAULT 'auto', options JSONB DEFAULT '{}',
    name TEXT DEFAULT NULL, request_id TEXT DEFAULT NULL, delta TEXT DEFAULT NULL
) RETURNS TABLE (model TEXT, method_used TEXT, trees INT, depth INT, leaves INT, epsilon_spent TEXT, neighbours TEXT,
                 spent TEXT, "left" TEXT)
LANGUAGE plpython3u VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
import sys
sys.path[:0] = [place for place in :path if place not in sys.path]
from dpsql import inside
return inside.train(plpy, table_name, epsilon, method, options, name, request_id, delta)
$function$;

CREATE OR REPLACE FUNCTION dpsql.evaluate(
    model TEXT, table_name TEXT, epsilon TEXT DEFAULT NULL, request_id TEXT DEFAULT NULL
) RETURNS TABLE (figure TEXT, value DOUBLE PRECISION, low DOUBLE PRECISION, high DOUBLE PRECISION)
LANGUAGE plpython3u VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
import sys
sys.path[:0] = [place for place in :path if place not in sys.path]
from dpsql import inside
return inside.evaluate(plpy, model, table_name, epsilon, request_id)
$function$;

CREATE OR REPLACE FUNCTION dpsql.advise(
    table_name TEXT, epsilon TEXT DEFAULT '1', "rows" BIGINT DEFAULT NULL, buy TEXT DEFAULT NULL,
    request_id TEXT DEFAULT NULL
) RETURNS TABLE ("case" TEXT, "rows" BIGINT, epsilon TEXT, trees INT, depth INT, expected_gain DOUBLE PRECISION,
                 method TEXT, verdict TEXT)
LANGUAGE plpython3u VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $function$
import sys
sys.path[:0] = [place for place in :path if place not in sys.path]
from dpsql import inside
return inside.advise(plpy, table_name, args[1], args[2], buy, request_id)
$function$;

REVOKE ALL ON FUNCTION dpsql.train(TEXT, TEXT, TEXT, JSONB, TEXT, TEXT, TEXT) FROM PUBLIC;
REVOKE ALL ON FUNCTION dpsql.evaluate(TEXT, TEXT, TEXT, TEXT) FROM PUBLIC;
REVOKE ALL ON FUNCTION dpsql.advise(TEXT, TEXT, BIGINT, TEXT, TEXT) FROM PUBLIC;
ALTER FUNCTION dpsql.train(TEXT, TEXT, TEXT, JSONB, TEXT, TEXT, TEXT) OWNER TO :owner;
ALTER FUNCTION dpsql.evaluate(TEXT, TEXT, TEXT, TEXT) OWNER TO :owner;
ALTER FUNCTION dpsql.advise(TEXT, TEXT, BIGINT, TEXT, TEXT) OWNER TO :owner;
GRANT EXECUTE ON FUNCTION dpsql.train(TEXT, TEXT, TEXT, JSONB, TEXT, TEXT, TEXT) TO :analyst;
GRANT EXECUTE ON FUNCTION dpsql.evaluate(TEXT, TEXT, TEXT, TEXT) TO :analyst;
GRANT EXECUTE ON FUNCTION dpsql.advise(TEXT, TEXT, BIGINT, TEXT, TEXT) TO :analyst;

-- How the kernel connects back to this server. Nobody but the owner may read it.
CREATE TABLE IF NOT EXISTS dpsql.loopback (conninfo TEXT NOT NULL);
ALTER TABLE dpsql.loopback OWNER TO :owner;
REVOKE ALL ON dpsql.loopback FROM PUBLIC, :analyst;
