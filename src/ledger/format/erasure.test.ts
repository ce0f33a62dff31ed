import { expect, test } from "vitest";
import { BlockBuilder } from "./block.ts";
import { eraseDetails } from "./erasure.ts";

const SALT = "00112233445566778899aabbccddeeff";

function buildBlock(): ReturnType<BlockBuilder["finish"]> {
  const builder = new BlockBuilder({ batch: "b-1", lane: "l", step: 0, worker: 1 });
  for (const [item, state] of [
    [0, "RECEIVED"],
    [1, "RECEIVED"],
    [0, "STORED"],
    [1, "STORED"],
  ] as const) {
    const facts = { atMs: 0, item, key: `k${item}`, state, attempt: 1, drive: 1 };
    // Text that looks like the end of such a line is part of the details.
    const details = { note: `,"i":0,"salt":"${SALT}"}`, item };
    builder.add({ ...facts, content: null }, { salt: SALT, details });
  }
  return builder.finish();
}

test("erases the details of one item, and keeps those of others", () => {
  const block = buildBlock();
  const kept = eraseDetails(block, ({ key }) => key === "k0");
  const lines = block.details.split("\n");
  expect(kept).toBe(`${lines[1]}\n${lines[3]}\n`);
  expect(eraseDetails({ ...block, details: kept }, ({ key }) => key === "k0")).toBe(kept);
});

test("erases all, none, or an empty block", () => {
  const block = buildBlock();
  expect(eraseDetails(block, () => true)).toBe("");
  expect(eraseDetails(block, () => false)).toBe(block.details);
  expect(eraseDetails({ ...block, details: "" }, () => true)).toBe("");
});

test("also erases details that belong to no record", () => {
  const block = buildBlock();
  const strange = `{"details":1,"i":99,"salt":"${SALT}"}\nnonsense\n`;
  const kept = eraseDetails({ ...block, details: strange + block.details }, () => false);
  expect(kept).toBe(block.details);
});
