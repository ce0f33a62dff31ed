/** Claims on contents in SQL. A content's row is locked before its owner is read. */
import { getOutcome, PENDING } from "../../../core/items/outcome-map.ts";
import type { ItemContent } from "../../../core/items/report.ts";
import type { ContentClaim, LeaseRef } from "../../../ports/store/worker-store.ts";
import type { HeldRow } from "../../sql/step-changes.ts";
import type { Chunks, HeldChunk } from "./chunks.ts";
import { composeRunOf } from "../../sql/lease-run-of.ts";
import { statement } from "../connection/statement.ts";
import { LockTaken } from "../../sql/dialect/transaction.ts";
import type { Transaction } from "../connection/transaction.ts";

const CLAIM_NEW = statement(
  `INSERT INTO content (content, batch, step, chunk, item, fence)
   SELECT * FROM unnest($1::text[], $2::bigint[], $3::int[], $4::int[], $5::bigint[], $6::bigint[])
     AS n(content, batch, step, chunk, item, fence) ORDER BY content
   ON CONFLICT DO NOTHING`,
);
const LOCK_CONTENTS = statement(
  `SELECT content, batch, step, item, final FROM content
   WHERE content = ANY($1::text[]) ORDER BY content FOR UPDATE`,
);
const SELECT_UNDER_WAY = statement(
  `SELECT t.content, c.outcomes, t.item - c.start AS index FROM content t
   CROSS JOIN LATERAL (SELECT * FROM chunk o
     WHERE o.batch = t.batch AND o.step = t.step AND o.chunk = t.chunk OFFSET 0) AS c
   WHERE t.content = ANY($1::text[]) AND t.final = 0
     AND (c.state = 'leased' AND c.fence = t.fence
       OR c.state = 'planned' AND c.fence + 1 = t.fence AND EXISTS (${composeRunOf("true")}))`,
);
const TAKE_OVER = statement(
  `UPDATE content c SET batch = n.batch, step = n.step, chunk = n.chunk, item = n.item,
     fence = n.fence
   FROM unnest($1::text[], $2::bigint[], $3::int[], $4::int[], $5::bigint[], $6::bigint[])
     AS n(content, batch, step, chunk, item, fence)
   WHERE c.content = n.content AND c.content = ANY($1::text[])`,
);

interface ContentRow {
  readonly content: string;
  readonly batch: number;
  readonly step: number;
  readonly item: number;
  readonly final: number;
}

export class ContentClaims {
  readonly #chunks: Chunks;

  constructor(chunks: Chunks) {
    this.#chunks = chunks;
  }

  /** Null when the lease is lost. */
  async claim(
    tx: Transaction,
    lease: LeaseRef,
    contents: readonly ItemContent[],
  ): Promise<ContentClaim[] | null> {
    const names = [...new Set(contents.map(({ content }) => content))];
    const [[held], known, underWay] = await Promise.all([
      this.#chunks.readHeld(tx, [lease]),
      tx.all<ContentRow>(LOCK_CONTENTS, names),
      tx.all<{ content: string; outcomes: Uint8Array; index: number }>(SELECT_UNDER_WAY, names),
    ]);
    if (held === undefined) return null;
    const claiming = new Claiming(held, lease, known);
    for (const { content, outcomes, index } of underWay) {
      if (getOutcome(outcomes, index) === PENDING) claiming.noteUnderWay(content);
    }
    const answers = contents.map((content) => claiming.claim(content));
    await claiming.save(tx);
    return answers;
  }
}

/** The contents that one lease claims, during the call. */
class Claiming {
  readonly #held: HeldRow;
  readonly #fence: number;
  readonly #known: Map<string, Omit<ContentRow, "content">>;
  readonly #underWay = new Set<string>();
  readonly #isNew = new Set<string>();
  readonly #claimed = new Map<string, number>();

  constructor({ row }: HeldChunk, { fence }: LeaseRef, known: readonly ContentRow[]) {
    this.#held = row;
    this.#fence = fence;
    this.#known = new Map(known.map((content) => [content.content, content]));
  }

  /** The claim's item is still leased and has no outcome. */
  noteUnderWay(content: string): void {
    this.#underWay.add(content);
  }

  claim({ index, content }: ItemContent): ContentClaim {
    const { batch, step, start, outcomes } = this.#held;
    const item = start + index;
    const row = this.#known.get(content);
    if (row?.final === 1) return "done";
    const mine = row?.batch === batch && row.step === step && row.item === item;
    if (row !== undefined && !mine && this.#underWay.has(content)) return "held";
    if (row === undefined) this.#isNew.add(content);
    this.#known.set(content, { batch, step, item, final: 0 });
    this.#claimed.set(content, item);
    if (getOutcome(outcomes, index) === PENDING) this.#underWay.add(content);
    else this.#underWay.delete(content);
    return "claimed";
  }

  async save(tx: Transaction): Promise<void> {
    const [fresh, known] = [[...this.#isNew], [...this.#claimed.keys()]];
    const old = known.filter((content) => !this.#isNew.has(content));
    if (old.length > 0) tx.send(TAKE_OVER, ...this.#describe(old));
    if (fresh.length === 0) return;
    const written = await tx.run(CLAIM_NEW, ...this.#describe(fresh));
    // Another transaction claimed one of them meanwhile: a new attempt will see its row.
    if (written < fresh.length) throw new LockTaken("contents");
  }

  #describe(
    contents: readonly string[],
  ): [readonly string[], number[], number[], number[], number[], number[]] {
    const { batch, step, chunk } = this.#held;
    return [
      contents,
      contents.map(() => batch),
      contents.map(() => step),
      contents.map(() => chunk),
      contents.map((content) => this.#claimed.get(content) ?? -1),
      contents.map(() => this.#fence),
    ];
  }
}
