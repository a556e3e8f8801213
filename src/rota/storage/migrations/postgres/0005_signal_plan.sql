-- Every transition looks up who listens to it. A table that has grown and was not analysed yet is
-- read as a whole by the planner's choice; by the key it costs the same whatever its size.
ALTER FUNCTION events_fire_signals() SET enable_hashjoin TO off;
ALTER FUNCTION events_fire_signals() SET enable_mergejoin TO off;
ALTER FUNCTION events_fire_signals() SET enable_seqscan TO off;
