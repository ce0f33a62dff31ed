/** A million messages while processes that emit and consume them are killed: `npm run test:long`. */
import { test } from "vitest";
import { checkMessages } from "../chaos/messages.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);

test("1,000,000 messages with kills every two seconds are each in their topic once and consumed", () =>
  checkMessages({ items: 1_000_000, killEveryMs: 2_000, killsMin: 10, seed: SEED }));
