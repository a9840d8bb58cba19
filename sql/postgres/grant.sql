-- The owner role reads a private table; nobody else is given anything. :schema and :table are names, quoted.
GRANT USAGE ON SCHEMA :schema TO :owner;
GRANT SELECT ON :table TO :owner;
