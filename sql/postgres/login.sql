-- The owner role connects back to its own server. :password is a text that nobody knows.
ALTER ROLE :owner LOGIN PASSWORD :password;
DELETE FROM dpsql.loopback;
