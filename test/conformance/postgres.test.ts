import { findPlace, openAt } from "./postgres-rig.ts";
import { describeStore } from "./store.ts";
import { openPostgresTables } from "./user-sql.ts";

describeStore("PostgreSQL", async (clock) => {
  const place = await findPlace();
  const store = await openAt(place.address, clock);
  return {
    store,
    openSql: () => openPostgresTables(place.server, place.schema),
    dispose: async () => {
      await store.close();
      await place.drop();
    },
  };
});
