/**
 * node sim/bugs/tell.ts <bug> [--seed N | --seeds N ...]
 *
 * The simulator's command line on code that has the bug: shows how a failure looks, and what it is
 * made small to.
 */
import { applyBug } from "./apply.ts";
import { findBug } from "./list.ts";

const [name = ""] = process.argv.splice(2, 1);
applyBug(findBug(name));
// Not before: what is loaded with this module has no bug.
await import("../main.ts");
