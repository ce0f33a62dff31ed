/** The columns that are read of a batch and of an item, for both dialects. */

/** A pause as JSON; add a WHERE clause. */
export const PAUSE = `SELECT /*sqlite json_array*//*postgres json_build_array*/(
  scope, name, mode, paused_by, why) FROM pause`;
/** The pause that applies to a batch `b`, the narrowest first, as JSON; NULL when it may run. */
export const PAUSE_OF_BATCH = `coalesce(
  (${PAUSE} WHERE scope = 'batch' AND name = b.id),
  (${PAUSE} WHERE scope = 'lane' AND name = b.lane),
  (${PAUSE} WHERE scope = 'pipeline' AND name = b.pipeline))`;

const ALL_STEPS = `
  /*sqlite iif((SELECT max(step) FROM step WHERE batch = b.num) = 0, NULL, (
    SELECT json_group_array(json_array(name, chunks, passes, planned, succeeded, skipped, failed,
      cancelled, pending)) FROM (SELECT * FROM step WHERE batch = b.num ORDER BY step)))*/
  /*postgres (SELECT CASE WHEN count(*) > 1 OR max(a.step) > 0 THEN json_agg(json_build_array(
      a.name, a.chunks, a.passes, a.planned, a.succeeded, a.skipped, a.failed, a.cancelled,
      a.pending) ORDER BY a.step) END FROM step a WHERE a.batch = b.num)*/`;

const STEP_COLUMNS = `s.name, s.chunks, s.canary_chunks, s.passes, s.watched_failures, s.planned,
  s.succeeded, s.skipped, s.failed, s.cancelled, s.pending, s.failed_permanent,
  s.failed_transient, s.failed_unexpected`;
const WITH_STEP = "FROM batch b JOIN step s ON s.batch = b.num AND s.step = b.step";

/** Add a WHERE clause. */
export const SELECT_BATCH = `
  SELECT b.*, ${STEP_COLUMNS}, s.sliced, s.slice_cursor, s.slice_fence, s.last_part,
    ${PAUSE_OF_BATCH} AS pause, ${ALL_STEPS} AS all_steps
  ${WITH_STEP}`;

/** The few that decide how a batch goes on: on SQLite reading costs what its columns are. */
export const SELECT_LIFECYCLE = `
  SELECT b.num, b.id, b.pipeline, b.lane, b.active, b.settings, b.state, b.step, b.sealed, b.drive,
    b.cancel_mode, ${STEP_COLUMNS}, ${ALL_STEPS} AS all_steps
  ${WITH_STEP}`;

export const ITEM_COLUMNS = `item, key, attempts, deaths, started, dead, due_at, error_class, code,
  message, checkpoint_name, checkpoint_data, drive`;
