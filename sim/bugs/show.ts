/**
 * node sim/bugs/show.ts <bug> [--seed N | --seeds N ...]
 *
 * The simulator's command line on code that has the bug: shows how a failure looks, and what it
 * is reduced to.
 */
import { applyBug } from "./apply.ts";
import { findBug } from "./list.ts";

const [name = ""] = process.argv.splice(2, 1);
applyBug(findBug(name));
// Only now: a module that is loaded before the bug is applied does not have it.
await import("../main.ts");
