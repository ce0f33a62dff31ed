import { expect, test } from "vitest";
import type { LedgerLink } from "../../ports/store/ledger-store.ts";
import { eraseRecorded } from "./erasing.ts";

const BY = { by: "ann", why: null };
const LINK: LedgerLink = {
  seq: 1,
  type: "items.recorded",
  body: "{}",
  hash: "",
  block: { lines: "", details: '{"details":1,"i":0,"salt":"00"}\n' },
};

test("gives up when every attempt is too late, with a hint to erase again", async () => {
  let tries = 0;
  const store = {
    readLedger: async () => [LINK],
    eraseDetails: async () => {
      tries++;
      return 0;
    },
  };
  await expect(eraseRecorded(store, "b-1", null, BY)).rejects.toMatchObject({
    code: "STORE_BUSY",
    retryable: true,
  });
  expect(tries).toBe(100);
});
