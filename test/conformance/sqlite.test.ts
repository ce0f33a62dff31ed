import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { describeStore } from "./store.ts";
import { openSqliteTables } from "./user-sql.ts";

describeStore("SQLite", async (clock) => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-conformance-"));
  const path = join(folder, "store.db");
  const store = await openSqliteStore(path, { clock, random: new SeededRandom() });
  return {
    store,
    openSql: async () => openSqliteTables(path),
    dispose: async () => {
      await store.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
});
