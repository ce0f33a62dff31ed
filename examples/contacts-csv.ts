/**
 * Reads contacts from a CSV file, checks each with a schema and normalises it. A row that does not fit
 * the schema fails alone. If two rows have the same number, the batch is refused.
 *
 *   npx sluice run examples/contacts-csv.ts --input examples/contacts.csv
 */
import { csv, definePipeline } from "sluice";
import { z } from "zod";

const contact = z.object({
  number: z.coerce.number().int().positive(),
  name: z.string().trim().min(1),
  email: z.email().transform((text) => text.toLowerCase()),
});

export default definePipeline({
  name: "contacts",
  item: contact,
  source: ({ input }) =>
    csv(input, {
      delimiter: ";",
      columns: { "Customer no.": "number", Name: "name", "E-mail": "email" },
    }),
  key: (row) => row.number,
  uniqueKeys: true,
  process: (row) => row,
});
