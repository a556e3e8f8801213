-- name: hurry
-- No longer than the address, the role or the database says.
SELECT set_config('lock_timeout', least(CAST(:milliseconds AS int), (
  1000 * extract(epoch FROM CAST(current_setting('lock_timeout') AS interval)))::int)::text, true)
