-- The owner's acts inside the server (dpsql init --plpython), for the owner role and its members alone. As those of plpython.sql,
-- these functions run under the CALLER's rights and lend nobody's; the work is done by another process with a connection
-- of its own, which also looks whether whoever logged in (session_user) is the owner, a member of that role or a superuser.
-- What is done is committed on its own: a ROLLBACK takes nothing back.
-- No argument names a file of the server's machine, and none has rows read without a charge.
-- '(left out)' stands for an argument that was not given: a NULL is refused, since it would stand for a choice nobody made.
-- A statement ends with a semicolon at the end of its line; dpsql runs them one by one.

-- SELECT * FROM dpsql.register('private.people', '{"label": ...}', '3'). Without a schema, options say what is declared and
-- bought: {"buy": "0.1", "label": "y"}.
CREATE OR REPLACE FUNCTION dpsql.register(
    table_name TEXT, schema JSONB, cap TEXT, replace BOOLEAN DEFAULT false, options JSONB DEFAULT '{}'
) RETURNS TABLE (registered TEXT, dataset TEXT, unit TEXT, neighbours TEXT, features BIGINT, cap_set TEXT, spent TEXT,
                 "left" TEXT, holdout TEXT, bought TEXT, left_out TEXT, note TEXT, declared TEXT)
LANGUAGE plpython3u VOLATILE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
import runpy
call, place = runpy.run_path(:backend)["call"], :place
given = {"table": table_name, "schema": schema, "cap": cap, "replace": replace, "options": options}
return [{**row, "registered": row["table_name"], "cap_set": row["cap"]} for row in call(plpy, place, "register", given)]
$function$;

-- SELECT * FROM dpsql.set_cap('private.people', '1', analyst => 'ann').
CREATE OR REPLACE FUNCTION dpsql.set_cap(
    table_name TEXT, cap TEXT, analyst TEXT DEFAULT '(left out)', default_analyst BOOLEAN DEFAULT false,
    kind TEXT DEFAULT 'pure', delta TEXT DEFAULT '(left out)', selection_delta TEXT DEFAULT '(left out)',
    allow_large BOOLEAN DEFAULT false
) RETURNS TABLE (of_table TEXT, of_kind TEXT, of_analyst TEXT, cap_set TEXT, spent TEXT, "left" TEXT, note TEXT)
LANGUAGE plpython3u VOLATILE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
import runpy
call, place = runpy.run_path(:backend)["call"], :place
given = {"table": table_name, "cap": cap, "analyst": analyst, "default_analyst": default_analyst, "kind": kind,
         "delta": delta, "selection_delta": selection_delta, "allow_large": allow_large}
names = {"of_table": "table_name", "of_kind": "kind", "of_analyst": "analyst", "cap_set": "cap"}
return [{**row, **{name: row[was] for name, was in names.items()}} for row in call(plpy, place, "set_cap", given)]
$function$;

CREATE OR REPLACE FUNCTION dpsql.verify() RETURNS TABLE (sound BOOLEAN, problem TEXT)
LANGUAGE plpython3u VOLATILE SECURITY INVOKER
SET search_path = pg_catalog, pg_temp
AS $function$
import runpy
call, place = runpy.run_path(:backend)["call"], :place
return call(plpy, place, "verify", {})
$function$;

REVOKE ALL ON FUNCTION dpsql.register(TEXT, JSONB, TEXT, BOOLEAN, JSONB) FROM PUBLIC, :analyst;
REVOKE ALL ON FUNCTION dpsql.set_cap(TEXT, TEXT, TEXT, BOOLEAN, TEXT, TEXT, TEXT, BOOLEAN) FROM PUBLIC, :analyst;
REVOKE ALL ON FUNCTION dpsql.verify() FROM PUBLIC, :analyst;
