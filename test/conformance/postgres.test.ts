import { findPlace, openAt } from "./postgres-rig.ts";
import { describeStore } from "./store.ts";

describeStore("PostgreSQL", async (clock) => {
  const place = await findPlace();
  const store = await openAt(place.address, clock);
  return {
    store,
    dispose: async () => {
      await store.close();
      await place.drop();
    },
  };
});
