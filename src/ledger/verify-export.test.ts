import { expect, test } from "vitest";
import { buildSample, toBytes } from "../../test/support/ledger-export.ts";
import { verifyExport } from "./verify-export.ts";

test("an untouched export is intact", async () => {
  const sample = buildSample();
  const verdict = await verifyExport([toBytes(sample.lines())], { trusted: [sample.pem] });
  expect(verdict).toEqual({});
});
