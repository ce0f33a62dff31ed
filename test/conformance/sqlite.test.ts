import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { SeededRandom } from "../../src/testing/seeded-random.ts";
import { describeStore } from "./store.ts";

describeStore("SQLite", async (clock) => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-conformance-"));
  const store = await openSqliteStore(join(folder, "store.db"), {
    clock,
    random: new SeededRandom(),
  });
  return {
    store,
    dispose: async () => {
      await store.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
});
