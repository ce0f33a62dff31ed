/** The example of docs/reference/ledger-format.md is a valid export for both verifiers. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { verifyNaively } from "../../../test/support/naive-verifier.ts";
import { isConclusive } from "../verify/verdict.ts";
import { verifyExport } from "../verify/verify-export.ts";

const page = readFileSync(
  new URL("../../../docs/reference/ledger-format.md", import.meta.url),
  "utf8",
);
const pem = /-----BEGIN PUBLIC KEY-----[^`]*-----END PUBLIC KEY-----\n/.exec(page)?.[0] ?? "";
const example = /```jsonl example\.jsonl\n([^`]*)```/.exec(page)?.[1] ?? "";

test("the page's example is intact and conclusive", async () => {
  const verdict = await verifyExport([Buffer.from(example)], { trusted: [pem] });
  expect(verdict).toMatchObject({ kind: "intact", batch: "b-1", records: 9, items: 3 });
  expect(isConclusive(verdict)).toBe(true);
  expect(verifyNaively(Buffer.from(example), { pem })).toBeNull();
});
