-- A role that owns or reads: somebody logs in as a member of it. :role is its name, quoted.
CREATE ROLE :role NOLOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE;
