/** `site-packets drill`: runs drills and reports the results. */
import { outColours } from "./colours.ts";
import { SluiceError } from "sluice";
import { DRILLS, type NamedDrill } from "../drills/all-drills.ts";
import { EXIT } from "./exit-codes.ts";

export async function runDrills(
  names: readonly string[],
  flags: { readonly full: boolean; readonly json: boolean },
): Promise<number> {
  const drills = names.length === 0 ? DRILLS : names.map(findDrill);
  let faulty = 0;
  for (const { name, about, run } of drills) {
    if (!flags.json) process.stdout.write(`${outColours.bold(name)}: ${about}\n`);
    const { seen, faults } = await run(flags.full);
    if (faults.length > 0) faulty++;
    if (flags.json) process.stdout.write(`${JSON.stringify({ name, seen, faults })}\n`);
    else {
      for (const line of seen) process.stdout.write(`  ${line}\n`);
      for (const line of faults) process.stdout.write(`  ${outColours.red("fault")} ${line}\n`);
      if (faults.length === 0) process.stdout.write(`  ${outColours.green("holds")}\n`);
    }
  }
  return faulty === 0 ? EXIT.ok : EXIT.failed;
}

function findDrill(name: string): NamedDrill {
  const found = DRILLS.find((drill) => drill.name === name);
  if (found !== undefined) return found;
  throw new SluiceError("BAD_USAGE", `there is no drill ${JSON.stringify(name)}`, {
    hint: `The drills are ${DRILLS.map((drill) => drill.name).join(", ")}.`,
  });
}
