/** What `sluice init` writes: a pipeline that runs as it is, and a few items, one of them bad. */

export interface StarterFile {
  readonly name: string;
  readonly text: string;
}

const PACKAGE = "sluice";

const PIPELINE = `/** Run it with: sluice run pipeline.ts --input items.jsonl */
import { definePipeline, jsonl, PermanentError } from "${PACKAGE}";

interface Contact {
  id: string;
  email: string;
}

export default definePipeline({
  name: "greet",

  // Where the items come from: \`input\` is the value of --input. Also: csv(), folder(), paged(), ...
  source: ({ input }: { input: string }) => jsonl<Contact>(input),

  // What an item is called in lists and results.
  key: (contact) => contact.id,

  // Called once for each item, many at a time. What it returns is the item's result; what it throws
  // is retried, unless it is a PermanentError.
  async process(contact) {
    if (!contact.email.includes("@")) {
      throw new PermanentError(\`\${contact.email} is not an email address\`, { code: "BAD_EMAIL" });
    }
    const greeting = \`Hello \${contact.id}\`;
    return { to: contact.email, greeting };
  },
});
`;

const ITEMS = `{"id": "ada", "email": "ada@example.org"}
{"id": "grace", "email": "grace@example.org"}
{"id": "edsger", "email": "edsger.example.org"}
{"id": "barbara", "email": "barbara@example.org"}
{"id": "donald", "email": "donald@example.org"}
`;

export const STARTER_FILES: readonly StarterFile[] = [
  { name: "pipeline.ts", text: PIPELINE },
  { name: "items.jsonl", text: ITEMS },
];
