/** SHA-256 of user data. Large data is not hashed on the event loop. */
import { hash, webcrypto } from "node:crypto";

/** Below this length, handing the work to a thread takes longer than hashing. */
const LARGE_LENGTH = 262_144;

/** In hexadecimal. A promise only for large content. */
export function hashContent(content: string | Uint8Array): string | Promise<string> {
  return content.length < LARGE_LENGTH ? hash("sha256", content) : hashElsewhere(content);
}

/** Uses the platform's own threads. */
async function hashElsewhere(content: string | Uint8Array): Promise<string> {
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  const digest = await webcrypto.subtle.digest("SHA-256", bytes);
  return Buffer.from(digest).toString("hex");
}
