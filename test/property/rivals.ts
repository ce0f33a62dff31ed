/** The stores that must do as the reference model does. A new one is one more line in the list. */
import type { Host } from "../../src/adapters/sql/host.ts";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { openEmptied } from "../support/emptied-postgres.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";

export interface Rival {
  readonly name: string;
  /** How long a run takes compared with the quickest store: a server needs many round trips. */
  readonly slowness: number;
  /** A fresh, empty store on the given clock, which is deleted when it is closed. */
  readonly open: (clock: Clock) => Promise<Store>;
}

/** No process ever counts as dead: leases expire by the clock. */
const HOST: Host = { bootId: "boot", process: "here", isGone: () => false };

const openInMemory = (clock: Clock): Promise<Store> =>
  openSqliteStore(":memory:", { clock, random: new SeededRandom(), host: HOST });

export const RIVALS: readonly Rival[] = [
  { name: "SQLite", slowness: 1, open: openInMemory },
  { name: "PostgreSQL", slowness: 5, open: openEmptied },
];
