/**
 * Two hosts with separate networks. One is disconnected for longer than its leases. The other takes
 * its chunks, and the late reports of the first are refused.
 */
import { afterEach, expect, onTestFinished, test, type TestContext, vi } from "vitest";
import { NETWORK_HOSTS, NetworkHost } from "../support/network-host.ts";
import { startOwnPostgres } from "../support/postgres-server.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { readMonotonicMs } from "./black-box/run-log.ts";
import { Crew, LEASE_MS, type Member } from "./crew.ts";
import { WAIT_MS } from "./onlooker.ts";

const ITEMS = 16_000;
const LIMIT_MS = 240_000;

let crew: Crew | null = null;
afterEach(() => crew?.dispose());

function makeHost(context: TestContext): NetworkHost {
  const host = NetworkHost.make();
  if (typeof host === "string") return context.skip(host);
  onTestFinished(() => host.remove());
  return host;
}

test(
  "a host that was disconnected for longer than its leases reports nothing that counts",
  async (context) => {
    const [near, far] = [makeHost(context), makeHost(context)];
    const server = await startOwnPostgres({
      durable: true,
      networks: [NETWORK_HOSTS],
      settings: { listen_addresses: "*" },
    });
    onTestFinished(() => server.stop());
    const parties = new Crew({ items: ITEMS, workMs: 20, mixed: true, store: server.address });
    crew = parties;
    const startOn = async ({ before, gateway }: NetworkHost): Promise<Member> => {
      const url = new URL(server.address);
      url.hostname = gateway;
      url.searchParams.set("sslmode", "disable");
      const member = parties.start("work", { before, env: { SLUICE_STORE: url.href } });
      await member.running.waitFor(/working on/);
      return member;
    };
    parties.start("submit");
    await parties.onlooker.findBatch();
    await startOn(near);
    const cutOff = await startOn(far);
    const ended = parties.onlooker.waitForEnd();
    await parties.onlooker.waitForLines(ITEMS * 0.3);
    parties.disturbed.add(cutOff.name);
    const at = readMonotonicMs();
    far.unplug();
    const lastAt = at + LEASE_MS + 2 * (LEASE_MS / 3);
    await vi.waitUntil(() => readMonotonicMs() > lastAt, { timeout: WAIT_MS });
    far.plug();
    const backAt = readMonotonicMs();
    await ended;
    const evidence = await parties.gather();
    expect(findFaults(evidence)).toEqual([]);
    const { runs } = evidence;
    // Items that ended while it was disconnected and could not be reported in time.
    const unheard = runs.filter(
      (run) => run.process === cutOff.name && (run.endAt ?? 0) > at && run.startAt < backAt,
    );
    const winners = new Map(evidence.results.map(({ item, value }) => [item, value.by]));
    const refused = unheard.filter(({ item }) => (winners.get(item) ?? "") !== cutOff.name);
    expect(refused.length).toBeGreaterThan(0);
    const again = runs.find((run) => run.process === cutOff.name && run.startAt > backAt);
    const tookMs = again === undefined ? null : Math.round(again.startAt - backAt);
    console.log(
      `${refused.length} of ${unheard.length} outcomes refused; at work again after ${String(tookMs)} ms`,
    );
    expect(again).toBeDefined();
  },
  LIMIT_MS,
);
