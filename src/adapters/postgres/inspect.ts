/** Reads facts about a server, without changing anything in it. */
import type pg from "pg";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import { readAddress } from "./connection/address.ts";
import { createClient } from "./connection/connection.ts";
import { translateError } from "./connection/errors.ts";
import {
  interpretVersion,
  listMigrations,
  type MarkRow,
  SELECT_MARK,
} from "./connection/migrate.ts";

export interface ServerFacts {
  readonly name: string;
  /** For example 150014. */
  readonly version: number;
  readonly schema: {
    /** 0 for none. */
    readonly version: number;
    readonly known: number;
    /** Whether this user may create or upgrade it. */
    readonly mayChange: boolean;
    /** Whether this user may read and write it; null when it does not exist. */
    readonly mayUse: boolean | null;
  };
  readonly isReadOnly: boolean;
  /** When a commit is on disk: `on` and stronger before it is answered. */
  readonly synchronousCommit: string;
  readonly fsync: string;
  readonly connections: { readonly used: number; readonly max: number };
  /** The server's clock minus this host's, as exactly as the connection allows. */
  readonly clockAheadMs: number;
  readonly roundTripMs: number;
  /** A pooler gives each transaction another connection: LISTEN does not work. */
  readonly isPooled: boolean;
}

const FACTS = `SELECT current_setting('server_version_num')::int AS version,
  pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
  current_setting('synchronous_commit') AS synchronous_commit, current_setting('fsync') AS fsync,
  current_setting('max_connections')::int AS max,
  (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
  has_database_privilege(current_database(), 'CREATE') AS may_create`;
const CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now";
const RIGHTS = `SELECT pg_has_role(n.nspowner, 'MEMBER') AS owns,
    has_schema_privilege(n.oid, 'USAGE') AND coalesce((
      SELECT bool_and(has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE'))
      FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'r'), true) AS may_use
  FROM pg_namespace n WHERE n.nspname = $1`;

interface FactsRow {
  readonly version: number;
  readonly read_only: boolean;
  readonly synchronous_commit: string;
  readonly fsync: string;
  readonly max: number;
  readonly used: number;
  readonly may_create: boolean;
}

export interface InspectParts {
  readonly clock: Clock;
  readonly random: Random;
}

export async function inspectServer(
  address: string,
  { clock, random }: InspectParts,
): Promise<ServerFacts> {
  const where = readAddress(address);
  const [client, other] = [createClient(where), createClient(where)];
  try {
    await client.connect();
    await other.connect();
    const [facts] = (await client.query<FactsRow>(FACTS)).rows as [FactsRow];
    const marks = await client.query<MarkRow>(SELECT_MARK, [where.schema]);
    const [rights] = (await client.query(RIGHTS, [where.schema])).rows as [
      { readonly owns: boolean; readonly may_use: boolean }?,
    ];
    const asked = clock.wallMs();
    const time = await client.query<{ now: number }>(CLOCK);
    const roundTripMs = clock.wallMs() - asked;
    const { version, read_only: isReadOnly, fsync, max, used } = facts;
    return {
      name: where.name,
      version,
      schema: {
        version: interpretVersion(where, marks.rows[0]),
        known: listMigrations().length,
        mayChange: rights === undefined ? facts.may_create : rights.owns,
        mayUse: rights === undefined ? null : rights.may_use,
      },
      isReadOnly,
      synchronousCommit: facts.synchronous_commit,
      fsync,
      connections: { used, max },
      clockAheadMs: (time.rows[0]?.now ?? asked) - asked - roundTripMs / 2,
      roundTripMs,
      isPooled: await detectPooler(client, other, random.id()),
    };
  } catch (error) {
    throw translateError(error, where.name);
  } finally {
    await Promise.allSettled([client.end(), other.end()]);
  }
}

/** A setting of one connection must be there the next time, and on no other connection. */
async function detectPooler(client: pg.Client, other: pg.Client, probe: string): Promise<boolean> {
  type Row = { readonly probe: string | null };
  const read = "SELECT current_setting('sluice.probe', true) AS probe";
  await client.query("SELECT set_config('sluice.probe', $1, false)", [probe]);
  const [there, here] = [await other.query<Row>(read), await client.query<Row>(read)];
  await client.query("SELECT set_config('sluice.probe', '', false)");
  return there.rows[0]?.probe === probe || here.rows[0]?.probe !== probe;
}
