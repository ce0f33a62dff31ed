/**
 * Finds out, by its id, whether a transaction whose COMMIT was not answered took place. A server
 * that crashes forgets ids of which nothing is on its disk yet and reuses them, and so does a
 * standby that takes over: an id that is committed there may be another transaction's. So an id is
 * only meaningful within one life of a server.
 */
import type { Client } from "pg";

/** A started transaction, as the server will know it. */
export interface Begun {
  /** Null if it wrote nothing. */
  readonly id: string | null;
  /** The server's life in which it began; null if that could not be read. */
  readonly life: string | null;
}

export interface Status {
  readonly life: string;
  /** It follows another server, and may be behind it. */
  readonly isStandby: boolean;
  /** Null if the server does not know: it is still under way, or unknown. */
  readonly status: string | null;
}

export type Fate = "committed" | "not_committed" | "ask_again" | "unknowable";

/**
 * The start of the server, and the reset of its statistics, which it discards when it recovers from
 * a crashed process without restarting. Every role may read both.
 */
const LIFE = "concat_ws('/', pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time())";
export const SELECT_LIFE = `SELECT ${LIFE} AS life`;
/** A server returns an error for ids that it has not assigned yet. */
const SELECT_STATUS = `SELECT ${LIFE} AS life, pg_is_in_recovery() AS "isStandby",
  CASE WHEN $1::xid8 < pg_snapshot_xmax(pg_current_snapshot())
    THEN pg_xact_status($1::xid8) END AS status`;

export async function readStatus(client: Client, id: string): Promise<Status> {
  const { rows } = await client.query<Status>(SELECT_STATUS, [id]);
  return rows[0] as Status;
}

export function decideFate(begun: Begun, { life, isStandby, status }: Status): Fate {
  if (life === begun.life) {
    if (status === "committed") return "committed";
    // The server may not have noticed yet that its client is gone.
    return status === "aborted" ? "not_committed" : "ask_again";
  }
  if (isStandby) return "ask_again";
  // Ours could only have been committed before this life began. With any other status, it is either
  // ours and uncommitted, or another transaction that reuses the id.
  return status === "committed" ? "unknowable" : "not_committed";
}
