/** Every promise with its checker. */
import { checkAttempts } from "./attempts.ts";
import { checkBackOff } from "./back-off.ts";
import { checkBudgets } from "./budgets.ts";
import { checkCancelling } from "./cancelling.ts";
import { checkCaps } from "./caps.ts";
import { checkChain } from "./chain.ts";
import { checkCheckpoints } from "./checkpoints.ts";
import type { MakeChecker } from "./checker.ts";
import { checkClosedKeys } from "./closed-keys.ts";
import { checkConservation } from "./conservation.ts";
import { checkDedupe } from "./dedupe.ts";
import { checkDeserved } from "./deserved.ts";
import { checkTaskClaims } from "./task-claims.ts";
import { checkFencing } from "./fencing.ts";
import { checkItemLedger } from "./item-ledger.ts";
import { checkKeptLeases } from "./kept-leases.ts";
import { checkPoison } from "./poison.ts";
import { checkRedrives } from "./redrives.ts";
import { checkWatching } from "./watching.ts";
import { checkLedger } from "./ledger.ts";
import { checkHonestEnding } from "./honest-ending.ts";
import { checkLaneOrder } from "./lane-order.ts";
import { checkLimits } from "./limits.ts";
import { checkMessages } from "./messages.ts";
import { checkOneEnding } from "./one-ending.ts";
import { checkOneOutcome } from "./one-outcome.ts";
import { checkPaces } from "./paces.ts";
import { checkPassage } from "./passage.ts";
import { checkPlan } from "./plan.ts";
import { checkRates } from "./rates.ts";
import { checkRests } from "./rests.ts";
import { checkShares } from "./shares.ts";
import { checkSoundNodes } from "./sound-nodes.ts";
import { checkTransitions } from "./transitions.ts";
import { checkVersions } from "./versions.ts";

/**
 * The play itself checks `no hang`; `deliveries` is made by the play, because it needs the
 * subscriber.
 */
export const CHECKERS: ReadonlyMap<string, MakeChecker> = new Map([
  ["conservation", checkConservation],
  ["one outcome", checkOneOutcome],
  ["one ending", checkOneEnding],
  ["honest ending", checkHonestEnding],
  ["fencing", checkFencing],
  ["one holder of a background task", checkTaskClaims],
  ["lane order", checkLaneOrder],
  ["limits", checkLimits],
  ["rates", checkRates],
  ["paces", checkPaces],
  ["caps", checkCaps],
  ["shares", checkShares],
  ["closed keys", checkClosedKeys],
  ["rests", checkRests],
  ["nothing after cancel", checkCancelling],
  ["attempts", checkAttempts],
  ["back-off", checkBackOff],
  ["transitions", checkTransitions],
  ["budgets and deadlines", checkBudgets],
  ["kept leases", checkKeptLeases],
  ["redrives", checkRedrives],
  ["poison", checkPoison],
  ["watching", checkWatching],
  ["deserved endings", checkDeserved],
  ["passage between steps", checkPassage],
  ["whole plan", checkPlan],
  ["de-duplication", checkDedupe],
  ["checkpoints", checkCheckpoints],
  ["messages", checkMessages],
  ["versions", checkVersions],
  ["chain of records", checkChain],
  ["ledger of items", checkItemLedger],
  ["ledger", checkLedger],
  ["sound nodes", checkSoundNodes],
]);
