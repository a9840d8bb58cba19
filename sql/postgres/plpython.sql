-- dpsql inside the server, for roles that may call it and nothing else. Run by a superuser (dpsql init --plpython).
-- :backend is the file of dpsql/api/plpython_caller.py; :place says where Python finds dpsql, who the owner is, and in which folder
-- the way back to this server is kept; :owner and :analyst are the roles' names, quoted.
-- Every function here runs under the CALLER's rights, and lends nobody's to anybody. What reads private rows and writes
-- the ledger is another process with a connection of its own, so a ROLLBACK takes back no charge, and nothing that the
-- caller has made or set is ever evaluated by the owner. Arguments are values, never SQL.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

CREATE EXTENSION IF NOT EXISTS plpython3u;

-- options is one JSON object: the method's own parameters, and every argument of a training run that has no place of its
-- own here, such as {"batch": "2026-11"}. So a new argument needs no new function.
CREATE OR REPLACE FUNCTION dpsql.train(
    table_name TEXT, epsilon TEXT DEFAULT '1', method TEXT DEFAULT 'auto', options JSONB DEFAULT '{}',
    name TEXT DEFAULT NULL, request_id TEXT DEFAULT NULL, delta TEXT DEFAULT NULL
) RETURNS TABLE (model TEXT, method_used TEXT, trees INT, depth INT, leaves INT, epsilon_spent TEXT, neighbours TEXT,
                 spent TEXT, "left" TEXT)
LANGUAGE plpython3u VOLATILE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
import runpy
call, place = runpy.run_path(:backend)["call"], :place
named = {"table": table_name, "epsilon": epsilon, "method": method, "name": name, "request_id": request_id, "delta": delta}
return call(plpy, place, "train", {"named": named, "options": options})
$function$;

-- For epsilon, on a registered private table.
CREATE OR REPLACE FUNCTION dpsql.evaluate(
    model TEXT, table_name TEXT, epsilon TEXT, request_id TEXT DEFAULT NULL
) RETURNS TABLE (figure TEXT, value DOUBLE PRECISION, low DOUBLE PRECISION, high DOUBLE PRECISION)
LANGUAGE plpython3u VOLATILE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
import runpy
call, place = runpy.run_path(:backend)["call"], :place
return call(plpy, place, "evaluate", {"model": model, "table": table_name, "epsilon": epsilon, "request_id": request_id})
$function$;

-- For free, on a table that the caller reads: every statement runs in the caller's session. STABLE: all of them see one
-- state of the tables, and none of them can write.
CREATE OR REPLACE FUNCTION dpsql.evaluate(
    model TEXT, table_name TEXT
) RETURNS TABLE (figure TEXT, value DOUBLE PRECISION, low DOUBLE PRECISION, high DOUBLE PRECISION)
LANGUAGE plpython3u STABLE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD'
SET jit = off
AS $function$
import runpy
call, place = runpy.run_path(:backend)["call"], :place
return call(plpy, place, "evaluate_free", {"model": model, "table": table_name})
$function$;

CREATE OR REPLACE FUNCTION dpsql.advise(
    table_name TEXT, epsilon TEXT DEFAULT '1', "rows" BIGINT DEFAULT NULL, buy TEXT DEFAULT NULL,
    request_id TEXT DEFAULT NULL
) RETURNS TABLE ("case" TEXT, "rows" BIGINT, epsilon TEXT, trees INT, depth INT, expected_gain DOUBLE PRECISION,
                 method TEXT, verdict TEXT)
LANGUAGE plpython3u VOLATILE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
import runpy
call, place = runpy.run_path(:backend)["call"], :place
values = {"table": table_name, "epsilon": args[1], "rows": args[2], "buy": buy, "request_id": request_id}
return call(plpy, place, "advise", values)
$function$;

REVOKE ALL ON FUNCTION dpsql.train(TEXT, TEXT, TEXT, JSONB, TEXT, TEXT, TEXT) FROM PUBLIC;
REVOKE ALL ON FUNCTION dpsql.evaluate(TEXT, TEXT, TEXT, TEXT) FROM PUBLIC;
REVOKE ALL ON FUNCTION dpsql.evaluate(TEXT, TEXT) FROM PUBLIC;
REVOKE ALL ON FUNCTION dpsql.advise(TEXT, TEXT, BIGINT, TEXT, TEXT) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dpsql.train(TEXT, TEXT, TEXT, JSONB, TEXT, TEXT, TEXT) TO :analyst;
GRANT EXECUTE ON FUNCTION dpsql.evaluate(TEXT, TEXT, TEXT, TEXT) TO :analyst;
GRANT EXECUTE ON FUNCTION dpsql.evaluate(TEXT, TEXT) TO :analyst;
GRANT EXECUTE ON FUNCTION dpsql.advise(TEXT, TEXT, BIGINT, TEXT, TEXT) TO :analyst;

-- The owner role's password: drawn here, inside the server, kept in a file of the server's user (dpsql/engines/postgres/loopback.py).
DO LANGUAGE plpython3u $function$
import runpy
place = :place
runpy.run_path(:loopback)["keep"](plpy, place["folder"], place["owner"])
$function$;
