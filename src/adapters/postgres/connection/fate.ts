/**
 * Whether a transaction whose COMMIT was not answered took place, by its number. A server that crashes
 * forgets the numbers of which nothing is on its disk yet and gives them out again, and so does a
 * standby that takes over: a number that is committed there may be another transaction's. So a number
 * speaks for itself only within one life of a server.
 */
import type { Client } from "pg";

/** A transaction that has begun, as the server will know it. */
export interface Begun {
  /** Null where it wrote nothing. */
  readonly id: string | null;
  /** The server's life in which it began; null where that could not be read. */
  readonly life: string | null;
}

export interface Status {
  readonly life: string;
  /** It follows another server, and may be behind it. */
  readonly isStandby: boolean;
  /** Null where the server has nothing to say: it is still under way, or unknown to it. */
  readonly status: string | null;
}

export type Fate = "committed" | "not_committed" | "ask_again" | "unknowable";

/**
 * A server's own start, and that of its statistics, which it throws away when it recovers from the
 * crash of one of its processes without having ended itself. Everybody may read both.
 */
const LIFE = "concat_ws('/', pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time())";
export const SELECT_LIFE = `SELECT ${LIFE} AS life`;
/** Of numbers that it has not given out yet a server refuses to say anything. */
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
  // Ours could only have been committed before this life began. One that has any other status now is
  // either ours that was not, or another one with a number that was free.
  return status === "committed" ? "unknowable" : "not_committed";
}
