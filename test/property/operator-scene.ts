/** The scene with operators: each act runs on both stores, and is predicted and checked. */
import assert from "node:assert/strict";
import type { LanePolicy } from "../../src/core/batch/lane.ts";
import type {
  DiscardRequest,
  LaneMove,
  PauseScope,
  RedriveRequest,
} from "../../src/ports/store/operator-store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { type Pair, Scene } from "./scene.ts";

const ACT = { by: "operator", why: null } as const;
type Mode = "drain" | "now";

export class OperatorScene extends Scene {
  async cancel(pair: Pair, id: string, mode: Mode): Promise<void> {
    const request = { mode, ...ACT };
    const expected = this.oracle.cancel(id, request);
    if (expected.kind === "done") this.witness.seeCancel(id, mode);
    await this.act(pair, (store) => store.cancel(id, request), expected);
  }

  async pause(pair: Pair, scope: PauseScope, mode: Mode): Promise<void> {
    const request = { ...scope, mode, ...ACT };
    const expected = this.oracle.pause(request);
    if (expected) this.witness.seePause(scope, true);
    await this.act(pair, (store) => store.pause(request), expected);
  }

  async resume(pair: Pair, scope: PauseScope): Promise<void> {
    const expected = this.oracle.resume(scope, ACT);
    if (expected) this.witness.seePause(scope, false);
    await this.act(pair, (store) => store.resume(scope, ACT), expected);
  }

  async setLanePolicy(pair: Pair, lane: string, policy: LanePolicy): Promise<void> {
    if (policy !== "block") this.witness.seeDisorder(lane);
    this.oracle.setLanePolicy(lane, policy);
    await this.act(pair, (store) => store.setLanePolicy(lane, policy), undefined);
  }

  async move(pair: Pair, id: string, move: LaneMove): Promise<void> {
    const expected = this.oracle.moveInLane(id, move, ACT);
    if (expected.kind === "done") this.witness.seeDisorder(expected.batch.lane);
    await this.act(pair, (store) => store.moveInLane(id, move, ACT), expected);
  }

  async redrive(pair: Pair, id: string, asked: Omit<RedriveRequest, "by" | "why">): Promise<void> {
    const request = { ...asked, ...ACT };
    this.watchAgain(id);
    const expected = this.oracle.redrive(id, request);
    await this.act(pair, (store) => store.redrive(id, request), expected);
  }

  async discard(pair: Pair, id: string, filter: DiscardRequest["filter"]): Promise<void> {
    const request = { filter, ...ACT };
    this.watchAgain(id);
    const expected = this.oracle.discard(id, request);
    await this.act(pair, (store) => store.discardDeadLetters(id, request), expected);
  }

  /** The stops of every batch, as workers read them. */
  async readStops(pair: Pair): Promise<void> {
    const ids = this.oracle.batches.map(({ asked }) => asked.id);
    const call = (store: Store): Promise<unknown> => store.readStops(ids);
    await this.compare(pair, call, this.oracle.readStops(ids));
    assert(ids.length > 0);
  }
}
