/**
 * The demo's pipeline: a hundred thousand parcels are weighed. Most go well, some addresses are
 * wrong for good, some scales are busy at first, and one parcel takes its whole process with it.
 */
import { definePipeline, jsonl, PermanentError, skipped, TransientError } from "sluice";
import { z } from "zod";

export default definePipeline({
  name: "weigh-parcels",
  item: z.object({
    id: z.string(),
    grams: z.number().int().nonnegative(),
    trouble: z.enum(["none", "address", "busy", "empty", "poison"]),
  }),
  source: ({ input }) => jsonl(input),
  key: (parcel) => parcel.id,
  chunkSize: 500,
  retry: { baseMs: 50, capMs: 1_000 },
  async process(parcel, { attempt }) {
    switch (parcel.trouble) {
      case "address":
        throw new PermanentError(`no such address for ${parcel.id}`, { code: "BAD_ADDRESS" });
      case "busy":
        if (attempt < 3) throw new TransientError("the scale is busy", { code: "SCALE_BUSY" });
        break;
      case "empty":
        return skipped("an empty parcel");
      case "poison":
        // As a crash in native code or the kernel's out-of-memory killer would do it.
        process.kill(process.pid, "SIGKILL");
        await new Promise(() => {});
        break;
      case "none":
        break;
    }
    return parcel.grams > 49_900 ? { heavy: parcel.grams } : undefined;
  },
});
