import { expect } from "vitest";
import { findEmptied } from "../support/emptied-postgres.ts";
import { findBrokenLeases } from "../support/lease-rows.ts";
import { openAt } from "./postgres-rig.ts";
import { describeStore } from "./store.ts";
import { openPostgresTables } from "./user-sql.ts";

describeStore("PostgreSQL", async (clock) => {
  const place = await findEmptied();
  const store = await openAt(place.address, clock);
  return {
    store,
    openSql: () => openPostgresTables(place.server, place.schema),
    dispose: async () => {
      await store.close();
      const broken = await findBrokenLeases(place.server, place.schema);
      place.release();
      expect(broken).toEqual([]);
    },
  };
});
