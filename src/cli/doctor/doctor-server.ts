/** The doctor's checks of a PostgreSQL server. Changes nothing. */
import type { ServerFacts } from "../../adapters/postgres/inspect.ts";
import type { Clock } from "../../ports/clock.ts";
import { systemRandom } from "../../runtime/system/system-random.ts";
import { inspectServer } from "../../stores/open-store.ts";
import { bad, type Check, good, warn } from "./doctor-check.ts";
import { viewError } from "../../views/error.ts";

const VERSION_MIN = 15;
const CLOCK_APART_MS = 1_000;
/** The share of used connections above which another worker may find none free. */
const CONNECTIONS_BUSY = 0.8;

export interface ServerChecks {
  readonly checks: readonly Check[];
  /** Whether it can be opened without creating or upgrading it. */
  readonly canOpen: boolean;
}

export async function checkServer(address: string, clock: Clock): Promise<ServerChecks> {
  let facts: ServerFacts;
  try {
    facts = await inspectServer(address, { clock, random: systemRandom });
  } catch (error) {
    const { code, message, hint } = viewError(error);
    const failure = bad("store", `${code}: ${message}`, hint ?? "See the message.");
    return { checks: [failure], canOpen: false };
  }
  const { version, known, mayUse } = facts.schema;
  const checks = [
    checkVersion(facts),
    checkSchema(facts),
    checkDurability(facts),
    checkClock(facts),
    checkConnections(facts),
    checkPooler(facts),
  ];
  return { checks, canOpen: version === known && mayUse === true && !facts.isReadOnly };
}

function checkVersion({ name, version, isReadOnly }: ServerFacts): Check {
  const text = `${name}, PostgreSQL ${Math.floor(version / 10_000)}.${version % 10_000}`;
  if (version < VERSION_MIN * 10_000) {
    return bad("store", text, `Sluice needs PostgreSQL ${VERSION_MIN} or newer.`);
  }
  if (isReadOnly) {
    const remedy = "Point the store at the primary: a standby takes no writes.";
    return bad("store", `${text}, read-only`, remedy);
  }
  return good("store", text);
}

function checkSchema({ schema }: ServerFacts): Check {
  const { version, known, mayChange, mayUse } = schema;
  const grant = "Run `sluice migrate` as a role that may, or give this one the right.";
  if (version > known) {
    const text = `version ${version}, from a newer Sluice (this one knows ${known})`;
    return bad("schema", text, "Upgrade Sluice.");
  }
  if (version < known) {
    const text = version === 0 ? "does not exist yet" : `version ${version} of ${known}`;
    const change = version === 0 ? "create" : "upgrade";
    if (!mayChange) return bad("schema", `${text}, and this user may not ${change} it`, grant);
    if (version === 0) return good("schema", `${text}: the first run creates it`);
    return warn("schema", text, "The next run upgrades it. Back it up first.");
  }
  if (mayUse === false) {
    return bad("schema", `version ${version}, but this user may not read and write it`, grant);
  }
  return good("schema", `version ${version}`);
}

function checkDurability({ synchronousCommit, fsync }: ServerFacts): Check {
  const text = `synchronous_commit ${synchronousCommit}, fsync ${fsync}`;
  if (fsync !== "on") {
    return bad("durability", text, "Switch fsync on: a power cut may damage everything.");
  }
  if (synchronousCommit === "off") {
    const remedy =
      "Acknowledged commits may be lost when the server crashes. Run: ALTER ROLE <role> SET synchronous_commit = on.";
    return warn("durability", text, remedy);
  }
  return good("durability", text);
}

/** Leases use only the server's clock, but people compare recorded times with their own clock. */
function checkClock({ clockAheadMs, roundTripMs }: ServerFacts): Check {
  const apart = Math.round(clockAheadMs);
  const text = `the server's is ${Math.abs(apart)} ms ${apart < 0 ? "behind" : "ahead"}, a round trip takes ${roundTripMs} ms`;
  if (Math.abs(apart) <= CLOCK_APART_MS) return good("server time", text);
  const remedy =
    "Synchronise both clocks with the same time server (chrony). Leases are not affected.";
  return warn("server time", text, remedy);
}

function checkConnections({ connections: { used, max } }: ServerFacts): Check {
  const text = `${used} of ${max} used`;
  if (used < max * CONNECTIONS_BUSY) return good("connections", text);
  const remedy = "Raise max_connections, or use PgBouncer: each worker opens up to 9 connections.";
  return warn("connections", text, remedy);
}

function checkPooler({ isPooled }: ServerFacts): Check {
  if (!isPooled)
    return good("pooler", "none, or one in session mode: notifications arrive at once");
  const remedy =
    "Everything works, but workers find new work only by polling, within 5 s. To get notifications, connect directly or through a pooler in session mode.";
  return warn("pooler", "one in transaction mode: notifications do not arrive", remedy);
}
