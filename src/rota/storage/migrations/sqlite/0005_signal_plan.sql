-- Nothing to do here: SQLite always looks the listeners up by their key. PostgreSQL has to be told.
SELECT 1;
