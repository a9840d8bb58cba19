-- Whether functions inside the server will work: Python is there, it finds dpsql, and the owner role can log in.
-- :backend and :place are as in plpython.sql. What is wrong is told in a setting of the transaction's.
DO LANGUAGE plpython3u $function$
import runpy
call, place = runpy.run_path(:backend)["call"], :place
try:
    call(plpy, place, "check", {})
    problem = ""
except plpy.Error as error:
    problem = str(error)
plpy.execute(plpy.prepare("SELECT set_config('dpsql.problem', $1, true)", ["text"]), [problem])
$function$;
