import { describe, expect, test } from "vitest";
import {
  CHUNK_EVENTS,
  CHUNK_STATES,
  type ChunkEvent,
  type ChunkState,
  decideAfterReport,
  nextChunkState,
  REPORT_INTENTS,
} from "./chunk.ts";

const EDGES: readonly (readonly [ChunkState, ChunkEvent, ChunkState])[] = [
  ["planned", "lease", "leased"],
  ["planned", "cancel", "cancelled"],
  ["leased", "settle", "settled"],
  ["leased", "yield", "waiting"],
  ["leased", "lose", "waiting"],
  ["leased", "cancel", "cancelled"],
  ["waiting", "lease", "leased"],
  ["waiting", "cancel", "cancelled"],
  ["waiting", "redrive", "waiting"],
  ["settled", "redrive", "waiting"],
  ["cancelled", "redrive", "waiting"],
];

describe("a chunk's states", () => {
  for (const state of CHUNK_STATES) {
    for (const event of CHUNK_EVENTS) {
      const next = EDGES.find(([from, by]) => from === state && by === event)?.[2] ?? null;
      test(`${event} on a ${state} chunk leads to ${next ?? "nothing"}`, () => {
        expect(nextChunkState(state, event)).toBe(next);
      });
    }
  }
});

describe("what a report does to its chunk", () => {
  test("without a pending item it is settled, whatever was intended", () => {
    for (const intent of REPORT_INTENTS) expect(decideAfterReport(0, intent)).toBe("settle");
  });

  test("with a pending item it is as intended", () => {
    for (const intent of REPORT_INTENTS) {
      expect(decideAfterReport(1, intent)).toBe(intent);
      expect(decideAfterReport(1_000, intent)).toBe(intent);
    }
  });
});
