/** Checks a limit that an operator sets: its value, and that its target exists. */
import { isEnded } from "../../core/batch/batch.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { findLimitProblem, LIMIT_KINDS, type LimitTarget } from "../../core/limits/limit.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import type { LimitRequest } from "../../ports/store/operator-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Target } from "./operator.ts";

/** Batches that are read for suggestions of similar names. */
const PAGE = 1_000;

/** Throws when the limit is not valid. `checkTarget` checks lanes and pipelines. */
export async function checkLimit(
  store: Store,
  request: LimitRequest,
  checkTarget: (target: Exclude<Target, { readonly batch: string }>) => Promise<unknown>,
): Promise<void> {
  const problem = findLimitProblem(request, request.value);
  if (problem !== null) {
    const question = formatDidYouMean(findSimilar(request.kind, LIMIT_KINDS));
    const isKnown = LIMIT_KINDS.includes(request.kind);
    throw new SluiceError("BAD_OPTION", `the limit is not valid: ${problem}`, {
      field: "limit",
      hint: isKnown || question === "" ? "`sluice limits --help` shows examples." : question,
    });
  }
  // A limit that is set can always be removed, even if its target is gone.
  if (request.value === null && (await isSet(store, request))) return;
  const { name } = request;
  switch (request.kind) {
    case "rate":
      return;
    case "weight":
      return checkTenant(store, name, checkTarget);
    case "cap":
      if (request.scope === "batch") await checkBatch(store, name);
      else await checkTarget(request.scope === "lane" ? { lane: name } : { pipeline: name });
  }
}

async function isSet(store: Store, { kind, scope, name }: LimitTarget): Promise<boolean> {
  const settings = await store.listLimits();
  return settings.some((one) => one.kind === kind && one.scope === scope && one.name === name);
}

async function checkBatch(store: Store, id: string): Promise<void> {
  const batch = await store.getBatch(id);
  if (batch === null) {
    throw new SluiceError("NOT_FOUND", `there is no batch ${id} in this store`, {
      kind: "batch",
      hint: "`sluice list` shows all batches.",
    });
  }
  if (!isEnded(batch.state)) return;
  throw new SluiceError("WRONG_STATE", `batch ${id} has ended: ${batch.state}`, {
    kind: "batch",
    hint: "Only a batch that has not ended can be limited.",
  });
}

/** A tenant exists if a batch names it. */
async function checkTenant(
  store: Store,
  name: string,
  checkTarget: (target: { readonly pipeline: string }) => Promise<unknown>,
): Promise<void> {
  const at = name.indexOf("/");
  const pipeline = name.slice(0, at);
  const tenant = name.slice(at + 1);
  await checkTarget({ pipeline });
  const batches = await store.listBatches({ pipeline, limit: PAGE });
  const tenants = new Set(batches.map((batch) => batch.tenant));
  if (tenants.has(tenant)) return;
  const question = formatDidYouMean(findSimilar(tenant, tenants));
  throw new SluiceError(
    "NOT_FOUND",
    `no batch of the pipeline ${pipeline} has the tenant ${JSON.stringify(tenant)}`,
    { kind: "tenant", hint: question === "" ? "`sluice list --json` shows tenants." : question },
  );
}
