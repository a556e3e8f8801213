-- Nothing to do here: SQLite has one writer at a time, so a signal and a move always see each other.
SELECT 1;
