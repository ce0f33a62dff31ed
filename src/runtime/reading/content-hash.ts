/** SHA-256 of what users hand over, which may be large: that is not hashed on the event loop. */
import { hash, webcrypto } from "node:crypto";

/** From this length on: a thread takes longer to be asked than to hash less. */
const LARGE_LENGTH = 262_144;

/** In hexadecimal. A promise only for what is large. */
export function hashContent(content: string | Uint8Array): string | Promise<string> {
  return content.length < LARGE_LENGTH ? hash("sha256", content) : hashElsewhere(content);
}

/** The platform's own threads do it. */
async function hashElsewhere(content: string | Uint8Array): Promise<string> {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  const digest = await webcrypto.subtle.digest("SHA-256", bytes);
  return Buffer.from(digest).toString("hex");
}
